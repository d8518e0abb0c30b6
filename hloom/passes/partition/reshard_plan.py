"""The cheapest way from one tiling to another: a shortest path over steps of communication.

A state is a tiling, a step changes it: take a part of what is there (slice, no communication),
gather, exchange between two dimensions (all-to-all), hand tiles on (collective-permute), put
partial values together (all-reduce, reduce-scatter). The price of a step is what a device receives,
in bytes, and a little for the step itself. Everything can be gathered and cut again, so there
always is a way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from math import prod

from hloom.passes.partition.tiling import Axes, Tiling, common_prefix

STEP_BYTES = 16.0
"""Bytes are what is made few. Of two ways whose bytes are about equal the shorter wins, by so many
for each collective: less than a row of anything that is worth cutting, on whatever machine."""
SLICE_BYTES = 0.01
"""So that of two free ways the shorter is taken."""
MOST_STATES = 4000
"""States looked at before the search takes whatever it has; never reached with few axes."""


@dataclass(frozen=True, slots=True)
class ReshardStep:
    """One step of resharding."""

    kind: str
    """slice, all-gather, collective-broadcast, all-to-all, collective-permute, all-reduce,
    reduce-scatter, to-partial, rounds (an all-to-all and a collective-permute at once)."""
    dimension: int
    """What is cut or joined; of an all-to-all what is joined."""
    axes: Axes
    after: Tiling
    split: int = -1
    """Of an all-to-all the dimension that is cut."""
    cost: float = 0.0
    received: float = 0.0
    """Bytes that each device receives."""
    via: Tiling | None = None
    """Of rounds: what is between the two."""


def tile_size(size: int, tiles: int) -> int:
    return -(-size // tiles)


@dataclass(frozen=True, slots=True)
class ArrayOnMesh:
    """What prices depend on: sizes of the whole array and of the mesh, bytes of an element."""

    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    itemsize: float

    def count(self, axes: Axes) -> int:
        return prod([self.sizes[a] for a in axes])

    def tile_bytes(self, t: Tiling) -> float:
        tiles = [tile_size(n, self.count(axes)) for n, axes in zip(self.dims, t.dims)]
        return prod(tiles) * self.itemsize

    def is_even(self, t: Tiling) -> bool:
        """Whether all tiles are of one size."""
        return all(n % self.count(axes) == 0 for n, axes in zip(self.dims, t.dims))

    def divides(self, dimension: int, outer: Axes, inner: Axes) -> bool:
        """Whether the tiles along `outer` are made of whole tiles along `outer` and `inner`."""
        if not outer:
            return True
        n, many, more = self.dims[dimension], self.count(outer), self.count(inner)
        return tile_size(n, many * more) * more == tile_size(n, many)

    def holders(self, dimension: int, outer: Axes, inner: Axes) -> int:
        """How many tiles along `inner` there are at most in one along `outer`."""
        n = self.dims[dimension]
        tile = tile_size(n, self.count(outer) * self.count(inner))
        return tile_size(tile_size(n, self.count(outer)), tile) if tile else 0


class Unreachable(Exception):
    """There is no way between two tilings (two reductions, say)."""


@lru_cache(maxsize=65536)
def plan(
    array: ArrayOnMesh, source: Tiling, target: Tiling
) -> tuple[float, tuple[ReshardStep, ...]]:
    """The price, and the steps from one tiling to another."""
    if source == target:
        return 0.0, ()
    order = count()
    heap: list[tuple[float, int, Tiling]] = [(0.0, next(order), source)]
    best: dict[Tiling, float] = {source: 0.0}
    came: dict[Tiling, tuple[Tiling, ReshardStep]] = {}
    done = set[Tiling]()
    while heap:
        cost, _, at = heappop(heap)
        if at in done:
            continue
        if at == target:
            return _in_rounds(array, source, _path(came, source, target))
        done.add(at)
        for step in _steps(array, at, target, is_brief=len(done) > MOST_STATES):
            after = cost + step.cost
            if after < best.get(step.after, float("inf")):
                best[step.after] = after
                came[step.after] = (at, step)
                heappush(heap, (after, next(order), step.after))
    raise Unreachable(f"from {source} to {target}")


def _path(
    came: dict[Tiling, tuple[Tiling, ReshardStep]], source: Tiling, target: Tiling
) -> tuple[ReshardStep, ...]:
    steps: list[ReshardStep] = []
    at = target
    while at != source:
        at, step = came[at]
        steps.append(step)
    return tuple(steps[::-1])


def _in_rounds(
    array: ArrayOnMesh, source: Tiling, path: tuple[ReshardStep, ...]
) -> tuple[float, tuple[ReshardStep, ...]]:
    """The price of a path, and the path with what is exchanged and then handed on, or the other way
    round, sent to where it goes at once: a piece in each round."""
    steps: list[ReshardStep] = []
    at = source
    for step in path:
        before = steps[-1] if steps else step
        start = steps[-2].after if len(steps) > 1 else source
        if {before.kind, step.kind} == {"all-to-all", "collective-permute"}:
            exchange = before if before.kind == "all-to-all" else step
            received = array.tile_bytes(start)
            cost = received + STEP_BYTES * array.count(exchange.axes)
            is_even = all(map(array.is_even, (start, at, step.after)))
            if is_even and cost < before.cost + step.cost:
                steps[-1] = replace(
                    exchange, kind="rounds", after=step.after, cost=cost, received=received, via=at
                )
                at = step.after
                continue
        steps.append(step)
        at = step.after
    return sum([step.cost for step in steps]), tuple(steps)


def _steps(array: ArrayOnMesh, at: Tiling, target: Tiling, is_brief: bool) -> Iterator[ReshardStep]:
    """The steps that may lead towards the target; the plain ones where the search is too wide."""
    used = at.used
    here = array.tile_bytes(at)
    if at.partial:
        yield from _reductions(array, at, target, here)
    if target.partial and at.reduction in ("", target.reduction):
        more = tuple([a for a in target.partial if a not in at.partial])
        if more and used.isdisjoint(more) and set(at.partial) <= set(target.partial):
            after = replace(at, partial=target.partial, reduction=target.reduction)
            yield ReshardStep("to-partial", -1, more, after, cost=SLICE_BYTES)
    for d, (have, want) in enumerate(zip(at.dims, target.dims)):
        common = common_prefix(have, want)
        if common == len(have):
            yield from _cuts(array, at, d, want[common:], used)
            if have and len(want) > common and not array.divides(d, have, want[common:]):
                yield from _joins(array, at, d, 0, here)
        else:
            # What is cut as often as it is wanted, along other axes, can be handed on.
            more = tuple([a for a in want if a not in used])
            if more and len(want) > len(have):
                yield from _cuts(array, at, d, more, used)
            yield from _gathers(array, at, d, common, here)
            if not is_brief:
                yield from _exchanges(array, at, target, d, common, here)
    if not at.partial and not is_brief:
        yield from _permutes(array, at, target, here)
        yield from _into_as_many(array, at, target, used)


def _reductions(
    array: ArrayOnMesh, at: Tiling, target: Tiling, here: float
) -> Iterator[ReshardStep]:
    keep = target.partial if target.reduction == at.reduction else ()
    gone = tuple([a for a in at.partial if a not in keep])
    wanted = {a for axes in target.dims for a in axes}
    never = tuple([a for a in gone if a not in wanted])
    for axes in dict.fromkeys((gone, never)):
        if axes:
            rest = tuple([a for a in at.partial if a not in axes])
            n = array.count(axes)
            received = 2 * here * (n - 1) / n
            after = Tiling(at.dims, rest, at.reduction if rest else "")
            yield ReshardStep("all-reduce", -1, axes, after, -1, received + STEP_BYTES, received)
    for d, (have, want) in enumerate(zip(at.dims, target.dims)):
        common = common_prefix(have, want)
        if common != len(have):
            continue
        for end in range(common + 1, len(want) + 1):
            axes = want[common:end]
            if not set(axes) <= set(gone) or not array.divides(d, have, axes):
                break
            n = array.count(axes)
            rest = tuple([a for a in at.partial if a not in axes])
            after = Tiling(at.with_dim(d, have + axes).dims, rest, at.reduction if rest else "")
            received = array.tile_bytes(after) * (n - 1)
            yield ReshardStep("reduce-scatter", d, axes, after, -1, received + STEP_BYTES, received)


def _cuts(
    array: ArrayOnMesh, at: Tiling, d: int, wanted: Axes, used: frozenset[int]
) -> Iterator[ReshardStep]:
    have = at.dims[d]
    for end in range(len(wanted), 0, -1):
        axes = wanted[:end]
        if used.isdisjoint(axes) and array.divides(d, have, axes):
            yield ReshardStep("slice", d, axes, at.with_dim(d, have + axes), cost=SLICE_BYTES)


def _gathers(
    array: ArrayOnMesh, at: Tiling, d: int, common: int, here: float
) -> Iterator[ReshardStep]:
    have = at.dims[d]
    starts = [k for k in range(common, len(have)) if array.divides(d, have[:k], have[k:])]
    for start in starts or [0]:
        yield from _joins(array, at, d, start, here)


def _joins(
    array: ArrayOnMesh, at: Tiling, d: int, start: int, here: float
) -> Iterator[ReshardStep]:
    """Join a dimension along its axes from one on: by a gather, or, where most devices have nothing
    of it, by broadcasts of those that have something."""
    outer, axes = at.dims[d][:start], at.dims[d][start:]
    members, after = array.count(axes), at.with_dim(d, outer)
    received = here * (members - 1)
    yield ReshardStep("all-gather", d, axes, after, -1, received + STEP_BYTES, received)
    holders = array.holders(d, outer, axes)
    if 0 < 2 * holders <= members:
        received, steps = here * holders, STEP_BYTES * holders
        yield ReshardStep("collective-broadcast", d, axes, after, -1, received + steps, received)


def _exchanges(
    array: ArrayOnMesh, at: Tiling, target: Tiling, d: int, common: int, here: float
) -> Iterator[ReshardStep]:
    """All-to-alls that take the last axes of dimension d to where they are wanted."""
    have = at.dims[d]
    for start in range(common, len(have)):
        outer, axes = have[:start], have[start:]
        if not array.divides(d, outer, axes):
            continue
        for e, (theirs, want) in enumerate(zip(at.dims, target.dims)):
            if e == d or not _leads_to(want, theirs + axes):
                continue
            if array.divides(e, theirs, axes):
                after = at.with_dim(d, outer).with_dim(e, theirs + axes)
                n = array.count(axes)
                # What is cut unevenly is padded before it is sent.
                whole = array.tile_bytes(after) if not theirs else here
                received = max(here, whole) * (n - 1) / n
                yield ReshardStep("all-to-all", d, axes, after, e, received + STEP_BYTES, received)


def _leads_to(want: Axes, axes: Axes) -> bool:
    """Whether a dimension cut along these axes is on the way: as it begins, or all its axes in
    another order, which a permute puts right."""
    return want[: len(axes)] == axes or (len(axes) == len(want) and set(axes) == set(want))


def _permutes(array: ArrayOnMesh, at: Tiling, target: Tiling, here: float) -> Iterator[ReshardStep]:
    """Hand tiles on: to the target where it has as many tiles in each dimension, or to an order of
    axes of which the last can be gathered or cut further."""
    received = here
    options: dict[Tiling, None] = {}
    counts = [array.count(axes) for axes in at.dims]
    if counts == [array.count(axes) for axes in target.dims]:
        options[target.whole()] = None
    elif (mixed := _beginning_as(array, at, target, counts)) is not None:
        options[mixed] = None
    for d, (have, want) in enumerate(zip(at.dims, target.dims)):
        if not have or have == want:
            continue
        kept = tuple([a for a in want if a in have])
        gone = tuple([a for a in have if a not in kept])
        options[at.with_dim(d, kept + gone)] = None
        others = at.used - set(have)
        for end in range(1, len(want) + 1):
            if array.count(want[:end]) == counts[d] and others.isdisjoint(want[:end]):
                options[at.with_dim(d, want[:end])] = None
            rest = tuple([a for a in have if a not in want[:end]])
            head = want[:end]
            if not others.isdisjoint(head):
                break
            for k in range(len(rest)):
                if array.count(head + rest[k:]) == counts[d]:
                    options[at.with_dim(d, head + rest[k:])] = None
    for after in options:
        if after != at:
            yield ReshardStep(
                "collective-permute", -1, (), after, -1, received + STEP_BYTES, received
            )


def _into_as_many(
    array: ArrayOnMesh, at: Tiling, target: Tiling, used: frozenset[int]
) -> Iterator[ReshardStep]:
    """A slice on the way to as many tiles as the target has, along whatever axes cut nothing yet:
    those tiles can be handed on."""
    free = [a for a, n in enumerate(array.sizes) if n > 1 and a not in used]
    tiles = [(array.count(have), array.count(want)) for have, want in zip(at.dims, target.dims)]
    if any(many % few for few, many in tiles):
        return
    axes = _shared_out(array, [many // few for few, many in tiles], free)
    for d, own in enumerate(axes or ()):
        if own and array.divides(d, at.dims[d], own):
            after = at.with_dim(d, at.dims[d] + own)
            yield ReshardStep("slice", d, own, after, cost=SLICE_BYTES)
            return


def _shared_out(array: ArrayOnMesh, times: list[int], free: list[int]) -> list[Axes] | None:
    """Axes for each dimension to be cut so many times more; None where they do not suffice."""
    d = next((d for d, n in enumerate(times) if n > 1), None)
    if d is None:
        return [() for _ in times]
    for a in free:
        if times[d] % array.sizes[a]:
            continue
        rest = [n // array.sizes[a] if k == d else n for k, n in enumerate(times)]
        others = _shared_out(array, rest, [b for b in free if b != a])
        if others is not None:
            others[d] = (a, *others[d])
            return others
    return None


def _beginning_as(
    array: ArrayOnMesh, at: Tiling, target: Tiling, counts: list[int]
) -> Tiling | None:
    """A tiling by the same axes into as many tiles, each dimension beginning with axes of the
    target: what is left over is then exchanged from one dimension to another. None where there is
    none, or as many tiles are cut by other axes."""
    left, dims = dict.fromkeys(a for axes in at.dims for a in axes), list[Axes]()
    for tiles, want in zip(counts, target.dims):
        head: Axes = ()
        for a in want:
            if a not in left or tiles % array.count((*head, a)):
                break
            head = (*head, a)
        for a in head:
            del left[a]
        dims.append(head)
    for d, tiles in enumerate(counts):
        for a in list(left):
            if tiles % array.count((*dims[d], a)) == 0 and array.sizes[a] > 1:
                dims[d] = (*dims[d], a)
                del left[a]
    if left or [array.count(axes) for axes in dims] != counts:
        return None
    return Tiling(tuple(dims))
