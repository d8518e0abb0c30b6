"""Kernels whose places are quotients and remainders of others: forms that random JAX programs
found unproved. What is wrong with one number in them is refused still."""

from __future__ import annotations

import pytest

from hloom.kernel.proof.prove import prove
from hloom.kernel.text import parse_kernel


def writes(text: str) -> list[str]:
    return prove(parse_kernel(text)).writes


# A window of 6 columns and rows that reach over the border: lanes go over 7 columns of several
# rows, in pairs, and the mask tells of the row and the column apart.
WINDOW = """kernel @k(%x: buffer<f32>[SIZE] in, %o: buffer<f32>[1056] out) grid(%g: 33) {
  %z = constant 0 : s64[]
  %rows = constant 11 : s64[]
  %columns = constant 6 : s64[]
  %i = iota axis(0) : s32[32]
  %two = constant 2 : s32[32]
  %seven = constant 7 : s32[32]
  %pair = divide %i, %two : s32[32]
  %down = divide %pair, %seven : s32[32]
  %across = remainder %pair, %seven : s32[32]
  %all = constant 12 : s32[32]
  %zero = constant 0 : s32[32]
  %none = constant 0.0 : f32[32]
  %minus = constant -2 : s64[]
  %before = constant -132 : s64[]
  %base = add %before, %g : s64[]
  %by_row = constant 462 : s64[]
  %by_column = constant 66 : s64[]
  %sum = for %r = %z to %rows step 1 (%s = %none) : f32[32] {
    %r32 = convert %r : s32[]
    %rw = broadcast %r32 : s32[32]
    %row = add %rw, %down : s32[32]
    %below = compare %row, %all direction(LT) : pred[32]
    %rf = multiply %r, %by_row : s64[]
    %rb = add %base, %rf : s64[]
    %inner = for %c = %z to %columns step 1 (%t = %s) : f32[32] {
      %cm = add %minus, %c : s64[]
      %c32 = convert %cm : s32[]
      %cw = broadcast %c32 : s32[32]
      %column = add %cw, %across : s32[32]
      %ge = compare %column, %zero direction(GE) : pred[32]
      %lt = compare %column, %seven direction(LT) : pred[32]
      %in = and %ge, %lt : pred[32]
      %mask = and %below, %in : pred[32]
      %cf = multiply %c, %by_column : s64[]
      %at = add %rb, %cf : s64[]
      %v = load %x[%at] mask(%mask) other(%none) strides(33) : f32[32]
      %n = add %v, %t : f32[32]
      yield %n
    }
    yield %inner
  }
  %width = constant 32 : s64[]
  %p = multiply %g, %width : s64[]
  store %o[%p], %sum strides(1)
}"""


def test_a_window_of_quotients_of_quotients_needs_four_facts_in_turn():
    assert prove(parse_kernel(WINDOW.replace("SIZE", "5544"))).accesses == []
    [access] = prove(parse_kernel(WINDOW.replace("SIZE", "5543"))).accesses
    assert "may reach 5543" in access.why


# A tile of 64 every 64 places from a block of 4,096 on, whose pairs go to rows of 7; the last block
# is shorter, and its rest of 24 is written by the step that has it alone.
PAIRS = """kernel @k(%x: buffer<u16>[15000] in, %o: buffer<u16>[52500] inout) grid(%g: 4) {
  %block = constant 4096 : s64[]
  %low = multiply %g, %block : s64[]
  %end = add %low, %block : s64[]
  %full = constant 14976 : s64[]
  %high = minimum %end, %full : s64[]
  %two = constant 2 : s64[]
  %seven = constant 7 : s64[]
  %i = iota axis(0) : s32[64]
  %twos = constant 2 : s32[64]
  %sevens = constant 7 : s32[64]
  %in_pair = remainder %i, %twos : s32[64]
  %pair = divide %i, %twos : s32[64]
  %row = multiply %pair, %sevens : s32[64]
  for %k = %low to %high step STEP {
    %v = load %x[%k] strides(1) : u16[64]
    %half = divide %k, %two : s64[]
    %far = multiply %half, %seven : s64[]
    %narrow = convert %far : s32[]
    %wide = broadcast %narrow : s32[64]
    %at = add %wide, %in_pair : s32[64]
    %place = add %at, %row : s32[64]
    scatter %o[%place], %v
  }
}"""


def test_digits_of_a_loop_that_goes_in_steps_are_whole_though_the_low_ones_are_missing():
    right = PAIRS.replace("STEP", "64")
    assert writes(right) == []
    assert writes(right.replace("constant 4096", "constant 4032")) == []  # 63 tiles
    overlapping = PAIRS.replace("STEP", "32")
    between = right.replace("constant 4096", "constant 4128")
    wider = right.replace("%high = minimum %end, %full", "%high = minimum %full, %full")
    longer = right.replace("%sevens = constant 7", "%sevens = constant 14")
    for wrong in (overlapping, between, wider, longer):
        assert writes(wrong) != []


