"""Places made of quotients of quotients, where a mask tells of the number that all are made of:
forms that programs with padded, reshaped broadcasts found unproved. One element less is refused."""

from __future__ import annotations

import pytest

from hloom.kernel.proof.prove import prove
from hloom.kernel.text import parse_kernel

# Numbers `33 * g + t + l + FIRST` of a row, of which a mask leaves those from 0 to below COUNT;
# the place is made of digits: `n mod 2 + 2 * (n div 2 mod 5) + 10 * (n div 10 div 8)`.
ROW = """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[1584] out) grid(%g: 48) {
  %z = constant 0 : s64[]
  %twice = constant 2 : s64[]
  %end = constant 32 : s64[]
  %none = constant 0.0 : f32[4]
  %width = constant 33 : s64[]
  %first = constant FIRST : s64[]
  %row = multiply %g, %width : s64[]
  %lanes = iota axis(0) : s32[4]
  %zero = constant 0 : s32[4]
  %count = constant COUNT : s32[4]
  %two = constant 2 : s32[4]
  %three = constant 3 : s32[4]
  %five = constant 5 : s32[4]
  %eight = constant 8 : s32[4]
  %ten = constant 10 : s32[4]
  for %t = %z to %end step 4 {
    %at = add %row, %t : s64[]
    %from = add %at, %first : s64[]
    %f32 = convert %from : s32[]
    %fw = broadcast %f32 : s32[4]
    %n = add %fw, %lanes : s32[4]
    %ge = compare %n, %zero direction(GE) : pred[4]
    %lt = compare %n, %count direction(LT) : pred[4]
    %mask = and %ge, %lt : pred[4]
    %shift = constant SHIFT : s32[4]
    %m = add %n, %shift : s32[4]
    %d0 = remainder %m, %two : s32[4]
    %q0 = divide %m, %two : s32[4]
    %d1 = remainder %q0, %five : s32[4]
    %q1 = divide %q0, %five : s32[4]
    %q2 = divide %q1, %eight : s32[4]
    %p1 = multiply %d1, %two : s32[4]
    %p2 = multiply %q2, %ten : s32[4]
    %p3 = add %d0, %p1 : s32[4]
    %p4 = add %p3, %p2 : s32[4]
    %back = constant BACK : s32[4]
    %place = add %p4, %back : s32[4]
    %v = gather %x[%place] mask(%mask) other(%none) : f32[4]
    store %o[%at], %v strides(1)
  }
}
"""


APART = """    %t2 = divide %t, %twice : s64[]
    %t32 = convert %t2 : s32[]
    %tw = broadcast %t32 : s32[4]
    %g32 = convert %g : s32[]
    %gw = broadcast %g32 : s32[4]
    %gl = add %gw, %lanes : s32[4]
    %d0 = remainder %gl, %two : s32[4]
    %h = divide %gl, %two : s32[4]
    %ht = add %h, %tw : s32[4]
    %h0 = add %ht, %gw : s32[4]
    %d1 = remainder %h0, %five : s32[4]
    %h1 = divide %h0, %five : s32[4]
    %g3 = multiply %gw, %three : s32[4]
    %q1 = add %h1, %g3 : s32[4]
"""
"""The same digits where the numbers begin at 0, less the whole multiples of g."""


def whys(text: str = ROW, **numbers: int) -> list[str]:
    """What is not proved of the kernel with numbers in place of its names."""
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    return [unproved.why for unproved in prove(parse_kernel(text)).accesses]


@pytest.mark.parametrize("count", [1280, 1200, 81])
def test_a_quotient_that_loses_nothing_stands_beside_one_that_does(count: int) -> None:
    start, end = ROW.index("    %d0 ="), ROW.index("    %q2 =")
    apart = ROW[:start] + APART + ROW[end:]
    size = -(-count // 80) * 10
    for text in (ROW, apart):
        assert whys(text, SIZE=size, FIRST=0, COUNT=count, SHIFT=0, BACK=0) == []
        [why] = whys(text, SIZE=size, FIRST=0, COUNT=size * 8 + 1, SHIFT=0, BACK=0)
        assert f"may reach {size}" in why


def test_where_a_row_begins_bounds_a_quotient_of_quotients_from_below() -> None:
    # All numbers have 80 added, and all places 10 taken away.
    assert whys(SIZE=160, FIRST=-5, COUNT=1280, SHIFT=80, BACK=-10) == []
    [why] = whys(SIZE=160, FIRST=-5, COUNT=1280, SHIFT=79, BACK=-10)
    assert "may be negative" in why
    [why] = whys(SIZE=160, FIRST=-5, COUNT=1280, SHIFT=81, BACK=-10)
    assert "may reach 160" in why
