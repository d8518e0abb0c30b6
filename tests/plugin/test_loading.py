"""Saved executables that the native side loads by itself, for several devices."""

import importlib.util

import pytest

from tests.plugin.child import run_python

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed (make setup)", allow_module_level=True)
pytestmark = pytest.mark.slow

SAVE = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("i",))
x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("i")))
def region(x):
    return x + jax.lax.psum(x.sum(), "i")
manual = jax.jit(jax.shard_map(region, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
whole = jax.jit(lambda x: x[::-1] + 2 * x)
for name, f in (("manual", manual), ("whole", whole)):
    compiled = f.lower(x).compile()
    open(f"{FOLDER}/{name}", "wb").write(compiled.runtime_executable().serialize())
    parts = [np.asarray(s.data) for s in compiled(x).addressable_shards]
    print(name, *np.concatenate(parts))
"""
RUN = """
import ctypes, sys
import numpy as np
from tests.plugin.pjrt_table import Table
table = Table()
raw, count = table.options(cpu_device_count=4)
client = table.call("Client_Create", create_options=raw, num_options=count)("client")
devices = table.call("Client_AddressableDevices", client=client)("addressable_devices")
devices = (ctypes.c_uint64 * 4).from_address(devices)
def pointers(*values):
    made = (ctypes.c_uint64 * len(values))(*values)
    table.held.append(made)
    return made
for name in ("manual", "whole"):
    data = open(f"{FOLDER}/{name}", "rb").read()
    executable = table.call("Executable_DeserializeAndLoad", client=client,
        serialized_executable=data, serialized_executable_size=len(data))("loaded_executable")
    buffers = []
    for k in range(4):
        part = np.arange(2 * k, 2 * k + 2, dtype=np.float32)
        made = table.call("Client_BufferFromHostBuffer", client=client, data=part.ctypes.data,
            type=11, dims=pointers(2), num_dims=1, host_buffer_semantics=0, device=devices[k])
        buffers.append(made("buffer"))
    lists = pointers(*[ctypes.addressof(pointers(b)) for b in buffers])
    outputs = [pointers(0) for _ in range(4)]
    options = (ctypes.c_char * 256)()
    ctypes.c_size_t.from_buffer(options).value = 80
    table.call("LoadedExecutable_Execute", executable=executable, options=options,
        argument_lists=lists, num_devices=4, num_args=1,
        output_lists=pointers(*map(ctypes.addressof, outputs)))
    found = []
    for (out,) in outputs:
        part = np.zeros(2, np.float32)
        event = table.call("Buffer_ToHostBuffer", src=out, dst=part.ctypes.data, dst_size=8)
        table.call("Event_Await", event=event("event"))
        found.extend(part)
    print(name, *found)
    table.call("LoadedExecutable_Destroy", executable=executable)
print("compiler" if "hloom.plugin.serving" in sys.modules else "no compiler")
"""


def test_programs_of_several_devices_need_no_compiler(tmp_path):
    saved = run_python(f"FOLDER = {str(tmp_path)!r}\n{SAVE}", devices=4)
    assert saved.returncode == 0, saved.stderr
    loaded = run_python(f"FOLDER = {str(tmp_path)!r}\n{RUN}")
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout == saved.stdout + "no compiler\n"
    assert saved.stdout.splitlines()[0] == "manual " + " ".join(f"{k + 28}.0" for k in range(8))


DAMAGE = """
import random, struct, zlib
from tests.plugin.pjrt_table import Failed, Table
table = Table()
raw, count = table.options(cpu_device_count=4)
client = table.call("Client_Create", create_options=raw, num_options=count)("client")
outcomes = {True: 0, False: 0}
for name in ("manual", "whole"):
    data = open(f"{FOLDER}/{name}", "rb").read()
    data = data[data.find(b"hloomjax"):]
    native = len(data) - struct.unpack_from("<6Q", data, 8)[5]
    draw = random.Random(0)
    for _ in range(400):
        made = bytearray(data)
        for _ in range(draw.choice((1, 1, 3))):
            made[draw.randrange(native + 24, len(made))] = draw.choice((0, 1, 127, 128, 255))
        # The checksum is right again: what is read must be bounded by itself.
        made[native + 16:native + 24] = struct.pack("<q", zlib.crc32(bytes(made[native + 24:])))
        try:
            executable = table.call("Executable_DeserializeAndLoad", client=client,
                serialized_executable=bytes(made),
                serialized_executable_size=len(made))("loaded_executable")
            table.call("LoadedExecutable_Destroy", executable=executable)
            outcomes[True] += 1
        except (Failed, UnicodeDecodeError):
            outcomes[False] += 1
        table.held.clear()
print(outcomes[True] > 20, outcomes[False] > 100)
"""


def test_damaged_numbers_crash_nothing(tmp_path):
    saved = run_python(f"FOLDER = {str(tmp_path)!r}\n{SAVE}", devices=4)
    assert saved.returncode == 0, saved.stderr
    done = run_python(f"FOLDER = {str(tmp_path)!r}\n{DAMAGE}")
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
