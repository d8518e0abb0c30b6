"""What programs make of subnormal numbers, and in what mode functions of the host compute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.runtime import ffi
from tests.runtime.native_parts import Context, LoadedObjects
from tests.runtime.native_programs import emit, pointers

CHECKOUT = Path(__file__).parents[2]
SIZE = 300_000  # enough for all threads
MODULE = f"""HloModule subnormal
ENTRY main {{
  x = f32[{SIZE}] parameter(0)
  two = f32[] constant(2)
  twos = f32[{SIZE}] broadcast(two), dimensions={{}}
  zero = f32[] constant(0)
  zeros = f32[{SIZE}] broadcast(zero), dimensions={{}}
  twice = f32[{SIZE}] multiply(x, twos)
  way = f32[{SIZE}] sign(x)
  is_zero = pred[{SIZE}] compare(x, zeros), direction=EQ
  log = f32[{SIZE}] log(x)
  exp = f32[{SIZE}] exponential(log)
  turned = f32[{SIZE}] reverse(x), dimensions={{0}}
  ROOT all = (f32[{SIZE}], f32[{SIZE}], pred[{SIZE}], f32[{SIZE}], f32[{SIZE}], f32[{SIZE}])
    tuple(twice, way, is_zero, log, exp, turned)
}}
"""
CALL = """HloModule calls
ENTRY main {
  x = f32[4] parameter(0)
  ROOT y = f32[4] custom-call(x), custom_call_target="test.halves",
    api_version=API_VERSION_TYPED_FFI
}
"""
HOST_CALL = """
declare i32 @hl_call_host(ptr, i64, ptr)
define i32 @call_host(ptr %context, ptr %buffers) {
  %status = call i32 @hl_call_host(ptr %context, i64 0, ptr %buffers)
  ret i32 %status
}
"""
KEPT = """
import hloom, numpy as np
text = "HloModule m\\nENTRY e {\\n  x = f32[8] parameter(0)\\n  ROOT y = f32[8] add(x, x)\\n}"
print(np.asarray(hloom.compile(text)(np.full(8, 1e-40, np.float32))).any())
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_they_count_as_zero_on_every_thread_but_move_as_they_are(threads: int) -> None:
    x = np.full(SIZE, 1e-40, np.float32)
    x[::3] *= -1
    executable = hloom.compile(MODULE, threads=threads)
    for _ in range(3):
        twice, way, is_zero, log, exp, turned = map(np.asarray, executable(x))
        assert not twice.any() and not way.any() and is_zero.all()
        assert (np.signbit(twice) == np.signbit(x)).all()
        assert (np.signbit(way) == np.signbit(x)).all()
        assert (log == -np.inf).all() and not exp.any()
        np.testing.assert_array_equal(turned.view(np.int32), x[::-1].view(np.int32))
    assert (x[:1] * np.float32(0.5)).any(), "the caller's mode has changed"


def test_least_normal_numbers_stay() -> None:
    least = float(np.finfo(np.float32).tiny)
    executable = hloom.compile(MODULE)
    twice, way, is_zero, *_ = map(np.asarray, executable(np.full(SIZE, least, np.float32)))
    assert (twice == 2 * least).all() and (way == 1).all() and not is_zero.any()


def test_functions_of_the_host_keep_them() -> None:
    def halves(call: ffi.Call) -> None:
        call.results[0][...] = call.arguments[0] * np.float32(0.5)

    ffi.register("test.halves", halves)
    x = np.array([1e-40, -1e-42, 1.0, 0.0], np.float32)
    np.testing.assert_array_equal(np.asarray(hloom.compile(CALL)(x)), x * np.float32(0.5))


def test_functions_of_the_host_without_a_handler_keep_them_too() -> None:
    seen = []
    tiny = np.float32(1e-40)
    with Context(host_functions=[lambda *_: seen.append(tiny * np.float32(0.5))]) as context:
        loaded = LoadedObjects({"calls": emit(HOST_CALL)})
        context.execute(loaded.symbol("call_host"), pointers(np.array([0])))
    assert seen == [np.float32(5e-41)]


def test_all_are_kept_where_the_environment_says_so() -> None:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "HLOOM_CACHE": "0"}
    for value, wanted in (("keep", "True"), ("", "False"), ("Keep", "False")):
        told = subprocess.run(
            [sys.executable, "-c", KEPT],
            env={**environment, "HLOOM_SUBNORMALS": value},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert told.stdout.strip() == wanted, told.stderr
        assert ("HLOOM_SUBNORMALS=Keep means nothing" in told.stderr) == (value == "Keep")


@pytest.mark.parametrize("of", ["f32", "f64"])
def test_scales_are_powers_of_two_down_to_the_least(of: str) -> None:
    """f8e8m0fnu has no zero, but 2**-127, which f32 has among its subnormal numbers."""
    text = f"""HloModule m
ENTRY main {{
  x = {of}[6] parameter(0)
  ROOT y = f8e8m0fnu[6] convert(x)
}}
"""
    x = np.array(
        [2.0**-127, 1e-40, 2.0**-120, -1e-40, 1e-38, 1.1e-38], "f4" if of == "f32" else "f8"
    )
    shown = np.asarray(hloom.compile(text)(x)).view(np.uint8)
    assert shown.tolist() == [0, 0, 7, 255, 1, 1]
