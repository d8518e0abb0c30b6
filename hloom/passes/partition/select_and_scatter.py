"""Select-and-scatter (gradients of max pooling): along the dimensions of its windows a part gets all
windows that cover an element of it, and the elements that those look at.

Elements outside of the array and windows that there are not take no part: each element has a number
(`passes/expand/select_and_scatter_expander.py`), and theirs is -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import Padding
from hloom.ir.values.window import WindowDimension
from hloom.passes.expand.select_and_scatter_expander import asked, can_ask, places
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.halo import Halo, read
from hloom.passes.partition.moves import local
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.reshard import Emitter
from hloom.passes.partition.tiling import Axes
from hloom.passes.partition.value import TiledValue
from hloom.types.dtype import S32


@partitions("select-and-scatter")
def select_and_scatter(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    f = Loops.of(i)
    halos = _halos(i, f) if can_ask(i) else {}
    for d, pair in halos.items():
        f.moves(f.of_result(d), *pair)

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        cut = {d: chosen.axes.get(f.of_result(d), ()) for d in halos}
        cut = {d: axes for d, axes in cut.items() if walk.mesh.count(axes) > 1}
        shape = local(walk, i, chosen)
        if not cut:
            return [walk.b.emit_like(i, parts, shape)]
        return [_part(walk.b, i, parts, {d: (halos[d], axes) for d, axes in cut.items()})]

    return by_factors(walk, i, f, emit)


def _halos(i: Instruction, f: Loops) -> dict[int, tuple[Halo, Halo]]:
    """By dimension of a window what a part reads of the array, and of the source."""
    x, source, _ = [y.shape.dims for y in i.operands]
    pairs = {}
    for d, w in enumerate(i.attrs.window.dimensions):
        if not w.is_trivial and f.operands[0][d] == f.operands[1][d] == f.results[0][d]:
            pairs[d] = halos(d, x[d], source[d], w)
    return pairs


def halos(d: int, size: int, count: int, w: WindowDimension) -> tuple[Halo, Halo]:
    """What a part of a dimension reads of the array, and of the source. Window k covers the
    elements from k * stride - padding on, so that those covering element p stand, counted in
    elements, from p + padding - (window size - 1) to p + padding."""
    offset = w.padding_low - w.size + 1
    windows = Halo(1, d, count, size, 1, offset, w.size, w.stride)
    first = -(-offset // w.stride)
    phase = first * w.stride - offset
    # From where the first of them begins to where the last one ends.
    span = (w.size - 2 - phase) // w.stride * w.stride + w.size + 1
    return Halo(0, d, size, size, 1, first * w.stride - w.padding_low, span), windows


def _part(
    b: Emitter,
    i: Instruction,
    parts: list[Instruction],
    cut: dict[int, tuple[tuple[Halo, Halo], Axes]],
) -> Instruction:
    """The part of a device, with what it reads of others along the dimensions that are cut."""
    x, source, initial = parts
    tile = x.shape.dims
    windows = list(i.attrs.window.dimensions)
    for d, ((of_array, of_source), axes) in cut.items():
        x = read(b, x, of_array, axes)
        source = read(b, source, of_source, axes)
        windows[d] = replace(windows[d], padding_low=0, padding_high=0)
    place = places(b, x.shape.dims, windows)
    inside = _inside(b, x, {d: (pair[0], axes) for d, (pair, axes) in cut.items()})
    if inside is not None:
        place = b.select(inside, place, b.full(-1, S32, x.shape.dims))
    exists = _inside(b, source, {d: (pair[1], axes) for d, (pair, axes) in cut.items()})
    result = asked(b, i, (x, source, initial), windows, place, exists)
    edges = [(0, 0, 0)] * x.shape.rank
    for d, ((of_array, _), _) in cut.items():
        low = of_array.offset
        edges[d] = (low, tile[d] - x.shape.dims[d] - low, 0)
    padding = Padding.of(*edges)
    return result if padding.is_none else b.emit("pad", result, initial, padding=padding)


def _inside(
    b: Emitter, x: Instruction, cut: dict[int, tuple[Halo, Axes]]
) -> Instruction | None:
    """Which elements of what was read there are; None: all of them."""
    inside: Instruction | None = None
    for d, (halo, axes) in cut.items():
        need = halo.need(b.mesh.count(axes))
        assert need is not None, "only what can be cut is emitted"
        if min(need.starts) >= 0 and max(need.starts) + need.size <= halo.size:
            continue
        row = (need.size,)
        start = b.of_device([need.starts[k] for k in b.mesh.indices(axes)])
        at = b.add(b.iota(S32, row, 0), b.spread(start, row))
        low = b.compared(at, b.full(0, S32, row), "GE")
        high = b.compared(at, b.full(halo.size, S32, row), "LT")
        here = b.spread(b.and_(low, high), x.shape.dims, (d,))
        inside = here if inside is None else b.and_(inside, here)
    return inside
