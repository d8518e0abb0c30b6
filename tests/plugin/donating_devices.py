"""Some devices behind the table of the plugin, with a program on all of them, for tests."""

import contextlib
import ctypes

import numpy as np

from hloom.compiler import compile_module
from hloom.ir.text import parse_module
from hloom.runtime.launch_spec import LaunchSpec
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

    def __init__(self, count, is_asynchronous=False):
        self.table, self.count = Table(), count
        raw, options = self.table.options(cpu_device_count=count, asynchronous=is_asynchronous)
        made = self.table.call("Client_Create", create_options=raw, num_options=options)
        self.client = made("client")
        listed = self.table.call("Client_AddressableDevices", client=self.client)
        self.devices = (ctypes.c_uint64 * count).from_address(listed("addressable_devices"))
        self.executable = self.load(count)

    def load(self, count):
        """The program, loaded for so many devices."""
        program = compile_module(parse_module(TEXT)).program
        where = LaunchSpec("donating", frozenset({0}), count, devices=tuple(range(count)))
        data = executable_to_bytes(program, where, b"", b"")
        with without_compiler():
            made = self.table.call(
                "Executable_DeserializeAndLoad",
                client=self.client,
                serialized_executable=data,
                serialized_executable_size=len(data),
            )
        return made("loaded_executable")

    def drop(self, executable):
        self.table.call("LoadedExecutable_Destroy", executable=executable)

    def memory(self, device):
        made = self.table.call("Device_DefaultMemory", device=self.devices[device])
        return made("memory")

    def wait(self, outputs):
        """Until all results are there, or have failed."""
        for buffer in [b for each in outputs for b in each]:
            event = self.table.call("Buffer_ReadyEvent", buffer=buffer)("event")
            with contextlib.suppress(Failed):
                self.table.call("Event_Await", event=event)
            self.table.call("Event_Destroy", event=event)

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
        try:
            self.table.call("Event_Await", event=event("event"))
        finally:
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
