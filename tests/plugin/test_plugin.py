"""JAX on hloom: every case of jax_cases.py and jax_cases_devices.py, in child processes."""

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from tests.plugin.child import run_cases, run_python

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed (make setup)", allow_module_level=True)

HERE = Path(__file__).parent
FILES = [""] + "_devices _together _profile _api _library _async _partitioned".split(" ")
NARROW, WIDE, TOGETHER, PROFILE, API, LIBRARY, ASYNC, PARTITIONED = (
    re.findall(r"^def (case_\w+)", (HERE / f"jax_cases{file}.py").read_text(), re.M)
    for file in FILES
)
NAMES = [*NARROW, *WIDE, *TOGETHER, *PROFILE, *API, *LIBRARY, *ASYNC, *PARTITIONED]
GROUP = 16


@cache
def ended(group: tuple[str, ...], devices: int) -> dict[str, str]:
    return run_cases(list(group), devices)


def group_of(name: str) -> tuple[tuple[str, ...], int]:
    """The cases that share a child process, and its devices."""
    for cases in (WIDE, TOGETHER, ASYNC, PARTITIONED):
        if name in cases:
            return tuple(cases), 4
    for cases in (PROFILE, API, LIBRARY):
        if name in cases:
            return tuple(cases), 1
    first = NARROW.index(name) // GROUP * GROUP
    return tuple(NARROW[first : first + GROUP]), 1


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_case(name):
    assert not (told := ended(*group_of(name))[name]), told


@pytest.mark.slow
@pytest.mark.parametrize("name", [WIDE[0], *NARROW[::GROUP]])
def test_processes_end_well(name):
    assert not (told := ended(*group_of(name))["exit"]), told


@pytest.mark.slow
def test_the_compilation_cache_hits(tmp_path):
    code = """
import jax, numpy as np
events = []
from jax import monitoring
monitoring.register_event_listener(lambda name, **_: events.append(name))
print(float(jax.jit(lambda x: (x * 3 + x[0]).sum())(np.arange(8.0, dtype=np.float32))))
print(sum("cache_hits" in e for e in events))
"""
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "HLOOM_CACHE": "0",
    }
    first, second = (run_python(code, **settings) for _ in range(2))
    assert first.stdout.split() == ["84.0", "0"], first.stderr
    assert second.stdout.split() == ["84.0", "1"], second.stderr


@pytest.mark.slow
def test_hloom_is_no_default_unless_asked_for():
    code = "import jax; print(jax.devices()[0].client.platform_version, *jax.devices('hloom'))"
    done = run_python(code, JAX_PLATFORMS="")
    assert done.stdout.split() == ["cpu", "cpu:0"], done.stderr
    assert "experimental" not in done.stderr


@pytest.mark.slow
def test_a_process_may_end_while_programs_run():
    code = """
import jax, jax.numpy as jnp, numpy as np
f = jax.jit(lambda x: jax.lax.fori_loop(0, 300, lambda i, a: jnp.tanh(a @ x), x))
x = np.full((200, 200), 0.01, np.float32)
f(x).block_until_ready()
y = [f(x) for _ in range(4)]
jax.jit(lambda a: jax.debug.print("last {}", a[0, 0]))(y[-1])
"""
    done = run_python(code)
    assert done.returncode == 0 and "last" in done.stdout, done.stderr


@pytest.mark.slow
def test_control_c_ends_waiting_for_a_program():
    code = """
import os, signal, threading
import jax, jax.numpy as jnp, numpy as np
f = jax.jit(lambda x: jax.lax.fori_loop(0, 3000, lambda i, a: jnp.tanh(a @ x), x))
x = np.full((200, 200), 0.01, np.float32)
wanted = np.asarray(f(x))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have ignored it
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        f(x).block_until_ready()
except KeyboardInterrupt:
    print("interrupted", (np.asarray(f(x)) == wanted).all())
"""
    done = run_python(code)
    assert done.stdout.split() == ["interrupted", "True"], done.stderr


@pytest.mark.slow
def test_who_waits_in_vain_says_for_whom():
    code = """
import time, jax, numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P
def slow_on_two(a):
    if a[0] == 2:
        time.sleep(4)
    return a
def f(a):
    a = jax.pure_callback(slow_on_two, jax.ShapeDtypeStruct((1,), np.float32), a)
    return lax.psum(a, "x")
over = Mesh(np.array(jax.devices()), ("x",))
g = jax.shard_map(f, mesh=over, in_specs=P("x"), out_specs=P(), check_vma=False)
on_whole = jax.jit(lambda a: g(a[::-1][::-1]), compiler_options=OPTIONS)
on_each = jax.jit(g, compiler_options=OPTIONS)
for each in (on_whole, on_each):
    try:
        print(each(np.arange(4, dtype=np.float32)))
    except jax.errors.JaxRuntimeError as error:
        print(error)
print(float(on_each(np.ones(4, np.float32))[0]))
"""
    flags = "--xla_cpu_collective_call_terminate_timeout_seconds=1"
    warn = "xla_cpu_collective_call_warn_stuck_seconds"
    given = code.replace("OPTIONS", f"{{{warn!r}: 0}}")
    done = run_python(given, 4, XLA_FLAGS=flags)
    whole, told, again = done.stdout.strip().splitlines()
    for each in (whole, told):
        waited = re.search(r"waits at all-reduce for device 2, which did not come in (\S+) s", each)
        # After a second, or when nobody has computed for long enough; device 2 comes after 4.
        assert waited is not None and 1 <= float(waited[1]) < 4, each
    assert "for device 2, for " in done.stderr
    assert again == "4.0"


@pytest.mark.slow
def test_a_process_may_end_while_threads_go_on_running_programs():
    """Python kills such threads when they come back; and a queue that they fill never empties."""
    code = """
import threading, time, jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P
over = Mesh(np.array(jax.devices()), ("x",))
body = lambda i, c: jnp.tanh(c + lax.psum(c, "x") / 9)
many = lambda b: lax.fori_loop(0, 200, body, b)
f = jax.jit(jax.shard_map(many, mesh=over, in_specs=P("x"), out_specs=P("x")))
g = jax.jit(lambda v: lax.fori_loop(0, 50, lambda i, c: jnp.tanh(c @ c), v))
a = np.ones((128, 128), np.float32)
f(a).block_until_ready(); g(a).block_until_ready()
def go_on():
    while True:
        f(a), g(a)
for _ in range(6):
    threading.Thread(target=go_on, daemon=True).start()
time.sleep(0.5)
print("end")
"""
    done = run_python(code, 4, timeout_s=100)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
