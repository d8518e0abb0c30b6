"""What of the host's memory buffers share, and what hosts say of arrays that cannot be."""

import numpy as np
import pytest

from tests.plugin.pjrt_table import Failed, Table
from tests.plugin.test_buffers import F32, X, address, host, longs, placed, put


@pytest.fixture
def table():
    return Table()


@pytest.fixture
def client(table):
    raw, count = table.options(cpu_device_count=2)
    return table.call("Client_Create", create_options=raw, num_options=count)("client")


@pytest.mark.parametrize("offset", [0, 4, 8, 16, 32, 48, 60])
@pytest.mark.parametrize("semantics", [0, 1, 2, 3])
def test_memory_of_the_host_is_shared_from_64_bytes_on(table, client, offset, semantics):
    """Semantics 2 and 3 allow it; what is not shared is a copy, made before the call returns."""
    given = placed(X, offset)
    buffer = put(table, client, given, host_buffer_semantics=semantics)
    is_shared = offset == 0 and semantics >= 2
    assert (address(table, buffer) == given.ctypes.data) is is_shared
    given += 1
    assert np.array_equal(host(table, buffer), X + 1 if is_shared else X)
    assert address(table, buffer) % 16 == 0


def test_arrays_that_cannot_be_are_refused(table, client):
    def made(dims, kind=F32, **more):
        return table.call(
            "Client_BufferFromHostBuffer",
            client=client,
            data=X.ctypes.data,
            type=kind,
            dims=longs(*dims),
            num_dims=len(dims),
            **more,
        )("buffer")

    for dims in ((-1,), (2, -2), (1 << 40, 1 << 40), (1 << 62, 2), (0, 1 << 40, 1 << 40)):
        with pytest.raises(Failed, match=r"\[dimensions\]"):
            made(dims)
    for kind in (0, 32, 1000):
        with pytest.raises(Failed, match=r"\[dtype\]"):
            made((3,), kind)
    with pytest.raises(Failed, match=r"1 strides for an array of 2 dimensions \[strides\]"):
        made((3, 4), byte_strides=longs(4), num_byte_strides=1)
    whole = made((3, 4))
    for dims in ((1 << 62, 3), (-3, -4)):
        with pytest.raises(Failed, match=r"\[dimensions\]"):
            table.call(
                "Buffer_Bitcast",
                buffer=whole,
                element_type=F32,
                dims=longs(*dims),
                num_dims=len(dims),
            )
