"""How groups of devices are called: by the axes of a mesh that they lie along.

A partitioned program names devices by numbers only. Where the mesh is known (named shardings have
one, and users say one) groups are those of some of its axes; else the size of a group and how far
apart its members are say as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.types.mesh import MeshAxes

Groups = Sequence[Sequence[int]]
MOST_NAMED = 4
"""So many axes together have a name of their own at most."""


class MeshNames:
    """The names of groups of devices under a mesh; without one, and for groups that are not those
    of whole axes, sizes and distances."""

    def __init__(self, mesh: MeshAxes | None, device_count: int) -> None:
        self.mesh = mesh
        self.device_count = device_count

    def of_groups(self, groups: Groups) -> str:
        """`model`, `data+model`; `4 apart by 2` where no axes are known."""
        sizes = {len(g) for g in groups}
        if sizes <= {0, 1}:
            return "no one"
        known = self._axes.get(frozenset([frozenset(g) for g in groups]))
        if known is not None:
            return known
        if len(sizes) > 1:
            return f"groups of {min(sizes)} to {max(sizes)}"
        n = sizes.pop()
        if n == self.device_count:
            return f"all {n}"
        steps = {tuple(np.diff(sorted(g)).tolist()) for g in groups}
        first = next(iter(steps))
        if len(steps) == 1 and len(set(first)) == 1:
            return f"{n} apart by {first[0]}"
        return f"{n} of {self.device_count}"

    def of_pairs(self, pairs: Iterable[tuple[int, int]]) -> str:
        """The axes along which sources and targets differ."""
        moved = [(s, t) for s, t in pairs if s != t]
        if not moved:
            return "no one"
        if self.mesh is None or any(d not in self._place for pair in moved for d in pair):
            distances = sorted({abs(t - s) for s, t in moved})
            return f"pairs apart by {', '.join(map(str, distances[:3]))}"
        differing: set[str] = set()
        for s, t in moved:
            places = zip(self.mesh.axes, self._place[s], self._place[t])
            differing |= {name for (name, _), a, b in places if a != b}
        return "+".join([name for name, _ in self.mesh.axes if name in differing])

    @cached_property
    def _place(self) -> dict[int, tuple[int, ...]]:
        assert self.mesh is not None, "places are those of a mesh"
        array = self.mesh.array()
        return {int(array[at]): at for at in np.ndindex(array.shape)}

    @cached_property
    def _axes(self) -> dict[frozenset[frozenset[int]], str]:
        """Groups along every few axes, by their members."""
        if self.mesh is None or not self.mesh.axes:
            return {}
        array = self.mesh.array()
        names: dict[frozenset[frozenset[int]], str] = {}
        wide = [k for k, (_, size) in enumerate(self.mesh.axes) if size > 1]
        for count in range(1, min(len(wide), MOST_NAMED) + 1):
            for axes in combinations(wide, count):
                rest = [k for k in range(array.ndim) if k not in axes]
                rows = array.transpose([*rest, *axes]).reshape(-1, _size(array.shape, axes))
                key = frozenset([frozenset(row) for row in rows.tolist()])
                names.setdefault(key, "+".join([self.mesh.axes[k][0] for k in axes]))
        return names


def _size(sizes: Sequence[int], axes: Iterable[int]) -> int:
    n = 1
    for k in axes:
        n *= sizes[k]
    return n


def named_mesh(module: Module) -> MeshAxes | None:
    """The mesh that the shardings of a module are written with; None where they name none, or
    several."""
    meshes = {
        leaf.named.mesh
        for s in _shardings(module)
        for leaf in (s.elements if s.is_tuple else (s,))
        if leaf.named is not None and leaf.named.mesh.axes
    }
    return meshes.pop() if len(meshes) == 1 else None


def _shardings(module: Module) -> Iterator[Sharding]:
    yield from [s for s in module.spmd_parameters_shardings if s is not None]
    if module.spmd_output_sharding is not None:
        yield module.spmd_output_sharding
    for i in module.instructions():
        if i.sharding is not None:
            yield i.sharding
