"""Places that are inside of a buffer since numbers are whole: quotients that go in steps, and masks
that bound a few of their terms. One element less is refused."""

from __future__ import annotations

import pytest

from hloom.kernel.proof.linear import Linear, Symbol
from hloom.kernel.proof.prove import prove
from hloom.kernel.proof.ranges import Ranges
from hloom.kernel.text import parse_kernel

# A quarter of a multiple of 8 is even: of `63 * (n mod 8)` the greatest is `63 * 6`.
EVEN = """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[2056] out) grid(%g: 1) {
  %z = constant 0 : s64[]
  %end = constant 2056 : s64[]
  %i = iota axis(0) : s32[8]
  %all = constant 2016 : s32[8]
  %none = constant 0 : f32[8]
  %four = constant 4 : s64[]
  %eight = constant 8 : s64[]
  %by = constant 63 : s64[]
  %fours = constant 4 : s32[8]
  %low = remainder %i, %fours : s32[8]
  %far = constant 504 : s32[8]
  %a = multiply %low, %far : s32[8]
  %high = divide %i, %fours : s32[8]
  %near = constant 63 : s32[8]
  %b = multiply %high, %near : s32[8]
  for %n = %z to %end step 8 {
    %n32 = convert %n : s32[]
    %wide = broadcast %n32 : s32[8]
    %at = add %wide, %i : s32[8]
    %mask = compare %at, %all direction(LT) : pred[8]
    %q = divide %n, %four : s64[]
    %r = remainder %q, %eight : s64[]
    %rows = multiply %r, %by : s64[]
    %top = divide %q, %eight : s64[]
    %first = add %rows, %top : s64[]
    %first32 = convert %first : s32[]
    %c = broadcast %first32 : s32[8]
    %d = add %c, %a : s32[8]
    %p = add %d, %b : s32[8]
    %v = gather %x[%p] mask(%mask) other(%none) : f32[8]
    store %o[%n], %v strides(1)
  }
}"""

# Where `771 * r + 257 * c + g < 2056`, `3 * r + c` is 7 at most.
CUT = """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[6168] out) grid(%g: 257) {
  %g32 = convert %g : s32[]
  %wide = broadcast %g32 : s32[8,3]
  %i = iota axis(0) : s32[8,3]
  %down = constant 771 : s32[8,3]
  %a = multiply %i, %down : s32[8,3]
  %j = iota axis(1) : s32[8,3]
  %across = constant 257 : s32[8,3]
  %b = multiply %j, %across : s32[8,3]
  %ab = add %a, %b : s32[8,3]
  %at = add %wide, %ab : s32[8,3]
  %all = constant 2056 : s32[8,3]
  %mask = compare %at, %all direction(LT) : pred[8,3]
  %none = constant 0 : f32[8,3]
  %eight = constant 8 : s64[]
  %p = multiply %g, %eight : s64[]
  %v = load %x[%p] mask(%mask) other(%none) strides(3, 1) : f32[8,3]
  %by = constant 24 : s64[]
  %w = multiply %g, %by : s64[]
  store %o[%w], %v strides(3, 1)
}"""

# Half of a quotient that goes in steps of 4 is exactly half of it.
HALF = """kernel @k(%x: buffer<s32>[SIZE] in, %o: buffer<s32>[192] out) grid(%g: 1) {
  %z = constant 0 : s64[]
  %end = constant 192 : s64[]
  %three = constant 3 : s64[]
  %two = constant 2 : s64[]
  %i = iota axis(0) : s32[24]
  %eight = constant 8 : s32[24]
  %twos = constant 2 : s32[24]
  %sixteen = constant 16 : s32[24]
  %none = constant 0 : s32[24]
  %up = divide %i, %eight : s32[24]
  %up2 = multiply %up, %twos : s32[24]
  %threes = constant 3 : s32[24]
  %beside = remainder %i, %threes : s32[24]
  %few = compare %beside, %twos direction(LT) : pred[24]
  for %n = %z to %end step 24 {
    %q = divide %n, %three : s64[]
    %r = divide %q, %two : s64[]
    %s = divide %r, %two : s64[]
    %s32 = convert %s : s32[]
    %sw = broadcast %s32 : s32[24]
    %row = add %sw, %up : s32[24]
    %above = compare %row, %sixteen direction(LT) : pred[24]
    %mask = and %above, %few : pred[24]
    %r32 = convert %r : s32[]
    %rw = broadcast %r32 : s32[24]
    %p0 = add %rw, %up2 : s32[24]
    %p = add %p0, %beside : s32[24]
    %v = gather %x[%p] mask(%mask) other(%none) : s32[24]
    store %o[%n], %v strides(1)
  }
}"""


@pytest.mark.parametrize("text, size", [(EVEN, 2016), (CUT, 2056), (HALF, 32)])
def test_what_whole_numbers_bound(text: str, size: int) -> None:
    assert prove(parse_kernel(text.replace("SIZE", str(size)))).accesses == []
    [access] = prove(parse_kernel(text.replace("SIZE", str(size - 1)))).accesses
    assert f"may reach {size - 1}" in access.why


@pytest.mark.parametrize(
    ("by", "shift", "other", "residue"),
    [(16, 0, 14, (0, 2)), (16, 0, 13, (0, 1)), (12, 3, 9, (3, 6)), (5, 2, 42, (2, 5))],
)
def test_the_lesser_of_two_has_what_their_residues_have_in_common(by, shift, other, residue):
    """Columns in tiles of 16, the last moved back to 14, are even: half of one is exactly half."""
    x = Linear(shift, {Symbol(0, 9): by})
    for sign in (1, -1):
        least = Ranges(parse_kernel(EVEN.replace("SIZE", "1"))).extreme(x, Linear(other), sign)
        rest, modulus = least.residue()
        assert (rest % modulus, modulus) == (residue[0] % modulus, residue[1])
        low, high = least.bounds()
        for value in (
            (min, max)[sign < 0](shift, other),
            (min, max)[sign < 0](by * 9 + shift, other),
        ):
            assert low <= value <= high
            assert (value - rest) % modulus == 0
