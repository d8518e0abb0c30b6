"""From a fusion, or one instruction, to a kernel of tiles.

`Body` is what a kernel computes: roots, and the leaves whose values are in memory. `loop_kernel`
walks the elements of the roots: outer dimensions on the grid, then a loop, then lanes along the
fastest dimension. Everything else (what to load, which reductions to run first) follows from
asking `Elements` for the roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from hloom.codegen import elements_data, elements_fold, elements_product
from hloom.codegen.affine import ZERO, Affine
from hloom.codegen.elements import Elements, Index, Source, strides_of
from hloom.codegen.elements_data import clamped_starts, reshaped
from hloom.codegen.work import body_work, step_ns
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Kernel, Param, Value
from hloom.types.dtype import DType
from hloom.types.shape import Shape

# The rooms whose rules `Elements` uses; importing them registers the rules.
RULES = (elements_data, elements_fold, elements_product)

ShapeIndex = tuple[int, ...]


@dataclass
class Body:
    """What one kernel computes.

    `leaves` are instructions whose values stand in memory, each with the number of the operand
    that it is. `several` says whether the result is a tuple. `roots` are the results in the order
    of the outputs: an instruction and, for one with several results, which of them.
    """

    name: str
    several: bool
    leaves: list[tuple[Instruction, int]]
    roots: list[tuple[Instruction, ShapeIndex]]
    instructions: list[Instruction] = field(default_factory=list)

    @staticmethod
    def of(i: Instruction) -> Body:
        """The body of a fusion, or of one instruction whose operands are all in memory."""
        if i.opcode == "fusion":
            c = i.called[0]
            leaves = [(p, p.attrs.number) for p in c.instructions if p.opcode == "parameter"]
            leaves.sort(key=lambda leaf: leaf[1])
            inside = [x for x in c.in_order() if x.opcode != "parameter"]
            root = c.root
        else:
            leaves = [(x, i.operands.index(x)) for x in dict.fromkeys(i.operands)]
            inside, root = [i], i
        leaves = [(x, y) for x, y in leaves if x.shape.is_array]
        if root.opcode == "tuple":
            roots = [(x, ()) for x in root.operands]
        elif root.shape.is_tuple:
            roots = [(root, (k,)) for k in range(len(root.shape.elements))]
        else:
            roots = [(root, ())]
        return Body(i.name, i.shape.is_tuple, leaves, roots, inside)

    @staticmethod
    def of_computation(c: Computation) -> Body:
        """The body of a computation whose parameters are all in memory, and whose root is not."""
        leaves = [(p, p.attrs.number) for p in c.instructions if p.opcode == "parameter"]
        leaves.sort(key=lambda leaf: leaf[1])
        inside = [x for x in c.in_order() if x.opcode != "parameter"]
        return Body(c.name, False, leaves, [(c.root, ())], inside)


@dataclass
class Emitted:
    """A kernel, and what its parameters are: operands of its owner, or parts of the result.

    An int is the number of an operand, a tuple the shape index of a result.
    """

    kernel: Kernel
    arguments: list[int | ShapeIndex]


class Frame:
    """The beginning of any kernel for a body: its parameters, and the elements of its leaves."""

    def __init__(self, body: Body, grid: tuple[int, ...], vector_bytes: int) -> None:
        self.body = body
        self.builder = KernelBuilder(body.name, grid)
        self.elements = Elements(self.builder, vector_bytes)
        self.arguments: dict[Value, int | ShapeIndex] = {}
        self.outputs: list[Source] = []
        for leaf, number in body.leaves:
            value = self._param(f"in{number}", leaf.shape, "in")
            self.arguments[value] = number
            self.elements.sources[leaf] = Source(value, strides_of(leaf.shape))
        for number, (root, index) in enumerate(body.roots):
            shape = root.shape.subshape(index)
            in_place = is_update(root)
            value = self._param(f"out{number}", shape, "inout" if in_place else "out")
            self.arguments[value] = (number,) if body.several else ()
            self.outputs.append(Source(value, strides_of(shape)))

    def _param(self, name: str, shape: Shape, role: str) -> Value:
        return self.builder.param(name, shape.dtype, prod(shape.dims), role)

    def finish(self, cost_ns: float) -> Emitted:
        """The kernel, without parameters that nothing reads."""
        kernel = self.builder.finish()
        used = {x for op in kernel.ops() for x in op.operands}
        kept: list[Param] = [p for p in kernel.params if p.value in used or p.role != "in"]
        kernel.params = kept
        kernel.cost_ns = cost_ns
        return Emitted(kernel, [self.arguments[p.value] for p in kept])


def is_update(root: Instruction) -> bool:
    """Whether a root writes a part of its first operand's memory."""
    return root.opcode == "dynamic-update-slice"


def compute_bytes(of: DType) -> int:
    """The width of an element in a register."""
    if of.is_floating and of.bits < 32:
        return 4
    return max(of.size_bytes, 1)


