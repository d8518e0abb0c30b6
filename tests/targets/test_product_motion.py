"""Products that leave a loop compute what the steps would have computed: an RNN and the gradient of
its weights, forwards and backwards through the stack, whatever the sizes."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.types.dtype import F64


def program(steps: int, rows: int, width: int, backwards: bool, of: str) -> str:
    stack, row, square = (
        f"{of}[{steps},{rows},{width}]",
        f"{of}[{rows},{width}]",
        f"{of}[{width},{width}]",
    )
    state = f"(s32[], {row}, {square}, {square}, {stack}, {square})"
    at = "back" if backwards else "i"
    return f"""HloModule m
body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  last = s32[] constant({steps - 1})
  back = s32[] subtract(last, i)
  j = s32[] add(i, one)
  h = {row} get-tuple-element(s), index=1
  w = {square} get-tuple-element(s), index=2
  u = {square} get-tuple-element(s), index=3
  xs = {stack} get-tuple-element(s), index=4
  sum = {square} get-tuple-element(s), index=5
  zero = s32[] constant(0)
  part = {of}[1,{rows},{width}] dynamic-slice(xs, {at}, zero, zero), \
dynamic_slice_sizes={{1,{rows},{width}}}
  x = {row} reshape(part)
  a = {row} dot(h, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = {row} dot(x, u), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  c = {row} add(a, b)
  k = {row} tanh(c)
  d = {square} dot(k, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  e = {square} transpose(d), dimensions={{1,0}}
  more = {square} add(sum, e)
  ROOT t = {state} tuple(j, k, w, u, xs, more)
}}
test {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({steps})
  ROOT go = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  h = {row} parameter(0)
  w = {square} parameter(1)
  u = {square} parameter(2)
  xs = {stack} parameter(3)
  sum = {square} parameter(4)
  start = s32[] constant(0)
  s = {state} tuple(start, h, w, u, xs, sum)
  r = {state} while(s), condition=test, body=body
  k = {row} get-tuple-element(r), index=1
  g = {square} get-tuple-element(r), index=5
  ROOT o = ({row}, {square}) tuple(k, g)
}}"""


def expected(h, w, u, xs, total, backwards):
    for x in xs[::-1] if backwards else xs:
        h = np.tanh(h @ w + x @ u)
        total = total + x.T @ h
    return h, total


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("steps", "rows", "width", "of"),
    [(4, 1, 32, "f32"), (7, 3, 33, "f32"), (5, 17, 37, "f32"), (33, 1, 65, "f64")],
)
def test_steps_and_sums(steps: int, rows: int, width: int, of: str, backwards: bool):
    module = hloom.parse(program(steps, rows, width, backwards, of))
    rng = np.random.default_rng(steps)
    real = np.float64 if of == F64.name else np.float32
    shapes = [(rows, width), (width, width), (width, width), (steps, rows, width), (width, width)]
    scales = (1, 0.1, 0.1, 1, 1)
    given = [
        (rng.standard_normal(s) * by).astype(real) for s, by in zip(shapes, scales, strict=True)
    ]
    executable = hloom.compile(module)
    assert not executable.faults
    inside = [i for c in executable.stages.module.computations for i in c.instructions]
    [loop] = [i for i in inside if i.opcode == "while"]
    assert sum(i.opcode == "dot" for i in loop.called[1].instructions) <= 1 + (rows > 16)
    h, w, u, xs, total = [x.astype(np.float64) for x in given]
    want = expected(h, w, u, xs, total, backwards)
    for have, right in zip(executable(*given), want, strict=True):
        np.testing.assert_allclose(
            have, right, rtol=0, atol=(1e-12 if real is np.float64 else 3e-5)
        )
