"""Which devices there are, which process and host each belongs to, and what links them.

name = "two-gpus"

[[groups]]            # devices that are alike, numbered on
device = "h100"       # a known one, or a file beside this one
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

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.device.device import Device
from hloom.device.ids import GlobalDeviceId, LocalDeviceId
from hloom.device.known import FOLDER, device_in, known_device, known_names, text_in
from hloom.device.text import parse_device, parsed_table, record


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Devices that are alike, of one process."""

    device: str
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


def alike(device: Device, count: int, name: str = "") -> Topology:
    """So many devices of one kind, all of one process, without links."""
    members = [Member(GlobalDeviceId(k), LocalDeviceId(k), 0, 0, device) for k in range(count)]
    return Topology(name or f"{count} x {device.name}", tuple(members))


def parse_topology(text: str, file: str | None = None) -> Topology:
    """The topology that a text describes (see above); `UsageError` names the key that is wrong."""
    table, where = parsed_table(text, file), file or "the topology"
    for name in table:
        if name not in ("name", "groups", "links"):
            raise UsageError(
                f"{where} has no {name!r}", rule="topology", hint="it has name, groups and links"
            )
    groups = [
        record(Group, row, f"groups[{k}] in {where}")
        for k, row in enumerate(_list(table, "groups"))
    ]
    links = [
        record(Link, row, f"links[{k}] in {where}") for k, row in enumerate(_list(table, "links"))
    ]
    folder = Path(file).parent if file else Path()
    members: list[Member] = []
    locals_: dict[int, int] = {}
    for group in groups:
        device = _device(group.device, folder)
        for _ in range(group.count):
            local = locals_.get(group.process, 0)
            locals_[group.process] = local + 1
            ids = GlobalDeviceId(len(members)), LocalDeviceId(local)
            members.append(Member(*ids, group.process, group.host, device))
    if not members:
        raise UsageError(f"{where} has no devices", rule="topology", hint="add a [[groups]]")
    topology = Topology(str(table.get("name", where)), tuple(members), tuple(links))
    for link in links:
        for number in link.devices:
            topology.member(GlobalDeviceId(number))
    return topology


def _list(table: dict[str, object], name: str) -> list[object]:
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
    """The text of a topology of known devices; it reads back as an equal one."""
    lines = [f'name = "{topology.name}"']
    runs: list[list[Member]] = []
    for m in topology:
        last = runs[-1][-1] if runs else None
        if last and (last.device, last.process, last.host) == (m.device, m.process, m.host):
            runs[-1].append(m)
        else:
            runs.append([m])
    for run in runs:
        m = run[0]
        lines += ["", "[[groups]]", f'device = "{m.device.name}"', f"count = {len(run)}"]
        lines += [f"process = {m.process}", f"host = {m.host}"]
    for link in topology.links:
        lines += ["", "[[links]]", f"devices = {list(link.devices)}"]
        lines += [f"bandwidth_bytes_per_s = {link.bandwidth_bytes_per_s!r}"]
        lines += [f"latency_ns = {link.latency_ns!r}", f'switch = "{link.switch}"']
    return "\n".join(lines) + "\n"
