"""Arrays stacked along a new last dimension: lanes go over the rows, what parts share is computed
once."""

import numpy as np
import pytest

import hloom
from hloom.program.thunks.kernel import Kernel


@pytest.mark.parametrize("dims", [(8,), (31,), (1003,), (3, 5, 7)])
@pytest.mark.parametrize("kind", ["f32", "u8", "f64", "bf16"])
def test_parts_stand_side_by_side(dims, kind):
    rows = ",".join(map(str, dims))
    text = f"""HloModule m
ENTRY e {{
  a = {kind}[{rows},1] parameter(0)
  b = {kind}[{rows},1] parameter(1)
  s = {kind}[{rows},1] add(a, b)
  m = {kind}[{rows},1] multiply(s, b)
  ROOT c = {kind}[{rows},3] concatenate(s, m, a), dimensions={{{len(dims)}}}
}}"""
    module = hloom.parse(text)
    arguments = hloom.random_arguments(module)
    executable = hloom.compile(module)
    kernels = [t for t in executable.stages.program.thunks if isinstance(t, Kernel)]
    assert len(kernels) == 1
    have, want = executable(*arguments), hloom.evaluate(module, *arguments)
    error = 2.0**-7 if kind == "bf16" else 0  # results of narrow floats may stay wider inside
    np.testing.assert_allclose(
        np.asarray(have).astype(np.float64), np.asarray(want.array).astype(np.float64), error
    )
