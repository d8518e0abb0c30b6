"""Narrow floats and complex numbers that are only moved keep every bit, and cost no arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.codegen.llvm.lower import lower_kernel
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.moved import moved_as_bits
from hloom.kernel.parse import parse_kernels
from hloom.kernel.text import show_kernel
from hloom.kernel.verify import verify_kernel

TURN = """kernel @turn(%x: buffer<bf16>[64] in, %y: buffer<bf16>[64] out) {
  %0 = constant 0 : s64[]
  %1 = load %x[%0] strides(8, 1) : bf16[8,8]
  %2 = transpose %1 permutation(1, 0) : bf16[8,8]
  store %y[%0], %2 strides(8, 1)
}
"""


def kernel(text: str):
    (made,) = parse_kernels(text)
    verify_kernel(made)
    return made


def test_what_is_only_moved_changes_its_type():
    old = kernel(TURN)
    new = moved_as_bits(old)
    verify_kernel(new)
    assert show_kernel(new) == show_kernel(old).replace("bf16", "u16")
    assert show_kernel(old) == show_kernel(kernel(TURN)), "the kernel itself stays"
    text = lower_kernel(old, Machine.host())
    assert "shufflevector" in text
    assert "float" not in text


def test_complex_numbers_that_are_only_moved_are_not_taken_apart():
    text = TURN.replace("bf16", "c64")
    new = moved_as_bits(kernel(text))
    verify_kernel(new)
    assert show_kernel(new) == show_kernel(kernel(text)).replace("c64", "u64")
    negated = text.replace("store %y[%0], %2", "%3 = negate %2 : c64[8,8]\n  store %y[%0], %3")
    assert "u64" not in show_kernel(moved_as_bits(kernel(negated)))
    buffers = "%a: buffer<c64>[64] in, %b: buffer<c64>[64] in, %y: buffer<c64>[64] inout"
    product = f"""kernel @dot({buffers}) {{
  %0 = constant 0 : s64[]
  %1 = load %a[%0] strides(8, 1) : c64[8,8]
  %2 = load %b[%0] strides(8, 1) : c64[8,8]
  %3 = constant 0 : c64[8,8]
  %4 = dot %3, %1, %2 : c64[8,8]
  store %y[%0], %4 strides(8, 1)
}}
"""
    assert "u64" not in show_kernel(moved_as_bits(kernel(product)))


def test_what_is_computed_with_stays():
    text = TURN.replace("store %y[%0], %2", "%3 = negate %2 : bf16[8,8]\n  store %y[%0], %3")
    assert moved_as_bits(kernel(text)) is not None
    assert show_kernel(moved_as_bits(kernel(text))) == show_kernel(kernel(text))


def test_classes_are_apart():
    """One buffer is computed with, the others are not; constants move with those they meet."""
    buffers = "%x: buffer<bf16>[8] in, %m: buffer<pred>[8] in, %y: buffer<bf16>[8] out"
    text = f"""kernel @two({buffers}, %z: buffer<bf16>[8] inout) {{
  %0 = constant 0 : s64[]
  %1 = load %x[%0] strides(1) : bf16[8]
  %2 = load %m[%0] strides(1) : pred[8]
  %3 = constant -1.5 : bf16[8]
  %4 = select %2, %1, %3 : bf16[8]
  store %y[%0], %4 strides(1)
  %5 = load %z[%0] strides(1) : bf16[8]
  %6 = add %5, %5 : bf16[8]
  store %z[%0], %6 strides(1)
}}
"""
    new = moved_as_bits(kernel(text))
    verify_kernel(new)
    shown = show_kernel(new)
    assert "%x: buffer<u16>" in shown
    assert "%z: buffer<bf16>" in shown
    assert f"constant {0xBFC0} : u16[8]" in shown
    assert "add %5, %5 : bf16[8]" in shown


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f8e4m3fn", "f8e5m2", "f4e2m1fn", "c64"])
@pytest.mark.parametrize(
    "body",
    [
        "ROOT r = {t}[40,24] transpose(x), dimensions={1,0}",
        "c = {t}[] constant(1.5)\n  ROOT r = {t}[26,43] pad(x, c), padding=1_1x0_3",
        "s = {t}[24,8] slice(x), slice={[0:24], [8:24:2]}\n"
        "  v = {t}[24,8] reverse(s), dimensions={1}\n"
        "  ROOT r = {t}[24,16] concatenate(s, v), dimensions={1}",
        "i = s32[5,1] constant({{3},{0},{22},{7},{3}})\n"
        "  ROOT r = {t}[5,40] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,40}",
    ],
)
def test_every_bit_is_kept(dtype, body):
    """Also those of NaN, whatever its payload."""
    if dtype == "f4e2m1fn" and "gather" in body:
        pytest.skip("one of these is enough for a type without NaN")
    text = body.replace("{t}", dtype).replace("1.5", "(1.5,-0)" if dtype == "c64" else "1.5")
    module = hloom.parse(
        f"HloModule m\nENTRY e {{\n  x = {dtype}[24,40] parameter(0)\n  {text}\n}}"
    )
    (shape,) = [p.shape for p in module.entry.parameters]
    size = shape.dtype.numpy.itemsize
    last = 15 if dtype.startswith("f4") else 256**size - 1
    drawn = np.random.default_rng(0).integers(0, last, (24, 40), np.uint64, endpoint=True)
    bits = drawn.astype(f"u{size}")
    x = bits.view(shape.dtype.numpy)
    found = np.asarray(hloom.compile(module)(x)).view(f"u{size}")
    (literal,) = hloom.evaluate(module, hloom.Literal.owning(x.copy(), shape)).leaves()
    assert np.array_equal(found, literal.array.view(f"u{size}"))
