"""Which devices there are, which process and host each belongs to, and what links them.

name = "two-gpus"

[[groups]]            # devices that are alike, numbered on
device = "h100"       # a known one, a file beside this one, or one written out as a table
count = 2
process = 0
host = 0

[[links]]             # each pair of the devices named
devices = [0, 1]
bandwidth_bytes_per_s = 450e9
latency_ns = 2000
switch = "nvswitch"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import tomli_w

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.device.device import Device
from hloom.device.ids import GlobalDeviceId, LocalDeviceId
from hloom.device.known import FOLDER, device_in, known_device, known_names, text_in
from hloom.device.text import device_of, parse_device, parsed_table, record, table_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Devices that are alike, of one process."""

    device: Device
    count: int = 1
    process: int = 0
    host: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What each device of some sends to each other one of them over."""

    devices: tuple[int, ...]
    bandwidth_bytes_per_s: float
    """Out of one device."""
    latency_ns: float = 0.0
    switch: str = ""
    """Behind which switch they are; empty: they are wired to each other."""


@dataclass(frozen=True, slots=True)
class Member:
    """A device of a topology, with its numbers."""

    id: GlobalDeviceId
    local_id: LocalDeviceId
    """Among those of its process."""
    process: int
    host: int
    device: Device


@dataclass(frozen=True, slots=True)
class Topology:
    """Devices in the order of their global ids, and links between them."""

    name: str
    members: tuple[Member, ...]
    links: tuple[Link, ...] = ()

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def member(self, id: GlobalDeviceId) -> Member:
        """The device of a number; `UsageError` if there is none."""
        if not 0 <= id.value < len(self.members):
            raise UsageError(
                f"{self.name} has no device {id}",
                rule="device-id",
                hint=f"there are {len(self.members)}, numbered from 0 on",
            )
        return self.members[id.value]

    @property
    def text(self) -> str:
        """As it reads back (`parse_topology`)."""
        return show_topology(self)

    def of_process(self, process: int) -> tuple[Member, ...]:
        """The devices of a process, in the order of their local ids."""
        return tuple([m for m in self.members if m.process == process])

    def link(self, one: GlobalDeviceId, other: GlobalDeviceId) -> Link | None:
        """The fastest link between two devices; None if there is none."""
        both = {self.member(one).id.value, self.member(other).id.value}
        shared_links = [link for link in self.links if both <= set(link.devices)]
        return max(shared_links, key=lambda link: link.bandwidth_bytes_per_s, default=None)


@lru_cache(maxsize=4)
def alike(device: Device, count: int, name: str = "") -> Topology:
    """So many devices of one kind, all of one process, without links."""
    members = [Member(GlobalDeviceId(k), LocalDeviceId(k), 0, 0, device) for k in range(count)]
    return Topology(name or f"{count} x {device.name}", tuple(members))


def parse_topology(text: str, file: str | None = None) -> Topology:
    """The topology that a text describes (see above); `UsageError` names the key that is wrong."""
    folder = Path(file).parent if file else Path()
    return topology_of(parsed_table(text, file), file or "the topology", folder)


def topology_of(table: Mapping[str, Any], where: str, folder: Path) -> Topology:
    """The topology of a table; files of devices are looked for in the folder."""
    for name in table:
        if name not in ("name", "groups", "links"):
            raise UsageError(
                f"{where} has no {name!r}", rule="topology", hint="it has name, groups and links"
            )
    groups = [
        record(Group, _with_device(row, where, folder), f"groups[{k}] in {where}")
        for k, row in enumerate(_list(table, "groups"))
    ]
    links = [
        record(Link, row, f"links[{k}] in {where}") for k, row in enumerate(_list(table, "links"))
    ]
    members: list[Member] = []
    locals_: dict[int, int] = {}
    for group in groups:
        for _ in range(group.count):
            local = locals_.get(group.process, 0)
            locals_[group.process] = local + 1
            ids = GlobalDeviceId(len(members)), LocalDeviceId(local)
            members.append(Member(*ids, group.process, group.host, group.device))
    if not members:
        raise UsageError(f"{where} has no devices", rule="topology", hint="add a [[groups]]")
    topology = Topology(str(table.get("name", where)), tuple(members), tuple(links))
    for link in links:
        for number in link.devices:
            if type(number) is not int:
                raise UsageError(f"a link in {where} names {number!r}", rule="topology")
            topology.member(GlobalDeviceId(number))
    return topology


def _with_device(row: object, where: str, folder: Path) -> object:
    """A group with its device in place of the name of one."""
    if not isinstance(row, Mapping) or "device" not in row:
        return row  # what is wrong is said by whoever reads it
    word = row["device"]
    if isinstance(word, Mapping):
        return {**row, "device": device_of(word, f"device in {where}")}
    if not isinstance(word, str):
        raise UsageError(f"device in {where} is {word!r}", rule="topology", hint="write its name")
    return {**row, "device": _device(word, folder)}


def _list(table: Mapping[str, object], name: str) -> list[object]:
    rows = table.get(name, [])
    if not isinstance(rows, list):
        raise UsageError(f"{name} is no list", rule="topology", hint=f"write [[{name}]]")
    return rows


def _device(word: str, folder: Path) -> Device:
    """The device that a group names; a file is looked for beside the topology."""
    if word in known_names():
        return known_device(word)
    return device_in(folder / word) if word.endswith(".toml") else known_device(word)


def load_topology(file: Path) -> Topology:
    """The topology in a file."""
    return parse_topology(text_in(file), str(file))


def topology_names() -> list[str]:
    """The names of the topologies that come with hloom, sorted."""
    return sorted(path.stem for path in (FOLDER / "topologies").glob("*.toml"))


def topology_named(word: str) -> Topology:
    """The topology of a name or of a file; a device, known or in a file, is a topology of one.

    A name may end with .toml, as a file's does. `UsageError` if there is no such thing.
    """
    name = word.removesuffix(".toml")
    if not (word.endswith(".toml") and Path(word).exists()):
        if name in topology_names():
            return load_topology(FOLDER / "topologies" / f"{name}.toml")
        if name in known_names() or not word.endswith(".toml"):
            return alike(_known(name), 1, name)
    text = text_in(Path(word))
    if "groups" in parsed_table(text, word):
        return parse_topology(text, word)
    device = parse_device(text, word)
    return alike(device, 1, device.name)


def _known(name: str) -> Device:
    if name not in known_names():
        names = [*known_names(), *topology_names()]
        hint = did_you_mean(name, names) or f"known: {', '.join(names)}"
        raise UsageError(f"no device or topology {name!r} is known", rule="device", hint=hint)
    return known_device(name)


def show_topology(topology: Topology) -> str:
    """The text of a topology; it reads back as an equal one."""
    return tomli_w.dumps(table_of_topology(topology))


def table_of_topology(topology: Topology) -> dict[str, Any]:
    """A topology as a table; a device that is not a known one is written out."""
    groups: list[dict[str, Any]] = []
    last: tuple[object, ...] = ()
    for m in topology:
        alike_ = (m.device, m.process, m.host)
        if alike_ == last:
            groups[-1]["count"] += 1
            continue
        last = alike_
        name = m.device.name
        is_known = name in known_names() and known_device(name) == m.device
        group = {"count": 1, "process": m.process, "host": m.host}
        groups.append({**group, "device": name if is_known else table_of(m.device)})
    table: dict[str, Any] = {"name": topology.name, "groups": groups}
    if topology.links:
        table["links"] = [
            {**table_of(link), "devices": list(link.devices)} for link in topology.links
        ]
    return table
