"""Dots of every algorithm, operand and result type mean the same as plain dots of parts."""

from dataclasses import replace

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.interp import evaluate, random_arguments
from hloom.ir.builder import Builder
from hloom.ir.copy import copy_module
from hloom.ir.text import parse_module
from hloom.ir.values.precision import ALGORITHMS
from hloom.ir.verify import verify
from hloom.passes import pass_named
from hloom.passes.expand.dot_algorithm_rewriter import SCHEMES
from hloom.types.dtype import BY_NAME
from tests.pass_case import difference, leaves
from tests.subnormal import flushed

TYPES = [BY_NAME[n] for n in "f32 f64 bf16 f16 f8e4m3fn f8e8m0fnu f4e2m1fn s8 s32 c64".split()]
RESULTS = [BY_NAME[n] for n in "f32 f64 bf16 f16 f8e5m2 s32".split()]
REWRITER = pass_named("dot-algorithm-rewriter")


def of_types(x, y, result, algorithm, sizes=(3, 5, 2)):
    """[m, k] times [k, n]."""
    m, k, n = sizes
    b = Builder("algorithm")
    lhs, rhs = b.parameter(f"{x}[{m},{k}]"), b.parameter(f"{y}[{k},{n}]")
    return b.build(
        b.dot(
            lhs,
            rhs,
            shape=f"{result}[{m},{n}]",
            lhs_contracting_dims=(1,),
            rhs_contracting_dims=(0,),
            algorithm=algorithm,
        )
    )


def counted(module, opcode):
    return sum(i.opcode == opcode for i in module.instructions())


def test_every_algorithm_has_a_scheme():
    assert set(SCHEMES) == set(ALGORITHMS) - {"unset"}


@pytest.mark.parametrize("algorithm", SCHEMES)
def test_all_types_mean_the_same(algorithm):
    rng = np.random.default_rng(list(SCHEMES).index(algorithm))
    for x in TYPES:
        for y in TYPES:
            result = RESULTS[int(rng.integers(len(RESULTS)))]
            if x.is_complex or y.is_complex:
                result = BY_NAME["c64"]
            module = of_types(x, y, result, algorithm)
            before = copy_module(module)
            assert REWRITER.run(module).changed
            verify(module)
            assert all(
                i.attrs.algorithm is None for i in module.instructions() if i.opcode == "dot"
            )
            arguments = random_arguments(before, 1)
            want, have = (leaves(evaluate(m, *arguments)) for m in (before, module))
            found = difference(want[0], have[0], 1e-6)
            assert found is None, f"{x} {y} {result}: {found}\n{module}"


@pytest.mark.parametrize(
    ("x", "y", "algorithm", "dots"),
    [
        ("f32", "f32", "dot_bf16_bf16_f32_x3", 3),
        ("f32", "f32", "dot_bf16_bf16_f32_x6", 6),
        ("f32", "f32", "dot_bf16_bf16_f32_x9", 9),
        ("f32", "bf16", "dot_bf16_bf16_f32_x9", 3),
        ("bf16", "f8e5m2", "dot_bf16_bf16_f32_x9", 1),
        ("f32", "f16", "dot_tf32_tf32_f32_x3", 2),
        ("f32", "f32", "dot_tf32_tf32_f32", 1),
    ],
)
def test_parts_that_are_zero_are_left_out(x, y, algorithm, dots):
    module = of_types(x, y, "f32", algorithm)
    REWRITER.run(module)
    assert counted(module, "dot") == dots


@pytest.mark.parametrize("algorithm", ["dot_f32_f32_f32", "dot_any_f8_any_f8_f32"])
def test_what_f32_is_anyway_is_a_plain_dot(algorithm):
    module = of_types("f32", "f32", "bf16", algorithm)
    REWRITER.run(module)
    assert [i.opcode for i in module.instructions()] == ["parameter", "parameter", "dot"]


def test_scaled_dots_keep_their_algorithm():
    """1 + 2^-9 and a scale of 1 + 2^-9: the product is rounded to bf16."""
    module = parse_module("""HloModule scaled
ENTRY scaled {
  x = f32[1,1] parameter(0)
  y = f32[1,1] parameter(1)
  s = f32[1,1] parameter(2)
  one = f32[] constant(1)
  ROOT d = f32[1,1] scaled-dot(x, y, s, one), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    algorithm=dot_bf16_bf16_f32
}""")
    x = np.array([[1 + 2.0**-9]], np.float32)
    (want,) = leaves(evaluate(module, x, x, x))
    assert want == 1 + 2.0**-7
    assert np.asarray(hloom.compile(module)(x, x, x)) == want