# Three rows of 135 of each of three slabs, in blocks of 64; the last block of a row is 7 long and
# begins where no multiple of 64 after the row before does.
SLABS = """kernel @k(%o: buffer<f32>[1215] inout) grid(%g: 3) {
  %two = constant 2 : s64[]
  %first = compare %g, %two direction(LT) : pred[]
  %z = constant 0 : s64[]
  %three = constant 3 : s64[]
  %block = constant 64 : s64[]
  %at = multiply %g, %block : s64[]
  %slab = constant 405 : s64[]
  %wide = constant 1.0 : f32[64]
  %narrow = constant 1.0 : f32[7]
  %b = constant 135 : s64[]
  %row = add %b, %at : s64[]
  %d = constant LAST : s64[]
  %e = constant 263 : s64[]
  if %first {
    for %k = %z to %three step 1 {
      %far = multiply %k, %slab : s64[]
      %p = add %at, %far : s64[]
      store %o[%p], %wide strides(1)
      %q = add %row, %far : s64[]
      store %o[%q], %wide strides(1)
    }
  } else {
    for %k = %z to %three step 1 {
      %far = multiply %k, %slab : s64[]
      %p = add %d, %far : s64[]
      store %o[%p], %narrow strides(1)
      %q = add %e, %far : s64[]
      store %o[%q], %narrow strides(1)
    }
  }
}"""


def test_rows_that_begin_anywhere_are_looked_at_apart():
    assert writes(SLABS.replace("LAST", "128")) == []
    for wrong in (127, 129, 256, 257, 100):
        assert writes(SLABS.replace("LAST", str(wrong))) != []


# Numbers from FIRST on, a tile of 16 after the other, in rows of 15 that lie STRIDE apart, the last
# row first. SIZE is what they fill.
RUN = """kernel @k(%o: buffer<f32>[SIZE] out) grid(%g: 1) {
  %z = constant 0 : s64[]
  %end = constant 32 : s64[]
  %i = iota axis(0) : s32[16]
  %row = constant 15 : s32[16]
  %stride = constant STRIDE : s32[16]
  %first = constant FIRST : s32[16]
  %base = constant BASE : s32[16]
  %most = constant MOST : s32[16]
  %v = constant 1.0 : f32[16]
  for %k = %z to %end step 16 {
    %c = convert %k : s32[]
    %w = broadcast %c : s32[16]
    %t = add %w, %i : s32[16]
    %n = add %t, %first : s32[16]
    %q = divide %n, %row : s32[16]
    %r = remainder %n, %row : s32[16]
    %down = multiply %q, %stride : s32[16]
    %far = add %base, %down : s32[16]
    %p = add %far, %r : s32[16]
    %m = compare %n, %most direction(LE) : pred[16]
    scatter %o[%p], %v mask(%m)
  }
}"""


def run(first: int, base: int, stride: int, most: int, size: int) -> list[str]:
    numbers = {"FIRST": first, "BASE": base, "STRIDE": stride, "MOST": most, "SIZE": size}
    text = RUN
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    return writes(text)


