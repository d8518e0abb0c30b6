"""Select-and-scatter (gradients of max pooling): along the dimensions of its windows a part gets
all windows that cover an element of it, and the elements that those look at.

Elements outside of the array and windows that there are not take no part: each element has a number
(`passes/expand/select_and_scatter_expander.py`), and theirs is -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hloom.ir.instruction import Instruction
from hloom.passes.expand.select_and_scatter_expander import asked, can_ask, places
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.halo import Halo, Need, read
from hloom.passes.partition.moves import local
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.reshard import Emitter
from hloom.passes.partition.reshard_plan import tile_size
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


@dataclass(frozen=True, slots=True)
class Covering(Halo):
    """The windows that cover the elements of a part, wherever they begin: those over element p
    stand, counted in elements, from p + offset to p + offset + span - 1, `base` apart."""

    def need(self, tiles: int) -> Need | None:
        each = tile_size(self.count, tiles)
        begins = [self.offset + k * each for k in range(tiles)]
        firsts = [-(-begin // self.base) for begin in begins]
        lasts = [(begin + each + self.span - 2) // self.base for begin in begins]
        sizes = [max(last - first + 1, 0) for first, last in zip(firsts, lasts)]
        return Need.of_sizes(tuple(firsts), sizes) if max(sizes) and self.size else None


@dataclass(frozen=True, slots=True)
class Covered(Covering):
    """The elements that those windows look at."""

    def need(self, tiles: int) -> Need | None:
        windows = Covering.need(self, tiles)
        if windows is None:
            return None
        padding = self.offset + self.span - 1
        starts = [k * self.base - padding for k in windows.starts]
        sizes = [max(n - 1, 0) * self.base + self.span for n in windows.sizes or (windows.size,)]
        return Need.of_sizes(tuple(starts), sizes if windows.sizes else sizes * tiles)


def _halos(i: Instruction, f: Loops) -> dict[int, tuple[Halo, Halo]]:
    """By dimension of a window what a part reads of the array, and of the source."""
    x, source, _ = [y.shape.dims for y in i.operands]
    pairs: dict[int, tuple[Halo, Halo]] = {}
    for d, w in enumerate(i.attrs.window.dimensions):
        if not w.is_trivial and f.operands[0][d] == f.operands[1][d] == f.results[0][d]:
            span = w.dilated_size()
            over = (x[d], 1, w.padding_low - span + 1, span, w.stride)
            pairs[d] = (Covered(0, d, x[d], *over), Covering(1, d, source[d], *over))
    return pairs


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
    for d, ((of_array, _), axes) in cut.items():
        result = _own(b, result, of_array, axes, tile[d], initial)
    return result


def _own(
    b: Emitter, x: Instruction, halo: Halo, axes: Axes, tile: int, initial: Instruction
) -> Instruction:
    """Of all elements that were looked at those of the part; what no window looks at is initial."""
    need = _needed(b, halo, axes)
    d = halo.dimension
    at = [k * tile - start for k, start in enumerate(need.starts)]
    low, high = max(0, -min(at)), max(0, max(at) + tile - need.size)
    x = b.padded_both(x, d, low, high, initial)
    at = [k + low for k in at]
    if len(set(at)) == 1:
        return b.sliced(x, d, at[0], at[0] + tile)
    return b.dynamic_cut(x, d, b.of_device([at[k] for k in b.mesh.indices(axes)]), tile)


def _needed(b: Emitter, halo: Halo, axes: Axes) -> Need:
    need = halo.need(b.mesh.count(axes))
    assert need is not None, "only what can be cut is emitted"
    return need


def _inside(b: Emitter, x: Instruction, cut: dict[int, tuple[Halo, Axes]]) -> Instruction | None:
    """Which elements of what was read there are; None: all of them."""
    inside: Instruction | None = None
    for d, (halo, axes) in cut.items():
        need = _needed(b, halo, axes)
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
