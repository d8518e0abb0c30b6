"""Integers compared in total order, as JAX writes from 0.11 on: the order that they have."""

from __future__ import annotations

import numpy as np
import pytest

import hloom

TYPES = {"s8": np.int8, "s32": np.int32, "u32": np.uint32, "s64": np.int64, "pred": np.bool_}


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
@pytest.mark.parametrize("of", TYPES)
def test_compared(of: str, direction: str) -> None:
    text = f"""HloModule m
ENTRY e {{
  a = {of}[5] parameter(0)
  b = {of}[5] parameter(1)
  ROOT c = pred[5] compare(a, b), direction={direction}, type=TOTALORDER
}}
"""
    a, b = [np.array(x).astype(TYPES[of]) for x in ([1, -2, 3, 0, -7], [2, 1, 3, -1, 7])]
    module = hloom.parse(text)
    assert "type=TOTALORDER" in str(module)
    operation = {"EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal"}
    operation |= {"GT": "greater", "GE": "greater_equal"}
    wanted = getattr(np, operation[direction])(a, b)
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(a, b)), wanted)
    np.testing.assert_array_equal(np.asarray(hloom.evaluate(module, a, b).array), wanted)


def test_sorted_with_a_payload() -> None:
    text = """HloModule m
%less (a: s32[], b: s32[], p: f32[], q: f32[]) -> pred[] {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  p = f32[] parameter(2)
  q = f32[] parameter(3)
  ROOT lt = pred[] compare(a, b), direction=LT, type=TOTALORDER
}
ENTRY e {
  x = s32[3,100] parameter(0)
  y = f32[3,100] parameter(1)
  ROOT s = (s32[3,100], f32[3,100]) sort(x, y), dimensions={1}, is_stable=true, to_apply=%less
}
"""
    random = np.random.default_rng(0)
    x, y = random.integers(-20, 20, (3, 100), np.int32), random.random((3, 100), np.float32)
    keys, payload = hloom.compile(text)(x, y)
    order = np.argsort(x, 1, kind="stable")
    np.testing.assert_array_equal(np.asarray(keys), np.take_along_axis(x, order, 1))
    np.testing.assert_array_equal(np.asarray(payload), np.take_along_axis(y, order, 1))
