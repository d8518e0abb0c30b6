"""Elementwise operations on integers and pred, against Python's numbers cut to the width.

Floats and complex numbers are in `test_elementwise_float` and `test_elementwise_complex`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.types.dtype import BY_NAME, INTEGER_TYPES, DType
from tests.interp.one_op import run

INTEGERS = [t.name for t in INTEGER_TYPES]

# -- integers ------------------------------------------------------------------------------


def bounds(t: DType) -> tuple[int, int]:
    if t.is_signed_int:
        return -(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1
    return 0, (1 << t.bits) - 1


def wrap(value: int, t: DType) -> int:
    low, _ = bounds(t)
    return (value - low) % (1 << t.bits) + low


def raw(value: int, t: DType) -> int:
    return value % (1 << t.bits)


def integer_values(t: DType) -> list[int]:
    """All of a narrow type; of a wide one the ends, small ones and some in between."""
    low, high = bounds(t)
    if t.bits <= 4:
        return list(range(low, high + 1))
    drawn = np.random.default_rng(t.bits).integers(low, high, 8, dtype=t.numpy).tolist()
    around = [v for k in (t.bits // 2, t.bits - 2) for v in ((1 << k) - 1, 1 << k)]
    small = [v for v in (-3, -2, -1, 0, 1, 2, 3, 7, t.bits - 1, t.bits, t.bits + 1) if v >= low]
    return [low, low + 1, high - 1, high, *small, *around, *drawn]


def integers(values: list[int], t: DType) -> Any:
    if t.is_sub_byte:
        return np.array(values, np.int8).astype(t.numpy)
    return np.array(values, t.numpy)


def quotient(x: int, y: int, t: DType) -> int:
    if y == 0:
        return -1
    magnitude = abs(x) // abs(y)
    return magnitude if (x < 0) == (y < 0) else -magnitude


def power(x: int, y: int, t: DType) -> int:
    if y >= 0:
        return pow(x, y, 1 << t.bits)
    if x in (1, -1):
        return 1 if x == 1 or y % 2 == 0 else -1
    return 0


BINARY_INTEGER: dict[str, Callable[[int, int, DType], int]] = {
    "add": lambda x, y, t: x + y,
    "subtract": lambda x, y, t: x - y,
    "multiply": lambda x, y, t: x * y,
    "mulhi": lambda x, y, t: (x * y) >> t.bits,
    "divide": quotient,
    "remainder": lambda x, y, t: x if y == 0 else x - y * quotient(x, y, t),
    "power": power,
    "maximum": lambda x, y, t: max(x, y),
    "minimum": lambda x, y, t: min(x, y),
    "and": lambda x, y, t: x & y,
    "or": lambda x, y, t: x | y,
    "xor": lambda x, y, t: x ^ y,
    "shift-left": lambda x, y, t: x << raw(y, t) if raw(y, t) < t.bits else 0,
    "shift-right-logical": lambda x, y, t: raw(x, t) >> raw(y, t),
    "shift-right-arithmetic": lambda x, y, t: signed(x, t) >> min(raw(y, t), t.bits),
}
UNARY_INTEGER: dict[str, Callable[[int, DType], int]] = {
    "abs": lambda x, t: abs(x),
    "negate": lambda x, t: -x,
    "not": lambda x, t: ~x,
    "sign": lambda x, t: (x > 0) - (x < 0),
    "popcnt": lambda x, t: raw(x, t).bit_count(),
    "count-leading-zeros": lambda x, t: t.bits - raw(x, t).bit_length(),
}


def signed(x: int, t: DType) -> int:
    """The value whose bits these are in the signed type of the same width."""
    return raw(x, t) - (1 << t.bits) * (raw(x, t) >> (t.bits - 1))


@pytest.mark.parametrize("type_name", INTEGERS)
@pytest.mark.parametrize("opcode", BINARY_INTEGER)
def test_integer_binary(opcode: str, type_name: str) -> None:
    t = BY_NAME[type_name]
    values = [int(v) for v in integers(integer_values(t), t)]
    x = integers([a for a in values for _ in values], t)
    y = integers([b for _ in values for b in values], t)
    got = run(opcode, x, y)
    assert got.dtype == t.numpy
    wanted = [wrap(BINARY_INTEGER[opcode](a, b, t), t) for a in values for b in values]
    assert [int(v) for v in got] == wanted


@pytest.mark.parametrize("type_name", INTEGERS)
@pytest.mark.parametrize("opcode", UNARY_INTEGER)
def test_integer_unary(opcode: str, type_name: str) -> None:
    t = BY_NAME[type_name]
    x = integers(integer_values(t), t)
    got = run(opcode, x)
    assert got.dtype == t.numpy
    assert [int(v) for v in got] == [wrap(UNARY_INTEGER[opcode](int(v), t), t) for v in x]


@pytest.mark.parametrize("opcode", ["add", "multiply", "and", "or", "xor", "maximum", "minimum"])
def test_pred(opcode: str) -> None:
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    wanted = {"add": "0111", "or": "0111", "maximum": "0111", "xor": "0110"}.get(opcode, "0001")
    got = run(opcode, x, y)
    assert got.dtype == np.bool_
    assert "".join(str(int(v)) for v in got) == wanted


def test_not_of_pred() -> None:
    assert run("not", np.array([True, False])).tolist() == [False, True]


def test_scalars_stay_arrays() -> None:
    got = run("add", np.int32(2**31 - 1), np.int32(1))
    assert isinstance(got, np.ndarray)
    assert got.shape == ()
    assert int(got) == -(2**31)


# -- what is not defined -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opcode", "type_name"),
    [("erf", "c64"), ("sine", "s32"), ("and", "f32"), ("is-finite", "s8"), ("negate", "pred")],
)
def test_undefined_types_are_errors(opcode: str, type_name: str) -> None:
    x = np.zeros(2, BY_NAME[type_name].numpy)
    with pytest.raises(EvalError, match=f"{opcode} is not defined for {type_name}"):
        run(opcode, *([x, x] if opcode == "and" else [x]))
