"""Buffers as any host of PJRT makes and fills them: layouts, bytes that come later, aliases."""

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.plugin.pjrt_table import Failed, Table, offsets, size

F32 = 11
CANCELLED, DATA_LOSS = 1, 15
UNION_AT = 16
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def table():
    return Table()


@pytest.fixture
def client(table):
    raw, count = table.options(cpu_device_count=2)
    return table.call("Client_Create", create_options=raw, num_options=count)("client")


def struct(table, name, **fields):
    """A struct of the ABI with these fields."""
    raw = (ctypes.c_char * size(name))()
    ctypes.c_size_t.from_buffer(raw).value = size(name)
    for field, value in fields.items():
        if isinstance(value, ctypes.Array):
            table.held.append(value)
            value = ctypes.addressof(value)
        ctypes.c_uint64.from_buffer(raw, offsets(name)[field]).value = value
    table.held.append(raw)
    return raw


def longs(*values):
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def memory_layout(table, number, inner):
    """A PJRT_Buffer_MemoryLayout: a number says which struct its union holds."""
    name = "PJRT_Buffer_MemoryLayout"
    raw = struct(table, name)
    ctypes.memmove(ctypes.addressof(raw) + UNION_AT, inner, len(inner))
    ctypes.c_int32.from_buffer(raw, offsets(name)["type"]).value = number
    return raw


def tiled(table, *order):
    """A layout by the order of dimensions, the one that varies fastest first."""
    name = "PJRT_Buffer_MemoryLayout_Tiled"
    fields = {"minor_to_major": longs(*order), "minor_to_major_size": len(order)}
    return memory_layout(table, 0, struct(table, name, **fields))


def strided(table, *strides):
    """A layout by bytes from one element to the next."""
    name = "PJRT_Buffer_MemoryLayout_Strides"
    fields = {"byte_strides": longs(*strides), "num_byte_strides": len(strides)}
    return memory_layout(table, 1, struct(table, name, **fields))


def put(table, client, x, layout: Any = 0, **more):
    return table.call(
        "Client_BufferFromHostBuffer",
        client=client,
        data=x.ctypes.data,
        type=F32,
        dims=longs(*x.shape),
        num_dims=x.ndim,
        byte_strides=longs(*x.strides),
        num_byte_strides=x.ndim,
        device_layout=layout,
        **more,
    )("buffer")


def waited(table, event):
    table.call("Event_Await", event=event)
    table.call("Event_Destroy", event=event)


def host(table, buffer, shape: tuple[int, ...] = X.shape, layout: Any = 0):
    """The elements, in memory of this layout; of none: as they lie in the buffer."""
    out = np.zeros(shape, np.float32)
    told = table.call(
        "Buffer_ToHostBuffer",
        src=buffer,
        dst=out.ctypes.data,
        dst_size=out.nbytes,
        host_layout=layout,
    )
    waited(table, told("event"))
    return out


# -- layouts


def test_arrays_are_held_in_the_layout_asked_for(table, client):
    buffer = put(table, client, X, tiled(table, 0, 1))
    assert np.array_equal(host(table, buffer, (4, 3)), X.T)
    assert np.array_equal(host(table, buffer, X.shape, tiled(table, 1, 0)), X)
    assert np.array_equal(host(table, buffer, X.shape, strided(table, 16, 4)), X)
    assert np.array_equal(host(table, put(table, client, X.T), (4, 3)), X.T)
    shared = placed(X, 0)
    turned = put(table, client, shared.T, tiled(table, 0, 1), host_buffer_semantics=2)
    assert address(table, turned) == shared.ctypes.data
    assert np.array_equal(host(table, turned), X)


def placed(x, offset):
    """A copy of an array at so many bytes from a multiple of 64."""
    memory = np.zeros(x.nbytes + 128, np.uint8)
    at = -memory.ctypes.data % 64 + offset
    made = memory[at : at + x.nbytes].view(x.dtype).reshape(x.shape)
    made[...] = x
    return made


def address(table, buffer):
    return table.call("Buffer_UnsafePointer", buffer=buffer)("buffer_pointer", ctypes.c_uint64)


def test_layouts_that_leave_gaps_or_repeat_are_refused(table, client):
    for layout in (tiled(table, 0, 0), tiled(table, 1), strided(table, 16, 8), strided(table, 4)):
        with pytest.raises(Failed, match=r"a buffer's layout .* \[layout\]"):
            put(table, client, X, layout)


