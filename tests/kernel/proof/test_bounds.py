"""Accesses that stay inside of their buffer are proved to; those off by one are not."""

from __future__ import annotations

import pytest

from hloom.kernel.proof import ranges
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
    "as many rows of a block as there are, none in the last": (
        70,
        """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[30] out) grid(%g: 3) {
  %four = constant 4 : s64[]
  %ten = constant 10 : s64[]
  %zero = constant 0 : s64[]
  %seven = constant 7 : s64[]
  %one = constant 1 : s64[]
  %top = multiply %g, %four : s64[]
  %left = subtract %seven, %top : s64[]
  %some = maximum %left, %zero : s64[]
  %end = minimum %some, %four : s64[]
  for %r = %zero to %end step 1 {
    %row = add %top, %r : s64[]
    %p = multiply %row, %ten : s64[]
    %v = load %x[%p] strides(1) : f32[10]
  }
  %q = multiply %g, %ten : s64[]
  %w = load %x[%q] strides(1) : f32[10]
  store %o[%q], %w strides(1)
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
    "a window in a row of few channels": (  # 3 rows of 6 places with 2 channels; a margin of one
        36,
        """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[64] out) {
  %z = constant 0 : s64[]
  %three = constant 3 : s64[]
  %least = constant 0 : s32[64]
  %two = constant 2 : s32[64]
  %three2 = constant 3 : s32[64]
  %six = constant 6 : s32[64]
  %lane = iota axis(0) : s32[64]
  %place = divide %lane, %two : s32[64]
  %row = divide %place, %six : s32[64]
  %column = remainder %place, %six : s32[64]
  %minus = constant -1 : s64[]
  %twelve = constant 12 : s64[]
  %pair = constant 2 : s64[]
  %first = constant -14 : s64[]
  %none = constant 0.0 : f32[64]
  %all = for %i = %z to %three step 1 (%s = %none) : f32[64] {
    %i1 = add %i, %minus : s64[]
    %i2 = convert %i1 : s32[]
    %i3 = broadcast %i2 : s32[64]
    %y = add %i3, %row : s32[64]
    %y1 = compare %y, %least direction(GE) : pred[64]
    %y2 = compare %y, %three2 direction(LT) : pred[64]
    %ym = and %y1, %y2 : pred[64]
    %ip = multiply %i, %twelve : s64[]
    %p1 = add %first, %ip : s64[]
    %sum = for %j = %z to %three step 1 (%t = %s) : f32[64] {
      %j1 = add %j, %minus : s64[]
      %j2 = convert %j1 : s32[]
      %j3 = broadcast %j2 : s32[64]
      %c = add %j3, %column : s32[64]
      %c1 = compare %c, %least direction(GE) : pred[64]
      %c2 = compare %c, %six direction(LT) : pred[64]
      %cm = and %c1, %c2 : pred[64]
      %m = and %ym, %cm : pred[64]
      %jp = multiply %j, %pair : s64[]
      %p = add %p1, %jp : s64[]
      %v = load %x[%p] mask(%m) other(%none) strides(1) : f32[64]
      %u = add %t, %v : f32[64]
      yield %u
    }
    yield %sum
  }
  store %o[%z], %all strides(1)
}""",
    ),
    "a place of a window that is gathered": (  # rows of 7 places, 16 of 32 channels, margin 3
        1552,
        """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[19600] out) grid(%g: 2) {
  %z = constant 0 : s64[]
  %many = constant 35 : s64[]
  %from = multiply %g, %many : s64[]
  %to = add %many, %from : s64[]
  %seven = constant 7 : s64[]
  %rows = constant 5 : s64[]
  %eight = constant 8 : s64[]
  %back = constant -2 : s64[]
  %left = constant -3 : s64[]
  %lane = iota axis(0) : s32[8]
  %channels = constant 16 : s32[8]
  %width = constant 7 : s32[8]
  %least = constant 0 : s32[8]
  %height = constant 7 : s32[8]
  %all = constant 32 : s32[8]
  %first = constant -544 : s64[]
  %row = constant 224 : s64[]
  %column = constant 32 : s64[]
  %window = constant 56 : s64[]
  %windows = constant 280 : s64[]
  %none = constant 0.0 : f32[8]
  for %l = %from to %to step 1 {
    %a = multiply %l, %eight : s64[]
    %a1 = convert %a : s32[]
    %a2 = broadcast %a1 : s32[8]
    %i = add %a2, %lane : s32[8]
    %place = divide %i, %channels : s32[8]
    %y = divide %place, %width : s32[8]
    %x1 = remainder %place, %width : s32[8]
    %channel = remainder %i, %channels : s32[8]
    %whole = multiply %place, %all : s32[8]
    %l1 = multiply %l, %windows : s64[]
    for %h = %z to %rows step 1 {
      %h1 = add %h, %back : s64[]
      %h2 = convert %h1 : s32[]
      %h3 = broadcast %h2 : s32[8]
      %ys = add %h3, %y : s32[8]
      %y1 = compare %ys, %least direction(GE) : pred[8]
      %y2 = compare %ys, %height direction(LT) : pred[8]
      %ym = and %y1, %y2 : pred[8]
      %c = multiply %h, %row : s64[]
      %d = add %first, %c : s64[]
      %h4 = multiply %h, %window : s64[]
      %h5 = add %l1, %h4 : s64[]
      for %w = %z to %seven step 1 {
        %w1 = add %w, %left : s64[]
        %w2 = convert %w1 : s32[]
        %w3 = broadcast %w2 : s32[8]
        %xs = add %w3, %x1 : s32[8]
        %x2 = compare %xs, %least direction(GE) : pred[8]
        %x3 = compare %xs, %width direction(LT) : pred[8]
        %xm = and %x2, %x3 : pred[8]
        %m = and %ym, %xm : pred[8]
        %e = multiply %w, %column : s64[]
        %p1 = add %d, %e : s64[]
        %p2 = convert %p1 : s32[]
        %p3 = broadcast %p2 : s32[8]
        %p4 = add %p3, %channel : s32[8]
        %p = add %p4, %whole : s32[8]
        %v = gather %x[%p] mask(%m) other(%none) : f32[8]
        %q1 = multiply %w, %eight : s64[]
        %q = add %h5, %q1 : s64[]
        store %o[%q], %v strides(1)
      }
    }
  }
}""",
    ),
    "halves where a mask bounds the whole": (  # 14 * 23 = 322 places, the first 301 of them
        151,
        """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[322] out) grid(%g: 14) {
  %by = constant 23 : s64[]
  %start = multiply %g, %by : s64[]
  %g1 = convert %start : s32[]
  %g2 = broadcast %g1 : s32[23]
  %lane = iota axis(0) : s32[23]
  %all = add %g2, %lane : s32[23]
  %n = constant 301 : s32[23]
  %m = compare %all, %n direction(LT) : pred[23]
  %two = constant 2 : s32[23]
  %eleven = constant 11 : s64[]
  %a = multiply %g, %eleven : s64[]
  %a1 = convert %a : s32[]
  %a2 = broadcast %a1 : s32[23]
  %h = convert %g : s32[]
  %h1 = broadcast %h : s32[23]
  %rest = add %h1, %lane : s32[23]
  %b = divide %rest, %two : s32[23]
  %p = add %a2, %b : s32[23]
  %zero = constant 0.0 : f32[23]
  %v = gather %x[%p] mask(%m) other(%zero) : f32[23]
  store %o[%start], %v strides(1)
}""",
    ),
    "thirds, backwards, where a mask bounds the whole": (  # a reverse of two halves of 49
        147 + 49,
        """kernel @k(%x: buffer<f32>[SIZE] in, %i: buffer<s32>[3] in, %o: buffer<f32>[48] out) \
