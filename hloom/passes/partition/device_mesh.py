"""The devices of a module as a grid, of whose axes all its shardings are made.

Shardings name devices by numbers; to compare two of them, or to plan how to come from one to the
other, one has to see that both cut along the same axes. The grid is the common refinement of all
that the shardings of a module count by: its axes are numbered from the major one, and a sharding
is a list of axes for each dimension. Where most shardings list devices in one other order (that of
a ring, say), the grid counts in that order (`order`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np

from hloom.ir.module import Module
from hloom.ir.values.devices import IotaDevices
from hloom.ir.values.groups import AnyGroups, IotaReplicaGroups, ReplicaGroups
from hloom.ir.values.sharding import REPLICATED, Sharding
from hloom.passes.partition.tiling import Axes, Tiling

Loops = list[tuple[int, int]]
"""(step, length) of nested counting, outermost first."""


MOST_ORDERS = 3
"""Of the orders in which meshes, and in which tiles, list devices so many are tried."""


@dataclass(frozen=True)
class DeviceMesh:
    """A grid of partitions; `sizes` of its axes, major ones first."""

    sizes: tuple[int, ...]
    order: tuple[int, ...] | None = None
    """The device at each place of the grid; None: they are counted in order."""
    replicas: int = 1

    @property
    def device_count(self) -> int:
        return prod(self.sizes)

    @property
    def axes(self) -> range:
        return range(len(self.sizes))

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """How far apart neighbours along each axis are."""
        return tuple([prod(self.sizes[k + 1 :]) for k in self.axes])

    @cached_property
    def devices(self) -> np.ndarray:
        """The devices as an array of these sizes."""
        order = np.arange(self.device_count) if self.order is None else np.array(self.order)
        return order.reshape(self.sizes)

    def refined(self) -> DeviceMesh:
        """The same, those axes as two of which a part is as large as another axis: tiles can be
        handed on between that part and the other axis."""
        sizes: list[int] = []
        for size in self.sizes:
            parts = [s for s in self.sizes if 1 < s < size and size % s == 0]
            sizes += [max(parts), size // max(parts)] if parts else [size]
        return replace(self, sizes=tuple(sizes))

    def count(self, axes: Axes) -> int:
        """How many devices there are along some axes."""
        return prod([self.sizes[a] for a in axes])

    def indices(self, axes: Axes) -> list[int]:
        """For each device the number of its tile, where a dimension is cut along these axes."""
        number = np.zeros(self.sizes, np.int64)
        for a in axes:
            at = np.arange(self.sizes[a]).reshape([-1 if k == a else 1 for k in self.axes])
            number = number * self.sizes[a] + at
        by_device = np.empty(self.device_count, np.int64)
        by_device[self.devices.reshape(-1)] = number.reshape(-1)
        return by_device.tolist()

    def groups(self, axes: Axes) -> AnyGroups:
        """Groups of devices that differ along these axes only, in the order of `indices`."""
        rest = [a for a in self.axes if a not in axes]
        order = (*rest, *axes)
        size = self.count(axes)
        if self.order is None and self.replicas == 1:
            iota = IotaDevices.of(self.sizes, order)
            return IotaReplicaGroups(
                self.device_count // size, size, iota.reshape_dims, iota.transpose_permutation
            )
        rows = self.devices.transpose(order).reshape(-1, size)
        return ReplicaGroups(tuple(map(tuple, rows.tolist())))

    def groups_of_all_replicas(self, axes: Axes) -> AnyGroups:
        """The same by global numbers: replica * partitions + partition."""
        groups = self.groups(axes)
        if self.replicas == 1:
            return groups
        n = self.device_count
        return ReplicaGroups(
            tuple(
                [tuple([r * n + d for d in g]) for r in range(self.replicas) for g in groups.groups]
            )
        )

    # -- shardings

    def tiling(self, sharding: Sharding | None, rank: int) -> Tiling | None:
        """A sharding of an array as axes; None where it does not count by those of the mesh.

        What stands on one device only stands on all. Manual axes are not mentioned: along them
        the shape is already that of a part.
        """
        key = (id(sharding), rank)
        if key not in self._tilings:
            # The sharding is kept, so that no other gets its number.
            self._tilings[key] = (sharding, self._tiling(sharding, rank))
        return self._tilings[key][1]

    @cached_property
    def _tilings(self) -> dict[tuple[int, int], tuple[Sharding | None, Tiling | None]]:
        return {}

    def _tiling(self, sharding: Sharding | None, rank: int) -> Tiling | None:
        s = None if sharding is None else sharding.tiled()
        if s is None or s.kind in ("replicated", "manual", "maximal", "unknown"):
            return Tiling.replicated(rank)
        if s.kind == "unreduced":
            return Tiling(((),) * rank, tuple(self.axes), "add")
        if s.kind != "tiled" or s.data_rank != rank:
            return None
        array = self._places(s)
        if array is None:
            return None
        lists = [self._axes_of(numbers) for numbers in _along_dimensions(array)]
        dims: list[Axes] = []
        for own in lists[:rank]:
            if own is None:
                return None
            dims.append(own)
        partial: Axes = ()
        known = list(dims)
        for kind, own in zip(s.subgroup_types, lists[rank:], strict=True):
            if own is None:
                if kind == "replicated":
                    continue
                return None
            if kind == "unreduced":
                partial = tuple(sorted(own))
            if kind != "replicated":
                known.append(own)
        tiling = Tiling(tuple(dims), partial, "add" if partial else "")
        if not _is_disjoint(known) or not self._agrees(array, known, s):
            return None
        return tiling

    def sharding(self, t: Tiling) -> Sharding:
        """What HLO calls a tiling that has no partial sums."""
        used = [a for axes in t.dims for a in axes]
        if not used:
            return REPLICATED
        rest = [a for a in self.axes if a not in used]
        tiles = [self.count(axes) for axes in t.dims]
        copies = self.count(tuple(rest))
        dims, types = ((*tiles, copies), ("replicated",)) if copies > 1 else (tuple(tiles), ())
        if self.order is None:
            return Sharding.tile(dims, IotaDevices.of(self.sizes, (*used, *rest)), types)
        devices = self.devices.transpose([*used, *rest]).reshape(-1)
        return Sharding.tile(dims, tuple(devices.tolist()), types)

    def manual_axes(self, sharding: Sharding | None) -> Axes | None:
        """The axes along which a sharding says that the program cuts by itself; None where it does
        not count by those of the mesh."""
        s = None if sharding is None else sharding.tiled()
        if s is None:
            return ()
        if s.kind == "manual":
            return tuple(self.axes)
        if s.kind != "tiled" or "manual" not in s.subgroup_types:
            return ()
        array = self._places(s)
        if array is None:
            return None
        axes = self._axes_of(
            _along_dimensions(array)[s.data_rank + s.subgroup_types.index("manual")]
        )
        return None if axes is None else tuple(sorted(axes))

    def _places(self, s: Sharding) -> np.ndarray | None:
        """The places on the grid in the order of the tiles."""
        array = s.tile_assignment()
        if array.size != self.device_count:
            return None
        return _placed(array, self.order, s)

    def _axes_of(self, numbers: list[int]) -> Axes | None:
        """The axes by which these numbers count, the major one first."""
        loops = counting_loops(numbers)
        if loops is None:
            return None
        axes: list[int] = []
        for step, length in loops:
            part: list[int] = []
            for a in reversed(self.axes):
                if length == 1:
                    break
                if self.sizes[a] > 1 and self.steps[a] == step and length % self.sizes[a] == 0:
                    part.append(a)
                    length //= self.sizes[a]
                    step *= self.sizes[a]
            if length != 1:
                return None
            axes.extend(reversed(part))
        return tuple(axes)

    def _agrees(self, array: np.ndarray, known: list[Axes], s: Sharding) -> bool:
        """Whether the tiles that axes say are those that the sharding says."""
        rest = tuple([a for a in self.axes if not any(a in axes for axes in known)])
        order = [a for axes in known for a in axes]
        grid = np.arange(self.device_count).reshape(self.sizes).transpose([*order, *rest])
        copies = self.count(rest)
        if s.subgroup_types[-1:] == ("replicated",):
            if s.tile_dims[-1] != copies:
                return False
        elif copies != 1:
            return False
        rows = np.sort(grid.reshape(-1, copies), axis=1)
        return bool((rows == np.sort(array.reshape(-1, copies), axis=1)).all())


def _placed(array: np.ndarray, order: tuple[int, ...] | None, s: Sharding) -> np.ndarray:
    """The places of devices in an order; of those that have the same tile, which a sharding lists
    by their numbers, the first place first."""
    if order is None:
        return array
    place = np.empty(array.size, np.int64)
    place[np.array(order)] = np.arange(array.size)
    places = place[array]
    return np.sort(places, axis=-1) if s.subgroup_types[-1:] == ("replicated",) else places


def _is_disjoint(lists: list[Axes]) -> bool:
    every = [a for axes in lists for a in axes]
    return len(every) == len(set(every))


def _along_dimensions(array: np.ndarray) -> list[list[int]]:
    """The numbers along each dimension, at index 0 of the others."""
    numbers = []
    for k in range(array.ndim):
        at = tuple([slice(None) if j == k else 0 for j in range(array.ndim)])
        numbers.append(array[at].tolist())
    return numbers


def counting_loops(numbers: list[int]) -> Loops | None:
    """The nested counting that gives these numbers from the first on; None: there is none."""
    loops: Loops = []
    inside = 1
    while inside < len(numbers):
        step = numbers[inside] - numbers[0]
        length = 1
        while (
            length * inside < len(numbers)
            and numbers[length * inside] - numbers[0] == length * step
        ):
            length += 1
        if step <= 0 or len(numbers) % (length * inside):
            return None
        loops.append((step, length))
        inside *= length
    values = [0]
    for step, length in loops:
        values = [k * step + v for k in range(length) for v in values]
    if [v + numbers[0] for v in values] != numbers:
        return None
    return loops[::-1]


def mesh_of(module: Module) -> DeviceMesh:
    """The grid that the shardings of a module, and of its arguments and result, count by."""
    n = module.num_partitions
    counted: Counter[Sharding] = Counter()
    named = Counter[tuple[int, ...]]()
    for s in _shardings(module):
        for leaf in s.elements if s.is_tuple else (s,):
            tiles = leaf.tiled()
            if tiles.kind == "tiled" and tiles.device_count == n:
                counted[tiles.without_metadata()] += 1
                if leaf.named is not None and isinstance(leaf.named.mesh.devices, tuple):
                    named[leaf.named.mesh.order] += 1
    # The order of a mesh comes first: that of tiles says nothing of devices that have the same one.
    orders = Counter[tuple[int, ...]]()
    arrays = {s: s.tile_assignment() for s in counted}
    for s, times in counted.items():
        if not isinstance(s.devices, IotaDevices) and _steps(arrays[s], None, s) is None:
            orders[tuple(arrays[s].reshape(-1).tolist())] += times
    best: tuple[int, DeviceMesh] | None = None
    likely = [o for o, _ in (*named.most_common(MOST_ORDERS), *orders.most_common(MOST_ORDERS))]
    for order in (None, *dict.fromkeys(likely)):
        steps = Counter[int]()
        for s, times in counted.items():
            for step in _steps(arrays[s], order, s) or ():
                steps[step] += times
        mesh = DeviceMesh(_sizes(steps, n), order, module.replica_count)
        fits = sum(t for s, t in counted.items() if mesh.tiling(s, s.data_rank) is not None)
        if best is None or fits > best[0]:
            best = (fits, mesh)
    assert best is not None, "the natural order is always tried"
    return best[1]


def _shardings(module: Module) -> Iterable[Sharding]:
    yield from [s for s in module.spmd_parameters_shardings if s is not None]
    if module.spmd_output_sharding is not None:
        yield module.spmd_output_sharding
    seen = set[int]()
    for i in module.instructions():
        s = i.sharding
        if s is not None:
            # One object often stands at many instructions, all of which count.
            seen.add(id(s))
            yield s


def _steps(array: np.ndarray, order: tuple[int, ...] | None, s: Sharding) -> list[int] | None:
    """Where the counting of a sharding begins and ends: steps, and steps times lengths."""
    ends: list[int] = []
    for numbers in _along_dimensions(_placed(array, order, s)):
        loops = counting_loops(numbers)
        if loops is None:
            return None
        for step, length in loops:
            ends += [step, step * length]
    return ends


def _sizes(steps: Counter[int], n: int) -> tuple[int, ...]:
    """Sizes of axes, such that as many of these steps as possible are steps of the grid."""
    chain = [1, n]
    for step, _ in sorted(steps.items(), key=lambda x: (-x[1], x[0])):
        if all(max(step, c) % min(step, c) == 0 for c in chain) and step not in chain:
            chain.append(step)
    chain.sort()
    return tuple([high // low for low, high in pairwise(chain)][::-1]) or (1,)
