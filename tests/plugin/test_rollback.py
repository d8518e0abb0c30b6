"""A call that cannot begin on one of its devices changes nothing: what is donated comes back."""

import ctypes

import numpy as np
import pytest

from hloom.runtime.library import library
from tests.plugin.donating_devices import BYTES, COLUMNS, ROWS, Devices
from tests.plugin.pjrt_table import Failed


def arena():
    """Bytes and blocks in use."""
    numbers = (ctypes.c_int64 * 8)()
    library().hl_arena_statistics(None, numbers)
    return numbers[0], numbers[3]


@pytest.fixture
def limited():
    """Sets how many bytes more the process may have in its arena."""
    numbers = (ctypes.c_int64 * 8)()
    native = library()
    native.hl_arena_statistics(None, numbers)

    def limit(more):
        native.hl_arena_trim(None, 0)
        native.hl_arena_set_limits(None, arena()[0] + more, -1)

    yield limit
    native.hl_arena_set_limits(None, numbers[6], -1)


P, Q = (np.random.default_rng(k).random((ROWS, COLUMNS), np.float32) for k in (1, 2))


@pytest.mark.parametrize("count", [1, 3])
def test_donated_buffers_stay_where_there_is_no_memory(limited, count):
    devices = Devices(count)
    before = arena()
    arguments = [[devices.buffer(x + d, d) for x in (P, Q)] for d in range(count)]
    began = arena()
    # Each device wants a result more; there is room for all but the last one's.
    limited(BYTES * (count - 1) + BYTES // 2)
    with pytest.raises(Failed, match="no memory for a"):
        devices.run(arguments)
    assert arena() == began
    for d, buffers in enumerate(arguments):
        for buffer, x in zip(buffers, (P, Q)):
            assert np.array_equal(devices.array(buffer), x + d)
    limited(1 << 30)
    outputs = devices.run(arguments)
    for d, (first, second) in enumerate(outputs):
        assert np.array_equal(devices.array(first), (P + d) + (Q + d))
        assert np.array_equal(devices.array(second), ((P + d) + (Q + d)) * (Q + d))
    for buffers in arguments:
        with pytest.raises(Failed, match="deleted or donated"):
            devices.array(buffers[0])
    devices.free(*[b for each in (*arguments, *outputs) for b in each])
    assert arena() == before


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_donated_buffers_stay_where_another_device_has_a_deleted_one(order):
    devices = Devices(2)
    before = arena()
    arguments = [
        [devices.buffer(x, d, device_layout=devices.layout(*order)) for x in (P, Q)]
        for d in range(2)
    ]
    devices.table.call("Buffer_Delete", buffer=arguments[1][1])
    with pytest.raises(Failed, match="argument 1 of donating: Buffer has been deleted"):
        devices.run(arguments)
    for d, k in ((0, 0), (0, 1), (1, 0)):
        assert np.array_equal(devices.array(arguments[d][k]), (P, Q)[k])
    devices.free(*[b for each in arguments for b in each])
    assert arena() == before