# -- loops over the elements of the roots

# A step of the grid handles about this many elements of a long row.
BLOCK = 4096
# How many vectors of the machine a tile has, by how much work one element is.
WIDE_WORK = 12.0
MEDIUM_WORK = 40.0


def domain(root: Instruction, index: ShapeIndex) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of what a root writes, slowest dimension first, and which dimensions they are."""
    shape = root.operands[1].shape if is_update(root) else root.shape.subshape(index)
    written = root.shape if is_update(root) else shape
    order = written.layout.minor_to_major[::-1] if written.layout else range(len(shape.dims))
    order = tuple(order)
    return tuple([shape.dims[d] for d in order]), order


def is_flat(body: Body) -> bool:
    """Whether all is elementwise on arrays of one shape and layout, so that it is one long row."""
    shape = body.roots[0][0].shape
    if not shape.is_array:
        return False
    for x in [x for x, _ in body.leaves] + body.instructions + [r for r, _ in body.roots]:
        if x.opcode == "tuple":
            continue
        if x.shape.rank == 0 or (x.opcode == "constant"):
            continue
        if not x.shape.is_array or x.shape.dims != shape.dims:
            return False
        if x.shape.layout is not shape.layout and strides_of(x.shape) != strides_of(shape):
            return False
        if x.opcode in elements_data.MOVES and not (
            x.opcode == "broadcast" and x.operands[0].shape.rank == 0
        ):
            return False
        if x.opcode in ("reduce", "reduce-window", "dot", "convolution", "get-tuple-element"):
            return False
    return True


def lanes_for(body: Body, vector_bytes: int, work: float) -> int:
    """How many lanes a tile has: some vectors of the widest type, fewer the more there is to do."""
    widths = [compute_bytes(x.shape.dtype) for x in body.instructions if x.shape.is_array]
    widths += [compute_bytes(x.shape.dtype) for x, _ in body.leaves]
    width = min(max(widths, default=4), 8)
    vectors = 4 if work <= WIDE_WORK else 2 if work <= MEDIUM_WORK else 1
    return max(1, vector_bytes // width) * vectors


def row_count(body: Body, sizes: Sequence[int]) -> int | None:
    """How many leading dimensions the reductions inside keep; None if there are none inside."""
    roots = {r for r, _ in body.roots}
    inner = [x for x in body.instructions if x.opcode == "reduce" and x not in roots]
    inner = [x for x in inner if not x.shape.is_tuple]
    if not inner:
        return None
    rows = min(x.shape.size for x in inner)
    count = 1
    for d, n in enumerate(sizes):
        if count == rows:
            return d
        count *= n
    return len(sizes) if count == rows else None


def folds_rows(body: Body, vector_bytes: int) -> bool:
    """Whether the roots are reductions of rows: lanes go along what is folded."""
    for root, _ in body.roots:
        x = root
        while x.opcode in ("get-tuple-element", "bitcast", "reshape", "convert", "copy"):
            x = x.operands[0]
        if x.opcode != "reduce":
            continue
        of = x.operands[0].shape
        order = of.layout.minor_to_major if of.layout else range(of.rank - 1, -1, -1)
        solid = [d for d in order if of.dims[d] != 1]
        if solid and solid[0] in x.attrs.dimensions:
            return of.dims[solid[0]] * compute_bytes(of.dtype) >= vector_bytes
    return False


def loop_kernel(body: Body, vector_bytes: int) -> Emitted:
    """A kernel that computes the roots element by element."""
    sizes, order = domain(*body.roots[0])
    work = body_work(body.instructions, [r for r, _ in body.roots])
    if is_flat(body) and not is_update(body.roots[0][0]):
        sizes = (prod(sizes),)
        flat = True
    else:
        flat = False
    shape = Loops.of(body, sizes, vector_bytes, work)
    frame = Frame(body, shape.grid, vector_bytes)
    writer = LoopWriter(frame, shape, order, flat)
    writer.write()
    return frame.finish(step_ns(shape.elements_per_step, work))


@dataclass
class Loops:
    """How the elements of the roots are walked: grid over rows and blocks, a loop, lanes."""

    outer: tuple[int, ...]
    middle: tuple[int, ...]
    inner: tuple[int, ...]
    lanes: int
    block: int

    @staticmethod
    def of(body: Body, sizes: tuple[int, ...], vector_bytes: int, work: float) -> Loops:
        rows = row_count(body, sizes)
        if rows is None and folds_rows(body, vector_bytes):
            return Loops(sizes, (), (), 1, 1)
        wanted = lanes_for(body, vector_bytes, work)
        split, length = len(sizes), 1
        while split > (rows or 0) and length < vector_bytes // 4:
            split -= 1
            length *= sizes[split]
        lanes = min(wanted, length)
        outer, inner = sizes[:split], sizes[split:]
        if rows is not None:
            return Loops(sizes[:rows], sizes[rows:split], inner, lanes, length)
        block = length if length <= 2 * BLOCK else max(BLOCK // lanes, 1) * lanes
        return Loops(outer, (), inner, lanes, block)

    @property
    def length(self) -> int:
        """Elements of a row of lanes."""
        return prod(self.inner)

    @property
    def blocks(self) -> int:
        return -(-self.length // self.block) if self.block else 0

    @property
    def grid(self) -> tuple[int, ...]:
        return (prod(self.outer), self.blocks) if self.blocks > 1 else (prod(self.outer),)

    @property
    def elements_per_step(self) -> int:
        return prod(self.middle) * self.block


class LoopWriter:
    """Writes the loops of one kernel."""

    def __init__(self, frame: Frame, loops: Loops, order: tuple[int, ...], flat: bool) -> None:
        self.frame = frame
        self.loops = loops
        self.order = order
        self.flat = flat

    def write(self) -> None:
        loops, e = self.loops, self.frame.elements
        grid = self.frame.builder.grid_indices
        if 0 in loops.grid or loops.length == 0 or 0 in loops.middle:
            return
        row = e.indices.scalar(grid[0], 0, loops.grid[0] - 1)
        outer = e.indices.digits(row, loops.outer)
        if loops.middle:
            e.loop(
                prod(loops.middle),
                (),
                lambda k: self._row([*outer, *e.indices.digits(k, loops.middle)]),
            )
        elif loops.blocks > 1:
            self._block(outer, grid[1])
        else:
            self._row(outer)

    def _row(self, outer: list[Affine]) -> tuple[Value, ...]:
        """All lanes of one row."""
        e, loops = self.frame.elements, self.loops
        length, lanes = loops.length, loops.lanes
        full = length - length % lanes
        e.loop(full, (), lambda k: self._tile(outer, k, lanes), step=lanes)
        if full < length:
            self._tile(outer, Affine(full), length - full)
        return ()

    def _block(self, outer: list[Affine], number: Value) -> None:
        """The lanes of one block of a long row."""
        e, loops, b = self.frame.elements, self.loops, self.frame.builder
        length, lanes, block = loops.length, loops.lanes, loops.block
        full = length - length % lanes
        start = b.binary("multiply", number, b.index(block))
        end = b.binary("add", start, b.index(block))
        upper = end if full % block == 0 else b.binary("minimum", end, b.index(full))

        def body(k: Value) -> tuple[Value, ...]:
            return self._tile(outer, e.indices.scalar(k, 0, full - lanes), lanes)

        e.for_(start, upper, lanes, (), body)
        if full < length:
            rest = length - full
            lower = b.binary("maximum", start, b.index(full))
            last = b.binary("minimum", end, b.index(length))
            e.for_(lower, last, rest, (), lambda k: self._tile(outer, Affine(full), rest))

    def _tile(self, outer: list[Affine], start: Affine, lanes: int) -> tuple[Value, ...]:
        """Compute and store the roots for one tile of lanes."""
        e, loops = self.frame.elements, self.loops
        e.tile = (lanes,) if lanes > 1 else ()
        position = start.plus(e.indices.lane(0, lanes, 1))
        physical = [*outer, *e.indices.digits(position, loops.inner)]
        body = self.frame.body
        first, part = body.roots[0]
        at: Index
        if self.flat:
            _, order = domain(first, part)
            sizes = [first.shape.dims[d] for d in order]
            physical = e.indices.digits(position, sizes)
        logical = [ZERO] * len(self.order)
        for x, d in zip(physical, self.order):
            logical[d] = x
        at = tuple(logical)
        written = (first.operands[1].shape if is_update(first) else first.shape.subshape(part)).dims
        stores = []
        for (root, index), target in zip(body.roots, self.frame.outputs):
            stores.append((target, *self._root(root, index, at, written)))
        for target, where, value in stores:
            e.store(target, where, value)
        return ()

    def _root(
        self, root: Instruction, part: ShapeIndex, at: Index, written: tuple[int, ...]
    ) -> tuple[Index, Value]:
        """Where a root writes its element, and the element."""
        e = self.frame.elements
        if is_update(root):
            update = root.operands[1]
            here = _as_index(e, at, written, update.shape.dims)
            begin = clamped_starts(e, root.operands[2:], root.shape.dims, update.shape.dims)
            value = e.value(update, here)
            return tuple([x.plus(s) for x, s in zip(here, begin)]), value
        here = _as_index(e, at, written, root.shape.subshape(part).dims)
        found = e.result(root, here)
        return here, found[part[0]] if isinstance(found, tuple) else found


def _as_index(e: Elements, at: Index, sizes: tuple[int, ...], to: tuple[int, ...]) -> Index:
    return at if sizes == to else reshaped(e, at, sizes, to)
