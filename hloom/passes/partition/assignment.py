"""Operations by factors: along which axes each factor of an operation is cut.

What the factors of an operation are says `passes/sharding/factors.py`. Where a factor is cut along
axes, all that it counts is cut so. Over a reduced factor devices sum (or fold) their own part, and
the result is partial. A factor that an operation needs as a whole is never cut; of one along which
elements move, a halo says what a part reads of others. Among what operands and the wanted result
suggest, the assignment of axes to factors with the least bytes communicated is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTRACTS
from hloom.passes.partition.exchanged_sums import SumExchange, exchanged
from hloom.passes.partition.factor_axes import Assignment, Dims, merged, pulled, pushed, settled
from hloom.passes.partition.halo import Halo
from hloom.passes.partition.idle_axes import busier
from hloom.passes.partition.open_values import refined
from hloom.passes.partition.reshard_plan import plan, tile_size
from hloom.passes.partition.tiling import Tiling
from hloom.passes.partition.value import TiledValue
from hloom.passes.partition.work_price import multiply_bytes
from hloom.passes.sharding.factors import Kind, factors
from hloom.types.shape import Shape

if TYPE_CHECKING:
    from hloom.passes.partition.partitioner import Walk

WORK_BYTES = 1e-7
"""What one multiplication or element counts beside a byte communicated: it decides between ways of
equal traffic, but for products (`work_price.py`)."""
AGAIN_BYTES = 1 / 64
"""What one multiplication or element counts beside a byte communicated where it is done again, to
receive nothing."""
PRODUCTS = opcodes(CONTRACTS)
CLEARLY = 8
"""Axes that cut no value of a product are taken for it where they save so many times the bytes that
they cost."""
MOST_FORMS = 3
MOST_REBUILT, WIDE = 3, 5
"""So many operations are done anew of one another, and none of one with so many operands: prices of
more would be looked up again and again."""


@dataclass
class Loops:
    """The factors of one operation as they may be cut."""

    sizes: list[int]
    operands: list[Dims]
    results: list[Dims]
    whole: set[int] = field(default_factory=set)
    reduced: set[int] = field(default_factory=set)
    reduction: str = "add"
    """What puts partial results together; "": who emits the operation does."""
    halos: dict[int, list[Halo]] = field(default_factory=dict)
    """Of a factor along which elements move, what its parts read."""
    work_bytes: float = WORK_BYTES
    """What one multiplication or element counts beside a byte communicated."""

    @staticmethod
    def of(i: Instruction) -> Loops:
        """The factors of an instruction; those along which elements move are whole until somebody
        says what they read."""
        roles = factors(i)
        assert roles is not None, f"{i.opcode} has factors"
        kinds = [f.kind for f in roles.factors]
        return Loops(
            [f.size for f in roles.factors],
            list(roles.operands),
            list(roles.results),
            {k for k, kind in enumerate(kinds) if kind in (Kind.WHOLE, Kind.PERMUTE)},
            {k for k, kind in enumerate(kinds) if kind == Kind.REDUCE},
            work_bytes=multiply_bytes() if i.opcode in PRODUCTS else WORK_BYTES,
        )

    @staticmethod
    def pointwise(operands: Sequence[Shape], results: Sequence[Shape]) -> Loops:
        """Each element of the result of those at its own index; scalars serve all of them."""
        dims = results[0].dims
        every = tuple([(k,) for k in range(len(dims))])
        return Loops(
            list(dims),
            [every if s.rank == len(dims) else () for s in operands],
            [every for _ in results],
        )

    @property
    def work(self) -> int:
        """How many elements are worked on: along what is needed as a whole, those of one value."""
        values = [sum(dims, ()) for dims in (*self.operands, *self.results)]
        whole = [math.prod([self.sizes[k] for k in v if k in self.whole]) for v in values]
        others = [size for k, size in enumerate(self.sizes) if k not in self.whole]
        return math.prod(others) * max(whole, default=1)

    def of_result(self, d: int) -> int:
        """The factor of a dimension of the first result that has one."""
        return self.results[0][d][0]

    def moves(self, factor: int, *halos: Halo) -> None:
        """Say what the parts of a factor read."""
        self.whole.discard(factor)
        self.halos[factor] = list(halos)


@dataclass
class Chosen:
    """How an operation is cut."""

    axes: Assignment
    operands: list[Tiling]
    results: list[Tiling]
    cost: float
    work: float = 0.0
    """What its multiplications count of that."""


def candidates(
    walk: Walk, f: Loops, operands: Sequence[TiledValue], wanted: Sequence[Tiling | None]
) -> list[Assignment]:
    """Assignments that the wanted results and the operands as they stand suggest."""
    asked = [pulled(walk, f, dims, t) for dims, t in zip(f.results, wanted) if t is not None]
    sources = list(asked[:1])
    order = sorted(range(len(operands)), key=lambda k: -_size(operands[k].shape))
    own = _suggested(walk, f, operands, [k for k in order if not operands[k].is_free])
    if not own and f.reduced:
        # What is made in any tiling may be made of something that is cut: so are sums of it, where
        # they are less.
        size = math.prod([f.sizes[k] for dims in f.results[0] for k in dims])
        larger = [k for k in order if _size(operands[k].shape) > size]
        priced = [k for k in larger if operands[k].cost(Tiling.replicated(operands[k].shape.rank))]
        own = _suggested(walk, f, operands, priced)
    sources += own
    options: dict[tuple, Assignment] = {}
    for k, source in enumerate(sources):
        others = sources[:k] + sources[k + 1 :]
        for option in (merged(source, others), merged(source, asked), source):
            option = settled(walk, f, option)
            options.setdefault(tuple(sorted(option.items())), option)
    if not options or f.work <= walk.of.most_repeated:
        options.setdefault((), {})
    return list(options.values())


def _suggested(
    walk: Walk, f: Loops, operands: Sequence[TiledValue], order: Sequence[int]
) -> list[Assignment]:
    """Assignments that operands as they stand suggest."""
    sources: list[Assignment] = []
    for k in order:
        forms = dict.fromkeys((operands[k].primary, *operands[k].forms))
        for t in list(forms)[:MOST_FORMS]:
            t = t.without(walk.region)
            sources.append(pulled(walk, f, f.operands[k], t))
            sources += turned(walk, f, f.operands[k], t)
    return sources


def turned(walk: Walk, f: Loops, dims: Dims, t: Tiling) -> list[Assignment]:
    """Where a dimension is cut along which an operation needs all, or what lies beside: the same
    with another dimension cut instead, which takes an all-to-all."""
    bound = f.whole | set(f.halos)
    moved = [
        (d, axes)
        for d, (numbers, axes) in enumerate(zip(dims, t.dims))
        if axes and not bound.isdisjoint(numbers)
    ]
    if len(moved) != 1:
        return []
    d, axes = moved[0]
    assignments = []
    for other, (numbers, own) in enumerate(zip(dims, t.dims)):
        if other == d or len(numbers) != 1 or numbers[0] in bound:
            continue
        if f.sizes[numbers[0]] % walk.mesh.count(own + axes) == 0:
            kept = t.with_dim(d, ()).with_dim(other, own + axes)
            assignments.append(pulled(walk, f, dims, kept))
    return assignments[:MOST_FORMS]


def _size(s: Shape) -> int:
    return s.size if s.is_array else 0


def choose(
    walk: Walk,
    f: Loops,
    operands: Sequence[TiledValue],
    shapes: Sequence[Shape],
    wanted: Sequence[Tiling | None],
    is_open: bool = False,
) -> Chosen:
    """The assignment with the fewest bytes; open results may be cut further than wanted."""
    suggested = candidates(walk, f, operands, wanted)
    options = [_priced(walk, f, axes, operands, shapes, wanted, is_open) for axes in suggested]
    best = min(options, key=lambda o: o.cost)
    # What nothing is said of is read whole, for all that is known of it.
    whole = [w or t.whole() for w, t in zip(wanted, best.results, strict=True)]
    asked = wanted if walk.of.exchange is SumExchange.HOPEFUL else whole
    for axes in exchanged(walk, f, suggested) if best.cost > best.work else ():
        option = _priced(walk, f, settled(walk, f, axes), operands, shapes, asked, is_open)
        if option.cost < best.cost:
            best = option
            walk.of.exchanged = True
    tilings = [*[t for v in operands for t in (v.primary, *v.forms)], *wanted]
    near = {a for t in tilings if t is not None for a in t.used}
    for axes, more in busier(walk, f, suggested):
        option = _priced(walk, f, settled(walk, f, axes), operands, shapes, wanted, is_open)
        share = 0.0 if near.issuperset(more) else 1 / CLEARLY - 1
        if option.cost + share * option.work < best.cost + share * best.work:
            best = option
            walk.of.exchanged |= not set(more) <= set(walk.of.cutting)
    return best


def _priced(
    walk: Walk,
    f: Loops,
    axes: Assignment,
    operands: Sequence[TiledValue],
    shapes: Sequence[Shape],
    wanted: Sequence[Tiling | None],
    is_open: bool,
) -> Chosen:
    ins = [pushed(f, dims, axes) for dims in f.operands]
    outs = [pushed(f, dims, axes) for dims in f.results]
    summed = tuple(sorted(a for k in f.reduced for a in axes.get(k, ())))
    if summed and f.reduction:
        outs = [replace(t, partial=summed, reduction=f.reduction) for t in outs]
    # What is read twice is received once.
    read = {(id(v.forms), t): v for v, t in zip(operands, ins)}
    cost = sum([v.cost(t) for (_, t), v in read.items()])
    for t, s, want in zip(outs, shapes, wanted):
        if s.is_array:
            asked = t.whole() if want is None else refined(want, t) if is_open else want
            cost += plan(walk.b.array(s), t, asked)[0]
    if summed and not f.reduction:
        others = walk.mesh.count(summed) - 1
        cost += sum(walk.b.array(s).tile_bytes(t) * others for t, s in zip(outs, shapes))
    for k, halos in f.halos.items():
        tiles = walk.mesh.count(axes.get(k, ()))
        if tiles > 1:
            cost += sum(_halo_bytes(walk, h, operands[h.operand], ins, tiles) for h in halos)
    work = 1.0
    for k, size in enumerate(f.sizes):
        work *= -(-size // walk.mesh.count(axes.get(k, ())))
    work *= f.work_bytes
    return Chosen(axes, ins, outs, cost + work, work)


def _halo_bytes(walk: Walk, h: Halo, of: TiledValue, ins: list[Tiling], tiles: int) -> float:
    tile = tile_size(h.size, tiles)
    return h.received(tiles) * walk.b.array(of.shape).tile_bytes(ins[h.operand]) / max(tile, 1)


def by_factors(
    walk: Walk,
    i: Instruction,
    f: Loops,
    emit: Callable[[list[Instruction], Chosen], Sequence[Instruction]] | None = None,
    operands: list[TiledValue] | None = None,
    wanted: Sequence[Tiling | None] | None = None,
) -> list[TiledValue]:
    """The leaves of an operation, cut by its factors. `emit` makes the parts of the results of the
    parts of the operands (or of other values that it is of); else it is the same operation on
    them. `wanted`: how results are to stand, where not as the instruction's sharding says."""
    operands = walk.operands(i) if operands is None else operands
    shapes = list(i.shape.leaves())
    wanted = _wanted(walk, i, f) if wanted is None else wanted
    of = walk.of.open
    is_open = of is not None and i in of.values
    chosen = choose(walk, f, operands, shapes, wanted, is_open)
    if of is not None and is_open:
        wanted = [w and refined(w, t) for w, t in zip(wanted, chosen.results, strict=True)]
        if i.shape.is_array:
            of.note(i, wanted[0] or chosen.results[0].whole())
    note_repeated(walk, i, f, operands, chosen)

    def leaves(chosen: Chosen) -> list[TiledValue]:
        parts = [v.get(t) for v, t in zip(operands, chosen.operands)]
        if emit is None:
            part = walk.b.emit_like(i, parts, walk.local_shape(i.shape, chosen.results))
            return walk.results(i, part, chosen.results, wanted)
        return [
            walk.result(s, t, x, w)
            for s, t, x, w in zip(shapes, chosen.results, emit(parts, chosen), wanted)
        ]

    values = leaves(chosen)
    _say_repeatable(walk, i, f, operands, values, leaves)
    return values


