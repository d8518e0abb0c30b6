"""Shardings as axes: which digits of a device's number say which part of a dimension it has.

The devices 0 to 7 are numbers of three binary digits: three *axes*. `devices=[2,1,4]<=[8]` cuts
dimension 0 along the first and dimension 2 along the other two; with `T(1,0)` it would be other
digits. All shardings of a program are written with the same axes, as fine as any of them needs
(cut into primes), so that to compare, extend and merge them is to look at short lists.

An `AxisSpace` is an order of devices and its axes. Shardings whose digits do not fit together
(two of six devices, and three of six) or whose devices stand in different orders get spaces of
their own: they are not comparable, and none is merged with the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

import numpy as np

from hloom.ir.values.devices import IotaDevices
from hloom.ir.values.mesh import AxisRef, Mesh
from hloom.ir.values.sharding import MANUAL, REPLICATED, Sharding
from hloom.ir.values.sharding_named import DimensionSharding, NamedSharding

Axes = tuple[int, ...]
"""Axes of a space by number, the major first."""


@dataclass(frozen=True, slots=True)
class AxisSharding:
    """How a value is cut: along which axes each dimension is, and what other axes are for."""

    dims: tuple[Axes, ...]
    manual: frozenset[int] = frozenset()
    unreduced: frozenset[int] = frozenset()

    @property
    def used(self) -> frozenset[int]:
        """Axes along which devices do not simply hold the same."""
        return self.manual | self.unreduced | {a for axes in self.dims for a in axes}


@dataclass(slots=True)
class AxisSpace:
    """Devices in an order, and the axes that number them, from major to minor."""

    order: tuple[int, ...]
    points: set[int] = field(default_factory=set)
    """Strides at which axes begin and end, 1 and the number of devices among them."""
    mesh: Mesh | None = None
    """The mesh to name axes by; None where not all shardings are of one mesh."""
    is_named: bool = True
    axes: list[tuple[int, int]] = field(default_factory=list)
    """Stride and size of each axis, the major first: once all points are known."""
    written: dict[AxisSharding, Sharding] = field(default_factory=dict)
    """What was written before: programs of many layers ask for the same few again and again."""

    @property
    def count(self) -> int:
        return len(self.order)

    def fits(self, loops: Iterable[tuple[int, int]]) -> bool:
        """Whether these strides and lengths can be axes here too."""
        points = sorted(self.points | _ends(loops))
        return all(b % a == 0 for a, b in pairwise(points))

    def settle(self) -> None:
        """Make the axes, each of a prime size."""
        self.axes = []
        for low, high in reversed(list(pairwise(sorted(self.points)))):
            stride = high
            for prime in _primes(high // low):
                stride //= prime
                self.axes.append((stride, prime))

    def size(self, axes: Iterable[int]) -> int:
        """How many parts these axes make."""
        return prod(self.axes[a][1] for a in axes)

    def of_loop(self, stride: int, length: int) -> Axes:
        """The axes of a digit."""
        end = stride * length
        return tuple(k for k, (s, n) in enumerate(self.axes) if stride <= s and s * n <= end)

    # -- writing

    def sharding(self, s: AxisSharding) -> Sharding:
        """The same as HLO writes it: by axes of the mesh where all of the program is."""
        known = self.written.get(s)
        if known is None:
            known = self.written[s] = self._write(s)
        return known

    def _write(self, s: AxisSharding) -> Sharding:
        everything = frozenset(range(len(self.axes)))
        if s.manual == everything:
            return MANUAL
        if not s.used:
            return REPLICATED
        if self.mesh is not None and self.is_named:
            return Sharding("named", named=self._named(s, self.mesh))
        return self._tiled(s, everything)

    def _tiled(self, s: AxisSharding, everything: frozenset[int]) -> Sharding:
        counts = [self.size(axes) for axes in s.dims]
        order = [a for axes in s.dims for a in axes]
        types: list[str] = []
        rest = everything - s.used
        for word, axes in (("manual", s.manual), ("unreduced", s.unreduced), ("replicated", rest)):
            if axes:
                order += sorted(axes)
                counts.append(self.size(axes))
                types.append(word)
        sizes = tuple(n for _, n in self.axes)
        devices = IotaDevices.of(sizes, tuple(order))
        if self.order != tuple(range(self.count)):
            numbers = np.array(self.order)[devices.array()]
            return Sharding.tile(tuple(counts), tuple(numbers.tolist()), tuple(types))
        return Sharding.tile(tuple(counts), devices, tuple(types))

    def _named(self, s: AxisSharding, mesh: Mesh) -> NamedSharding:
        def refs(axes: Iterable[int]) -> tuple[AxisRef, ...]:
            return _merged([self._reference(a, mesh) for a in axes], mesh)

        dims = tuple(DimensionSharding(refs(axes)) for axes in s.dims)
        return NamedSharding(mesh, dims, (), refs(sorted(s.unreduced)), refs(sorted(s.manual)))

    def _reference(self, axis: int, mesh: Mesh) -> tuple[int, int, int]:
        """Mesh axis, and the part of it by where it starts and ends from the major side."""
        stride, size = self.axes[axis]
        below = self.count
        for k, n in enumerate(mesh.sizes):
            above, below = below, below // n
            if below <= stride and stride * size <= above:
                start = above // (stride * size)
                return k, start, start * size
        raise ValueError(f"axis {stride} x {size} crosses the axes of {mesh.text}")


def _merged(parts: list[tuple[int, int, int]], mesh: Mesh) -> tuple[AxisRef, ...]:
    """References, neighbours that continue one another as one."""
    runs: list[tuple[int, int, int]] = []
    for k, start, end in parts:
        if runs and runs[-1][0] == k and runs[-1][2] == start:
            runs[-1] = (k, runs[-1][1], end)
        else:
            runs.append((k, start, end))
    return tuple(
        AxisRef(k) if (start, end) == (1, mesh.sizes[k]) else AxisRef(k, start, end // start)
        for k, start, end in runs
    )


def _primes(n: int) -> list[int]:
    primes, p = [], 2
    while n > 1:
        while n % p == 0:
            primes.append(p)
            n //= p
        p += 1
    return primes


def _ends(loops: Iterable[tuple[int, int]]) -> set[int]:
    return {point for stride, length in loops for point in (stride, stride * length)}


class AxisSpaces:
    """The spaces of one program: first every sharding is added, then each can be asked for."""

    def __init__(self) -> None:
        self.spaces: list[AxisSpace] = []
        self._loops: dict[Sharding, tuple[int, list[list[tuple[int, int]]]]] = {}
        self._found: dict[Sharding, tuple[int, AxisSharding] | None] = {}

    def add(self, sharding: Sharding) -> None:
        """Make room for the axes of a sharding of one array."""
        sharding = sharding.without_metadata()
        tiled = sharding.tiled()
        if sharding in self._loops or tiled.kind != "tiled":
            return
        array = tiled.tile_assignment()
        mesh = sharding.named.mesh if sharding.named is not None else None
        # What is said by names belongs to the order of its mesh, whatever other order it fits.
        orders = [] if mesh is None else [mesh.order]
        for k, space in enumerate(self.spaces):
            if space.order in orders and self._added(sharding, array, k, space):
                break
        else:
            self._place(sharding, array, orders)
        k = self._loops[sharding][0] if sharding in self._loops else None
        if k is not None:
            self._name(self.spaces[k], mesh)

    def _place(self, sharding: Sharding, array: np.ndarray, orders: list[tuple[int, ...]]) -> None:
        """Find a space for a sharding, or make one, of one of these orders first."""
        for order in orders:
            if all(space.order != order for space in self.spaces):
                space = AxisSpace(order, {1, len(order)})
                if self._added(sharding, array, len(self.spaces), space):
                    self.spaces.append(space)
                    return
        for k, space in enumerate(self.spaces):
            if self._added(sharding, array, k, space):
                return
        for order in _orders(array):
            space = AxisSpace(order, {1, len(order)})
            if self._added(sharding, array, len(self.spaces), space):
                self.spaces.append(space)
                return

    def _name(self, space: AxisSpace, mesh: Mesh | None) -> None:
        is_other = mesh is None or (space.mesh is not None and space.mesh != mesh)
        if mesh is None or is_other or space.order != mesh.order:
            space.is_named = False
        else:
            space.mesh = mesh
            ends = np.cumprod([1, *reversed(mesh.sizes)]).tolist()
            space.points |= set(ends)

    def _added(self, sharding: Sharding, array: np.ndarray, k: int, space: AxisSpace) -> bool:
        if space.count != array.size:
            return False
        is_copied = sharding.tiled().subgroup_types[-1:] == ("replicated",)
        loops = _loops_of(array, space.order, is_copied)
        if loops is None or not space.fits(loop for part in loops for loop in part):
            return False
        space.points |= _ends(loop for part in loops for loop in part)
        self._loops[sharding] = (k, loops)
        return True

    def settle(self) -> None:
        for space in self.spaces:
            space.settle()

    def of(self, sharding: Sharding) -> tuple[int, AxisSharding] | None:
        """The space and the axes of a sharding that was added; None for what is not cut."""
        sharding = sharding.without_metadata()
        if sharding not in self._loops:
            return None
        if sharding not in self._found:
            k, loops = self._loops[sharding]
            space = self.spaces[k]
            parts = [tuple(a for loop in part for a in space.of_loop(*loop)) for part in loops]
            tiled = sharding.tiled()
            types = dict(zip(tiled.subgroup_types, parts[tiled.data_rank :]))
            self._found[sharding] = (
                k,
                AxisSharding(
                    tuple(parts[: tiled.data_rank]),
                    frozenset(types.get("manual", ())),
                    frozenset(types.get("unreduced", ())),
                ),
            )
        return self._found[sharding]


def _orders(array: np.ndarray) -> list[tuple[int, ...]]:
    """Orders of the devices in which the tiles may be digits: 0, 1, ... first."""
    flat = tuple(array.reshape(-1).tolist())
    return [tuple(sorted(flat)), flat]


def _loops_of(
    array: np.ndarray, order: tuple[int, ...], is_copied: bool
) -> list[list[tuple[int, int]]] | None:
    """Of each tile dimension its digits as (stride, length), the major first; None if it has
    none in this order of devices. `is_copied`: those along the last dimension have the same tile,
    and are listed by their numbers."""
    place = {device: k for k, device in enumerate(order)}
    flat = array.reshape(-1).tolist()
    if any(d not in place for d in flat):
        return None
    places = np.array([place[d] for d in flat]).reshape(array.shape)
    places = np.sort(places, axis=-1) if is_copied else places
    if places.size == 0 or places.reshape(-1)[0] != 0:
        return None
    loops: list[list[tuple[int, int]]] = []
    whole = np.zeros(array.shape, np.int64)
    for d, size in enumerate(array.shape):
        row = places[tuple(slice(None) if k == d else 0 for k in range(array.ndim))]
        digits = _digits(row.tolist())
        if digits is None:
            return None
        loops.append(digits)
        whole += row.reshape([size if k == d else 1 for k in range(array.ndim)])
    return loops if (whole == places).all() else None


def _digits(numbers: list[int]) -> list[tuple[int, int]] | None:
    """Nested loops that count as these numbers do from 0, the outer first."""
    loops: list[tuple[int, int]] = []
    inside = 1
    while inside < len(numbers):
        stride, length = numbers[inside], 1
        while length * inside < len(numbers) and numbers[length * inside] == length * stride:
            length += 1
        if stride <= 0 or len(numbers) % (inside * length):
            return None
        loops.append((stride, length))
        inside *= length
    counted = [0]
    for stride, length in loops:
        counted = [k * stride + n for k in range(length) for n in counted]
    return loops[::-1] if counted == numbers else None
