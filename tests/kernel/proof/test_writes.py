"""Every element of an output is written, and by one step: proved, or refused with the reason."""

from __future__ import annotations

import pytest

from hloom.kernel.proof.prove import prove, proves_whole
from hloom.kernel.text import parse_kernel

ROWS = """kernel @k(%x: buffer<f32>[96] in, %o: buffer<f32>[96] ROLE) grid(%g: 8) {
  %z = constant 0 : s64[]
  %c = constant 12 : s64[]
  %p = multiply %g, %c : s64[]
  %full = constant 8 : s64[]
  for %k = %z to %full step 4 {
    %q = add %p, %k : s64[]
    %v = load %x[%q] strides(1) : f32[4]
    store %o[%q], %v strides(1)
  }
  %r = add %p, %full : s64[]
  %w = load %x[%r] strides(1) : f32[4]
  store %o[%r], %w strides(1)
}"""

# Blocks of 5 of 12 rows, tiles of 8 of 23 columns, the last moved back: its first lanes are left
# out, since another step writes them.
TILES = """kernel @k(%o: buffer<f32>[276] out) grid(%g: 3) {
  %z = constant 0 : s64[]
  %five = constant 5 : s64[]
  %low = multiply %g, %five : s64[]
  %end = add %low, %five : s64[]
  %rows = constant 12 : s64[]
  %high = minimum %end, %rows : s64[]
  %eight = constant 8 : s64[]
  %minus = constant -1 : s64[]
  %most = constant 15 : s64[]
  %all = constant 24 : s64[]
  %width = constant 23 : s64[]
  %value = constant 1.0 : f32[]
  for %row = %low to %high step 1 {
    %base = multiply %row, %width : s64[]
    for %t = %z to %all step 8 {
      %start = minimum %t, %most : s64[]
      %back = multiply %start, %minus : s64[]
      %first = add %t, %back : s64[]
      %at = add %base, %start : s64[]
      for %k = %first to %eight step 1 {
        %p = add %at, %k : s64[]
        store %o[%p], %value
      }
    }
  }
}"""


def writes(text: str) -> list[str]:
    return prove(parse_kernel(text)).writes


@pytest.mark.parametrize("role", ["out", "inout"])
def test_rows(role: str) -> None:
    assert not writes(ROWS.replace("ROLE", role))


def test_tiles() -> None:
    assert not writes(TILES)


FAULTS = [
    (ROWS, "to %full step 4", "to %z step 4", "every element"),  # no main part
    (ROWS, "constant 12", "constant 8", "every element"),  # rows overlap
    (ROWS, "constant 12", "constant 13", "every element"),  # a gap between rows
    (ROWS, "grid(%g: 8)", "grid(%g: 7)", "every element"),
    (ROWS, "%q = add %p, %k", "%q = add %z, %k", "steps along grid axis 0"),
    (TILES, "constant 12", "constant 11", "every element"),
    (TILES, "%first to %eight", "%z to %full", ""),
    (TILES, "constant 24", "constant 16", "every element"),
    (TILES, "grid(%g: 3)", "grid(%g: 2)", "every element"),
]


@pytest.mark.parametrize(("text", "old", "new", "why"), FAULTS)
def test_faults(text: str, old: str, new: str, why: str) -> None:
    assert old in text
    if "%full" in new and "%full" not in text:
        new = new.replace("%full", "%eight").replace("%z", "%minus")
    [found] = writes(text.replace(old, new, 1).replace("ROLE", "out"))
    assert why in found


def test_windows_at_places_that_data_chooses_overlap() -> None:
    """Two updates of a scatter may write one row from two steps: windows move along the grid."""
    text = """kernel @k(%i: buffer<s64>[4] in, %o: buffer<f32>[70] inout) grid(%g: 3) {
  %z = constant 0 : s64[]
  %four = constant 4 : s64[]
  %most = constant 7 : s64[]
  %seven = constant 7 : s64[]
  %value = constant 1.0 : f32[]
  for %k = %z to %four step 1 {
    %n = load %i[%k] : s64[]
    %a = compare %n, %z direction(GE) : pred[]
    %b = compare %n, %most direction(LE) : pred[]
    %m = and %a, %b : pred[]
    %row = add %g, %n : s64[]
    %p = multiply %row, %seven : s64[]
    if %m {
      store %o[%p], %value
    } else {
    }
  }
}"""
    [why] = writes(text)
    assert "steps write different elements" in why
    # Along a dimension that no index moves, they are apart.
    apart = text.replace("add %g, %n", "add %z, %n").replace("store %o[%p]", "store %o[%s]")
    apart = apart.replace("    if %m", "    %s = add %p, %g : s64[]\n    if %m")
    assert not writes(apart)