def test_views_of_foreign_memory_keep_their_layout(table, client):
    x = np.zeros(32, np.float32)
    x = x[-x.ctypes.data // 4 % 4 :][:12].reshape(4, 3)
    x[:] = X.T
    view = table.call(
        "Client_CreateViewOfDeviceBuffer",
        client=client,
        device_buffer_ptr=x.ctypes.data,
        dims=longs(3, 4),
        num_dims=2,
        element_type=F32,
        layout=strided(table, 4, 12),
    )("buffer")
    pointer = table.call("Buffer_UnsafePointer", buffer=view)("buffer_pointer")
    assert pointer == x.ctypes.data
    assert np.array_equal(host(table, view, X.shape, tiled(table, 1, 0)), X)


# -- bytes that come piece by piece


def manager(table, client, *shapes, layouts=()):
    specs = [
        struct(table, "PJRT_ShapeSpec", dims=longs(*s), num_dims=len(s), element_type=F32)
        for s in shapes
    ]
    width = size("PJRT_ShapeSpec")
    raw = (ctypes.c_char * (width * len(specs)))(*b"".join(bytes(s) for s in specs))
    return table.call(
        "Client_CreateBuffersForAsyncHostToDevice",
        client=client,
        shape_specs=raw,
        num_shape_specs=len(specs),
        device_layouts=(ctypes.c_uint64 * max(len(layouts), 1))(*map(ctypes.addressof, layouts)),
        num_device_layouts=len(layouts),
    )("transfer_manager")


def step(table, name, made, **fields):
    name = f"AsyncHostToDeviceTransferManager_{name}"
    return table.call(name, transfer_manager=made, **fields)


def is_ready(table, buffer):
    event = table.call("Buffer_ReadyEvent", buffer=buffer)("event")
    ready = table.call("Event_IsReady", event=event)("is_ready", ctypes.c_bool)
    table.call("Event_Destroy", event=event)
    return ready


def test_buffers_are_filled_piece_by_piece(table, client):
    made = manager(table, client, (3, 4), (2,))
    assert step(table, "BufferCount", made)("buffer_count") == 2
    assert step(table, "BufferSize", made, buffer_index=1)("buffer_size") == 8
    assert step(table, "Device", made)("device_out")
    step(table, "AddMetadata", made)
    buffer = step(table, "RetrieveBuffer", made, buffer_index=0)("buffer_out")
    for begin, end in ((16, 48), (0, 16)):
        assert not is_ready(table, buffer)
        done = step(
            table,
            "TransferData",
            made,
            buffer_index=0,
            data=X.ctypes.data + begin,
            offset=begin,
            transfer_size=end - begin,
            is_last_transfer=begin == 0,
        )
        waited(table, done("done_with_h2d_transfer"))
    assert is_ready(table, buffer)
    assert np.array_equal(host(table, buffer), X)
    with pytest.raises(Failed, match="has its last bytes already"):
        step(table, "TransferData", made, buffer_index=0, data=X.ctypes.data, transfer_size=4)
    with pytest.raises(Failed, match="bytes 4 to 12 of a buffer of 8"):
        step(
            table,
            "TransferData",
            made,
            buffer_index=1,
            data=X.ctypes.data,
            offset=4,
            transfer_size=8,
        )
    with pytest.raises(Failed, match="was given out before"):
        step(table, "RetrieveBuffer", made, buffer_index=0)
    with pytest.raises(Failed, match="no buffer 2 of this transfer: there are 2"):
        step(table, "RetrieveBuffer", made, buffer_index=2)
    late = step(table, "RetrieveBuffer", made, buffer_index=1)("buffer_out")
    step(table, "Destroy", made)
    with pytest.raises(Failed, match="ended before all bytes were there"):
        host(table, late, (2,))


def test_literals_are_transferred_in_any_layout(table, client):
    made = manager(table, client, (3, 4), layouts=[tiled(table, 0, 1)])
    given = {"shape_num_dims": 2, "shape_element_type": F32, "data": X.ctypes.data}
    with pytest.raises(Failed, match="another type or other sizes"):
        step(table, "TransferLiteral", made, shape_dims=longs(4, 3), **given)
    done = step(table, "TransferLiteral", made, shape_dims=longs(3, 4), **given)
    waited(table, done("done_with_h2d_transfer"))
    buffer = step(table, "RetrieveBuffer", made, buffer_index=0)("buffer_out")
    step(table, "Destroy", made)
    assert np.array_equal(host(table, buffer, (4, 3)), X.T)


def test_buffers_can_be_errors(table, client):
    made = manager(table, client, (3, 4))
    buffer = step(table, "RetrieveBuffer", made, buffer_index=0)("buffer_out")
    words = b"the disk is gone"
    step(
        table,
        "SetBufferError",
        made,
        error_code=DATA_LOSS,
        error_message=words,
        error_message_size=len(words),
    )
    with pytest.raises(Failed, match="the disk is gone"):
        host(table, buffer)
    step(table, "Destroy", made)


# -- buffers that stand for others


def alias(table, client, shape=X.shape):
    made = table.call(
        "Client_CreateAliasBuffer",
        client=client,
        shape_dims=longs(*shape),
        shape_num_dims=len(shape),
        shape_element_type=F32,
    )
    return made("alias_buffer"), made("fulfill_alias_buffer_cb")


def test_aliases_become_other_buffers(table, client):
    buffer, callback = alias(table, client)
    assert not is_ready(table, buffer)
    with pytest.raises(Failed, match="an alias of 48 bytes cannot become a buffer of 32"):
        small = put(table, client, np.zeros(8, np.float32))
        table.call(
            "Client_FulfillAliasBuffer",
            client=client,
            buffer=small,
            fulfill_alias_buffer_cb=callback,
        )
    real = put(table, client, X)
    table.call(
        "Client_FulfillAliasBuffer", client=client, buffer=real, fulfill_alias_buffer_cb=callback
    )
    places = [
        table.call("Buffer_UnsafePointer", buffer=b)("buffer_pointer") for b in (real, buffer)
    ]
    assert places[0] == places[1]
    table.call("Buffer_Destroy", buffer=real)
    assert np.array_equal(host(table, buffer), X)
    table.call("Buffer_Destroy", buffer=buffer)


def test_aliases_become_errors(table, client):
    buffer, callback = alias(table, client)
    table.call(
        "Client_FulfillAliasBuffer",
        client=client,
        status_code=DATA_LOSS,
        error_message=b"nothing came",
        error_message_size=12,
        fulfill_alias_buffer_cb=callback,
    )
    with pytest.raises(Failed, match="nothing came"):
        host(table, buffer)


def called(table, told, field, name, **fields):
    """Call the function that an answer gave, with its data."""
    raw = struct(table, name, callback_data=told("callback_data"), **fields)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(told(field))(ctypes.addressof(raw))


@pytest.mark.parametrize("code", [0, CANCELLED])
def test_donated_buffers_wait_for_what_they_depend_on(table, client, code):
    buffer = put(table, client, X)
    told = table.call("Buffer_DonateWithControlDependency", buffer=buffer)
    later = told("out_buffer")
    assert table.call("Buffer_IsDeleted", buffer=buffer)("is_deleted", ctypes.c_bool)
    assert not is_ready(table, later)
    name = "PJRT_Buffer_DonateWithControlDependency_Callback_Args"
    words = ctypes.create_string_buffer(b"stopped")
    called(
        table,
        told,
        "dependency_ready_callback",
        name,
        error_code=code,
        error_message=words,
        error_message_size=7,
    )
    if code:
        with pytest.raises(Failed, match="stopped"):
            host(table, later)
    else:
        assert np.array_equal(host(table, later), X)
    with pytest.raises(Failed, match="deleted or donated"):
        table.call("Buffer_DonateWithControlDependency", buffer=buffer)


@pytest.mark.parametrize("code", [0, CANCELLED])
def test_bytes_are_copied_when_it_is_known_where_to(table, client, code):
    buffer = put(table, client, X)
    with pytest.raises(Failed, match="bytes 40 to 56 of a buffer of 48"):
        table.call("Buffer_CopyRawToHostFuture", buffer=buffer, offset=40, transfer_size=16)
    told = table.call("Buffer_CopyRawToHostFuture", buffer=buffer, offset=8, transfer_size=16)
    event = told("event")
    assert not table.call("Event_IsReady", event=event)("is_ready", ctypes.c_bool)
    table.call("Buffer_Destroy", buffer=buffer)
    out = np.zeros(4, np.float32)
    name = "PJRT_Buffer_CopyRawToHostFuture_Callback_Args"
    called(table, told, "future_ready_callback", name, error_code=code, dst=out.ctypes.data)
    if code:
        with pytest.raises(Failed):
            table.call("Event_Await", event=event)
    else:
        waited(table, event)
        assert out.tolist() == [2, 3, 4, 5]


# -- devices


def test_devices_forget_their_peak(table, client):
    devices = table.call("Client_AddressableDevices", client=client)("addressable_devices")
    device = ctypes.c_uint64.from_address(devices).value

    def peak():
        told = table.call("Device_MemoryStats", device=device)
        return told("peak_bytes_in_use"), told("bytes_in_use")

    table.call("Buffer_Destroy", buffer=put(table, client, np.zeros(1 << 20, np.float32)))
    highest, in_use = peak()
    assert highest >= in_use + (4 << 20)
    table.call("Device_ClearMemoryStats", device=device)
    assert peak()[0] < highest


def test_devices_track_what_is_awaited(table, client):
    devices = table.call("Client_AddressableDevices", client=client)("addressable_devices")
    device = ctypes.c_uint64.from_address(devices).value
    event = table.call(
        "Device_CreateAsyncTrackingEvent", device=device, description=b"a step", description_size=6
    )("event")
    assert event
    table.call("AsyncTrackingEvent_Destroy", event=event)
