"""Programs whose arrays nobody could hold: an answer soon, or an error that names the array."""

import numpy as np
import pytest

import hloom
from hloom.runtime.buffer import OutOfMemoryError
from hloom.types.dtype import BY_NAME

SIZE = 1 << 45
DIMS = "32768,32768,32768"


def reduction(dtype: str, opcode: str, start: str, dims: str = "0,1,2") -> str:
    return f"""HloModule m
    f {{ a = {dtype}[] parameter(0)
      b = {dtype}[] parameter(1)
      ROOT c = {dtype}[] {opcode}(a, b) }}
    ENTRY e {{ x = {dtype}[] parameter(0)
      all = {dtype}[{DIMS}] broadcast(x), dimensions={{}}
      start = {dtype}[] constant({start})
      ROOT r = {dtype}[] reduce(all, start), dimensions={{{dims}}}, to_apply=f }}"""


@pytest.mark.parametrize(
    ("dtype", "opcode", "start", "x", "expected"),
    [
        ("f32", "add", "0", 0.0, 0.0),
        ("f32", "add", "0.5", 1.5, 1.5 * SIZE),
        ("f64", "add", "-0", -0.0, -0.0),
        ("f32", "add", "0", np.inf, np.inf),
        ("f32", "add", "0", np.nan, np.nan),
        ("f32", "multiply", "3", -1.0, 3.0),
        ("f32", "multiply", "1", 1.5, np.inf),
        ("f32", "maximum", "-inf", 2.0, 2.0),
        ("f32", "minimum", "1", np.nan, np.nan),
        ("f16", "add", "0", 1.0, np.inf),
        ("s64", "add", "3", -4, 3 - 4 * SIZE),
        ("s32", "add", "3", 7, 3),
        ("u8", "multiply", "1", 3, pow(3, SIZE, 256)),
        ("s32", "xor", "5", 7, 5),
        ("pred", "and", "true", True, True),
        ("c64", "add", "(0, 0)", complex(np.inf, 1), complex(np.inf, SIZE)),
    ],
)
def test_a_fold_of_equal_elements(dtype, opcode, start, x, expected):
    exe = hloom.compile(reduction(dtype, opcode, start))
    result = np.asarray(exe(np.asarray(x, BY_NAME[dtype].numpy)))
    np.testing.assert_array_equal(result.astype(type(expected)), expected)
    if expected == 0 and dtype != "c64":
        assert np.signbit(result) == np.signbit(expected)


def test_more_than_there_is_memory_for_names_the_value():
    text = f"""HloModule m
    ENTRY e {{ x = f32[] parameter(0)
      ROOT wide = f32[{DIMS}] broadcast(x), dimensions={{}} }}"""
    exe = hloom.compile(text)
    with pytest.raises(OutOfMemoryError, match=r"no memory for a buffer of .*%wide"):
        exe(np.float32(1))
