"""Kernels read nothing that nobody has written, and stay inside their buffers: the interpreter of
the kernel language runs those of whole programs and finds nothing."""

import numpy as np
import pytest

import hloom
from hloom.interp.kernel import run_kernel
from hloom.kernel.text import parse_kernel

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
GREATER = (
    "greater { a = f32[] parameter(0)  b = f32[] parameter(1)  "
    "ROOT g = pred[] compare(a, b), direction=GE }"
)
PRODUCT = "f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{k}}}"


def product(m, k, n, turned):
    y = f"f32[{n},{k}]" if turned else f"f32[{k},{n}]"
    root = PRODUCT.format(m=m, n=n, k=int(turned))
    return f"x = f32[{m},{k}] parameter(0)\n y = {y} parameter(1)\n ROOT d = {root}"


PROGRAMS = {
    **{f"product {m} {k} {n} {t}": product(m, k, n, t)
       for m, k, n in ((16, 40, 8), (9, 70, 20), (30, 5, 3)) for t in (False, True)},
    "convolution": """
      x = f32[2,6,6,3] parameter(0)
      y = f32[3,3,3,8] parameter(1)
      ROOT c = f32[2,6,6,8] convolution(x, y), window={size=3x3 pad=1_1x1_1},
        dim_labels=b01f_01io->b01f
    """,
    "scatter": """
      x = f32[8,4] parameter(0)
      at = s32[3,1] parameter(1)
      u = f32[3,4] parameter(2)
      ROOT y = f32[8,4] scatter(x, at, u), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
    """,
    "select and scatter": """
      x = f32[8,9] parameter(0)
      s = f32[4,9] parameter(1)
      zero = f32[] constant(0)
      ROOT y = f32[8,9] select-and-scatter(x, s, zero), window={size=2x1 stride=2x1},
        select=greater, scatter=add
    """,
    "update": """
      x = f32[8,9] parameter(0)
      u = f32[2,9] parameter(1)
      i = s32[] parameter(2)
      zero = s32[] constant(0)
      ROOT y = f32[8,9] dynamic-update-slice(x, u, i, zero)
    """,
    "running sum": """
      x = f32[8,19] parameter(0)
      zero = f32[] constant(0)
      ROOT y = f32[8,19] reduce-window(x, zero), window={size=1x19 pad=0_0x18_0}, to_apply=add
    """,
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_kernels_of_programs(program):
    text = f"HloModule m\n{ADD}\n{GREATER}\nENTRY e {{\n{PROGRAMS[program]}\n}}"
    module = hloom.parse(text)
    arguments = [x.array for x in hloom.random_arguments(module, seed=1)]
    exe = hloom.compile(module, threads=1)
    run = exe.debug(*arguments, kernels=True)
    wanted = hloom.evaluate(module, *arguments).array
    np.testing.assert_allclose(np.asarray(run.result), wanted, 1e-5, 1e-5)


def test_what_is_read_too_early_would_be_noticed():
    text = """
    kernel @k(%out: buffer<f32>[4] out) {
      %9 = constant 0 : s64[]
      %1 = load %out[%9] strides(1) : f32[4]
      store %out[%9], %1 strides(1)
    }
    """
    buffers = [np.zeros(4, np.float32)]
    with pytest.raises(hloom.HloError, match="before it is written"):
        run_kernel(parse_kernel(text), buffers)
    run_kernel(parse_kernel(text.replace("] out)", "] inout)")), buffers)