def test_an_algorithm_that_nobody_knows_is_refused():
    module = of_types("f32", "f32", "f32", "dot_f16_f16_f32")
    (dot,) = (i for i in module.instructions() if i.opcode == "dot")
    dot.attrs = replace(dot.attrs, algorithm="dot_f128_f128_f128")
    with pytest.raises(HloError, match="no code is made for the dot algorithm dot_f128"):
        REWRITER.run(module)


# -- compiled ------------------------------------------------------------------------------

NORMAL = np.random.default_rng(7).standard_normal((2, 128, 128)).astype(np.float32)
ERRORS = {
    "dot_bf16_bf16_f32": (2e-2, 2e-1),
    "dot_f16_f16_f32": (2e-3, 4e-2),
    "dot_tf32_tf32_f32": (2e-3, 4e-2),
    "dot_bf16_bf16_f32_x3": (5e-5, 1e-3),
    "dot_tf32_tf32_f32_x3": (1e-6, 3e-5),
    "dot_bf16_bf16_f32_x6": (1e-7, 3e-5),
    "dot_bf16_bf16_f32_x9": (1e-7, 3e-5),
    "dot_f32_f32_f32": (1e-7, 3e-5),
    "dot_f64_f64_f64": (1e-7, 2e-6),
}
"""Bounds of the largest error of 128 x 128 sums of 128 products of normal numbers."""


def test_compiled_errors_are_those_of_the_algorithm():
    x, y = NORMAL
    exact = x.astype(np.float64) @ y.astype(np.float64)
    for algorithm, (least, most) in ERRORS.items():
        module = of_types("f32", "f32", "f32", algorithm, (128, 128, 128))
        (want,) = leaves(evaluate(module, x, y))
        have = np.asarray(hloom.compile(module)(x, y))
        error = np.abs(have - exact).max()
        assert least <= error <= most, f"{algorithm}: {error}"
        assert np.abs(have - want).max() <= 2e-5, algorithm


def test_compiled_x6_is_better_than_x3_where_parts_matter():
    """1, 2^-9 and 2^-18 are the parts: x3 drops what the last two of them add, x6 keeps it."""
    x = np.array([[1 + 2.0**-9 + 2.0**-18]], np.float32)
    got = {}
    for form in ("", "_x3", "_x6"):
        module = of_types("f32", "f32", "f32", f"dot_bf16_bf16_f32{form}", (1, 1, 1))
        got[form] = float(np.asarray(hloom.compile(module)(x, x))[0, 0])
    assert got == {"": 1.0, "_x3": 1 + 2.0**-8, "_x6": 1 + 2.0**-8 + 3 * 2.0**-18}


@pytest.mark.parametrize("algorithm", [a for a in SCHEMES if SCHEMES[a].sum.bits > 16])
def test_compiled_special_values_are_those_of_the_evaluator(algorithm):
    largest, least = np.finfo(np.float32).max, np.float32(2.0**-149)
    small = np.float32(2.0**-120)
    x = np.array(
        [
            [np.inf],
            [-np.inf],
            [np.nan],
            [largest],
            [-largest],
            [0.0],
            [-0.0],
            [least],
            [-small],
            [65519.0],
        ],
        np.float32,
    )
    y = np.array([[1.0, -1.0, np.inf, 0.0, 0.5, np.nan]], np.float32)
    module = of_types("f32", "f32", "f32", algorithm, (10, 1, 6))
    (want,) = leaves(evaluate(module, flushed(x), y))
    have = np.asarray(hloom.compile(module)(x, y))
    np.testing.assert_array_equal(have, want)


def test_presets_of_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed (make setup)")
    x, y = NORMAL
    exact = x.astype(np.float64) @ y.astype(np.float64)
    for preset in ("BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6"):
        asked = jax.lax.DotAlgorithmPreset[preset]
        f = hloom.jax.jit(lambda a, b, asked=asked: jax.numpy.matmul(a, b, precision=asked))
        least, most = ERRORS[f"dot_{preset.lower()}"]
        assert least <= np.abs(f(x, y) - exact).max() <= most, preset