def _wanted(walk: Walk, i: Instruction, f: Loops) -> list[Tiling | None]:
    """How the results are to stand. What only the program's result holds is to stand as that,
    where it is little work: whatever is said of it else would be one more move."""
    if i in walk.partial_links:
        return [walk.partial_links[i]]
    returned = walk.of.returned.get(i)
    if returned is not None and f.work <= walk.of.most_repeated:
        return [returned.without(walk.region)]
    return walk.wanted(i)


def _say_repeatable(
    walk: Walk,
    i: Instruction,
    f: Loops,
    operands: Sequence[TiledValue],
    values: Sequence[TiledValue],
    leaves: Callable[[Chosen], list[TiledValue]],
) -> None:
    """Where all that an operation reads is whole on every device, or can be: its results can be
    had in other tilings by computing them again."""
    if walk.region or i.has_control_edges or i.opcode == "custom-call":
        return

    def again(k: int, t: Tiling) -> Instruction | None:
        axes = settled(walk, f, pulled(walk, f, f.results[k], t))
        if pushed(f, f.results[k], axes) != t or not set(f.halos).isdisjoint(axes):
            return None
        ins = [pushed(f, dims, axes) for dims in f.operands]
        outs = [pushed(f, dims, axes) for dims in f.results]
        return leaves(Chosen(axes, ins, outs, 0.0))[k].forms[t]

    for k, v in enumerate(values):
        v.repeated_by(partial(again, k), f.work * max(f.work_bytes, AGAIN_BYTES), operands)


