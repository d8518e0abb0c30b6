"""What another compiler fused and put in order is fused and ordered anew."""

from __future__ import annotations

import numpy as np

import hloom
from hloom.compiler import compile_module

# As XLA writes a program that it has optimised: in order, some of it fused.
OPTIMISED = """HloModule m, is_scheduled=true
fused { x = f32[64] parameter(0)  y = f32[64] parameter(1)  ROOT m = f32[64] multiply(x, y) }
ENTRY e {
  x = f32[64] parameter(0)
  n = f32[64] negate(x)
  p = f32[64] fusion(n, x), kind=kLoop, calls=fused
  ROOT a = f32[64] add(p, n)
}
"""


def test_a_program_in_order_becomes_one_kernel():
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    run = compile_module(hloom.parse(OPTIMISED), cached=False)
    assert run.as_text("kernels").count("kernel @") == 1
    assert run.stages.module.schedule is None
    assert "is_scheduled=true" in run.as_text("hlo")
    np.testing.assert_allclose(np.asarray(run(x)), -x * x - x, rtol=1e-5, atol=1e-6)
