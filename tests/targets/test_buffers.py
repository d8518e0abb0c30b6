"""Buffers in native programs: pinned, written by custom calls, unpinned, carried by loops."""

from __future__ import annotations

import numpy as np

import hloom
from hloom.compiler import compile_module
from hloom.runtime import ffi

ALIAS = "output_to_operand_aliasing={{}: (0, {})}"


def test_buffers_are_pinned_written_and_unpinned():
    def handler(c: ffi.Call) -> None:
        c.results[0][...] = c.arguments[0] + 1

    ffi.register("test.buffer", handler)
    module = hloom.parse(
        f"""HloModule m
ENTRY e {{
  x = f32[3] parameter(0)
  y = f32[3] negate(x)
  b = b(f32[3]) custom-call(y), custom_call_target="Pin", {ALIAS}
  c = b(f32[3]) custom-call(b), custom_call_target="test.buffer", {ALIAS}
  u = f32[3] custom-call(c), custom_call_target="Unpin", {ALIAS}
  d = b(f32[3]) custom-call(), custom_call_target="CreateBuffer"
  v = f32[3] custom-call(d), custom_call_target="Unpin", {ALIAS}
  ROOT r = (f32[3], f32[3], f32[3]) tuple(y, u, v)
}}"""
    )
    run = compile_module(module, threads=1, cached=False)
    x = np.float32([1, 2, 3])
    for found, expected in zip(run(x), (-x, 1 - x, 0 * x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_loop_may_carry_a_buffer():
    run = compile_module(
        hloom.parse(f"""HloModule m
        body {{
          t = (s32[], b(f32[3])) parameter(0)
          k = s32[] get-tuple-element(t), index=0
          b = b(f32[3]) get-tuple-element(t), index=1
          u = f32[3] custom-call(b), custom_call_target="Unpin", {ALIAS}
          v = f32[3] add(u, u)
          c = b(f32[3]) custom-call(v), custom_call_target="Pin", {ALIAS}
          one = s32[] constant(1)
          n = s32[] add(k, one)
          ROOT r = (s32[], b(f32[3])) tuple(n, c)
        }}
        cond {{
          t = (s32[], b(f32[3])) parameter(0)
          k = s32[] get-tuple-element(t), index=0
          m = s32[] constant(5)
          ROOT l = pred[] compare(k, m), direction=LT
        }}
        ENTRY e {{
          x = f32[3] parameter(0)
          z = s32[] constant(0)
          b = b(f32[3]) custom-call(x), custom_call_target="Pin", {ALIAS}
          t = (s32[], b(f32[3])) tuple(z, b)
          w = (s32[], b(f32[3])) while(t), condition=cond, body=body
          g = b(f32[3]) get-tuple-element(w), index=1
          ROOT u = f32[3] custom-call(g), custom_call_target="Unpin", {ALIAS}
        }}"""),
        threads=1,
        cached=False,
    )
    np.testing.assert_array_equal(run(np.float32([1, 2, 3])), np.float32([32, 64, 96]))