def say_rebuildable(
    walk: Walk,
    i: Instruction,
    values: Sequence[TiledValue],
    fits: Callable[[Tiling], bool] = lambda _: True,
    is_moved: bool = False,
) -> None:
    """Say that an operation of which operands and result stand alike can be done anew where what
    its operands come from has less to be received than its result, in tilings that `fits`."""
    operands = walk.operands(i)
    depth = 1 + max((v.depth for v in operands), default=0)
    if walk.region or i.has_control_edges or depth > MOST_REBUILT:
        return

    def rebuild(t: Tiling) -> Instruction:
        parts = [v.rebuilt(t) for v in operands]
        return walk.b.emit_like(i, parts, walk.b.local_shape(i.shape, t))

    depth = depth if len(operands) < WIDE else MOST_REBUILT
    values[0].rebuilt_by(rebuild, fits, operands, depth, is_moved)


def note_repeated(
    walk: Walk, i: Instruction, f: Loops, operands: Sequence[TiledValue], chosen: Chosen
) -> None:
    """Say so where devices along some axes all do the same, though an operand is cut there."""
    working = {a for axes in chosen.axes.values() for a in axes}
    for v, t, dims in zip(operands, chosen.operands, f.operands):
        idle = v.primary.used - working
        if v.is_free or not idle:
            continue
        price = v.received(t)
        if not price:
            continue
        cut = [d for d, axes in enumerate(v.primary.dims) if not idle.isdisjoint(axes)]
        factors_ = {k for d in cut if d < len(dims) for k in dims[d]}
        where = ", ".join(map(str, cut))
        if factors_ & f.whole:
            why = f"{i.opcode} works along dimension {where} of its operand, which is cut"
        elif any(f.halos.get(k) for k in factors_):
            why = f"its parts would read dimension {where} at places that differ from each other"
        else:
            why = (
                f"to cut it along dimension {where} as well would take more bytes than to repeat it"
            )
        walk.note(i, why, price)