grid(%g: 3) {
  %n = load %i[%g] : s32[]
  %w = convert %n : s64[]
  %most = constant 68 : s64[]
  %a = minimum %w, %most : s64[]
  %z = constant 0 : s64[]
  %b = maximum %a, %z : s64[]
  %b1 = convert %b : s32[]
  %b2 = broadcast %b1 : s32[16]
  %lane = iota axis(0) : s32[16]
  %by = constant 69 : s32[16]
  %c = multiply %lane, %by : s32[16]
  %d = add %b2, %c : s32[16]
  %size = constant 294 : s32[16]
  %m = compare %d, %size direction(LT) : pred[16]
  %zero = constant 0.0 : f32[16]
  %third = constant 3 : s64[]
  %q = divide %b, %third : s64[]
  %q1 = convert %q : s32[]
  %q2 = broadcast %q1 : s32[16]
  %by3 = constant 23 : s32[16]
  %e = multiply %lane, %by3 : s32[16]
  %f = add %q2, %e : s32[16]
  %half = constant 49 : s32[16]
  %r = remainder %f, %half : s32[16]
  %s = divide %f, %half : s32[16]
  %back = constant -147 : s32[16]
  %t = multiply %s, %back : s32[16]
  %last = constant 147 : s32[16]
  %u = add %r, %last : s32[16]
  %p = add %u, %t : s32[16]
  %v = gather %x[%p] mask(%m) other(%zero) : f32[16]
  %sixteen = constant 16 : s64[]
  %at = multiply %g, %sixteen : s64[]
  store %o[%at], %v strides(1)
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
    assert unproved.op.opcode in ("load", "gather") and f"may reach {size - 1}" in unproved.why


@pytest.mark.parametrize("name", KERNELS)
def test_masked_where_it_is_not_proved(name: str) -> None:
    size, text = KERNELS[name]
    kernel = parse_kernel(text.replace("SIZE", str(size - 1)))
    masked(kernel, prove(kernel).accesses)
    verify_kernel(kernel)
    assert not prove(kernel).accesses
    assert show_kernel(parse_kernel(show_kernel(kernel))) == show_kernel(kernel)


def test_a_search_is_made_where_intervals_of_extremes_do_not_suffice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    span = ranges.span
    monkeypatch.setattr(ranges, "span", lambda *a: asked.append(a) or span(*a))
    size, text = KERNELS["a clamped index"]
    prove(parse_kernel(text.replace("SIZE", str(size))))
    assert not asked
    assert prove(parse_kernel(text.replace("SIZE", str(size - 1)))).accesses and asked


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