def test_a_start_that_data_chooses_is_the_same_for_all_steps() -> None:
    text = """kernel @k(%i: buffer<s64>[1] in, %o: buffer<f32>[100] inout) grid(%g: 5) {
  %z = constant 0 : s64[]
  %n = load %i[%z] : s64[]
  %most = constant 90 : s64[]
  %a = minimum %n, %most : s64[]
  %start = maximum %a, %z : s64[]
  %two = constant 2 : s64[]
  %b = multiply %g, %two : s64[]
  %p = add %start, %b : s64[]
  %v = constant 1.0 : f32[2]
  store %o[%p], %v strides(1)
}"""
    assert not writes(text)
    [why] = writes(text.replace("constant 2 ", "constant 1 "))
    assert "steps write different elements" in why


# Rows of 54, a window of 27 in each, from the same place: a number below zero counts from the end.
COUNTED_FROM_THE_END = """kernel @k(%i: buffer<s32>[5] in, %o: buffer<f32>[270] ROLE) grid(%g: 5) {
  %z = constant 0 : s32[]
  %false = constant false : pred[]
  %size = constant 27 : s32[]
  %row = constant 54 : s64[]
  %most = constant 27 : s64[]
  %none = constant 0 : s64[]
  %n = load %i[PLACE] : s32[]
  %below = compare %n, %z direction(LT) : pred[]
  %same = compare %below, %false direction(NE) : pred[]
  %other = compare %n, %z direction(NE) : pred[]
  %both = and %same, %other : pred[]
  %more = add %n, %size : s32[]
  %m = select %both, %more, %n : s32[]
  %s = convert %m : s64[]
  %a = minimum %s, %most : s64[]
  %b = maximum %a, %none : s64[]
  %p = multiply %g, %row : s64[]
  %q = add %p, %b : s64[]
  %v = constant 1.0 : f32[WIDTH]
  store %o[%q], %v strides(1)
}"""


def test_a_start_chosen_by_a_condition_of_data_is_the_same_for_all_steps() -> None:
    text = COUNTED_FROM_THE_END.replace("WIDTH", "27").replace("PLACE", "%none")
    assert not writes(text.replace("ROLE", "inout"))
    wide = text.replace("f32[27]", "f32[55]").replace("[270]", "[400]").replace("ROLE", "inout")
    assert "steps write different" in writes(wide)[0]
    assert "every element" in writes(text.replace("ROLE", "out"))[0]
    changed = text.replace("buffer<s32>[5] in,", "buffer<s32>[5] inout,").replace("ROLE", "inout")
    assert any("steps write different" in why for why in writes(changed))
    of_step = COUNTED_FROM_THE_END.replace("WIDTH", "28").replace("PLACE", "%g")
    assert "steps write different" in writes(of_step.replace("ROLE", "inout"))[0]


def test_digits_of_numbers_that_share_an_index() -> None:
    """`p mod 2` is told by p itself: half of the elements are not written."""
    text = """kernel @k(%o: buffer<f32>[12] out) {
  %z = constant 0 : s64[]
  %six = constant 6 : s64[]
  %four = constant 4 : s64[]
  %three = constant 3 : s64[]
  %two = constant 2 : s64[]
  %v = constant 1.0 : f32[]
  for %p = %z to %six step 1 {
    for %q = %z to %four step 2 {
      %a = multiply %q, %three : s64[]
      %b = add %a, %p : s64[]
      %m = remainder %b, %two : s64[]
      %c = multiply %HIGH, %two : s64[]
      %d = add %c, %m : s64[]
      store %o[%d], %v
    }
  }
}"""
    assert "not independent" in writes(text.replace("HIGH", "p"))[0]
    both = text.replace("    %c =", "    %h = divide %b, %two : s64[]\n      %c =")
    assert not writes(both.replace("HIGH", "h"))


def test_stores_that_data_may_leave_out() -> None:
    text = """kernel @k(%i: buffer<s64>[1] in, %o: buffer<f32>[1] out) {
  %z = constant 0 : s64[]
  %n = load %i[%z] : s64[]
  %a = compare %n, %z direction(GE) : pred[]
  %v = constant 1.0 : f32[]
  if %a {
    store %o[%z], %v
  } else {
  }
}"""
    [why] = writes(text)
    assert "every element" in why
    both = text.replace("  } else {\n  }", "  } else {\n    store %o[%z], %v\n  }")
    assert "every element" in writes(both)[0]  # not shown: neither is always done


