"""Descriptions of machines: text both ways, what is refused, known machines, the one at hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from hloom.base.diagnostics import ParseError, UsageError
from hloom.device.costs import Costs
from hloom.device.device import Device
from hloom.device.ids import GlobalDeviceId, LocalDeviceId, global_number
from hloom.device.known import device_named, known_device, known_names
from hloom.device.probe import probed_caches, probed_cpu
from hloom.device.text import parse_device, show_device

SMALL = """
name = "small"
kind = "cpu"
[compute]
units = 2
clock_hz = 1e9
vector_bytes = 16
vector_registers = 16
[compute.operations_per_cycle]
f32 = 8
[[caches]]
level = 1
size_bytes = 32768
[[memory_spaces]]
id = 0
name = "main"
size_bytes = 1000000
bandwidth_bytes_per_s = 1e9
[[engines]]
name = "copier"
kind = "copy"
copies = [[0, 0]]
"""


@pytest.mark.parametrize("name", known_names())
def test_known_machine_reads_back(name: str) -> None:
    device = known_device(name)
    assert device.name == name
    assert device.sources, "every number has a source"
    assert parse_device(show_device(device)) == device
    assert hash(parse_device(show_device(device))) == hash(device)


@pytest.mark.parametrize(
    ("name", "dtype", "tera"),
    [("h100", "bf16", 989.4), ("b200", "f4e2m1fn", 9000), ("h200", "s8", 1979)],
)
def test_peak_rate_is_that_of_the_data_sheet(name: str, dtype: str, tera: float) -> None:
    rate = known_device(name).compute.operations_per_s(dtype, matrix=True)
    assert rate == pytest.approx(tera * 1e12, rel=0.01)


def test_rate_of_an_unknown_type_is_unknown() -> None:
    assert known_device("h100").compute.operations_per_s("s4") is None


def test_costs_can_be_set_in_the_file() -> None:
    device = parse_device(SMALL + "[costs]\nkernel_ns = 7\n")
    assert device.costs == replace(Costs(), kernel_ns=7.0)
    assert parse_device(show_device(device)) == device


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kind = "cpu"', 'kind = "tpu"', "kind 'tpu'"),
        ("units = 2", "units = 0", "0 units"),
        ("units = 2", "", "lacks 'units'"),
        ("units = 2", 'units = "two"', "units of compute"),
        ("units = 2", "units = -2", "-2"),
        ("units = 2", "units = true", "True"),
        ("clock_hz", "clock", "no 'clock'"),
        ("id = 0", "id = 1", "memory spaces [1]"),
        ("copies = [[0, 0]]", "copies = [[0, 5]]", "[0, 5]"),
        ('kind = "copy"', 'kind = "mover"', "'mover'"),
        ("[[caches]]", "[caches]", "no list"),
        ("f32 = 8", 'f32 = "fast"', "'fast'"),
        ("size_bytes = 1000000", "size_bytes = 1000000\nalignment_bytes = 48", "48 bytes"),
    ],
)
def test_wrong_description_is_named(old: str, new: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_device(SMALL.replace(old, new, 1), "small.toml")
    assert words in str(caught.value)
    assert caught.value.rule == "device"


def test_text_that_is_no_toml_has_a_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse_device('name = "x"\nkind = = 3\n', "bad.toml")
    place = caught.value.location
    assert place is not None
    assert (place.file, place.line, place.column) == ("bad.toml", 2, 8)


def test_text_that_ends_early_has_a_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse_device('name = "x"\nkinds = [1,', "bad.toml")
    assert caught.value.location is not None
    assert caught.value.location.line == 2


def test_device_by_name_or_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SMALL)
    assert device_named(str(file)).name == "small"
    with pytest.raises(UsageError, match="h100"):
        device_named("h10O")
    with pytest.raises(UsageError, match="cannot read"):
        device_named(str(tmp_path / "absent.toml"))


def test_memory_space_by_id() -> None:
    device = known_device("sim")
    assert device.memory_space(1).name == "fast"
    with pytest.raises(UsageError, match=r"no memory space S\(7\).*\n?.*S\(1\) fast"):
        device.memory_space(7)


def test_ids_do_not_mix() -> None:
    assert LocalDeviceId(1) != GlobalDeviceId(1)
    assert sorted([GlobalDeviceId(2), GlobalDeviceId(1)])[0] == GlobalDeviceId(1)
    with pytest.raises(TypeError):
        LocalDeviceId(1) < GlobalDeviceId(2)  # type: ignore[operator]  # noqa: B015
    for device_id, other in ((GlobalDeviceId, LocalDeviceId), (LocalDeviceId, GlobalDeviceId)):
        with pytest.raises(TypeError, match="a device has a whole number"):
            device_id(other(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is no GlobalDeviceId"):
        global_number(LocalDeviceId(1))  # type: ignore[arg-type]
    assert GlobalDeviceId(1) != 1


def _cache(root: Path, index: int, **words: str) -> None:
    folder = root / f"sys/devices/system/cpu/cpu0/cache/index{index}"
    folder.mkdir(parents=True)
    for name, text in words.items():
        (folder / name).write_text(text + "\n")


def test_probe_reads_what_the_system_tells(tmp_path: Path) -> None:
    line = {"coherency_line_size": "64"}
    _cache(tmp_path, 0, level="1", type="Data", size="48K", shared_cpu_list="0,8", **line)
    _cache(tmp_path, 1, level="1", type="Instruction", size="32K", shared_cpu_list="0", **line)
    _cache(tmp_path, 2, level="2", type="Unified", size="2M", shared_cpu_list="0,8", **line)
    _cache(tmp_path, 3, level="3", type="Unified", size="0K", shared_cpu_list="0-15", **line)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       1024 kB\n")
    device = probed_cpu(16, 32, 16, root=tmp_path)
    assert [(c.level, c.size_bytes, c.units) for c in device.caches] == [
        (1, 48 << 10, 2),
        (2, 2 << 20, 2),
    ]
    assert device.memory_space(0).size_bytes == 1 << 20
    assert dict(device.compute.operations_per_cycle) == {"f32": 32.0, "f64": 16.0}


def test_probe_where_the_system_tells_nothing(tmp_path: Path) -> None:
    assert probed_caches(tmp_path, 1) == ()
    device = probed_cpu(1, 16, 16, root=tmp_path)
    assert device.cache(2) is not None
    assert parse_device(show_device(device)) == device


def test_this_machine_reads_back() -> None:
    device: Device = probed_cpu(2, 64, 32)
    assert parse_device(show_device(device)) == device
