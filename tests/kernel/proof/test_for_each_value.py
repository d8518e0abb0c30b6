"""Places that are inside of a buffer in each of a few cases, or where a condition holds: digits of
one number that are bounded together, steps, and divisions of numbers that may be negative
elsewhere. One element less is refused, and so is one more step of what is bounded."""

from __future__ import annotations

import pytest

from hloom.kernel.proof.prove import prove
from hloom.kernel.text import parse_kernel

# Where `20 * s + 5 * i + j <= LAST`, `8 * (5 * s + i) + 8 * ((i + j) div 4) + (i + j) mod 4` is
# bounded by what s and i leave of j.
ROWS = """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[80] out) grid(%g: 4) {
  %by = constant 20 : s64[]
  %all = constant LAST : s32[4,5]
  %none = constant 0 : f32[4,5]
  %i = iota axis(0) : s32[4,5]
  %j = iota axis(1) : s32[4,5]
  %five = constant 5 : s32[4,5]
  %four = constant 4 : s32[4,5]
  %eight = constant 8 : s32[4,5]
  %forty = constant 40 : s64[]
  %a = multiply %i, %five : s32[4,5]
  %b = add %a, %j : s32[4,5]
  %s = multiply %g, %by : s64[]
  %s32 = convert %s : s32[]
  %wide = broadcast %s32 : s32[4,5]
  %at = add %wide, %b : s32[4,5]
  %mask = compare %at, %all direction(LE) : pred[4,5]
  %first = multiply %g, %forty : s64[]
  %first32 = convert %first : s32[]
  %c = broadcast %first32 : s32[4,5]
  %d = multiply %i, %eight : s32[4,5]
  %e = add %c, %d : s32[4,5]
  %sum = add %i, %j : s32[4,5]
  %low = remainder %sum, %four : s32[4,5]
  %high = divide %sum, %four : s32[4,5]
  %f = multiply %high, %eight : s32[4,5]
  %e1 = add %e, %low : s32[4,5]
  %p = add %e1, %f : s32[4,5]
  %v = gather %x[%p] mask(%mask) other(%none) : f32[4,5]
  store %o[%s], %v strides(5, 1)
}"""

# Where `t + l <= LAST` and t is a multiple of 16, `t + 4 * (l div 4)` is a multiple of 4.
STEPS = """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[1600] out) grid(%g: 100) {
  %by = constant 16 : s64[]
  %all = constant LAST : s32[16]
  %none = constant 0 : f32[16]
  %l = iota axis(0) : s32[16]
  %four = constant 4 : s32[16]
  %far = constant 64 : s32[16]
  %t = multiply %g, %by : s64[]
  %t32 = convert %t : s32[]
  %wide = broadcast %t32 : s32[16]
  %at = add %wide, %l : s32[16]
  %mask = compare %at, %all direction(LE) : pred[16]
  %row = multiply %t, %by : s64[]
  %row32 = convert %row : s32[]
  %c = broadcast %row32 : s32[16]
  %low = remainder %l, %four : s32[16]
  %high = divide %l, %four : s32[16]
  %d = multiply %high, %far : s32[16]
  %e = add %c, %low : s32[16]
  %p = add %e, %d : s32[16]
  %v = gather %x[%p] mask(%mask) other(%none) : f32[16]
  store %o[%t], %v strides(1)
}"""

# Of a digit that is 1 the quotient of a sum with it is more than of one that is 0.
UNDER = """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[16] out) grid(%g: 1) {
  %z = constant 0 : s64[]
  %none = constant 0 : f32[16]
  %l = iota axis(0) : s32[16]
  %sixteen = constant 16 : s32[16]
  %by = constant 17 : s32[16]
  %more = constant LAST : s32[16]
  %seven = constant 7 : s32[16]
  %two = constant 2 : s32[16]
  %fourteen = constant 14 : s32[16]
  %up = add %l, %sixteen : s32[16]
  %r = remainder %up, %by : s32[16]
  %q = divide %up, %by : s32[16]
  %back = multiply %q, %fourteen : s32[16]
  %a = multiply %q, %more : s32[16]
  %b = add %r, %a : s32[16]
  %c = add %b, %two : s32[16]
  %d = divide %c, %seven : s32[16]
  %e = add %d, %q : s32[16]
  %f = divide %e, %two : s32[16]
  %h = multiply %f, %seven : s32[16]
  %i = subtract %h, %back : s32[16]
  %p = add %i, %seven : s32[16]
  %v = gather %x[%p] : f32[16]
  store %o[%z], %v strides(1)
}"""

# `(n - 9) div 5` and its remainder are computed for all n, and used where n is LAST at least.
SIGNED = """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[20] out) grid(%n: 20) {
  %z = constant 0 : s64[]
  %nine = constant 9 : s64[]
  %five = constant 5 : s64[]
  %least = constant LAST : s64[]
  %nothing = constant 0.0 : f32[]
  %m = subtract %n, %nine : s64[]
  %q = divide %m, %five : s64[]
  %r = remainder %m, %five : s64[]
  %q5 = multiply %q, %five : s64[]
  %p = add %q5, %r : s64[]
  %sure = compare %n, %least direction(GE) : pred[]
  %v = if %sure : f32[] {
    %w = load %x[PLACE] : f32[]
    yield %w
  } else {
    yield %nothing
  }
  store %o[%n], %v
}"""


def whys(text: str, size: int, last: int) -> list[str]:
    """What is not proved of a kernel with numbers put in."""
    text = text.replace("SIZE", str(size)).replace("LAST", str(last))
    return [access.why for access in prove(parse_kernel(text)).accesses]


@pytest.mark.parametrize(
    "text, size, last, more",
    [
        (ROWS, 60, 31, 32),
        (STEPS, 772, 51, 52),
        (SIGNED.replace("PLACE", "%q"), 3, 9, 4),
        (SIGNED.replace("PLACE", "%p"), 11, 9, 8),
        (SIGNED.replace("PLACE", "%r"), 5, 9, 8),
    ],
)
def test_what_each_value_leaves(text: str, size: int, last: int, more: int) -> None:
    assert whys(text, size, last) == []
    [why] = whys(text, size - 1, last)
    assert f"may reach {size - 1}" in why
    [why] = whys(text, size, more)
    assert "may" in why


def test_what_each_value_leaves_from_below() -> None:
    assert whys(UNDER, 22, 5) == []
    [why] = whys(UNDER, 22, 4)
    assert "may be negative" in why
