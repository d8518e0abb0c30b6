"""Fusions whose results are updates of operands, in place and elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.compiler import compile_module

KEPT = 'backend_config={"fusion_config":{"kind":"loop"}}'
"""What says that the fusion was made for our kernels, so that it is not taken apart."""
HEAD = "x = f32[3] parameter(0)\n  i = s32[] parameter(1)\n  y = f32[8] parameter(2)"
# What is updated is computed in the fusion; two results, one of each; and read elsewhere.
FUSIONS = {
    "computed": """z = f32[] constant(5)
  b = f32[8] broadcast(z), dimensions={}
  n = f32[8] add(b, y)
  ROOT d = f32[8] dynamic-update-slice(n, x, i)""",
    "two": """n = f32[8] negate(y)
  d = f32[8] dynamic-update-slice(n, x, i)
  e = f32[8] dynamic-update-slice(y, x, i)
  ROOT t = (f32[8], f32[8]) tuple(d, e)""",
    "elsewhere": """d = f32[3] dynamic-slice(y, i), dynamic_slice_sizes={3}
  a = f32[3] add(d, x)
  c = s32[] constant(2)
  ROOT e = f32[8] dynamic-update-slice(y, a, c)""",
    "in-place": """d = f32[3] dynamic-slice(y, i), dynamic_slice_sizes={3}
  a = f32[3] add(d, x)
  ROOT e = f32[8] dynamic-update-slice(y, a, i)""",
}


def update(name: str, again: bool) -> str:
    """`again`: the operand is read after the fusion too, so it cannot be overwritten."""
    result = "(f32[8], f32[8])" if name == "two" else "f32[8]"
    return f"""HloModule m
f {{ {HEAD}
  {FUSIONS[name]} }}
ENTRY e {{ {HEAD}
  z = f32[8] negate(y)
  r = {result} fusion(x, i, z), kind=kLoop, calls=f, {KEPT}
  ROOT t = ({result}, f32[8]) tuple(r, {"z" if again else "y"}) }}"""


@pytest.mark.parametrize("name", FUSIONS)
@pytest.mark.parametrize("again", [False, True])
def test_updates_keep_what_they_do_not_change(name: str, again: bool):
    module = hloom.parse(update(name, again))
    run = compile_module(module, cached=False)
    x, y = np.array([100, 200, 300], np.float32), np.arange(8, dtype=np.float32) + 1
    for i in (0, 4, 7):
        expected = hloom.evaluate(module, x, np.int32(i), y)
        found = run(x, np.int32(i), y)
        parts = found[0] if name == "two" else found[:1]
        wanted = expected.elements[0].elements if name == "two" else expected.elements[:1]
        for a, b in zip(parts, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b.array)


SWAPS = """HloModule m
b { s = (s32[], s32[5], s32[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  p = s32[5] get-tuple-element(s), index=1
  w = s32[5] get-tuple-element(s), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  k1 = s32[1] dynamic-slice(w, i), dynamic_slice_sizes={1}
  k = s32[] reshape(k1)
  a = s32[1] dynamic-slice(p, i), dynamic_slice_sizes={1}
  c = s32[1] dynamic-slice(p, k), dynamic_slice_sizes={1}
  q = s32[5] dynamic-update-slice(p, c, i)
  r = s32[5] dynamic-update-slice(q, a, k)
  ROOT t = (s32[], s32[5], s32[5]) tuple(n, r, w) }
c { s = (s32[], s32[5], s32[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  five = s32[] constant(5)
  ROOT l = pred[] compare(i, five), direction=LT }
ENTRY e { w = s32[5] parameter(0)
  zero = s32[] constant(0)
  p = s32[5] iota(), iota_dimension=0
  s = (s32[], s32[5], s32[5]) tuple(zero, p, w)
  l = (s32[], s32[5], s32[5]) while(s), condition=c, body=b
  ROOT r = s32[5] get-tuple-element(l), index=1 }"""


def test_a_loop_that_swaps_elements_makes_a_permutation():
    pivots = np.array([3, 1, 4, 4, 4], np.int32)
    expected = list(range(5))
    for i, k in enumerate(pivots):
        expected[i], expected[k] = expected[k], expected[i]
    run = compile_module(hloom.parse(SWAPS), cached=False)
    np.testing.assert_array_equal(np.asarray(run(pivots)), expected)
