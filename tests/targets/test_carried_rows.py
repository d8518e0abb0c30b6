"""Short rows that loops read and write whole stay in registers."""

import re

import numpy as np
import pytest

import hloom

FILTER = """HloModule m

body {{
  s = (s32[], {t}[{n}], {t}[20,{n}], {t}[20,{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  c = {t}[{n}] get-tuple-element(s), index=1
  x = {t}[20,{n}] get-tuple-element(s), index=2
  o = {t}[20,{n}] get-tuple-element(s), index=3
  one = s32[] constant(1)
  z = s32[] constant(0)
  j = s32[] add(i, one)
  p = {t}[1,{n}] dynamic-slice(x, i, z), dynamic_slice_sizes={{1,{n}}}
  q = {t}[{n}] reshape(p)
  d = {t}[{n}] subtract(q, c)
  h = {t}[] constant(3)
  b = {t}[{n}] broadcast(h), dimensions={{}}
  e = {t}[{n}] divide(d, b)
  r = {t}[{n}] add(c, e)
  w = {t}[1,{n}] reshape(r)
  u = {t}[20,{n}] dynamic-update-slice(o, w, i, z)
  ROOT k = (s32[], {t}[{n}], {t}[20,{n}], {t}[20,{n}]) tuple(j, r, x, u)
}}

condition {{
  s = (s32[], {t}[{n}], {t}[20,{n}], {t}[20,{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  m = s32[] constant({steps})
  ROOT l = pred[] compare(i, m), direction=LT
}}

ENTRY e {{
  c = {t}[{n}] parameter(0)
  x = {t}[20,{n}] parameter(1)
  z = s32[] constant(0)
  f = {t}[] constant(0)
  o = {t}[20,{n}] broadcast(f), dimensions={{}}
  s = (s32[], {t}[{n}], {t}[20,{n}], {t}[20,{n}]) tuple(z, c, x, o)
  w = (s32[], {t}[{n}], {t}[20,{n}], {t}[20,{n}]) while(s), condition=condition, body=body
  a = {t}[{n}] get-tuple-element(w), index=1
  b = {t}[20,{n}] get-tuple-element(w), index=3
  ROOT k = ({t}[{n}], {t}[20,{n}]) tuple(a, b)
}}
"""


@pytest.mark.parametrize("steps", [0, 1, 20])
@pytest.mark.parametrize("t", ["f32", "f64", "s32", "bf16"])
@pytest.mark.parametrize("n", [2, 3, 8, 16, 31, 64, 65, 300])
def test_a_filter(n: int, t: str, steps: int):
    text = FILTER.format(n=n, t=t, steps=steps)
    module = hloom.parse(text)
    args = hloom.random_arguments(module, seed=n)
    exe = hloom.compile(module)
    for got, expected in zip(exe(*args), hloom.evaluate(module, *args).leaves(), strict=True):
        a, b = np.asarray(got).astype(float), expected.array.astype(float)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=3e-2 if t == "bf16" else 1e-6)
    carried = re.search(rf"= while \(.*\) : .*{t}\[{n}\]", exe.as_text("kernels"))
    if t == "f32" and n in (3, 8) and steps > 1:
        assert carried is not None
    if t == "bf16" or n == 300:  # narrower types are rounded at every step
        assert carried is None


def loop_of(step: str, condition: str = "LT") -> str:
    """A loop of five steps over two rows; `step` says what becomes of them."""
    row = "f32[6]"
    state = f"(s32[], {row}, {row})"
    return f"""HloModule m

body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = {row} get-tuple-element(s), index=1
  y = {row} get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  {step}
  ROOT k = {state} tuple(j, u, v)
}}

condition {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  m = s32[] constant(5)
  ROOT l = pred[] compare(i, m), direction={condition}
}}

ENTRY e {{
  x = {row} parameter(0)
  y = {row} parameter(1)
  z = s32[] constant(0)
  s = {state} tuple(z, x, y)
  w = {state} while(s), condition=condition, body=body
  a = {row} get-tuple-element(w), index=1
  b = {row} get-tuple-element(w), index=2
  ROOT k = ({row}, {row}) tuple(a, b)
}}
"""


@pytest.mark.parametrize(
    "step",
    [
        "u = f32[6] add(x, y) v = f32[6] subtract(x, y)",
        "u = f32[6] negate(y) v = f32[6] add(x, x)",
        "u = f32[6] copy(y) v = f32[6] copy(x)",
        "u = f32[6] reverse(x), dimensions={0} v = f32[6] add(x, u)",
        "u = f32[6] sine(x) v = f32[6] copy(y)",
        "p = f32[5] slice(x), slice={[1:6]} q = f32[1] slice(y), slice={[2:3]} "
        "u = f32[6] concatenate(p, q), dimensions={0} v = f32[6] multiply(u, y)",
        "p = f32[1] slice(x), slice={[0:1]} q = f32[] reshape(p) "
        "b = f32[6] broadcast(q), dimensions={} u = f32[6] add(b, y) v = f32[6] add(x, y)",
        "q = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1} "
        "u = f32[6] dynamic-update-slice(x, q, j) v = f32[6] add(x, y)",
    ],
)
@pytest.mark.parametrize("condition", ["LT", "GT"])
def test_other_steps(step: str, condition: str):
    module = hloom.parse(loop_of(step, condition))
    args = hloom.random_arguments(module, seed=1)
    wanted = hloom.evaluate(module, *args).leaves()
    for got, expected in zip(hloom.compile(module)(*args), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got), expected.array, rtol=1e-5, atol=1e-6)
