"""Windows that are moved back at the end of a row, and indices whose whole multiples were taken out
of a sum before it was divided: as
products with a transposed result write them."""

from __future__ import annotations

import pytest

from hloom.kernel.proof.prove import prove
from hloom.kernel.text import parse_kernel

# Tiles of 48 of 896 columns: the last begins at 848, and writes its last 32. The loop's condition
# says which of both it is.
TILES = """kernel @k(%o: buffer<f32>[{size}] out) grid(%g: 2) {{
  %z = constant 0 : s64[]
  %ten = constant 10 : s64[]
  %nineteen = constant 19 : s64[]
  %wide = constant 48 : s64[]
  %end = constant {end} : s64[]
  %whole = constant {whole} : s64[]
  %rest = constant {rest} : s64[]
  %rows = constant 2 : s64[]
  %columns = constant 112 : s64[]
  %stride = constant 224 : s64[]
  %one = constant 1 : s64[]
  %all = constant 32 : s64[]
  %v = constant 1.0 : f32[]
  %first = multiply %g, %ten : s64[]
  %last = add %first, %ten : s64[]
  %least = minimum %last, %nineteen : s64[]
  for %t = %first to %least step 1 {{
    %from = multiply %t, %wide : s64[]
    %begin = minimum %from, %end : s64[]
    %is = compare %t, %whole direction(LT) : pred[]
    %n = select %is, %rows, %z : s64[]
    for %r = %z to %n step 1 {{
      %rw = multiply %r, %columns : s64[]
      for %l = %z to %wide step 1 {{
        %x = add %begin, %l : s64[]
        %low = remainder %x, %columns : s64[]
        %high = divide %x, %columns : s64[]
        %hs = multiply %high, %stride : s64[]
        %a = add %hs, %low : s64[]
        %p = add %a, %rw : s64[]
        store %o[%p], %v
      }}
    }}
    for %q = %n to %rows step 1 {{
      %qw = multiply %q, %columns : s64[]
      for %m = %z to %all step 1 {{
        %by = add %begin, %rest : s64[]
        %y = add %by, %m : s64[]
        %lowest = remainder %y, %columns : s64[]
        %highest = divide %y, %columns : s64[]
        %ys = multiply %highest, %stride : s64[]
        %b = add %ys, %lowest : s64[]
        %to = add %b, %qw : s64[]
        store %o[%to], %v
      }}
    }}
  }}
}}"""


@pytest.mark.parametrize(
    "end, whole, rest, size, holds",
    [
        (848, 18, 16, 1792, True),
        (848, 19, 16, 1792, True),  # every tile whole, the last over what is written already
        (848, 17, 16, 1792, False),  # 16 of the last but one are missing
        (848, 18, 15, 1792, False),
        (847, 18, 16, 1792, False),
        (848, 18, 16, 1791, False),
    ],
)
def test_a_condition_of_a_loop_says_where_a_window_begins(
    end: int, whole: int, rest: int, size: int, holds: bool
) -> None:
    found = prove(parse_kernel(TILES.format(end=end, whole=whole, rest=rest, size=size)))
    assert (not found.accesses and not found.writes) == holds


# A number 5 * r + i of which 4 * r was taken out before it was halved.
HALVES = """kernel @k(%o: buffer<f32>[{size}] out) grid(%g: 1) {{
  %z = constant 0 : s64[]
  %two = constant 2 : s64[]
  %five = constant 5 : s64[]
  %half = constant {half} : s64[]
  %out = constant {out} : s64[]
  %least = constant {least} : s64[]
  %v = constant 1.0 : f32[]
  for %r = %z to %two step 1 {{
    %taken = multiply %r, %out : s64[]
    for %i = %z to %five step 1 {{
      %x = add %r, %i : s64[]
      %low = remainder %x, %two : s64[]
      %high = divide %x, %two : s64[]
      %by = multiply %low, %half : s64[]
      %a = add %by, %taken : s64[]
      %p = add %a, %high : s64[]
      %is = compare %x, %least direction(GE) : pred[]
      if %is {{
        store %o[%p], %v
      }} else {{
      }}
    }}
  }}
}}"""


