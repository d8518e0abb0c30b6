"""A call that cannot begin on one of its devices changes nothing: what is donated comes back."""

import ctypes

import numpy as np
import pytest

from hloom.compiler import compile_module
from hloom.ir.text import parse_module
from hloom.runtime.deployment import Deployment
from hloom.runtime.library import library
from hloom.runtime.saved_executable import executable_to_bytes
from tests.fuzz.check_saved import without_compiler
from tests.plugin.pjrt_table import Failed, Table, offsets, size

ROWS, COLUMNS = 512, 1024
BYTES = ROWS * COLUMNS * 4
TEXT = f"""HloModule donating, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}
ENTRY e {{
  p = f32[{ROWS},{COLUMNS}] parameter(0)
  q = f32[{ROWS},{COLUMNS}] parameter(1)
  a = f32[{ROWS},{COLUMNS}] add(p, q)
  b = f32[{ROWS},{COLUMNS}] multiply(a, q)
  ROOT r = (f32[{ROWS},{COLUMNS}], f32[{ROWS},{COLUMNS}]) tuple(a, b)
}}
"""


class Devices:
    """Some devices, with a program on all of them that keeps its first argument's memory."""

    def __init__(self, count):
        self.table, self.count = Table(), count
        raw, options = self.table.options(cpu_device_count=count, asynchronous=False)
        made = self.table.call("Client_Create", create_options=raw, num_options=options)
        self.client = made("client")
        listed = self.table.call("Client_AddressableDevices", client=self.client)
        self.devices = (ctypes.c_uint64 * count).from_address(listed("addressable_devices"))
        program = compile_module(parse_module(TEXT)).program
        where = Deployment("donating", frozenset({0}), count, devices=tuple(range(count)))
        data = executable_to_bytes(program, where, b"", b"")
        with without_compiler():
            made = self.table.call(
                "Executable_DeserializeAndLoad",
                client=self.client,
                serialized_executable=data,
                serialized_executable_size=len(data),
            )
        self.executable = made("loaded_executable")

    def pointers(self, *values):
        made = (ctypes.c_uint64 * len(values))(*values)
        self.table.held.append(made)
        return made

    def layout(self, *minor_to_major):
        tiled, layout = "PJRT_Buffer_MemoryLayout_Tiled", "PJRT_Buffer_MemoryLayout"
        raw = (ctypes.c_char * size(layout))()
        words = ctypes.c_uint64.from_buffer
        words(raw).value = size(layout)
        words(raw, 16).value = size(tiled)
        order = self.pointers(*minor_to_major)
        words(raw, 16 + offsets(tiled)["minor_to_major"]).value = ctypes.addressof(order)
        words(raw, 16 + offsets(tiled)["minor_to_major_size"]).value = len(minor_to_major)
        return raw

    def buffer(self, array, device, **more):
        made = self.table.call(
            "Client_BufferFromHostBuffer",
            client=self.client,
            data=array.ctypes.data,
            type=11,
            dims=self.pointers(*array.shape),
            num_dims=array.ndim,
            host_buffer_semantics=0,
            device=self.devices[device],
            **more,
        )
        return made("buffer")

    def array(self, buffer):
        """What is in a buffer; `Failed` if it was donated."""
        found = np.zeros((ROWS, COLUMNS), np.float32)
        event = self.table.call(
            "Buffer_ToHostBuffer",
            src=buffer,
            dst=found.ctypes.data,
            dst_size=found.nbytes,
            host_layout=self.layout(1, 0),
        )
        self.table.call("Event_Await", event=event("event"))
        self.table.call("Event_Destroy", event=event("event"))
        return found

    def run(self, arguments):
        """The results of each device for arguments of each."""
        outputs = [self.pointers(0, 0) for _ in arguments]
        options = (ctypes.c_char * 256)()
        ctypes.c_size_t.from_buffer(options).value = 80
        lists = self.pointers(*[ctypes.addressof(self.pointers(*each)) for each in arguments])
        self.table.call(
            "LoadedExecutable_Execute",
            executable=self.executable,
            options=options,
            argument_lists=lists,
            num_devices=len(arguments),
            num_args=2,
            output_lists=self.pointers(*map(ctypes.addressof, outputs)),
        )
        return outputs

    def free(self, *buffers):
        for buffer in buffers:
            self.table.call("Buffer_Destroy", buffer=buffer)


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
