"""No native object stays behind: buffers, storage, events, executables, programs, errors, memory.

What is made is counted in C++ (`hl_pjrt_live_objects`); each cycle ends with as many as before it.
"""

import ctypes
import gc
import time

import numpy as np
import pytest

from hloom.runtime.library import library
from tests.plugin.donating_devices import BYTES, COLUMNS, ROWS, Devices
from tests.plugin.pjrt_table import Failed

KINDS = ("buffers", "storage", "events", "loaded executables", "executables", "programs", "errors")
ARRAY = np.random.default_rng(0).random((ROWS, COLUMNS), np.float32)
CYCLES = 5


@pytest.fixture(autouse=True)
def little_to_look_through():
    """What stands before a test is no garbage: looking through all that thousands of tests left
    took a minute in each."""
    gc.freeze()


def living():
    """How many objects there are of each kind, and blocks of memory."""
    gc.collect()
    counts, numbers = (ctypes.c_int64 * len(KINDS))(), (ctypes.c_int64 * 8)()
    assert library().hl_pjrt_live_objects(counts, len(KINDS)) == len(KINDS)
    library().hl_arena_statistics(None, numbers)
    return {**dict(zip(KINDS, counts)), "bytes": numbers[0], "blocks": numbers[3]}


def at_rest():
    """How many there are when the threads of devices have let go of their last run."""
    now = living()
    while True:
        time.sleep(0.05)
        before, now = now, living()
        if now == before:
            return now


def settled(before):
    """The same, once the threads of devices have let go of their last run."""
    ends = time.monotonic() + 60
    while (after := living()) != before and time.monotonic() < ends:
        time.sleep(0.001)
    return after


def given(devices, **more):
    return [[devices.buffer(ARRAY, d, **more) for _ in range(2)] for d in range(devices.count)]


def run_and_read(devices):
    arguments = given(devices)
    outputs = devices.run(arguments)
    for first, _ in outputs:
        assert np.array_equal(devices.array(first), ARRAY + ARRAY)
    devices.free(*[b for each in (*arguments, *outputs) for b in each])


def other_layout(devices):
    arguments = given(devices, device_layout=devices.layout(0, 1))
    outputs = devices.run(arguments)
    devices.array(arguments[0][1])
    devices.free(*[b for each in (*arguments, *outputs) for b in each])


def delete_and_donate_twice(devices):
    arguments = given(devices)
    outputs = devices.run(arguments)
    with pytest.raises(Failed, match="deleted or donated"):
        devices.run(arguments)
    devices.table.call("Buffer_Delete", buffer=arguments[0][1])
    with pytest.raises(Failed, match="deleted or donated"):
        devices.array(arguments[0][1])
    devices.free(*[b for each in (*arguments, *outputs) for b in each])


def fail_on_the_last_device(devices):
    arguments = given(devices)
    devices.table.call("Buffer_Delete", buffer=arguments[-1][1])
    with pytest.raises(Failed, match="deleted or donated"):
        devices.run(arguments)
    devices.free(*[b for each in arguments for b in each])


def run_out_of_memory(devices):
    arguments = given(devices)
    numbers = (ctypes.c_int64 * 8)()
    native = library()
    native.hl_arena_trim(None, 0)
    native.hl_arena_statistics(None, numbers)
    before = numbers[6]
    room = BYTES * (devices.count - 1) + BYTES // 2
    native.hl_arena_set_limits(None, numbers[0] + room, -1)
    try:
        with pytest.raises(Failed, match="no memory"):
            outputs = devices.run(arguments)
            devices.wait(outputs)
            outcomes = [b for each in outputs for b in each]
            try:
                for buffer in outcomes:
                    devices.array(buffer)
            finally:
                devices.free(*outcomes)
    finally:
        native.hl_arena_set_limits(None, before, -1)
    devices.free(*[b for each in arguments for b in each])


def error_buffer(devices):
    """A run whose argument failed: its results fail, and go."""
    made = devices.table.call(
        "Client_CreateErrorBuffer",
        client=devices.client,
        error_code=13,
        error_message=b"broken",
        error_message_size=6,
        shape_element_type=11,
        shape_dims=devices.pointers(ROWS, COLUMNS),
        shape_num_dims=2,
        memory=devices.memory(0),
    )
    arguments = given(devices)
    broken = made("buffer")
    outputs = devices.run([[arguments[0][0], broken], *arguments[1:]])
    with pytest.raises(Failed, match="broken"):
        devices.array(outputs[0][0])
    devices.wait(outputs)
    devices.free(broken, *[b for each in (*arguments, *outputs) for b in each])


def copies(devices):
    (buffer, other), *rest = given(devices)
    to = devices.table.call("Buffer_CopyToDevice", buffer=buffer, dst_device=devices.devices[-1])
    devices.array(to("dst_buffer"))
    devices.free(buffer, other, to("dst_buffer"), *[b for each in rest for b in each])


def views(devices):
    """Memory that somebody else looks at stays, and goes with the last look."""
    arguments = given(devices)
    buffer = arguments[0][0]
    for _ in range(2):
        devices.table.call("Buffer_IncreaseExternalReferenceCount", buffer=buffer)
    devices.table.call("Buffer_Delete", buffer=buffer)
    for _ in range(2):
        devices.table.call("Buffer_DecreaseExternalReferenceCount", buffer=buffer)
    devices.free(*[b for each in arguments for b in each])


def wrong_device(devices):
    """A program for more devices than there are is refused, and gone."""
    with pytest.raises(Failed, match="is compiled for device"):
        devices.load(devices.count + 1)


def load_and_drop(devices):
    for _ in range(2):
        devices.drop(devices.load(devices.count))


STEPS = (
    run_and_read,
    other_layout,
    delete_and_donate_twice,
    fail_on_the_last_device,
    run_out_of_memory,
    error_buffer,
    copies,
    views,
    wrong_device,
    load_and_drop,
)


@pytest.mark.parametrize("is_asynchronous", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_nothing_stays(count, is_asynchronous):
    devices = Devices(count, is_asynchronous)
    run_and_read(devices)
    for step in STEPS:
        before = at_rest()
        for _ in range(CYCLES):
            step(devices)
        assert settled(before) == before, step.__name__
    began = at_rest()
    devices.drop(devices.executable)
    assert living()["programs"] == began["programs"] - 1
    assert living()["loaded executables"] == began["loaded executables"] - 1


def test_the_count_sees_a_buffer():
    devices = Devices(1)
    before = at_rest()
    buffer = devices.buffer(ARRAY, 0)
    after = living()
    assert {k for k in after if after[k] != before[k]} == {"buffers", "storage", "bytes", "blocks"}
    devices.free(buffer)
    assert living() == before