@pytest.mark.parametrize(
    "half, out, least, size, holds",
    [
        (5, 2, 0, 10, True),
        (5, 2, 1, 10, False),
        (5, 1, 0, 10, False),
        (5, 3, 0, 10, False),
        (6, 2, 0, 11, False),
        (5, 2, 0, 9, False),
    ],
)
def test_whole_multiples_that_were_taken_out_are_put_back(
    half: int, out: int, least: int, size: int, holds: bool
) -> None:
    found = prove(parse_kernel(HALVES.format(half=half, out=out, least=least, size=size)))
    assert (not found.accesses and not found.writes) == holds


def test_what_a_select_is_chosen_by_is_no_index_of_its_own() -> None:
    """The step chooses which half of its eight elements is written: the other is not."""
    found = prove(
        parse_kernel("""kernel @k(%o: buffer<f32>[32] out) grid(%g: 4) {
  %z = constant 0 : s64[]
  %two = constant 2 : s64[]
  %four = constant 4 : s64[]
  %eight = constant 8 : s64[]
  %v = constant 1.0 : f32[]
  %c = compare %g, %two direction(LT) : pred[]
  %s = select %c, %z, %four : s64[]
  %f = multiply %g, %eight : s64[]
  for %l = %z to %four step 1 {
    %y = add %s, %l : s64[]
    %q = divide %y, %two : s64[]
    %r = remainder %y, %two : s64[]
    %q2 = multiply %q, %two : s64[]
    %a = add %q2, %r : s64[]
    %p = add %f, %a : s64[]
    store %o[%p], %v
  }
}""")
    )
    assert found.writes


# Numbers in rows of 5, put into rows of 12 at a place that is read: the last 5 are written apart,
# and begin within a row of which the step before has the rest.
ROWS = """kernel @k(%i: buffer<s64>[1] in, %o: buffer<f32>[144] inout) grid(%g: 2) {{
  %z = constant 0 : s64[]
  %by = constant 32 : s64[]
  %full = constant 48 : s64[]
  %all = constant {all} : s64[]
  %v = constant 1.0 : f32[16]
  %w = constant 1.0 : f32[5]
  %most = constant 7 : s64[]
  %d = load %i[%z] : s64[]
  %d0 = maximum %d, %z : s64[]
  %shift = minimum %d0, %most : s64[]
  %moved = broadcast %shift : s64[16]
  %moved5 = broadcast %shift : s64[5]
  %first = multiply %g, %by : s64[]
  %end = add %first, %by : s64[]
  %last = minimum %end, %full : s64[]
  %lane = iota axis(0) : s64[16]
  %five = constant 5 : s64[16]
  %wide = constant 12 : s64[16]
  for %x = %first to %last step 16 {{
    %xs = broadcast %x : s64[16]
    %n = add %xs, %lane : s64[16]
    %low = remainder %n, %five : s64[16]
    %high = divide %n, %five : s64[16]
    %row = multiply %high, %wide : s64[16]
    %a = add %row, %low : s64[16]
    %p = add %a, %moved : s64[16]
    scatter %o[%p], %v
  }}
  %from = maximum %first, %full : s64[]
  %to = minimum %end, %all : s64[]
  %rest = constant {rest} : s64[5]
  %lane5 = iota axis(0) : s64[5]
  %five5 = constant 5 : s64[5]
  %wide5 = constant 12 : s64[5]
  for %y = %from to %to step 5 {{
    %m = add %rest, %lane5 : s64[5]
    %low5 = remainder %m, %five5 : s64[5]
    %high5 = divide %m, %five5 : s64[5]
    %row5 = multiply %high5, %wide5 : s64[5]
    %b = add %row5, %low5 : s64[5]
    %q = add %b, %moved5 : s64[5]
    scatter %o[%q], %w
  }}
}}"""


@pytest.mark.parametrize("rest, holds", [(48, True), (46, True), (31, False)])
def test_steps_share_a_row_that_data_moves(rest: int, holds: bool) -> None:
    """What the second step writes again of its own is no other's; of the first step's it is."""
    found = prove(parse_kernel(ROWS.format(rest=rest, all=53)))
    assert not found.accesses
    assert (not found.writes) == holds


