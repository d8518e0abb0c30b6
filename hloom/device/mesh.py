"""A mesh: names for the axes of a grid of a topology's devices.

topology = "four-sims"    # a known one, or a file beside this one; or a whole one, as a table
devices = [0, 2, 1, 3]    # at the places of the grid, the last axis the fastest; left out: in order

[[axes]]
name = "x"
size = 2

[[axes]]
name = "y"
size = 2

Along which links the devices of an axis talk, and so what a collective over it costs, follows from
the topology. `axes` alone is what a program says of a mesh (`hloom/ir/values/mesh.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import tomli_w

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.device.assignment import DeviceAssignment
from hloom.device.ids import GlobalDeviceId
from hloom.device.known import text_in
from hloom.device.text import parsed_table, record
from hloom.device.timing import collective_ns
from hloom.device.topology import Topology, table_of_topology, topology_named, topology_of
from hloom.types.mesh import MeshAxes

RULE = "mesh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis, as the text has it."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Mesh:
    """A grid of devices; `UsageError` for one that cannot be."""

    topology: Topology
    axes: MeshAxes

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes.axes]
        count = len(self.topology)
        wrong = ""
        is_small = self.axes.devices is not None or self.axes.device_count <= count
        numbers = self._numbers if is_small and min(self.axes.sizes, default=0) > 0 else ()
        if not names:
            wrong, hint = "has no axes", "name one at least"
        elif len(set(names)) != len(names) or not all(names):
            wrong, hint = f"has axes {names}", "each axis has a name of its own"
        elif min(self.axes.sizes) < 1:
            wrong, hint = f"has axes of sizes {list(self.axes.sizes)}", "each is 1 at least"
        elif not is_small:
            wrong = f"is for {self.axes.device_count} devices, and {self.topology.name} has {count}"
            hint = "the product of the sizes is how many there are"
        elif len(numbers) != self.axes.device_count:
            wrong = f"is for {self.axes.device_count} devices, and {len(numbers)} are named"
            hint = "the product of the sizes is how many there are"
        elif len(set(numbers)) != len(numbers):
            wrong, hint = f"has devices {list(numbers)}", "each is in it once"
        elif min(numbers) < 0 or max(numbers) >= count:
            wrong = f"has devices {list(numbers)}, and {self.topology.name} has {count}"
            hint = "they are numbered from 0 on"
        if wrong:
            raise UsageError(f"the mesh {wrong}", rule=RULE, hint=hint)

    @property
    def _numbers(self) -> tuple[int, ...]:
        devices = self.axes.devices
        if devices is None:
            return tuple(range(self.axes.device_count))
        return devices if isinstance(devices, tuple) else devices.devices

    @property
    def devices(self) -> tuple[GlobalDeviceId, ...]:
        """The devices at the places of the grid, the last axis the fastest."""
        return tuple(map(GlobalDeviceId, self._numbers))

    @property
    def assignment(self) -> DeviceAssignment:
        """Each device runs the partition that has the number of its place."""
        return DeviceAssignment((self.devices,))

    @property
    def text(self) -> str:
        """As it reads back (`parse_mesh`)."""
        return show_mesh(self)

    def groups(self, *names: str) -> tuple[tuple[GlobalDeviceId, ...], ...]:
        """The devices that differ along these axes only: those that a collective over them joins,
        in the order of the axes as they are named."""
        sizes = dict(self.axes.axes)
        for name in names:
            if name not in sizes:
                hint = did_you_mean(name, sizes) or f"its axes: {', '.join(sizes)}"
                raise UsageError(f"the mesh has no axis {name!r}", rule=RULE, hint=hint)
        strides: dict[str, int] = {}
        after = len(self.devices)
        for name, size in self.axes.axes:
            after //= size
            strides[name] = after
        rest = [name for name in sizes if name not in names]

        def offsets(axes: list[str]) -> list[int]:
            places = product(*[range(0, sizes[a] * strides[a], strides[a]) for a in axes])
            return [sum(place) for place in places]

        devices = self.devices
        inside = offsets(list(dict.fromkeys(names)))
        return tuple([tuple([devices[base + k] for k in inside]) for base in offsets(rest)])

    def collective_ns(self, kind: str, size_bytes: float, *names: str) -> float:
        """A collective over axes: of the group that takes longest; `size_bytes` a device."""
        groups = self.groups(*names)
        return max([collective_ns(self.topology, g, size_bytes, kind) for g in groups])


def parse_mesh(text: str, file: str | None = None) -> Mesh:
    """The mesh that a text describes (see above); `UsageError` names the key that is wrong."""
    table, where = parsed_table(text, file), file or "the mesh"
    known = ("topology", "devices", "axes")
    for name in table:
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
            raise UsageError(f"{where} has no {name!r}", rule=RULE, hint=hint)
    rows = table.get("axes")
    if not isinstance(rows, list):
        raise UsageError(f"{where} has no list of axes", rule=RULE, hint="write [[axes]]")
    axes = [record(Axis, row, f"axes[{k}] in {where}") for k, row in enumerate(rows)]
    sizes = tuple([(axis.name, axis.size) for axis in axes])
    devices = table.get("devices")
    if devices is not None:
        is_list = isinstance(devices, list)
        if not is_list or not all(type(d) is int for d in devices):
            raise UsageError(f"devices in {where} are {devices!r}", rule=RULE, hint="write [0, 1]")
        devices = _shortest(devices, sizes)
    topology = _topology(table.get("topology"), where, Path(file).parent if file else Path())
    return Mesh(topology, MeshAxes(sizes, devices))


def _shortest(numbers: list[int], axes: tuple[tuple[str, int], ...]) -> tuple[int, ...] | None:
    """The devices; None where they are in order."""
    in_order = numbers == list(range(prod([size for _, size in axes])))
    return None if in_order else tuple(numbers)


def _topology(named: object, where: str, folder: Path) -> Topology:
    if isinstance(named, Mapping):
        return topology_of(named, f"topology in {where}", folder)
    if not isinstance(named, str):
        raise UsageError(f"{where} has no topology", rule=RULE, hint='write topology = "a name"')
    return topology_named(str(folder / named) if named.endswith(".toml") else named)


def show_mesh(mesh: Mesh) -> str:
    """The text of a mesh with all of its topology; it reads back as an equal one."""
    table: dict[str, Any] = {}
    if (devices := _shortest(list(mesh._numbers), mesh.axes.axes)) is not None:
        table["devices"] = list(devices)
    table["axes"] = [{"name": name, "size": size} for name, size in mesh.axes.axes]
    table["topology"] = table_of_topology(mesh.topology)
    return tomli_w.dumps(table)


def load_mesh(file: Path) -> Mesh:
    """The mesh in a file."""
    return parse_mesh(text_in(file), str(file))


def mesh_named(word: str) -> Mesh | None:
    """The mesh in a file; None for what is no file of a mesh."""
    if not word.endswith(".toml") or not Path(word).exists():
        return None
    text = text_in(Path(word))
    return parse_mesh(text, word) if "axes" in parsed_table(text, word) else None
