"""Parts with what lies beside them: the elements that operations along a cut dimension read of
other devices' parts (a halo), brought by permutes of slabs, or by a gather where that is less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from hloom.ir.instruction import Instruction
from hloom.passes.partition.reshard import Emitter
from hloom.passes.partition.reshard_plan import tile_size
from hloom.passes.partition.tiling import Axes
from hloom.types.dtype import S32


@dataclass(frozen=True, slots=True)
class Halo:
    """Which elements of an operand the part of a factor reads: its element p reads `span` elements
    from p * scale + offset on, where the operand's stand `base` apart."""

    operand: int
    dimension: int
    size: int
    """Of the operand's dimension."""
    count: int
    """Of the factor: all p."""
    scale: int = 1
    offset: int = 0
    span: int = 1
    base: int = 1
    is_mirrored: bool = False
    """Whether the operand is read from its end on (of a reversal)."""
    is_cyclic: bool = False
    """Whether behind its end the operand is read from its beginning on (of a rotation)."""
    is_running: bool = False
    """Whether all that is before (or behind) is read, but only folded: an element of each tile."""
    is_any_phase: bool = False
    """Whether tiles may begin at different places between two elements: what is read begins with
    the last element at or before each, and the caller asks for `phases`."""

    def phases(self, tiles: int) -> list[int]:
        """How far behind the first element that is read each tile begins."""
        each = tile_size(self.count, tiles)
        return [(k * each + self.offset) % self.base for k in range(tiles)]

    def _of_any_phase(self, tiles: int) -> Need:
        each = tile_size(self.count, tiles)
        begins = [k * each + self.offset for k in range(tiles)]
        starts = tuple([at // self.base for at in begins])
        sizes = [(at + each - 1) // self.base - s + 1 for at, s in zip(begins, starts)]
        return Need.of_sizes(starts, sizes)

    def need(self, tiles: int) -> Need | None:
        """What each of so many tiles reads; None where they read at different phases."""
        each = tile_size(self.count, tiles)
        if self.is_running:
            return Need(tuple(range(0, each * tiles, each)), each)
        if self.is_cyclic:
            starts = tuple([self.offset + k * each for k in range(tiles)])
            return Need(starts, each) if each * tiles == self.size else None
        if self.is_any_phase:
            return self._of_any_phase(tiles) if self.size else None
        step, wide = each * self.scale, (each - 1) * self.scale + self.span
        if step % self.base or not self.size:
            return None
        # Turned round, what lies behind the end of the last tile comes first.
        offset = each * tiles - self.size if self.is_mirrored else self.offset
        first = -(-offset // self.base)
        phase = first * self.base - offset
        if wide <= phase:
            return None
        size = (wide - 1 - phase) // self.base + 1
        starts = tuple([first + k * (step // self.base) for k in range(tiles)])
        return Need(starts, size, phase, wide - 1 - phase - (size - 1) * self.base)

    def received(self, tiles: int) -> float:
        """Elements of the dimension that a device receives."""
        need = self.need(tiles)
        assert need is not None, "only what can be cut is priced"
        if self.is_running:
            return tiles - 1
        if self.is_cyclic:
            return sum([high - low for shift, low, high in self.turned(tiles) if shift])
        if self.is_mirrored:
            tile = tile_size(self.size, tiles)
            return tile + exchange(tile * tiles, tiles, need.starts, need.size).received
        return exchange(self.size, tiles, need.starts, need.size, need.sizes).received

    def turned(self, tiles: int) -> list[tuple[int, int, int]]:
        """Of a rotation what each tile is made of: elements low to high of the tile so many on."""
        tile = self.size // tiles
        shift, first = divmod(self.offset % self.size, tile)
        pieces = [(shift, first, tile), ((shift + 1) % tiles, 0, first)]
        return [p for p in pieces if p[1] < p[2]]


@dataclass(frozen=True, slots=True)
class Need:
    """The elements that tiles read: `size` from `starts` on, the first one `phase` behind where the
    reading begins, the last one `rest` before where it ends (both 0 unless elements stand apart).
    """

    starts: tuple[int, ...]
    size: int
    phase: int = 0
    rest: int = 0
    sizes: tuple[int, ...] = ()
    """What each tile really reads, where that is not the same: nobody looks at the rest."""

    @staticmethod
    def of_sizes(starts: tuple[int, ...], sizes: Sequence[int]) -> Need:
        """As many from each start on."""
        is_same = len(set(sizes)) == 1
        return Need(starts, max(sizes), sizes=() if is_same else tuple(sizes))


@dataclass(frozen=True, slots=True)
class Slab:
    """Elements low to high of the tile `shift` tiles on, and the tiles that read some of them."""

    shift: int
    low: int
    high: int
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """How tiles get what they read: slabs, one behind the other, or (none) all tiles."""

    slabs: tuple[Slab, ...]
    positions: tuple[int, ...]
    """Where in those what a tile reads begins."""
    front: int
    """Elements missing before and behind."""
    back: int
    received: float


@lru_cache(maxsize=4096)
def exchange(
    size: int, tiles: int, starts: tuple[int, ...], length: int, lengths: tuple[int, ...] = ()
) -> Exchange:
    """The cheapest exchange of a dimension of this size; of `length` elements each tile looks at
    the first of `lengths` only."""
    tile = tile_size(size, tiles)
    ranges: dict[int, tuple[int, int, list[int]]] = {}
    firsts: dict[int, tuple[int, int]] = {}
    for k, start in enumerate(starts):
        low, high = max(start, 0), min(start + (lengths[k] if lengths else length), size)
        if low >= high:
            continue
        firsts[k] = (low // tile - k, low - low // tile * tile)
        for other in range(low // tile, (high - 1) // tile + 1):
            a, b = max(low - other * tile, 0), min(high - other * tile, tile)
            have = ranges.get(other - k, (a, b, []))
            ranges[other - k] = (min(a, have[0]), max(b, have[1]), [*have[2], k])
    slabs = [Slab(j, *ranges[j][:2], tuple(ranges[j][2])) for j in sorted(ranges)]
    received = sum(s.high - s.low for s in slabs if s.shift)
    if received >= (tiles - 1) * tile and received:
        positions: list[int | None] = list(starts)
        total, received = tile * tiles, (tiles - 1) * tile
        slabs = []
    else:
        begins, total = {}, 0
        for s in slabs:
            begins[s.shift] = total - s.low
            total += s.high - s.low
        positions = [
            begins[firsts[k][0]] + firsts[k][1] + min(start, 0) if k in firsts else None
            for k, start in enumerate(starts)
        ]
    known = [p for p in positions if p is not None] or [0]
    front = max(0, -min(known))
    back = max(0, max(known) + length - total)
    # Who reads nothing may read anything.
    placed = tuple([front + (known[0] if p is None else p) for p in positions])
    return Exchange(tuple(slabs), placed, front, back, received)


def read(
    b: Emitter, x: Instruction, halo: Halo, axes: Axes, fill: Instruction | None = None
) -> Instruction:
    """What the part of this device reads of an operand, of which `x` is the part; `fill` stands
    where there are no elements (None: nobody looks)."""
    tiles = b.mesh.count(axes)
    need = halo.need(tiles)
    assert need is not None, "only what can be cut is emitted"
    size, d = halo.size, halo.dimension
    if halo.is_cyclic:
        return _turned(b, x, d, axes, halo.turned(tiles))
    if halo.is_mirrored:
        tile = tile_size(size, tiles)
        x = b.emit("reverse", x, dimensions=(d,))
        x = b.permute(x, _pairs(b, axes, lambda k: tiles - 1 - k, range(tiles)))
        size = tile * tiles
    plan = exchange(size, tiles, need.starts, need.size, need.sizes)
    edge = fill if _ends_with_tiles(halo, need, tiles) else None
    x = _brought(b, x, d, axes, plan, edge)
    x = b.padded_both(x, d, plan.front, plan.back, edge)
    if len(set(plan.positions)) == 1:
        x = b.sliced(x, d, plan.positions[0], plan.positions[0] + need.size)
    else:
        at = b.of_device([plan.positions[k] for k in b.mesh.indices(axes)])
        x = b.dynamic_cut(x, d, at, need.size)
    if fill is None or fill is edge:
        return x
    return _filled(b, x, d, axes, need, halo.size, fill)


def _ends_with_tiles(halo: Halo, need: Need, tiles: int) -> bool:
    """Whether what is outside of the dimension is outside of all tiles, or beyond what is brought:
    slabs of tiles that there are not have the fill at once, and nothing else has to be looked
    at. Not where tiles end behind the dimension, or read nothing of it."""
    if halo.is_mirrored or halo.size % tiles:
        return False
    return all(-need.size < start < halo.size for start in need.starts)


def _brought(
    b: Emitter, x: Instruction, d: int, axes: Axes, plan: Exchange, fill: Instruction | None
) -> Instruction:
    """The slabs side by side, `fill` in place of those of tiles that there are not."""
    if not plan.slabs:
        return b.all_gather(x, d, axes) if plan.received else x
    pieces = []
    for s in plan.slabs:
        piece = b.sliced(x, d, s.low, s.high)
        if s.shift:
            piece = b.permute(piece, _pairs(b, axes, lambda k, j=s.shift: k + j, s.readers))
            if fill is not None and not _is_zero(fill):  # which a permute leaves where nobody sends
                reads = b.of_device([int(k in s.readers) for k in b.mesh.indices(axes)])
                here = b.spread(b.compared(reads, b.scalar(1, S32), "EQ"), piece.shape.dims)
                piece = b.select(here, piece, b.spread(fill, piece.shape.dims))
        pieces.append(piece)
    return b.joined(pieces, d)


def _turned(
    b: Emitter, x: Instruction, d: int, axes: Axes, pieces: Sequence[tuple[int, int, int]]
) -> Instruction:
    """The part of a rotation."""
    tiles = b.mesh.count(axes)
    brought = []
    for shift, low, high in pieces:
        pairs = _pairs(b, axes, lambda k, j=shift: (k + j) % tiles, range(tiles))
        brought.append(b.permute(b.sliced(x, d, low, high), pairs))
    return b.joined(brought, d)


def _is_zero(fill: Instruction) -> bool:
    """Whether a scalar is known to have no bit set."""
    return fill.opcode == "constant" and not any(fill.attrs.literal.array.tobytes())


def _pairs(b: Emitter, axes: Axes, source, readers) -> list[tuple[int, int]]:
    """Who gives to the readers: in each group of devices along the axes."""
    return sorted([(g[source(k)], g[k]) for g in b.mesh.groups(axes).groups for k in readers])


def _filled(
    b: Emitter, x: Instruction, d: int, axes: Axes, need: Need, size: int, fill: Instruction
) -> Instruction:
    """`x` with a scalar in place of what lies outside of the dimension."""
    is_short = min(need.starts) < 0
    is_long = max(need.starts) + need.size > size
    if not (is_short or is_long):
        return x
    dims, row = x.shape.dims, x.shape.dims[d : d + 1]
    start = b.of_device([need.starts[k] for k in b.mesh.indices(axes)])
    at = b.add(b.iota(S32, row, 0), b.spread(start, row))
    inside: Instruction | None = None
    if is_short:
        inside = b.compared(at, b.full(0, S32, row), "GE")
    if is_long:
        before_end = b.compared(at, b.full(size, S32, row), "LT")
        inside = before_end if inside is None else b.and_(inside, before_end)
    assert inside is not None, "something is outside"
    return b.select(b.spread(inside, dims, (d,)), x, b.spread(fill, dims))
