"""Results of arithmetic are narrowed to bf16 by the instruction; what was read keeps every bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.codegen.llvm.lower import lower_kernel
from hloom.codegen.llvm.machine import Machine
from hloom.kernel.parse import parse_kernels
from hloom.kernel.verify import verify_kernel

MACHINE = Machine.of("x86_64-unknown-linux-gnu", "cooperlake")
READ = "%0 = constant 0 : s64[]\n  %1 = load %x[%0] strides(1) : f32[16]\n  "
CASES = {
    "read": ("%2 = convert %1 : bf16[16]", False),
    "added": ("%3 = add %1, %1 : f32[16]\n  %2 = convert %3 : bf16[16]", True),
    "negated": ("%3 = negate %1 : f32[16]\n  %2 = convert %3 : bf16[16]", False),
    "negated sum": (
        "%4 = add %1, %1 : f32[16]\n  %3 = negate %4 : f32[16]\n  %2 = convert %3 : bf16[16]",
        True,
    ),
    "larger of a sum and what was read": (
        "%4 = add %1, %1 : f32[16]\n  %3 = maximum %4, %1 : f32[16]\n  %2 = convert %3 : bf16[16]",
        False,
    ),
    "larger of a sum and a number": (
        "%5 = constant 0.5 : f32[16]\n  %4 = add %1, %1 : f32[16]\n"
        "  %3 = maximum %4, %5 : f32[16]\n  %2 = convert %3 : bf16[16]",
        True,
    ),
    "larger of a sum and a subnormal number": (
        "%5 = constant 1e-40 : f32[16]\n  %4 = add %1, %1 : f32[16]\n"
        "  %3 = maximum %4, %5 : f32[16]\n  %2 = convert %3 : bf16[16]",
        False,
    ),
    "sum of a loop": (
        "%6 = constant 9 : s64[]\n  %5 = constant 0.0 : f32[16]\n"
        "  %4 = for %i = %0 to %6 step 1 (%c = %5) : f32[16] {\n"
        "    %7 = add %c, %1 : f32[16]\n    yield %7\n  }\n  %2 = convert %4 : bf16[16]",
        True,
    ),
    "last of a loop": (
        "%6 = constant 9 : s64[]\n  %5 = constant 0.0 : f32[16]\n"
        "  %4 = for %i = %0 to %6 step 1 (%c = %5) : f32[16] {\n"
        "    yield %1\n  }\n  %2 = convert %4 : bf16[16]",
        False,
    ),
    "sums kept in scratch": (
        "%6 = alloc size(16) : buffer<f32>\n  %4 = add %1, %1 : f32[16]\n"
        "  store %6[%0], %4 strides(1)\n"
        "  %5 = load %6[%0] strides(1) : f32[16]\n  %2 = convert %5 : bf16[16]",
        True,
    ),
    "scratch of sums and of what was read": (
        "%6 = alloc size(16) : buffer<f32>\n  %4 = add %1, %1 : f32[16]\n"
        "  store %6[%0], %4 strides(1)\n"
        "  %5 = load %6[%0] strides(1) : f32[16]\n  store %6[%0], %1 strides(1)\n"
        "  %2 = convert %5 : bf16[16]",
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_only_results_of_arithmetic_are_narrowed_by_the_instruction(name: str) -> None:
    body, is_result = CASES[name]
    params = "%x: buffer<f32>[16] in, %y: buffer<bf16>[16] out"
    text = f"kernel @k({params}) {{\n  {READ}{body}\n  store %y[%0], %2 strides(1)\n}}\n"
    (kernel,) = parse_kernels(text)
    verify_kernel(kernel)
    llvm = lower_kernel(kernel, MACHINE)
    assert ("fptrunc <16 x float>" in llvm) == is_result, llvm
    assert ("fcmp uno" in llvm) == (not is_result), llvm
    assert "bfloat" not in lower_kernel(kernel, Machine.of(MACHINE.triple, "x86-64-v4"))


def test_results_round_alike_on_every_machine() -> None:
    """Ties, the largest numbers, infinities, NaN of both signs; and numbers that are only read."""
    rng = np.random.default_rng(7)
    x = rng.integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    ties = (rng.integers(0x0080, 0x7F80, 500, dtype=np.uint32) << 16 | 0x8000).view(np.float32)
    edges = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 3.4e38, 1e-40], np.float32)
    x = np.concatenate([x, ties, -ties, edges])
    text = f"""HloModule m
ENTRY e {{
  x = f32[{x.size}] parameter(0)
  ones = f32[{x.size}] parameter(1)
  product = f32[{x.size}] multiply(x, ones)
  a = bf16[{x.size}] convert(product)
  b = bf16[{x.size}] convert(x)
  ROOT r = (bf16[{x.size}], bf16[{x.size}]) tuple(a, b)
}}"""
    module = hloom.parse(text)
    with np.errstate(all="ignore"):
        want = x.astype(ml_dtypes.bfloat16).astype(np.float32)
        normal = np.where(np.abs(x) < 2.0**-126, x * 0, want)
    results = hloom.compile(module)(x, np.ones_like(x))
    computed, read = [np.asarray(y).astype(np.float32) for y in results]
    same = (read == want) | (np.isnan(read) & np.isnan(want))
    assert same.all(), x[~same]
    same = (computed == normal) | (np.isnan(computed) & np.isnan(normal)) | (computed == want)
    assert same.all(), x[~same]
    assert np.array_equal(np.signbit(computed), np.signbit(want))


@pytest.mark.parametrize("opcode", ["maximum", "minimum", "select", "clamp", "negate", "abs"])
def test_one_of_numbers_of_bf16_is_not_rounded_again(opcode: str) -> None:
    """Not even where the machine has no instruction for it; subnormal numbers stay."""
    operands = {
        "select": "p, %s, y",
        "clamp": "y, %s, z",
        "negate": "%s",
        "abs": "%s",
    }.get(opcode, "%s, y")
    chosen = "t" if opcode in ("maximum", "select") else "x"
    text = f"""HloModule m
ENTRY e {{
  x = bf16[512] parameter(0)
  y = bf16[512] parameter(1)
  z = bf16[512] parameter(2)
  p = pred[512] compare(y, z), direction=LT
  h = bf16[] constant(0.5)
  t = bf16[512] broadcast(h), dimensions={{}}
  a = bf16[512] add(y, z)
  r = bf16[512] {opcode}({operands % chosen})
  ROOT s = (bf16[512], bf16[512]) tuple(a, r)
}}"""
    module = hloom.parse(text)
    executable = hloom.compile(module, options={"xla_cpu_max_isa": "AVX2"})
    rounded = [x for x in executable.as_text("llvm").split("\n") if "splat (i32 32767)" in x]
    assert len(rounded) == 1, "the sum alone"
    rng = np.random.default_rng(3)
    given = [rng.standard_normal(512).astype(ml_dtypes.bfloat16) for _ in range(3)]
    given[0].view(np.uint16)[:4] = [1, 0x8003, 0x7F80, 0xFF80]
    given[1], given[2] = np.minimum(given[1], given[2]), np.maximum(given[1], given[2])
    _, got = executable(*given)
    _, want = [part.array for part in hloom.evaluate(module, *given).leaves()]
    zeros = np.abs(np.asarray(want).astype(np.float32)) < 2.0**-126
    same = np.asarray(got).view(np.uint16) == np.asarray(want).view(np.uint16)
    if opcode in ("negate", "abs", "select"):
        assert same.all()
    assert (same | zeros).all()
