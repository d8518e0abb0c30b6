"""The type table against the specification, ml_dtypes and numpy."""

import copy
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from hloom.base.diagnostics import UsageError
from hloom.types import dtype as t
from hloom.types import limits

NUMBERS = {
    "PRED": 1, "S1": 30, "U1": 31, "S2": 26, "U2": 27, "S4": 21, "U4": 22, "S8": 2, "U8": 6,
    "S16": 3, "U16": 7, "S32": 4, "U32": 8, "S64": 5, "U64": 9, "F16": 10, "F32": 11, "F64": 12,
    "BF16": 16, "F8E5M2": 19, "F8E4M3": 28, "F8E4M3FN": 20, "F8E4M3B11FNUZ": 23, "F8E3M4": 29,
    "F8E5M2FNUZ": 24, "F8E4M3FNUZ": 25, "F4E2M1FN": 32, "F8E8M0FNU": 33, "F6E3M2FN": 35,
    "F6E2M3FN": 36, "C64": 15, "C128": 18, "TUPLE": 13, "OPAQUE_TYPE": 14, "TOKEN": 17,
    "BUFFER": 34,
}  # fmt: skip


def test_the_table_is_the_specified_one():
    assert {x.enum_name: x.number for x in t.ALL} == NUMBERS
    for which in t.ALL:
        assert t.dtype(which.name) is t.dtype(which.number) is t.dtype(which.enum_name) is which
        assert which.name == ("opaque" if which is t.OPAQUE else which.enum_name.lower())
        assert pickle.loads(pickle.dumps(which)) is copy.deepcopy(which) is which


@pytest.mark.parametrize("which", t.FLOAT_TYPES, ids=str)
def test_float_fields_equal_what_the_format_does(which):
    info = ml_dtypes.finfo(which.numpy)
    assert which.bits == info.bits
    assert which.mantissa_bits == info.nmant
    assert which.exponent_bits == (info.iexp if which.bits > 8 else info.nexp)
    special = np.array([np.inf, np.nan, -0.0, -1.0], np.float32).astype(which.numpy)
    back = special.astype(np.float32)
    assert which.has_infinity == bool(np.isinf(back[0]))
    assert which.has_nan == bool(np.isnan(back[1]))
    assert which.has_negative_zero == bool(back[2] == 0 and np.signbit(back[2]))
    assert which.is_signed == bool(back[3] == -1)
    one_bits = int(np.ones(1, np.float32).astype(which.numpy).view(f"u{which.size_bytes}")[0])
    assert one_bits >> which.mantissa_bits == which.exponent_bias


def test_kinds_and_widths():
    assert (t.PRED.bits, t.S4.bits, t.F6E2M3FN.bits, t.C64.bits, t.TOKEN.bits) == (8, 4, 6, 64, 0)
    assert t.C64.component is t.F32 and t.C128.component is t.F64 and t.S8.component is t.S8
    assert t.PRED.is_pred and not t.PRED.is_integral and t.U4.is_integral and t.U4.is_unsigned_int
    assert [x.name for x in t.ALL if not x.is_array_element] == [
        "tuple", "opaque", "token", "buffer",
    ]  # fmt: skip
    assert sum(x.is_fp8 for x in t.ALL) == 8
    for which in t.ARRAY_TYPES:
        assert which.numpy.itemsize == which.size_bytes
        assert t.from_numpy(which.numpy) is which
        assert t.dtype(which.numpy) is which
    assert t.dtype(float) is t.F64 and t.dtype(np.int8) is t.S8 and t.dtype(ml_dtypes.int4) is t.S4


@pytest.mark.parametrize("wrong", ["f31", "", "Float", 99, 0, -1, "INVALID", "m8[s]", None, object])
def test_unknown_types_are_named(wrong):
    if wrong is None:
        assert t.dtype(wrong) is t.F64  # what numpy takes None for
        return
    with pytest.raises(UsageError) as raised:
        t.dtype(wrong)
    assert "f8e4m3b11fnuz" in str(raised.value)


def test_types_do_not_change():
    with pytest.raises(AttributeError):
        t.F32.bits = 31
    with pytest.raises(UsageError):
        _ = t.TOKEN.numpy


def test_reading_shapes_imports_no_numpy():
    program = (
        "import sys; from hloom.types.text import shape_from_text; "
        "shape_from_text('(f32[2]{0:S(5)}, token[])'); sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("which", t.FLOAT_TYPES, ids=str)
def test_limits_of_floats(which):
    info = ml_dtypes.finfo(which.numpy)
    assert limits.max_finite_value(which) == info.max
    smallest = info.smallest_normal if which is t.F8E8M0FNU else info.min
    assert limits.min_finite_value(which) == smallest
    assert bool(np.isinf(np.float64(limits.max_value(which)))) == which.has_infinity
    assert np.float64(limits.min_value(which)) <= np.float64(limits.min_finite_value(which))
    assert float(limits.multiplicative_identity(which)) == 1
    if which.has_nan:
        assert np.isnan(np.float64(limits.nan(which)))
    else:
        with pytest.raises(UsageError):
            limits.nan(which)


@pytest.mark.parametrize("which", t.INTEGER_TYPES, ids=str)
def test_limits_of_integers(which):
    info = ml_dtypes.iinfo(which.numpy)
    assert int(limits.max_value(which)) == int(limits.max_finite_value(which)) == info.max
    assert int(limits.min_value(which)) == int(limits.min_finite_value(which)) == info.min
    assert limits.integer_range(which) == (info.min, info.max)
    assert int(limits.zero(which)) == 0
    every = np.arange(info.min, info.max + 1 if which.bits < 8 else info.min + 8).astype(
        which.numpy
    )
    assert np.array_equal(every * limits.multiplicative_identity(which), every)
    with pytest.raises(UsageError):
        limits.nan(which)


def test_special_limits():
    assert np.array(limits.zero(t.F8E8M0FNU)).view(np.uint8) == 0
    assert float(limits.zero(t.F8E8M0FNU)) == 2.0**-127
    assert np.isnan(limits.nan(t.C64).real)
    assert limits.max_value(t.PRED) and not limits.min_value(t.PRED)
    assert limits.max_value(t.C64) == complex(np.inf, np.inf)
    assert limits.min_value(t.C128) == complex(-np.inf, -np.inf)
    with pytest.raises(UsageError):
        limits.min_finite_value(t.C64)
    for ask in (limits.zero, limits.multiplicative_identity, limits.max_value, limits.nan):
        with pytest.raises(UsageError):
            ask(t.TOKEN)
