"""Which device runs each replica and partition: as it is written, and what it changes."""

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError
from hloom.device.assignment import DeviceAssignment
from hloom.device.ids import GlobalDeviceId
from hloom.device.topology import parse_topology

RING = """HloModule m, replica_count=2, num_partitions=2
ENTRY e { x = f32[1024] parameter(0)
  p = u32[] partition-id()
  r = f32[1024] collective-permute(x), source_target_pairs={{0,1}}, channel_id=1
  ROOT t = (f32[1024], u32[]) tuple(r, p) }"""
UNEVEN = """
name = "uneven"
[[groups]]
device = "sim"
count = 4
[[links]]
devices = [0, 1]
bandwidth_bytes_per_s = 1e9
[[links]]
devices = [2, 3]
bandwidth_bytes_per_s = 1e9
[[links]]
devices = [0, 1, 2, 3]
bandwidth_bytes_per_s = 1e7
"""


@pytest.mark.parametrize("text", ["{{0,2},{1,3}}", "{ {0, 2}, {1, 3} }", "{{3}}", "{{5,1,0}}"])
def test_it_reads_back(text):
    found = DeviceAssignment.parsed(text)
    assert found.text == text.replace(" ", "")
    assert DeviceAssignment.parsed(found.text) == found
    assert DeviceAssignment.parsed(" 3, 1 ") == DeviceAssignment.parsed("{{3,1}}")
    assert DeviceAssignment.natural(2, 2).text == "{{0,1},{2,3}}"


@pytest.mark.parametrize(
    "text", ["", "{}", "{{}}", "{{0,}}", "{{0},{x}}", "0;1", "{{-1}}", "1 2", "{0,1}"]
)
def test_what_is_no_assignment(text):
    with pytest.raises(UsageError, match="is no device assignment"):
        DeviceAssignment.parsed(text)


def test_what_a_program_cannot_be_assigned_to():
    exe = hloom.compile(RING)
    for text, message in (
        ("{{0,1,2,3}}", "is not for 2 replicas of 2 partitions"),
        ("{{0,1},{2,0}}", "names a device twice"),
    ):
        with pytest.raises(UsageError, match=message):
            exe.device_assignment = text
    sim = hloom.compile(RING, target="sim:four-sims")
    with pytest.raises(UsageError, match="names device 7 of 4"):
        sim.device_assignment = "{{0,1},{2,7}}"


def test_it_says_which_devices_and_links_are_used(tmp_path):
    path = tmp_path / "uneven.toml"
    path.write_text(UNEVEN)
    assert len(parse_topology(UNEVEN)) == 4
    given = [[np.full(1024, d, np.float32)] for d in range(4)]
    times = {}
    for target in ("cpu", f"sim:{path}"):
        exe = hloom.compile(RING, target=target)
        assert exe.devices == tuple(map(GlobalDeviceId, range(4)))
        for text in ("{{0,1},{2,3}}", "{{0,2},{1,3}}"):
            exe.device_assignment = text
            results = exe.run_devices(given)
            assert [float(np.asarray(r)[0]) for r, _ in results] == [0, 0, 0, 2]
            assert [int(np.asarray(p)) for _, p in results] == [0, 1, 0, 1]
            if target != "cpu":
                times[text] = exe.simulate(given)[1].total_ns
        assert [id.value for id in exe.devices] == [0, 2, 1, 3]
    assert times["{{0,2},{1,3}}"] > 20 * times["{{0,1},{2,3}}"]
