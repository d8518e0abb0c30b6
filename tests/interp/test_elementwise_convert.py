"""compare, select, clamp, convert, bitcast-convert, reduce-precision and stochastic-convert."""

import itertools
import math
import operator
from operator import ge, gt, le, lt
from typing import Any

import numpy as np
import pytest

from hloom.interp.elementwise_number import bits_of, from_bits
from hloom.types.dtype import ARRAY_TYPES, BY_NAME, FLOAT_TYPES, INTEGER_TYPES, DType
from tests.interp.one_op import run

FLOATS = [t.name for t in FLOAT_TYPES]
INTEGERS = [t.name for t in INTEGER_TYPES]
RELATIONS = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
}


def sample(t: DType) -> Any:
    """All values of a narrow type, the telling ones of a wide one."""
    if t.is_pred:
        return np.array([False, True])
    if t.is_sub_byte and t.is_integral:
        low = -(1 << (t.bits - 1)) if t.is_signed_int else 0
        return np.arange(low, low + (1 << t.bits)).astype(np.int8).astype(t.numpy)
    if t.is_integral:
        info = np.iinfo(t.numpy)
        return np.array([info.min, info.max, info.min + 1, 0, 1, 2, 77], t.numpy)
    if t.is_floating and t.bits <= 8:
        return np.arange(1 << t.bits, dtype=np.uint8).view(t.numpy)
    values = [0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan, 1e-40, 300.7, -1e9, 65520.0]
    with np.errstate(over="ignore"):
        if t.is_complex:
            return np.array([complex(a, b) for a in values for b in (0.0, -1.0)]).astype(t.numpy)
        return np.array(values).astype(t.numpy)


def all_pairs(values: Any) -> tuple[Any, Any]:
    return np.repeat(values, len(values)), np.tile(values, len(values))


# -- compare -------------------------------------------------------------------------------


@pytest.mark.parametrize("type_name", ["pred", *INTEGERS, *FLOATS])
@pytest.mark.parametrize("direction", RELATIONS)
def test_compare(type_name: str, direction: str) -> None:
    t = BY_NAME[type_name]
    x, y = all_pairs(sample(t)[::4] if t.bits == 8 else sample(t))
    got = run("compare", x, y, result="pred", direction=direction)
    convert = float if t.is_floating else int
    wanted = [RELATIONS[direction](convert(a), convert(b)) for a, b in zip(x, y)]
    assert got.dtype == np.bool_
    assert got.tolist() == wanted


@pytest.mark.parametrize("type_name", ["c64", "c128"])
def test_compare_complex(type_name: str) -> None:
    x, y = all_pairs(sample(BY_NAME[type_name]))
    same = [complex(a) == complex(b) for a, b in zip(x, y)]
    assert run("compare", x, y, result="pred", direction="EQ").tolist() == same
    assert run("compare", x, y, result="pred", direction="NE").tolist() == [not s for s in same]
    pairs = [((a.real, a.imag), (b.real, b.imag)) for a, b in zip(map(complex, x), map(complex, y))]
    for direction, holds in (("LT", lt), ("LE", le), ("GT", gt), ("GE", ge)):
        wanted = [
            (holds(a[0], b[0]) and a[0] != b[0]) or (a[0] == b[0] and holds(a[1], b[1]))
            for a, b in pairs
        ]
        assert run("compare", x, y, result="pred", direction=direction).tolist() == wanted


@pytest.mark.parametrize("type_name", FLOATS)
def test_total_order_of_every_float_type(type_name: str) -> None:
    """The values, sorted by what IEEE 754 says of totalOrder, compare as their positions do."""
    t = BY_NAME[type_name]
    values = sample(t)
    if t.bits > 8:
        values = np.concatenate([values, from_bits(~bits_of(values[6:7], t) | 1, t)])

    def place(v: Any) -> tuple[float, ...]:
        wide, negative = float(v), bool(np.signbit(np.float32(v)))
        raw = int(bits_of(np.array([v]), t)[0])
        if math.isnan(wide) and t.has_negative_zero:
            sign = raw >> (t.bits - 1)
            size = raw & ((1 << (t.bits - 1)) - 1)
            return (-math.inf, -1, -size) if sign else (math.inf, 1, size)
        if math.isnan(wide):
            return (math.inf, 1, 0)
        return (wide, -1 if negative else 0, 0)

    x, y = all_pairs(values)
    keys = [(place(a), place(b)) for a, b in zip(x, y)]
    for direction, relation in RELATIONS.items():
        got = run("compare", x, y, result="pred", direction=direction, type="TOTALORDER")
        assert got.tolist() == [relation(a, b) for a, b in keys], direction


# -- select and clamp ----------------------------------------------------------------------


