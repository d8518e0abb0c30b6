"""What has no code is refused by name, before anything wrong is computed."""

from __future__ import annotations

import pytest

from hloom.base.diagnostics import HloError
from hloom.compiler import compile_module
from hloom.ir.text import parse_module

LOOP_IN_REDUCER = """
HloModule m
less { s = f32[] parameter(0)  n = f32[] constant(3)  ROOT l = pred[] compare(s, n), direction=LT }
twice { s = f32[] parameter(0)  ROOT d = f32[] add(s, s) }
add { x = f32[] parameter(0)  y = f32[] parameter(1)
  w = f32[] while(y), condition=less, body=twice
  ROOT r = f32[] add(x, w) }
ENTRY e { x = f32[4,3] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=add }
"""


def test_loops_in_what_combines_elements():
    with pytest.raises(HloError, match="while in what combines or compares elements") as caught:
        compile_module(parse_module(LOOP_IN_REDUCER))
    assert caught.value.rule == "cpu-unsupported" and "%w" in str(caught.value)
