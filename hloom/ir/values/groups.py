"""Replica groups of collectives, in all three ways of writing them, and source-target pairs.

* a list `{{0,1},{2,3}}`;
* an iota `[2,4]<=[8]` or `[4,2]<=[2,4]T(1,0)`: a count, transposed and cut into groups;
* mesh axes `mesh['x'=2,'y'=4] {'x'}`: devices that differ only on these axes.

All three have `groups` (expanded once, then remembered), `group_count`, `group_size`, `is_empty`,
`text`, `full_text` and `same`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from hloom.ir.text.cursor import Cursor
from hloom.ir.values.devices import IotaDevices, parse_iota
from hloom.ir.values.mesh import AxisRef, Mesh, parse_axes, parse_mesh, show_axes, split_mesh

Groups = tuple[tuple[int, ...], ...]


class AnyGroups:
    """What all three ways of writing replica groups can do."""

    __slots__ = ()

    @property
    def groups(self) -> Groups:
        """Each group's ids in order."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said: one group of everybody."""
        return self.group_count == 0

    @property
    def group_count(self) -> int:
        return len(self.groups)

    @property
    def group_size(self) -> int | None:
        """How many are in each group; None when that differs or there is no group."""
        sizes = {len(g) for g in self.groups}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def full_text(self) -> str:
        """The list form, whatever the way of writing."""
        return "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in self.groups) + "}"

    def same(self, other: AnyGroups) -> bool:
        """Whether the groups are the same, in the same order, however they are written."""
        return self == other or (
            self.group_count == other.group_count and self.groups == other.groups
        )


@dataclass(frozen=True, slots=True)
class ReplicaGroups(AnyGroups):
    """Groups written as lists."""

    lists: Groups = ()

    @property
    def groups(self) -> Groups:
        return self.lists

    @property
    def text(self) -> str:
        return self.full_text


NO_GROUPS = ReplicaGroups()


@dataclass(frozen=True, slots=True)
class IotaReplicaGroups(AnyGroups):
    """Groups cut from a transposed count; `group_count` groups of `group_size`."""

    num_replica_groups: int
    num_devices_per_group: int
    reshape_dims: tuple[int, ...]
    transpose_permutation: tuple[int, ...] = (0,)

    @property
    def groups(self) -> Groups:
        return _expand_iota(self)

    @property
    def group_count(self) -> int:
        return self.num_replica_groups

    @property
    def group_size(self) -> int | None:
        return self.num_devices_per_group if self.num_replica_groups else None

    @property
    def devices(self) -> IotaDevices:
        return IotaDevices(self.reshape_dims, self.transpose_permutation)

    @property
    def text(self) -> str:
        return f"[{self.num_replica_groups},{self.num_devices_per_group}]<={self.devices.text}"


@dataclass(frozen=True, slots=True)
class MeshReplicaGroups(AnyGroups):
    """Groups of devices that differ only on some axes of a mesh."""

    mesh: Mesh
    axes: tuple[AxisRef, ...]

    @property
    def groups(self) -> Groups:
        return _expand_mesh(self)

    @property
    def group_count(self) -> int:
        return self.mesh.device_count // max(1, prod(a.size_in(self.mesh) for a in self.axes))

    @property
    def group_size(self) -> int | None:
        return prod(a.size_in(self.mesh) for a in self.axes)

    @property
    def text(self) -> str:
        return self.mesh.text + " {" + show_axes(self.axes, self.mesh, ",") + "}"


@lru_cache(maxsize=256)
def _expand_iota(g: IotaReplicaGroups) -> Groups:
    rows = g.devices.array().reshape(g.num_replica_groups, g.num_devices_per_group)
    return tuple(map(tuple, rows.tolist()))


@lru_cache(maxsize=256)
def _expand_mesh(g: MeshReplicaGroups) -> Groups:
    array, used, rest = split_mesh(g.mesh, g.axes)
    rows = array.transpose(rest + used).reshape(-1, g.group_size or 1)
    return tuple(map(tuple, rows.tolist()))


def parse_replica_groups(cursor: Cursor) -> AnyGroups:
    """Read replica groups in any of the three forms."""
    start = cursor.skip()
    if cursor.at("{"):
        lists = _parse_lists(cursor, "replica groups")
        return ReplicaGroups(lists) if lists else NO_GROUPS
    if cursor.at("mesh") or cursor.at("maximal_mesh"):
        mesh = parse_mesh(cursor)
        cursor.eat(",")
        groups = MeshReplicaGroups(mesh, parse_axes(cursor, mesh))
        if not groups.axes or groups.group_size == 1:
            cursor.fail("replica groups on mesh axes need more than one device per group", start)
        return groups
    if not cursor.at("["):
        cursor.fail(
            f"expected replica groups, found {cursor.next_text()}",
            hint="write {{0,1},{2,3}}, [2,4]<=[8] or mesh['x'=2,'y'=4] {'x'}",
        )
    dims = cursor.integers("[", "]")
    if len(dims) != 2 or min(dims) < 0:
        cursor.fail("an iota of replica groups is [groups,size]<=[...]", start)
    cursor.expect("<=", "after the sizes of replica groups")
    iota = parse_iota(cursor)
    if dims[0] * dims[1] != iota.count:
        cursor.fail(f"{dims[0]} groups of {dims[1]} cannot hold {iota.count} devices", start)
    return IotaReplicaGroups(dims[0], dims[1], iota.reshape_dims, iota.transpose_permutation)


def parse_pairs(cursor: Cursor) -> tuple[tuple[int, int], ...]:
    """Read source-target pairs: `{{0,1},{1,2}}`."""
    start = cursor.skip()
    pairs = []
    for pair in _parse_lists(cursor, "source-target pairs"):
        if len(pair) != 2:
            cursor.fail("each source-target pair has two numbers", start)
        pairs.append((pair[0], pair[1]))
    return tuple(pairs)


def _parse_lists(cursor: Cursor, what: str) -> Groups:
    cursor.expect("{", f"to start {what}")
    lists: list[tuple[int, ...]] = []
    while not cursor.eat("}"):
        if lists:
            cursor.expect(",", f"between {what}")
        lists.append(cursor.integers())
    return tuple(lists)