@pytest.mark.parametrize("type_name", [t.name for t in ARRAY_TYPES])
def test_select(type_name: str) -> None:
    x = sample(BY_NAME[type_name])
    y, where = x[::-1], np.arange(len(x)) % 3 == 0
    got = run("select", where, x, y, result=type_name)
    assert got.dtype == x.dtype
    assert got.tobytes() == b"".join((a if w else b).tobytes() for w, a, b in zip(where, x, y))
    assert run("select", np.array(True), x, y, result=type_name).tobytes() == x.tobytes()


@pytest.mark.parametrize("type_name", ["pred", *INTEGERS, *FLOATS])
def test_clamp(type_name: str) -> None:
    t = BY_NAME[type_name]
    values = sample(t)[:12]
    low, x, high = (np.array(v, t.numpy) for v in zip(*itertools.product(values, repeat=3)))
    got = run("clamp", low, x, high, result=type_name)
    assert got.dtype == t.numpy
    convert = float if t.is_floating else int
    for a, b, c, answer in zip(low, x, high, got):
        three = [convert(v) for v in (a, b, c)]
        if any(math.isnan(v) for v in three):
            assert math.isnan(convert(answer))
        else:
            assert convert(answer) == min(max(three[1], three[0]), three[2])


def test_clamp_with_scalar_bounds() -> None:
    x = np.array([[-5, 0], [5, 9]], np.int32)
    got = run("clamp", np.int32(-1), x, np.int32(6), result="s32", dims=(2, 2))
    assert got.tolist() == [[-1, 0], [5, 6]]


def test_select_of_tuples() -> None:
    pass_through = run("select", np.array(False), np.float32(1), np.float32(2), result="f32")
    assert pass_through == 2


# -- convert -------------------------------------------------------------------------------


def expected(value: Any, source: DType, target: DType) -> Any:
    """One conversion by Python's numbers; a numpy scalar of the target type."""
    number: Any = (
        complex(value)
        if source.is_complex
        else (float(value) if source.is_floating else int(value))
    )
    if target.is_complex:
        return target.numpy.type(number)
    if source.is_complex and not target.is_pred:
        number = number.real
    if target.is_pred:
        return np.bool_(number != 0)
    if target.is_floating:
        with np.errstate(all="ignore"):
            if target is BY_NAME["f64"]:
                return np.float64(number)
            wide = np.float32(number) if source.bits <= 8 else np.array(value).real
            return np.asarray(wide).astype(target.numpy)[()]
    low = -(1 << (target.bits - 1)) if target.is_signed_int else 0
    high = low + (1 << target.bits) - 1
    if isinstance(number, float):
        if math.isnan(number):
            number = 0
        elif math.isinf(number):
            number = high if number > 0 else low
        number = min(max(math.trunc(number), low), high)
    number = (number - low) % (1 << target.bits) + low
    small = np.array(number, np.int8 if low else np.uint8) if target.is_sub_byte else number
    return np.array(small, target.numpy if not target.is_sub_byte else None).astype(target.numpy)[
        ()
    ]


@pytest.mark.parametrize("target_name", [t.name for t in ARRAY_TYPES])
@pytest.mark.parametrize("source_name", [t.name for t in ARRAY_TYPES])
def test_convert_all_pairs(source_name: str, target_name: str) -> None:
    source, target = BY_NAME[source_name], BY_NAME[target_name]
    x = sample(source)
    got = run("convert", x, result=target_name)
    assert got.dtype == target.numpy
    for value, answer in zip(x, got):
        wanted = expected(value, source, target)
        both_nan = answer != answer and wanted != wanted
        assert both_nan or np.array_equal(answer, wanted), (value, answer, wanted)


# -- bitcast-convert -----------------------------------------------------------------------


# pred has one bit of its eight, and six bits divide nothing but themselves.
BITCASTS = [
    (x.name, y.name)
    for x, y in itertools.product(ARRAY_TYPES, repeat=2)
    if max(x.bits, y.bits) <= 64
    and not (x.is_pred or y.is_pred)
    and (x.bits == y.bits or 6 not in (x.bits, y.bits))
]


@pytest.mark.parametrize(("source_name", "target_name"), BITCASTS)
def test_bitcast_there_and_back(source_name: str, target_name: str) -> None:
    source, target = BY_NAME[source_name], BY_NAME[target_name]
    wide, narrow = max(source.bits, target.bits), min(source.bits, target.bits)
    ratio = wide // narrow
    values = sample(source)
    values = np.resize(values, (len(values), ratio) if source.bits < target.bits else len(values))
    there = run("bitcast-convert", values, result=target_name)
    assert there.dtype == target.numpy
    back = run("bitcast-convert", there, result=source_name)
    assert back.shape == values.shape
    assert (bits_of(back, source) == bits_of(values, source)).all()


