"""Accesses that stay inside of their buffer are proved to; those off by one are not."""

from __future__ import annotations

import pytest

from hloom.kernel.proof.prove import masked, prove
from hloom.kernel.text import parse_kernel, show_kernel
from hloom.kernel.verify import verify_kernel

# One kernel for each way to stay inside. SIZE is the least that the input may have.
KERNELS = {
    "a grid": (
        512,
        """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[512] out) grid(%g: 8) {
  %c = constant 64 : s64[]
  %p = multiply %g, %c : s64[]
  %v = load %x[%p] strides(1) : f32[64]
  store %o[%p], %v strides(1)
}""",
    ),
    "a block that ends early": (
        8193,
        """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[8193] out) grid(%g: 3) {
  %b = constant 4096 : s64[]
  %start = multiply %g, %b : s64[]
  %end = add %start, %b : s64[]
  %n = constant 8192 : s64[]
  %upper = minimum %end, %n : s64[]
  for %i = %start to %upper step 64 {
    %v = load %x[%i] strides(1) : f32[64]
    store %o[%i], %v strides(1)
  }
  %low = maximum %start, %n : s64[]
  %all = constant 8193 : s64[]
  %last = minimum %end, %all : s64[]
  for %j = %low to %last step 1 {
    %w = load %x[%n] : f32[]
    store %o[%n], %w
  }
}""",
    ),
    "digits of a number": (
        60,
        """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[60] out) grid(%g: 60) {
  %a = constant 12 : s64[]
  %q = divide %g, %a : s64[]
  %r = remainder %g, %a : s64[]
  %b = constant 5 : s64[]
  %s = multiply %r, %b : s64[]
  %p = add %s, %q : s64[]
  %v = load %x[%p] : f32[]
  store %o[%p], %v
}""",
    ),
    "a clamped index": (
        100,
        """kernel @k(%x: buffer<f32>[SIZE] in, %i: buffer<s32>[1] in, %o: buffer<f32>[10] out) {
  %z = constant 0 : s64[]
  %n = load %i[%z] : s32[]
  %m = convert %n : s64[]
  %most = constant 90 : s64[]
  %a = minimum %m, %most : s64[]
  %p = maximum %a, %z : s64[]
  %v = load %x[%p] strides(1) : f32[10]
  store %o[%z], %v strides(1)
}""",
    ),
    "a mask": (
        30,
        """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[32] out) {
  %z = constant 0 : s64[]
  %lane = iota axis(0) : s32[32]
  %one = constant 1 : s32[32]
  %most = constant 31 : s32[32]
  %a = compare %lane, %one direction(GE) : pred[32]
  %b = compare %lane, %most direction(LT) : pred[32]
  %m = and %a, %b : pred[32]
  %other = constant 0.0 : f32[32]
  %p = constant -1 : s64[]
  %v = load %x[%p] mask(%m) other(%other) strides(1) : f32[32]
  store %o[%z], %v strides(1)
}""",
    ),
    "a condition": (
        50,
        """kernel @k(%x: buffer<f32>[SIZE] in, %i: buffer<s64>[4] in, %o: buffer<f32>[4] inout) {
  %z = constant 0 : s64[]
  %four = constant 4 : s64[]
  %most = constant 49 : s64[]
  for %k = %z to %four step 1 {
    %n = load %i[%k] : s64[]
    %a = compare %n, %z direction(GE) : pred[]
    %b = compare %n, %most direction(LE) : pred[]
    %m = and %a, %b : pred[]
    if %m {
      %v = load %x[%n] : f32[]
      store %o[%k], %v
    } else {
    }
  }
}""",
    ),
    "a tile moved back": (
        100,
        """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[100] out) {
  %z = constant 0 : s64[]
  %n = constant 100 : s64[]
  %most = constant 68 : s64[]
  for %k = %z to %n step 32 {
    %p = minimum %k, %most : s64[]
    %v = load %x[%p] strides(1) : f32[32]
    store %o[%p], %v strides(1)
  }
}""",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_inside(name: str) -> None:
    size, text = KERNELS[name]
    kernel = parse_kernel(text.replace("SIZE", str(size)))
    verify_kernel(kernel)
    proof = prove(kernel)
    assert not proof.accesses and not proof.writes


@pytest.mark.parametrize("name", KERNELS)
def test_off_by_one(name: str) -> None:
    size, text = KERNELS[name]
    kernel = parse_kernel(text.replace("SIZE", str(size - 1)))
    [unproved] = prove(kernel).accesses
    assert unproved.op.opcode == "load" and f"may reach {size - 1}" in unproved.why


@pytest.mark.parametrize("name", KERNELS)
def test_masked_where_it_is_not_proved(name: str) -> None:
    size, text = KERNELS[name]
    kernel = parse_kernel(text.replace("SIZE", str(size - 1)))
    masked(kernel, prove(kernel).accesses)
    verify_kernel(kernel)
    assert not prove(kernel).accesses
    assert show_kernel(parse_kernel(show_kernel(kernel))) == show_kernel(kernel)


def test_sums_that_wrap_prove_nothing() -> None:
    kernel = parse_kernel(
        """kernel @k(%x: buffer<f32>[8] in, %i: buffer<s32>[1] in, %o: buffer<f32>[1] out) {
  %z = constant 0 : s64[]
  %n = load %i[%z] : s32[]
  %one = constant 1 : s32[]
  %m = add %n, %one : s32[]
  %a = compare %m, %n direction(GT) : pred[]
  %low = constant 0 : s32[]
  %zero = constant 0.0 : f32[]
  %v = gather %x[%m] mask(%a) other(%zero) : f32[]
  store %o[%z], %v
}"""
    )
    assert prove(kernel).accesses


def test_what_a_condition_says_ends_with_it() -> None:
    kernel = parse_kernel(
        """kernel @k(%x: buffer<f32>[10] in, %o: buffer<f32>[16] out) grid(%g: 16) {
  %ten = constant 10 : s64[]
  %a = compare %g, %ten direction(LT) : pred[]
  if %a {
    %v = load %x[%g] : f32[]
    store %o[%g], %v
  } else {
    %w = load %x[%g] : f32[]
    store %o[%g], %w
  }
}"""
    )
    [unproved] = prove(kernel).accesses
    assert "may reach 10" in unproved.why