# Only where 12 * g + 12 + (2 * g + 12 + (3 * g + 12) div 5) div 3 < 192 something is read.
MASKED = """kernel @k(%x: buffer<f32>[{size}] in, %o: buffer<f32>[15] out) grid(%g: 15) {{
  %two = constant 2 : s64[]
  %three = constant 3 : s64[]
  %five = constant 5 : s64[]
  %eight = constant 8 : s64[]
  %twelve = constant 12 : s64[]
  %most = constant {most} : s64[]
  %a = multiply %g, %three : s64[]
  %b = add %a, %twelve : s64[]
  %c = divide %b, %five : s64[]
  %d = multiply %g, %two : s64[]
  %e = add %d, %twelve : s64[]
  %f = add %e, %c : s64[]
  %h = divide %f, %three : s64[]
  %i = multiply %g, %twelve : s64[]
  %j = add %i, %twelve : s64[]
  %k = add %j, %h : s64[]
  %is = compare %k, %most direction(LT) : pred[]
  %mask = broadcast %is : pred[8]
  %none = constant 0.0 : f32[8]
  %at = multiply %g, %eight : s64[]
  %v = load %x[%at] mask(%mask) other(%none) strides(1) : f32[8]
  %s = reduce %v axis(0) kind(add) : f32[]
  store %o[%g], %s
}}"""


@pytest.mark.parametrize(
    "most, size, holds", [(192, 112, True), (197, 112, False), (192, 111, False), (197, 120, True)]
)
def test_a_condition_on_quotients_bounds_what_they_are_made_of(
    most: int, size: int, holds: bool
) -> None:
    found = prove(parse_kernel(MASKED.format(most=most, size=size)))
    assert (not found.accesses) == holds


# 1,056 * g + 8 * j + l, less than 1,890, taken apart by 63, 3 and 10 as its whole multiples are
# taken out one after the other.
TAKEN_APART = """kernel @k(%x: buffer<f32>[{size}] in, %o: buffer<f32>[2112] out) grid(%g: 2) {{
  %z = constant 0 : s64[]
  %n = constant 1056 : s64[]
  %left = constant 48 : s64[]
  %taken = constant 5 : s64[]
  %all = constant {below} : s32[8]
  %a = constant 63 : s32[8]
  %b = constant 3 : s32[8]
  %by_a = constant 30 : s32[8]
  %by_b = constant 10 : s32[8]
  %none = constant 0.0 : f32[8]
  %lane = iota axis(0) : s32[8]
  %first = multiply %g, %n : s64[]
  %y = multiply %g, %left : s64[]
  %w = multiply %g, %taken : s64[]
  %g32 = convert %g : s32[]
  %w32 = convert %w : s32[]
  %gs = broadcast %g32 : s32[8]
  %ws = broadcast %w32 : s32[8]
  for %j = %z to %n step 8 {{
    %at = add %first, %j : s64[]
    %at32 = convert %at : s32[]
    %ats = broadcast %at32 : s32[8]
    %number = add %ats, %lane : s32[8]
    %mask = compare %number, %all direction(LT) : pred[8]
    %yj = add %y, %j : s64[]
    %yj32 = convert %yj : s32[]
    %yjs = broadcast %yj32 : s32[8]
    %m = add %yjs, %lane : s32[8]
    %low = remainder %m, %a : s32[8]
    %q = divide %m, %a : s32[8]
    %r = add %gs, %q : s32[8]
    %middle = remainder %r, %b : s32[8]
    %top = divide %r, %b : s32[8]
    %low30 = multiply %low, %by_a : s32[8]
    %middle10 = multiply %middle, %by_b : s32[8]
    %p = add %low30, %middle10 : s32[8]
    %s = add %p, %top : s32[8]
    %t = add %s, %ws : s32[8]
    %v = gather %x[%t] mask(%mask) other(%none) : f32[8]
    store %o[%at], %v strides(1)
  }}
}}"""


@pytest.mark.parametrize(
    "below, size, holds",
    [(1890, 1890, True), (1891, 1890, True), (2079, 1890, False), (1890, 1889, False)],
)
def test_digits_of_a_masked_number_that_was_taken_apart_twice(
    below: int, size: int, holds: bool
) -> None:
    found = prove(parse_kernel(TAKEN_APART.format(below=below, size=size)))
    assert (not found.accesses) == holds
