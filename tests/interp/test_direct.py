"""Shortcuts of the plans give the bits that the meanings give."""

import numpy as np
import pytest

from hloom.interp.context import DevicePosition, EvalContext, EvalOptions
from hloom.interp.direct import direct
from hloom.interp.machine import SharedEvaluation
from hloom.interp.registry import MEANING, load_meanings
from hloom.ir.module import Module
from hloom.ir.values.slices import SliceDimension, Slices
from hloom.types.shape import shape

SPECIAL = {
    "f": [0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e-40, 3e38],
    "s": [0, 1, -1, 7, 31, 32, 33, 63, 64, 127, -128],
    "u": [0, 1, 2, 7, 31, 32, 33, 63, 64, 127, 255],
    "p": [0, 1],
}
TYPES = "s8 s16 s32 s64 u8 u16 u32 u64 f32 f64 pred".split()
TWO = "add subtract multiply divide and or xor maximum minimum".split()
SHIFTS = ["shift-left", "shift-right-logical", "shift-right-arithmetic"]
DIRECTIONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]


def values(dtype, rng):
    corner = np.array(SPECIAL[dtype[0]], dtype=np.float64)
    drawn = np.concatenate([corner, rng.permutation(corner), rng.permutation(corner)])
    made = np.asarray(drawn).astype(np.int64) if dtype[0] in "sup" else drawn
    return made.astype(shape(dtype).dtype.numpy)


def both(opcode, dtypes, arrays, result, **attributes):
    """The instruction's value by its shortcut and by its meaning."""
    load_meanings()
    c = Module("m").add_computation("e", entry=True)
    operands = [
        c.add("parameter", number=k, shape=shape(d, a.shape).with_default_layouts())
        for k, (d, a) in enumerate(zip(dtypes, arrays, strict=True))
    ]
    i = c.add(opcode, *operands, shape=result.with_default_layouts(), **attributes)
    shortcut = direct(i)
    options = EvalOptions()
    context = EvalContext(SharedEvaluation(options), options, DevicePosition())
    with np.errstate(all="ignore"):
        slow = MEANING[opcode](i, context, *arrays)
        fast = None if shortcut is None else shortcut(i, context, *arrays)
    return fast, np.asarray(slow)


def assert_same_bits(fast, slow):
    fast = np.asarray(fast)
    assert fast.dtype == slow.dtype and fast.shape == slow.shape
    assert np.array_equal(fast, slow, equal_nan=fast.dtype.kind == "f")
    if fast.dtype.kind == "f":
        assert np.array_equal(np.signbit(fast), np.signbit(slow)) or np.isnan(fast).any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opcode", TWO + SHIFTS)
def test_two_operands(opcode, dtype):
    rng = np.random.default_rng(0)
    x, y = values(dtype, rng), values(dtype, rng)
    if opcode in SHIFTS and dtype[0] not in "su":
        pytest.skip("shifts are for integers")
    if dtype == "pred" and opcode in ("subtract", "divide"):
        pytest.skip("not for pred")
    if dtype[0] == "f" and opcode in ("and", "or", "xor"):
        pytest.skip("not for floats")
    fast, slow = both(opcode, [dtype, dtype], [x, y], shape(dtype, x.shape))
    if fast is not None:
        assert_same_bits(fast, slow)
    elif dtype in ("s32", "f32") and opcode in ("add", "subtract", "multiply"):
        pytest.fail("this shortcut should exist")


@pytest.mark.parametrize("dtype", [t for t in TYPES if t != "pred"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_compare(direction, dtype):
    rng = np.random.default_rng(1)
    x, y = values(dtype, rng), values(dtype, rng)
    fast, slow = both("compare", [dtype] * 2, [x, y], shape("pred", x.shape), direction=direction)
    assert_same_bits(fast, slow)


@pytest.mark.parametrize("source", [t for t in TYPES if t[0] != "f"])
@pytest.mark.parametrize("target", TYPES)
def test_convert(source, target):
    x = values(source, np.random.default_rng(2))
    fast, slow = both("convert", [source], [x], shape(target, x.shape))
    if fast is not None:
        assert_same_bits(fast, slow)


@pytest.mark.parametrize("opcode", ["negate", "not", "abs"])
@pytest.mark.parametrize("dtype", TYPES)
def test_one_operand(opcode, dtype):
    if (opcode == "not") == (dtype[0] == "f") or (opcode != "not" and dtype == "pred"):
        pytest.skip("not for this type")
    x = values(dtype, np.random.default_rng(3))
    fast, slow = both(opcode, [dtype], [x], shape(dtype, x.shape))
    if fast is not None:
        assert_same_bits(fast, slow)


def test_data_movement():
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    of = shape("s32", (4, 6))
    assert_same_bits(*both("reshape", ["s32"], [x], shape("s32", (3, 8))))
    cut = Slices((SliceDimension(1, 4, 2), SliceDimension(0, 6, 3)))
    assert_same_bits(*both("slice", ["s32"], [x], shape("s32", (2, 2)), slice=cut))
    p = x % 2 == 0
    assert_same_bits(*both("select", ["pred", "s32", "s32"], [p, x, -x], of))
    scalar = np.asarray(np.int32(7))
    assert_same_bits(*both("broadcast", ["s32"], [scalar], of, dimensions=()))
