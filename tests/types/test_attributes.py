"""The text of typed attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloom.base.diagnostics import UsageError
from hloom.types.attributes import Typed, parsed_attributes


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("1", "s64", 1),
        ("-3 : i8", "s8", -3),
        ("255 : i8", "s8", -1),
        ("76 : ui8", "u8", 76),
        ("18446744073709551615 : ui64", "u64", 2**64 - 1),
        ("7 : index", "s64", 7),
        ("0x1F : si32", "s32", 31),
        ("2.5", "f64", 2.5),
        ("-1.5e-01 : f32", "f32", np.float32(-0.15)),
        ("0x7F800000 : f32", "f32", np.inf),
        ("0x3F80 : bf16", "bf16", 1),
        ("1 : f16", "f16", 1),
        ("true", "pred", True),
        ("array<i64: 1, -2>", "s64", [1, -2]),
        ("array<i1: true, false>", "pred", [True, False]),
        ("array<f32>", "f32", []),
        ("dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>", "s32", [1, 2, 3, 4]),
        ("dense<1.5> : tensor<3xf64>", "f64", [1.5, 1.5, 1.5]),
        ('dense<"0x01020300"> : tensor<2xui16>', "u16", [0x201, 3]),
        ("dense<(1.0,-2.0)> : tensor<1xcomplex<f32>>", "c64", [1 - 2j]),
        ("dense<> : tensor<0xi8>", "s8", []),
    ],
)
def test_numbers_have_the_type_that_is_written(text: str, dtype: str, value: Any):
    (made,) = parsed_attributes(f"{{a = {text}}}").values()
    assert isinstance(made, Typed)
    assert made.dtype.name == dtype
    np.testing.assert_array_equal(made.value, np.array(value, made.dtype.numpy))
    assert np.ndim(made.value) == np.ndim(value)


def test_strings_and_dictionaries():
    text = r'{a = "x\22y\n\C3\A9", "b c" = {d = {}, e = "f"}, g}'
    assert parsed_attributes(text) == {"a": 'x"y\né', "b c": {"d": {}, "e": "f"}, "g": {}}
    assert parsed_attributes(" ") == {}
    assert parsed_attributes("{}") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{a = @x}", "a strange character at character 5"),
        ("{a = 1", "',' is missing"),
        ("a", "'{' is missing"),
        ("{a = 300 : i8}", "300 does not fit in s8"),
        ("{a = -129 : i8}", "-129 does not fit in s8"),
        ("{a = 1.5 : i8}", "1.5 is no s8"),
        ("{a = 1} b", "something follows"),
        ("{a = 1, a = 2}", "given twice"),
        ("{a = [1, 2]}", "cannot be handed over"),
        ("{a = affine_map<(d0) -> (d0)>}", "attributes like 'affine_map'"),
        ("{a = 1 : foo}", "no element type is called 'foo'"),
        ("{a = dense<[1, 2]> : tensor<3xi8>}", "2 elements where 3 are wanted"),
        ("{a = dense<1> : i8}", "a tensor type is missing"),
        ("{a = 0x1FFFF : f16}", "is too long for f16"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, message: str):
    with pytest.raises(UsageError, match=r"of a custom call's attributes") as told:
        parsed_attributes(text)
    assert message in str(told.value)