def test_parts_of_several_kernels() -> None:
    def part(start: int, count: int) -> str:
        return f"""kernel @k(%o: buffer<f32>[24] part) grid(%g: 3) {{
  %c = constant 8 : s64[]
  %r = multiply %g, %c : s64[]
  %s = constant {start} : s64[]
  %p = add %r, %s : s64[]
  %v = constant 1.0 : f32[{count}]
  store %o[%p], %v strides(1)
}}"""

    def parts(*which: tuple[int, int]) -> list:
        return [prove(parse_kernel(part(*w))).parts["o"] for w in which]

    assert proves_whole(parts((0, 5), (5, 3)), 24)
    assert not proves_whole(parts((0, 5), (6, 2)), 24)
    assert not proves_whole(parts((0, 4), (5, 3)), 24)


# The first step writes 4 elements, the second those behind FROM.
BRANCHES = """kernel @k(%o: buffer<f32>[8] ROLE) grid(%g: 2) {
  %z = constant 0 : s64[]
  %one = constant 1 : s64[]
  %from = constant FROM : s64[]
  %w = constant 2.0 : f32[4]
  %t = compare %g, %one direction(LT) : pred[]
  if %t {
    store %o[%z], %w strides(1)
  } else {
    store %o[%from], %w strides(1)
  }
}"""

# Rows of 20 in tiles of 16 and 4 columns; of each 2 rows.
BRANCHED_TILES = """kernel @k(%o: buffer<f32>[80] ROLE) grid(%g: 4) {
  %z = constant 0 : s64[]
  %one = constant 1 : s64[]
  %two = constant 2 : s64[]
  %width = constant 20 : s64[]
  %size = constant 40 : s64[]
  %from = constant FROM : s64[]
  %w = constant 2.0 : f32[16]
  %v = constant 2.0 : f32[4]
  %row = divide %g, %two : s64[]
  %tile = remainder %g, %two : s64[]
  %p = multiply %row, %size : s64[]
  %first = compare %tile, %one direction(LT) : pred[]
  for %k = %z to %two step 1 {
    %q = multiply %k, %width : s64[]
    %r = add %p, %q : s64[]
    if %first {
      store %o[%r], %w strides(1)
    } else {
      %s = add %r, %from : s64[]
      store %o[%s], %v strides(1)
    }
  }
}"""


@pytest.mark.parametrize("role", ["out", "inout"])
@pytest.mark.parametrize(("text", "at"), [(BRANCHES, 4), (BRANCHED_TILES, 16)])
def test_steps_that_a_condition_tells_apart(text: str, at: int, role: str) -> None:
    text = text.replace("ROLE", role)
    assert writes(text.replace("FROM", str(at))) == []
    assert writes(text.replace("FROM", str(at - 1))) != []


# Windows of 2 over rows of 8, a step each: windows go on by STRIDE, from LOW.
WINDOWS = """kernel @k(%x: buffer<f32>[24] in, %o: buffer<f32>[24] inout) grid(%g: 3) {
  %z = constant 0 : s64[]
  %two = constant 2 : s64[]
  %by = constant STRIDE : s64[]
  %count = constant COUNT : s64[]
  %low = constant LOW : s64[]
  %size = constant 8 : s64[]
  %w = constant 1.0 : f32[]
  %p = multiply %g, %size : s64[]
  for %k = %z to %count step 1 {
    for %j = %z to %two step 1 {
      %q = multiply %k, %by : s64[]
      %r = add %q, %j : s64[]
      %s = add %r, %low : s64[]
      %some = compare %s, %z direction(GE) : pred[]
      %most = compare %s, %size direction(LT) : pred[]
      %in = and %some, %most : pred[]
      %t = add %p, %s : s64[]
      MASK
    }
  }
}"""


@pytest.mark.parametrize(
    ("stride", "count", "low"), [(1, 7, 0), (1, 8, 0), (1, 9, -1), (2, 4, 0), (2, 5, -1)]
)
def test_windows_that_a_mask_keeps_in_their_row(stride: int, count: int, low: int) -> None:
    text = WINDOWS.replace("STRIDE", str(stride)).replace("COUNT", str(count))
    text = text.replace("LOW", str(low))
    inside = low == 0 and (count - 1) * stride + 2 <= 8
    assert writes(text.replace("MASK", "store %o[%t], %w mask(%in)")) == []
    assert (writes(text.replace("MASK", "store %o[%t], %w")) == []) == inside
    assert (writes(text.replace("MASK", "store %o[%t], %w mask(%some)")) == []) == (
        (count - 1) * stride + 2 + low <= 8
    )


def test_a_parameter_to_be_read_is_not_written():
    kernel = parse_kernel(
        """kernel @k(%x: buffer<pred>[1] in, %o: buffer<pred>[1] out) grid(%g: 1) {
  %v = load %x[%g] : pred[]
  store %o[%g], %v
  store %x[%g], %v
}"""
    )
    assert prove(kernel).writes == ["x is only to be read, and is written"]
