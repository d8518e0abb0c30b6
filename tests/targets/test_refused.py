"""What has no code is refused by name, before anything wrong is computed."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
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


HANDED_ON = {
    "a tuple": "ROOT t = (f32[4,5]{1,0}) tuple(x)",
    "an operation": "ROOT n = f32[4,5]{0,1} add(x, y)",
    "unit sizes": "z = f32[1,5]{0,1} slice(x), slice={[0:1], [0:5]}  ROOT t = (f32[1,5]) tuple(z)",
}


@pytest.mark.parametrize("name", HANDED_ON)
def test_no_array_is_handed_on_in_another_order(name: str):
    """With the pass that moves elements left out, a program is right or refused."""
    module = parse_module(
        "ENTRY e { x = f32[4,5]{0,1} parameter(0)  y = f32[4,5]{1,0} parameter(1) "
        f"{HANDED_ON[name]} }}"
    )
    arguments = hloom.random_arguments(module, seed=0)
    want = hloom.evaluate(module, *arguments)
    left_out = {"disable_hlo_passes": "layout-normalization"}
    if name == "a tuple":
        with pytest.raises(HloError, match=r"hands .* on as .*\n.*layout-normalization"):
            hloom.compile(module, options=left_out)
        return
    got = hloom.compile(module, options=left_out)(*arguments)
    if want.shape.is_tuple:
        (got,), (want,) = got, want.elements
    np.testing.assert_array_equal(np.asarray(got), want.array)
