"""Transposes: tiles of two dimensions, turned in registers.

Where a large operand is contiguous along another dimension than the result is, rows of lanes along
either would touch a cache line for every element. Square tiles are read along the one and stored
along the other; blocks of tiles use each line and page fully before they go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from hloom.codegen.affine import ZERO, Affine, linear
from hloom.codegen.elements import Elements, Index, Source, is_simple
from hloom.codegen.tile import Body, Emitted, KernelEmitter
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES, STRIDED
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Value
from hloom.program.slice import ALIGNMENT, STREAMED_BYTES
from hloom.types.sizes import data_bytes

# Rows and lanes of a tile of narrow elements, where a vector has as many: whole vectors of them
# would be tiles of more rows than there are registers.
NARROW_TILE = 16
# Larger elements (c128) are two planes of rows: tiles of as many of them as of others would not
# stay in registers. Their blocks are as many elements wide as those of one word.
WORD_BYTES = 8
# Smaller dimensions are read with strides instead...
SHORTEST = 4
# ... but for the last one of the result, next to one of a vector at least: whole tiles of both are
# stored in a row.
SHORTEST_ACROSS = 2
# Rows of so few elements are computed as columns, a vector of rows side by side, and put in turn
# when they are stored: in lanes along such a row most of a vector would be empty.
FEW_ACROSS = 8
# Bytes are put in turn so many at once: vectors of AVX2 have no shuffle of them that crosses
# halves. Those of a whole line have one.
SHUFFLED = 16
# Operands of fewer bytes, a share of the nearest cache, stay there however they are read.
SMALL_SHARE = 1 / 2
# A block is about so many lines of the caches wide and high.
BLOCK_LINES = 4
# Results at least this large, a share of the last cache, are not read back soon: they are stored
# past the caches.
STREAMED_SHARE = 1 / 2

POINTS = opcodes(STRIDED, RESHAPES, also=("copy", "constant", "tuple"))


@dataclass
class CrossForm:
    """Which dimensions of the result are walked as tiles: `down` its rows, `across` its lanes."""

    dims: tuple[int, ...]
    down: int
    across: int

    @property
    def is_few(self) -> bool:
        """Whether rows are too short to be lanes."""
        return self.dims[self.across] <= FEW_ACROSS


class _Probe(Elements):
    """Notes at which offsets the leaves are read, and writes nothing that is used."""

    def __init__(self, builder: KernelBuilder, device: Device) -> None:
        super().__init__(builder, device)
        self.offsets: list[tuple[Value, Affine]] = []

    def load(self, source: Source, index: Index, mask: Value | None = None) -> Value:
        self.offsets.append((source.buffer, linear(index, source.strides)))
        return super().load(source, index, mask)


def cross_form(body: Body, device: Device) -> CrossForm | None:
    """How to walk a body with a transpose in it; None if plain rows do."""
    if not any(x.opcode == "transpose" for x in body.instructions):
        return None
    if any(not is_simple(x) and x.opcode not in POINTS for x in body.instructions):
        return None
    first = body.roots[0][0].shape
    for root, _ in body.roots:
        s = root.shape
        if not s.is_array or s.dims != first.dims or s.dynamic:
            return None
        if s.layout is not None and not s.layout.is_default:
            return None
    dims = first.dims
    solid = [d for d, n in enumerate(dims) if n > 1]
    if not solid or dims[solid[-1]] < SHORTEST_ACROSS or 0 in dims:
        return None
    across = solid[-1]
    emitter = KernelEmitter(body, dims, device)
    probe = _Probe(emitter.builder, device)
    probe.sources = emitter.elements.sources
    index = [probe.indices.scalar(x, 0, n - 1) for x, n in zip(emitter.builder.grid_indices, dims)]
    for root, _ in body.roots:
        probe.value(root, tuple(index))
    sizes = {probe.sources[leaf].buffer: data_bytes(leaf.shape) for leaf, _ in body.leaves}
    small = int(device.nearest_bytes * SMALL_SHARE)
    symbols = {d: index[d].terms[0][0] for d in solid}
    for buffer, offset in probe.offsets:
        strides = {d: c for d, s in symbols.items() for t, c in offset.terms if t is s}
        if sizes[buffer] < small or abs(strides.get(across, 0)) <= 1:
            continue
        for d in solid[:-1]:
            beside = d == solid[-2] and dims[d] >= device.compute.vector_bytes
            if strides.get(d) == 1 and dims[d] >= SHORTEST:
                if dims[across] >= SHORTEST or beside:
                    return CrossForm(dims, d, across)
    return None


def cross_kernel(body: Body, form: CrossForm, device: Device) -> Emitted:
    """A kernel that walks blocks of tiles."""
    dims, down, across = form.dims, form.down, form.across
    width = max([r.shape.dtype.size_bytes for r, _ in body.roots])
    compute = device.compute
    tile = max(compute.vector_floats, min(compute.vector_bytes // max(width, 1), NARROW_TILE))
    widest = max([width, *[leaf.shape.dtype.size_bytes for leaf, _ in body.leaves]])
    tile = tile * WORD_BYTES // max(widest, WORD_BYTES)
    if form.is_few:
        tile = _few_rows(max(width, 1), device)
    # Whole lines are written at once.
    wide = max(tile, min(device.line_bytes // max(width, 1), NARROW_TILE))
    side = max(BLOCK_LINES * device.line_bytes // min(max(width, 1), WORD_BYTES), tile)
    rest = [d for d in range(len(dims)) if d not in (down, across)]
    outer = tuple([dims[d] for d in rest])
    blocks = (-(-dims[down] // side), -(-dims[across] // side))
    emitter = KernelEmitter(body, (prod(outer), *blocks), device)
    e, b = emitter.elements, emitter.builder
    grid = b.grid_indices
    index = [ZERO] * len(dims)
    row = e.indices.scalar(grid[0], 0, prod(outer) - 1)
    for d, x in zip(rest, e.indices.digits(row, outer)):
        index[d] = x
    writer = _Crosswise(emitter, form, index)

    def rows(start: Affine, height: int) -> None:
        _span(e, grid[2], side, wide, dims[across], lambda x, n: writer.tile(start, x, height, n))

    _span(e, grid[1], side, tile, dims[down], rows)
    return emitter.finish()


def _few_rows(width: int, device: Device) -> int:
    """How many short rows of elements of so many bytes are turned at once."""
    vector = device.compute.vector_bytes
    crosses = width > 1 or vector >= device.line_bytes
    return (vector if crosses else min(vector, SHUFFLED)) // width


def _span(
    e: Elements,
    number: Value,
    side: int,
    tile: int,
    length: int,
    write: Callable[[Affine, int], None],
) -> None:
    """Calls `write(start, size)` for the tiles of one block, `side` wide, of a dimension."""
    b = e.builder
    tile = min(tile, length)
    full = length - length % tile
    if length <= side:
        start, end = b.index(0), b.index(length)
    else:
        start = b.binary("multiply", number, b.index(side))
        end = b.binary("add", start, b.index(side))

    def one(k: Value) -> Sequence[Value]:
        write(e.indices.scalar(k, 0, full - tile), tile)
        return ()

    def last(_: Value) -> Sequence[Value]:
        write(Affine(full), length - full)
        return ()

    exact = length <= side or length % side == 0
    upper = b.index(full) if length <= side else end
    if not exact:
        upper = b.binary("minimum", end, b.index(full))
    e.for_(start, upper, tile, (), one)
    if full < length:
        lower = b.binary("maximum", start, b.index(full))
        e.for_(lower, b.binary("minimum", end, b.index(length)), tile, (), last)


class _Crosswise:
    """Writes one tile."""

    def __init__(self, emitter: KernelEmitter, form: CrossForm, index: list[Affine]) -> None:
        self.emitter = emitter
        self.form = form
        self.index = index

    def tile(self, down: Affine, across: Affine, height: int, width: int) -> None:
        """Compute and store the roots for one tile."""
        e, form, body = self.emitter.elements, self.form, self.emitter.body
        rows, lanes = (1, 0) if form.is_few else (0, 1)
        e.tile = (width, height) if form.is_few else (height, width)
        at = list(self.index)
        at[form.down] = down.plus(e.indices.lane(rows, height, 2))
        at[form.across] = across.plus(e.indices.lane(lanes, width, 2))
        index = tuple(at)
        values = [e.value(root, index) for root, _ in body.roots]
        for (root, _), target, value in zip(body.roots, self.emitter.outputs, values):
            e.store(target, index, value)
            if self._is_streamed(root, width):
                e.builder.scopes[-1].block.ops[-1].attrs["nontemporal"] = True

    def _is_streamed(self, root: Instruction, width: int) -> bool:
        size = max(root.shape.dtype.size_bytes, 1)
        device = self.emitter.elements.device
        line = device.line_bytes
        is_aligned = self.form.dims[self.form.across] * size % line == 0 == width * size % line
        # What callers bring is aligned from that size on.
        least = max(STREAMED_BYTES, int(device.last_bytes * STREAMED_SHARE))
        return is_aligned and line <= ALIGNMENT and prod(self.form.dims) * size >= least