def places(first: int, base: int, stride: int, most: int) -> set[int]:
    numbers = range(first, min(first + 31, most) + 1)
    return {base + n // 15 * stride + n % 15 for n in numbers}


@pytest.mark.parametrize("first", [0, 1, 14, 15, 29])
@pytest.mark.parametrize("count", [1, 15, 16, 29, 31, 32])
@pytest.mark.parametrize("stride", [15, -15, 14, 16])
def test_numbers_that_begin_and_end_within_a_quotient(first, count, stride):
    most = first + count - 1
    base = -min(places(first, 0, stride, most))
    found = places(first, base, stride, most)
    size = max(found) + 1
    proved = run(first, base, stride, most, size) == []
    is_whole = len(found) == size
    assert proved == is_whole or (is_whole and size < count)  # rows that overlap need not be proved
    assert run(first, base, stride, most, size + 1) != []
    fewer = places(first, base, stride, most - 1)
    assert run(first, base, stride, most - 1, size) != [] or fewer == found


# Two windows of 38 rows, each of which begins at a row that data names; a step has half of a row.
ROWS = """kernel @k(%at: buffer<s32>[2] in, %o: buffer<f32>[17664] inout) grid(%g: 2) {
  %z = constant 0 : s64[]
  %one = constant 1 : s64[]
  %rows = constant 38 : s64[]
  %half = constant HALF : s64[]
  %width = constant WIDTH : s64[]
  %far = constant 5888 : s64[]
  %v = constant 1.0 : f32[64]
  %mine = multiply %g, %half : s64[]
  %a = load %at[%z] : s32[]
  %b = load %at[%one] : s32[]
  %a64 = convert %a : s64[]
  %b64 = convert %b : s64[]
  %down_a = multiply %a64, %width : s64[]
  %down_b = multiply %b64, %width : s64[]
  %first = add %mine, %down_a : s64[]
  %mine_too = add %far, %mine : s64[]
  %second = add %mine_too, %down_b : s64[]
  for %k = %z to %rows step 1 {
    %row = multiply %k, %width : s64[]
    %p = add %first, %row : s64[]
    store %o[%p], %v strides(1)
    %q = add %second, %row : s64[]
    store %o[%q], %v strides(1)
  }
}"""


@pytest.mark.parametrize(
    "half,width,is_right", [(64, 128, True), (63, 128, False), (65, 128, False), (64, 127, False)]
)
def test_rows_that_data_moves_apart_are_each_steps_own_part(half, width, is_right):
    found = writes(ROWS.replace("HALF", str(half)).replace("WIDTH", str(width)))
    assert (found == []) == is_right


# Rows of two columns, shifted down and to the right: lanes go over several rows, and the mask
# tells of the row and of the column apart.
SHIFTED = """kernel @k(%x: buffer<f32>[198] in, %o: buffer<f32>[192] out) grid(%g: 1) {
  %z = constant 0 : s64[]
  %all = constant 192 : s64[]
  %two = constant 2 : s64[]
  %i = iota axis(0) : s32[16]
  %columns = constant 2 : s32[16]
  %zero = constant 0 : s32[16]
  %one = constant 1 : s32[16]
  %none = constant 0.0 : f32[16]
  %down = divide %i, %columns : s32[16]
  %across = remainder %i, %columns : s32[16]
  %column = subtract %across, %one : s32[16]
  %right = compare %column, %zero direction(GE) : pred[16]
  %back = constant BACK : s64[]
  for %l = %z to %all step 16 {
    %q = divide %l, %two : s64[]
    %q32 = convert %q : s32[]
    %qs = broadcast %q32 : s32[16]
    %sum = add %qs, %down : s32[16]
    %row = subtract %sum, %one : s32[16]
    %below = compare %row, %zero direction(GE) : pred[16]
    %m = and %below, %right : pred[16]
    %at = add %back, %l : s64[]
    %v = load %x[%at] mask(%m) other(%none) strides(1) : f32[16]
    store %o[%l], %v strides(1)
  }
}
"""


@pytest.mark.parametrize(("back", "proved"), [(-3, True), (-2, True), (-4, False)])
def test_rows_and_columns_that_are_shifted(back: int, proved: bool) -> None:
    found = prove(parse_kernel(SHIFTED.replace("BACK", str(back))))
    assert (not found.accesses) == proved


# Part of a row of joined arrays: the mask tells from which number on, and so from which quotient.
JOINED = """kernel @k(%x: buffer<f32>[288] in, %o: buffer<f32>[1536] out) grid(%g: 32) {
  %z = constant 0 : s64[]
  %end = constant 48 : s64[]
  %lanes = iota axis(0) : s32[16]
  %none = constant 0.0 : f32[16]
  %nine = constant 9 : s64[]
  %g9 = multiply %g, %nine : s64[]
  %back = constant BACK : s64[]
  %base = add %g9, %back : s64[]
  %b32 = convert %base : s32[]
  %bw = broadcast %b32 : s32[16]
  %three = constant 3 : s32[16]
  %first = constant 30 : s32[16]
  %last = constant 39 : s32[16]
  %g48 = multiply %g, %end : s64[]
  for %i = %z to %end step 16 {
    %i32 = convert %i : s32[]
    %iw = broadcast %i32 : s32[16]
    %t = add %iw, %lanes : s32[16]
    %ge = compare %t, %first direction(GE) : pred[16]
    %lt = compare %t, %last direction(LT) : pred[16]
    %mask = and %ge, %lt : pred[16]
    %q = divide %t, %three : s32[16]
    %q3 = multiply %q, %three : s32[16]
    %at = add %bw, %q3 : s32[16]
    %v = gather %x[%at] mask(%mask) other(%none) : f32[16]
    %to = add %g48, %i : s64[]
    store %o[%to], %v strides(1)
  }
}
"""


def test_a_mask_tells_from_which_quotient_on():
    assert prove(parse_kernel(JOINED.replace("BACK", "-30"))).accesses == []
    assert prove(parse_kernel(JOINED.replace("BACK", "-28"))).accesses == []  # to 287
    [low] = prove(parse_kernel(JOINED.replace("BACK", "-31"))).accesses
    assert "may be negative" in low.why
    [high] = prove(parse_kernel(JOINED.replace("BACK", "-27"))).accesses
    assert "may reach 288" in high.why
