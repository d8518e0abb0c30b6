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
import random
from tests.fuzz.check_saved import is_refused, loaded_natively, resealed
outcomes = {True: 0, False: 0}
for name in ("manual", "whole"):
    data = open(f"{FOLDER}/{name}", "rb").read()
    data = data[data.find(b"hloomexe"):]
    loaded_natively(data)
    draw = random.Random(0)
    for _ in range(400):
        # The checksums are right again: what is read must be bounded by itself.
        outcomes[is_refused(loaded_natively, resealed(data, draw))] += 1
print(outcomes[True] > 20, outcomes[False] > 20)
"""


def test_damaged_numbers_crash_nothing(tmp_path):
    saved = run_python(f"FOLDER = {str(tmp_path)!r}\n{SAVE}", devices=4)
    assert saved.returncode == 0, saved.stderr
    done = run_python(f"FOLDER = {str(tmp_path)!r}\n{DAMAGE}")
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


CACHED = """
import sys
import jax, numpy as np
from hloom.runtime import pjrt
if len(sys.argv) > 1:  # another processor says who it is
    pjrt.processor_identity = lambda: sys.argv[1]
jax.config.update("jax_compilation_cache_dir", FOLDER)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
from jax._src import monitoring
hits = []
monitoring.register_event_listener(lambda name, **k: hits.append(name))
print(jax.jit(lambda x: x * 3 + 1)(np.ones(4, np.float32)))
print(sum("cache_hits" in name for name in hits) > 0)
print(jax.devices()[0].client.platform_version.count("processor"))
"""


def cached_run(folder, *arguments):
    code = f"import sys; sys.argv[1:] = {list(arguments)!r}\nFOLDER = {str(folder)!r}\n{CACHED}"
    done = run_python(code, HLOOM_CACHE="0", PYTHONWARNINGS="default")
    assert done.returncode == 0, done.stderr
    result, is_hit, told = done.stdout.splitlines()
    assert (result, told) == ("[4. 4. 4. 4.]", "1")
    return is_hit == "True", done.stderr


def test_the_persistent_cache_of_jax_is_kept_by_processor(tmp_path):
    assert cached_run(tmp_path)[0] is False
    assert cached_run(tmp_path)[0] is True
    assert cached_run(tmp_path, "Elsewhere 0123")[0] is False
    assert cached_run(tmp_path, "Elsewhere 0123")[0] is True


FOREIGN = """
from pathlib import Path
from jax._src.compilation_cache import compress_executable, decompress_executable
from hloom.program.container import Section, opened, sealed
from hloom.program.saved import program_of, program_section
from hloom.program.saved_form import MAGIC, SectionKind
(path,) = [p for p in Path(FOLDER).glob("*-cache") if b"lambda" in p.name.encode()]
whole = decompress_executable(path.read_bytes())
at = whole.index(MAGIC)
found = opened(whole[at:])
program = program_of(dict(found))
features = (*program.processor.features, "of-the-future")
program.processor = program.processor._replace(features=features)
record = program_section(program)
changed = sealed([
    Section(SectionKind(kind), [record if kind == SectionKind.PROGRAM else section])
    for kind, section in found
])
path.write_bytes(compress_executable(whole[:at] + changed))
print("changed")
"""


def test_an_entry_of_that_cache_that_cannot_run_here_is_compiled_again(tmp_path):
    cached_run(tmp_path)
    done = run_python(f"FOLDER = {str(tmp_path)!r}\n{FOREIGN}")
    assert done.returncode == 0 and done.stdout == "changed\n", done.stderr
    is_hit, told = cached_run(tmp_path)
    assert not is_hit
    assert "of-the-future" in told and "which this one has not" in told
