"""Topologies: numbers of devices, links, text both ways, what is refused."""

from pathlib import Path

import pytest

from hloom.base.diagnostics import UsageError
from hloom.device.ids import GlobalDeviceId, LocalDeviceId
from hloom.device.known import known_device
from hloom.device.text import show_device
from hloom.device.topology import (
    alike,
    load_topology,
    parse_topology,
    show_topology,
    topology_named,
    topology_names,
)

TEXT = """
name = "pair of hosts"
[[groups]]
device = "h100"
count = 2
[[groups]]
device = "h100"
count = 2
process = 1
host = 1
[[links]]
devices = [0, 1]
bandwidth_bytes_per_s = 450e9
latency_ns = 2000
switch = "a"
[[links]]
devices = [0, 1, 2, 3]
bandwidth_bytes_per_s = 50e9
"""


def test_numbers_and_links() -> None:
    made = parse_topology(TEXT)
    assert [m.id.value for m in made] == [0, 1, 2, 3]
    assert [m.local_id for m in made.of_process(1)] == [LocalDeviceId(0), LocalDeviceId(1)]
    near, far = made.link(GlobalDeviceId(0), GlobalDeviceId(1)), made.link(*two(1, 2))
    assert near is not None
    assert far is not None
    assert (near.bandwidth_bytes_per_s, far.bandwidth_bytes_per_s) == (450e9, 50e9)
    assert parse_topology(show_topology(made)) == made


def two(a: int, b: int) -> tuple[GlobalDeviceId, GlobalDeviceId]:
    return GlobalDeviceId(a), GlobalDeviceId(b)


def test_devices_alike_have_no_links() -> None:
    made = alike(known_device("sim"), 3)
    assert len(made) == 3
    assert made.link(*two(0, 2)) is None
    assert parse_topology(show_topology(made)) == made


def test_file_beside_the_topology(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nkind = "cpu"\n[compute]\nunits = 1\nclock_hz = 1e9\nvector_bytes = 16\n'
        'vector_registers = 16\n[[memory_spaces]]\nid = 0\nname = "main"\nsize_bytes = 1000\n'
        "bandwidth_bytes_per_s = 1e9\n"
    )
    file = tmp_path / "all.toml"
    file.write_text('[[groups]]\ndevice = "mine.toml"\ncount = 2\n')
    made = load_topology(file)
    assert [m.device.name for m in made] == ["mine", "mine"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no devices"),
        ('[[groups]]\ndevice = "h1000"\n', "h1000"),
        ('[groups]\ndevice = "h100"\n', "no list"),
        (TEXT.replace("[0, 1]", "[0, 4]", 1), "no device 4"),
        (TEXT.replace("switch", "swich"), "'swich'"),
        (TEXT + "[other]\n", "'other'"),
    ],
)
def test_wrong_topology_is_named(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_topology(text)
    assert words in str(caught.value)


def test_a_topology_is_named_or_a_file_or_one_device(tmp_path):
    assert len(topology_named("two-gpus")) == len(topology_named("two-gpus.toml")) == 2
    assert [m.device.name for m in topology_named("sim")] == ["sim"]
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\n[[groups]]\ndevice = "sim"\ncount = 3\n')
    assert len(topology_named(str(file))) == 3
    file.write_text(show_device(known_device("h200")))
    assert [m.device.name for m in topology_named(str(file))] == ["h200"]
    for name in topology_names():
        assert parse_topology(topology_named(name).text) == topology_named(name)
    with pytest.raises(UsageError, match="no device or topology 'two-gpu' is known"):
        topology_named("two-gpu")
    with pytest.raises(UsageError, match="cannot read"):
        topology_named(str(tmp_path / "none.toml"))
