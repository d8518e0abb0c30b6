"""Runs with options: threads, data for handlers, one device of several at a time."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hloom
from hloom.api import UsageError, is_handled
from hloom.device.assignment import DeviceAssignment
from hloom.device.ids import GlobalDeviceId, LocalDeviceId
from hloom.runtime import ffi

WHO = """HloModule who, replica_count=2, num_partitions=2
ENTRY e {
  x = f32[3] parameter(0)
  r = u32[] replica-id()
  p = u32[] partition-id()
  s = f32[3] all-reduce(x), replica_groups={{0,1},{2,3}}, use_global_device_ids=true, channel_id=1,
    to_apply=sum
  ROOT t = (u32[], u32[], f32[3]) tuple(r, p, s)
}"""
SUM = "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
WHO = WHO.replace("ENTRY", SUM + "ENTRY")
CALLS = """HloModule calls
ENTRY e {
  x = f32[4] parameter(0)
  ROOT y = f32[4] custom-call(x), custom_call_target="looks_at_options",
    api_version=API_VERSION_TYPED_FFI
}"""
TYPE = 77
SEEN: list[tuple[int, int, int]] = []


def looks(call: ffi.Call) -> None:
    SEEN.append((call.user_data(TYPE), call.device, call.threads))
    call.results[0][...] = call.arguments[0] * 2


@pytest.fixture(scope="module", params=["compiled", "saved"])
def who(request, tmp_path_factory):
    """The program for four devices, as it was compiled and as it was loaded from a file."""
    executable = hloom.compile(WHO, threads=1)
    if request.param == "compiled":
        return executable
    path = tmp_path_factory.mktemp("saved") / "who.hloom"
    executable.save(path)
    return hloom.load_compiled(path, threads=1)


def on_all(executable, ids, launch_id=0):
    """What each device returns, each run in a thread of its own; device d has the values d."""

    def run(device):
        options = hloom.ExecuteOptions(device=device, launch_id=launch_id)
        return executable.run_with(options, np.full(3, device, np.float32))

    with ThreadPoolExecutor(len(ids)) as pool:
        return dict(zip(ids, pool.map(run, ids)))


@pytest.mark.parametrize("text", ["{{0,1},{2,3}}", "{{3,1},{0,2}}", "{{10,7},{12,4}}"])
def test_devices_are_those_of_the_assignment(who, text):
    assignment = DeviceAssignment.parsed(text)
    who.device_assignment = assignment
    found = on_all(who, [d.value for d in assignment.flat])
    for r, row in enumerate(assignment.ids):
        total = sum(d.value for d in row)
        for p, device in enumerate(row):
            replica, partition, summed = found[device.value]
            assert (int(np.asarray(replica)), int(np.asarray(partition))) == (r, p)
            assert (np.asarray(summed) == total).all()
    who.device_assignment = DeviceAssignment.natural(2, 2)


def test_launches_beside_each_other(who):
    """Four devices and three launches of two runs, in any order: nobody meets another's."""

    def run(job):
        launch, device = job
        options = hloom.ExecuteOptions(device=GlobalDeviceId(device), launch_id=launch)
        value = np.full(3, 10 * launch + device, np.float32)
        return [np.asarray(who.run_with(options, value)[2])[0] for _ in range(2)]

    jobs = [(launch, device) for device in range(4) for launch in range(3)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        found = dict(zip(jobs, pool.map(run, jobs)))
    for (launch, device), values in found.items():
        assert values == [20 * launch + (1 if device < 2 else 5)] * 2


def test_a_device_that_is_none_of_them(who):
    x = np.zeros(3, np.float32)
    with pytest.raises(UsageError, match="device 9 is not in the assignment"):
        who.run_with(hloom.ExecuteOptions(device=9), x)
    with pytest.raises(UsageError, match="is for 4 devices, and none is named"):
        who.run_with(hloom.ExecuteOptions(), x)


def test_handlers_find_what_a_run_is_given():
    if not is_handled("looks_at_options"):
        ffi.register("looks_at_options", looks)
    run = hloom.compile(CALLS, threads=1)
    data = ctypes.c_int64(5)
    x = np.arange(4, dtype=np.float32)
    given = hloom.ExecuteOptions(
        threads=3, user_data={TYPE: ctypes.addressof(data)}, local_device=LocalDeviceId(6)
    )
    SEEN.clear()
    for options in (given, hloom.ExecuteOptions()):
        assert (np.asarray(run.run_with(options, x)) == 2 * x).all()
    run(x)
    assert [(ctypes.addressof(data), 6, 3), (0, 0, 1), (0, 0, 1)] == SEEN


def test_more_threads_give_the_same_bits():
    text = (
        "HloModule m\nENTRY e { x = f32[700,700] parameter(0)\n ROOT d = f32[700,700] dot(x, x), "
    )
    text += "lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    run = hloom.compile(text, threads=1)
    x = np.random.default_rng(0).random((700, 700), np.float32)
    two = run.run_with(hloom.ExecuteOptions(threads=2), x)
    assert np.asarray(two).tobytes() == np.asarray(run(x)).tobytes()


def test_one_device_of_several_processes_is_refused(who):
    """`run_devices` runs what is in this process; a lone one would wait for it for ever."""
    who.processes = object()
    try:
        with pytest.raises(UsageError, match=r"spread over processes(.|\n)*run_devices"):
            who.run_with(hloom.ExecuteOptions(device=0), np.zeros(3, np.float32))
    finally:
        who.processes = None


def test_simulated_devices_refuse():
    run = hloom.compile("HloModule m\nENTRY e { ROOT x = f32[2] parameter(0) }", target="sim")
    with pytest.raises(UsageError, match="run all at once"):
        run.run_with(hloom.ExecuteOptions(), np.zeros(2, np.float32))