def test_bitcast_puts_low_bits_first() -> None:
    word = np.array([0x04030201], np.uint32)
    assert run("bitcast-convert", word, result="u8").tolist() == [[1, 2, 3, 4]]
    nibbles = run("bitcast-convert", np.array([0x21, 0xF3], np.uint8), result="s4")
    assert nibbles.astype(int).tolist() == [[1, 2], [3, -1]]
    assert run("bitcast-convert", nibbles, result="u8").tolist() == [0x21, 0xF3]
    assert run("bitcast-convert", np.float32([1.0]), result="u32").tolist() == [0x3F800000]


def test_bitcast_of_wide_complex() -> None:
    z = np.array([1 + 2j, 3 - 4j])
    words = run("bitcast-convert", z, result="f64")
    assert words.tolist() == [[1, 2], [3, -4]]
    assert run("bitcast-convert", words, result="c128").tolist() == z.tolist()


# -- reduce-precision ----------------------------------------------------------------------


def rounded_to(value: float, exponents: int, mantissas: int) -> float:
    """By definition: the nearest number 2**e * m of that format, no denormals, ties to even."""
    if value == 0 or math.isnan(value) or math.isinf(value):
        return value
    fraction, exponent = math.frexp(value)
    scaled = fraction * 2.0 ** (mantissas + 1)
    near = float(round(scaled))
    size = math.ldexp(near, exponent - mantissas - 1)
    bias = (1 << (exponents - 1)) - 1
    _, exponent = math.frexp(size)
    if exponent - 1 > bias:
        return math.copysign(math.inf, value)
    if exponent - 1 < 1 - bias:
        return math.copysign(0.0, value)
    return size


@pytest.mark.parametrize("bits", [(5, 10), (8, 7), (5, 2), (4, 3), (8, 0), (2, 1), (8, 23)])
@pytest.mark.parametrize("type_name", ["f32", "f64", "f16", "bf16"])
def test_reduce_precision(type_name: str, bits: tuple[int, int]) -> None:
    t, (exponents, mantissas) = BY_NAME[type_name], bits
    drawn = np.random.default_rng(1)
    values = drawn.normal(size=300) * 2.0 ** drawn.integers(-9, 9, 300)
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 65504.0, 65520.0, 464.0, 448.0, 6.1e-5]
    with np.errstate(over="ignore"):
        x = np.concatenate([values, special, [2.0**-14, -(2.0**-6), 1.25, 1.75]]).astype(t.numpy)
    wide = np.abs(x.astype(float))
    x = x[~((wide > 0) & (wide < 2.0 ** (1 - t.exponent_bias)))]  # denormals: see below
    got = run("reduce-precision", x, exponent_bits=exponents, mantissa_bits=mantissas)
    kept = min(exponents, t.exponent_bits), min(mantissas, t.mantissa_bits)
    wanted = [rounded_to(v, *kept) for v in x.astype(float).tolist()]
    assert got.dtype == t.numpy
    assert np.array_equal(got.astype(float), wanted, equal_nan=True)
    assert (np.signbit(got.astype(float)) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_reduce_precision_keeps_denormals_of_the_same_exponents() -> None:
    x = np.array([1e-40, -3e-45], np.float32)
    assert (run("reduce-precision", x, exponent_bits=8, mantissa_bits=23) == x).all()
    assert run("reduce-precision", x, exponent_bits=7, mantissa_bits=23).tolist() == [0, 0]


# -- stochastic-convert --------------------------------------------------------------------


def test_stochastic_convert_to_integers() -> None:
    x = np.array([1.25, -1.25, 3.0, -0.5, 1e9, math.nan, -math.inf], np.float32)
    low = np.zeros(7, np.uint32)
    high = np.full(7, 2**32 - 1, np.uint32)
    up = run("stochastic-convert", x, low, result="s8")
    assert up.tolist() == [2, -2, 3, -1, 127, 0, -128]
    assert run("stochastic-convert", x, high, result="s8").tolist() == [1, -1, 3, 0, 127, 0, -128]


@pytest.mark.parametrize("target", ["bf16", "f16", "f8e5m2", "f8e4m3fn"])
def test_stochastic_convert_goes_up_as_often_as_it_should(target: str) -> None:
    value, count = 1 + 2.0**-12 + 3 * 2.0**-5, 4096
    x = np.full(count, value, np.float32)
    random = (np.arange(count, dtype=np.uint64) << np.uint64(20)).astype(np.uint32)
    got = run("stochastic-convert", x, random, result=target).astype(float)
    assert len(set(got.tolist())) <= 2
    assert abs(got.mean() - value) <= (got.max() - got.min()) / count + 1e-9
    below = -run("stochastic-convert", -x, random, result=target).astype(float)
    assert (below == got).all()


def test_stochastic_convert_keeps_what_fits() -> None:
    x = np.array([1.0, -0.0, 0.5, math.inf, 2.0**-133], np.float32)
    got = run("stochastic-convert", x, np.full(5, 7, np.uint32), result="bf16").astype(float)
    assert got.tolist() == x.astype(float).tolist()
