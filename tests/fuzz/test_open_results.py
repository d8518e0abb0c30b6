"""What the fuzzers' judge takes for open, and what it does not."""

import numpy as np
import pytest

from hloom.ir.text import parse_module
from tests.fuzz.check_native import NotJudged, Trial, difference, different
from tests.fuzz.open_results import has_single_result, is_open, rounded_at_every_step


def reduction(expression: str, dtype: str = "f32", size: int = 24) -> str:
    return f"""
HloModule m

f {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  half = {dtype}[] constant(1)
  c = {dtype}[] multiply(a, b)
  ROOT r = {dtype}[] {expression}
}}

ENTRY e {{
  x = {dtype}[3,{size}] parameter(0)
  c = {dtype}[] constant(0)
  ROOT r = {dtype}[3] reduce(x, c), dimensions={{1}}, to_apply=f
}}
"""


@pytest.mark.parametrize("dtype", ["f32", "s32", "bf16", "u8"])
@pytest.mark.parametrize(
    ("expression", "single"),
    [
        ("add(a, b)", True),
        ("multiply(b, a)", True),
        ("maximum(a, b)", True),
        ("subtract(a, b)", False),
        ("divide(a, b)", False),
        ("add(c, b)", False),
        ("copy(b)", False),
        ("power(a, b)", False),
    ],
)
def test_reducers(expression, single, dtype):
    module = parse_module(reduction(expression, dtype))
    assert has_single_result(module["f"]) is single
    assert is_open(module) is not single


def test_the_first_of_equal_values_has_no_single_place_unless_said():
    text = """
HloModule m

f {
  v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(v, w), direction=GT
  same = pred[] compare(v, w), direction=EQ
  least = pred[] compare(i, j), direction=LT
  first = pred[] and(same, least)
  keep = pred[] or(more, KEEP)
  x = f32[] select(keep, v, w)
  k = s32[] select(keep, i, j)
  ROOT r = (f32[], s32[]) tuple(x, k)
}

ENTRY e { ROOT x = f32[] parameter(0) }
"""
    assert has_single_result(parse_module(text.replace("KEEP", "first"))["f"])
    assert not has_single_result(parse_module(text.replace("KEEP", "same"))["f"])


def test_a_difference_of_many_is_not_judged_but_one_of_elements_is():
    module = parse_module(reduction("subtract(a, b)"))
    try:
        assert difference(module, Trial("integral")) == ""
    except NotJudged as error:
        assert "no single result" in str(error)
    want = parse_module("HloModule m\n\nENTRY e { ROOT c = f32[2] constant({1, 2}) }")
    literal = want.entry.root.attrs.literal
    assert "1 of 2" in different(np.array([1, 3], np.float32), literal, Trial(), 2e-4)


def test_roundings_of_narrow_sums():
    assert rounded_at_every_step(parse_module(reduction("add(a, b)"))) == 0
    of_24 = rounded_at_every_step(parse_module(reduction("add(a, b)", "bf16")))
    assert of_24 == 24 * 2**-8
    window = """
HloModule m

f { a = f16[] parameter(0)  b = f16[] parameter(1)  ROOT r = f16[] add(a, b) }

ENTRY e {
  x = f16[100] parameter(0)
  c = f16[] constant(0)
  ROOT r = f16[98] reduce-window(x, c), window={size=3}, to_apply=f
}
"""
    assert rounded_at_every_step(parse_module(window)) == 3 * 2**-11
