"""HLOOM_GUARD=1: what is out of bounds is a fault that names the culprit; in child processes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from hloom.runtime.native import library

ADD = """HloModule m
ENTRY e {
  x = f32[5] parameter(0)
  y = f32[5] parameter(1)
  c = f32[5] constant({1, 2, 3, 4, 5})
  s = f32[5] add(x, y)
  ROOT r = f32[5] multiply(s, c)
}
"""
BEGIN = f"""
import ctypes, hloom, numpy as np
from hloom.runtime.debug import MAIN
from hloom.runtime.native import library
native, x = library(), np.arange(5, dtype=np.float32)
exe = hloom.compile({ADD!r}, threads=1)
executor = exe._executor

def run(work):
    def main(context, buffers):
        work([a or 0 for a in (ctypes.c_void_p * 8).from_address(buffers)])
        return 0
    callback = MAIN(main)
    return executor.run([x, x], ctypes.cast(callback, ctypes.c_void_p).value)

kinds = [a.kind for a in executor.program.allocations]
result = kinds.index("output")
"""


def child(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a process under guard says and does."""
    return subprocess.run(
        [sys.executable, "-c", BEGIN + script],
        env={**os.environ, "HLOOM_GUARD": "1", "HLOOM_CACHE": "0", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_programs_run_as_ever():
    done = child("print(np.asarray(exe(x, x)).tolist(), exe(exe(x, x), x).numpy().tolist())")
    assert done.stdout == "[0.0, 4.0, 12.0, 24.0, 40.0] [0.0, 10.0, 42.0, 108.0, 220.0]\n"


def test_a_kernel_that_misses_is_named_with_the_array():
    """The program's kernel on memory that is one element too short for it."""
    done = child("""
short = native.hl_guard_alloc(16, 0, 0)
native.hl_guard_name(short, b"too short")
(kernel,) = executor.kernels()
call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(kernel)
thunk = exe.thunks[0]
def work(buffers):
    given = zip(thunk.arguments, thunk.writes)
    places = [short if w else buffers[s.allocation.index] for s, w in given]
    call((ctypes.c_void_p * 8)(*places), 0, thunk.steps)
run(work)
""")
    assert done.returncode < 0
    assert "HLOOM_GUARD: k_m_" in done.stderr
    assert "wrote 0 bytes behind the end of too short (16 bytes at " in done.stderr


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("ctypes.memset(b[result] + 20, 0, 4)", "wrote 0 bytes behind the end of output"),
        ("ctypes.string_at(b[result] + 30, 4)", "read 10 bytes behind the end of output"),
        ("ctypes.memset(b[result] - 4096, 0, 1)", "wrote 4096 bytes before the start of output"),
        ("ctypes.memset(b[0] + 4, 0, 4)", "wrote byte 4 of argument 0 of m"),
        ("ctypes.memset(b[kinds.index('constant')], 0, 4)", "wrote byte 0 of constant of m"),
        (
            "ctypes.memset(b[result] - 4, 0, 1)",
            "a step wrote up to 4 bytes before the start of out",
        ),
    ],
)
def test_what_is_out_of_bounds(script: str, said: str):
    done = child(f"run(lambda b: {script})")
    assert done.returncode < 0
    assert said in done.stderr and "please report it" in done.stderr


def test_memory_that_was_freed_is_a_fault():
    done = child("""
block = native.hl_arena_alloc(None, 12)
assert block % 4096 == 4096 - 12
native.hl_arena_free(None, block)
ctypes.string_at(block, 1)
""")
    assert done.returncode < 0 and "read byte 0 of a block of the arena (12 bytes" in done.stderr
    assert ", freed)" in done.stderr


SCRATCH = """HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  x = f32[70,3000] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[3000] reduce(x, z), dimensions={0}, to_apply=less
}
"""


def test_scratch_memory_of_kernels_stands_before_pages():
    done = child(f"""
exe = hloom.compile({SCRATCH!r})
a = np.arange(210000, dtype=np.float32).reshape(70, 3000)
print("hl_guard_scratch" in exe.as_text("llvm"), np.array_equal(exe(a), a.sum(0)), flush=True)
scratch = native.hl_guard_scratch(64, 100)
ctypes.memset(scratch, 0, 100)
assert native.hl_guard_scratch(64, 100) == scratch != native.hl_guard_scratch(0, 100)
assert ctypes.string_at(scratch, 100) == bytes([255]) * 100
ctypes.memset(scratch + 100, 0, 1)
""")
    assert done.stdout == "True True\n"
    assert "wrote 0 bytes behind the end of scratch memory of the kernel (100" in done.stderr


def test_nothing_is_written_before_the_program_writes_it():
    done = child("print(np.isnan(run(lambda b: None)[0].numpy()).all())")
    assert done.stdout == "True\n"


def test_the_callers_own_memory_stands_before_pages_too():
    """`run_at`: arguments and results are copied in and out."""
    done = child("""
y = np.zeros(8, np.float32)
exe.run_at([x.ctypes.data, x.ctypes.data], [y.ctypes.data])
print(y.tolist())
""")
    assert done.stdout == "[0.0, 4.0, 12.0, 24.0, 40.0, 0.0, 0.0, 0.0]\n"


def test_every_temporary_has_an_allocation_of_its_own_and_a_key():
    script = """
from hloom.base.options import Options
from hloom.targets.cpu.cache_key import other_parts
m = hloom.load("examples/transformer_block.hlo")
program = hloom.compile(m).program
print(other_parts(Options())["guard"], [a.kind for a in program.allocations].count("temp") > 4)
"""
    assert child(script).stdout == "on True\n"
    assert child(script, HLOOM_GUARD="0").stdout == "off False\n"


@pytest.mark.skipif(find_spec("jax") is None, reason="no JAX")
def test_arrays_of_jax_stand_before_pages():
    done = child(
        """
import jax, jax.numpy as jnp
f = jax.jit(lambda a: jnp.sin(a) @ jnp.ones((5, 3)) + 1)
y = f(np.ones((7, 5), np.float32))
assert np.allclose(y, np.sin(1) * 5 + 1), y
pointer = y.unsafe_buffer_pointer()
assert native.hl_guard_size(pointer) == 84
ctypes.string_at(pointer + 84, 1)
""",
        JAX_PLATFORMS="hloom",
    )
    assert done.returncode < 0
    assert "read 0 bytes behind the end of output" in done.stderr, done.stderr


def test_margins_are_found_without_a_fault():
    """What the debug executor uses, in a process without guard: native/guard.h."""
    native = library()
    block = native.hl_guard_alloc(100, 64, 256)
    assert block is not None and block % 64 == 0 and native.hl_guard_size(block) == 100
    bytes_ = np.frombuffer((ctypes.c_uint8 * 612).from_address(block - 256), np.uint8)
    assert (bytes_ == 255).all() and native.hl_guard_stray(block) == 0
    for at, stray in ((256, 0), (355, 0), (356, 1), (611, 256), (255, -1), (0, -256)):
        ctypes.memset(block - 256 + at, 0, 1)
        assert native.hl_guard_stray(block) == stray
        ctypes.memset(block - 256 + at, 255, 1)
    assert native.hl_guard_free(block) == 1
    assert native.hl_guard_free(block) == 0 and native.hl_guard_size(block) == -1


def test_impossible_sizes_have_no_block():
    native = library()
    for size, margin in ((-1, 0), (1 << 45, 0), (1, -1), (1, 1 << 62)):
        assert native.hl_guard_alloc(size, 0, margin) is None
