"""What is proved of small drawn kernels is so, by enumerating every store."""

from __future__ import annotations

import pytest

from hloom.kernel.proof.prove import prove
from hloom.kernel.text import parse_kernel
from tests.kernel.proof.drawn import drawn


def test_what_is_proved_of_drawn_kernels_is_so() -> None:
    proved = right = 0
    for seed in range(2500):
        kernel = drawn(seed)
        found = kernel.is_proved()
        assert kernel.is_right() or not found, f"seed {seed}:\n{kernel.text}"
        proved += found
        right += kernel.is_right()
    assert right > 900
    assert proved > 0.8 * right  # a proof of nothing would pass, too


CONDITIONAL = """kernel @k(%o: buffer<f32>[24] out) grid(%g: 2) {{
  %z = constant 0 : s64[]
  %n = constant 12 : s64[]
  %d = constant 4 : s64[]
  %t = constant 3 : s64[]
  %bound = constant {bound} : s64[]
  %v = constant 1.0 : f32[]
  %first = multiply %g, %n : s64[]
  for %l = %z to %n step 1 {{
    %y = add %first, %l : s64[]
    %q = divide %y, %d : s64[]
    %r = remainder %y, %d : s64[]
    %top = divide %q, %t : s64[]
    %q4 = multiply %q, %d : s64[]
    %whole = add %q4, %r : s64[]
    %most = maximum %y, %t : s64[]
    %twice = add %y, %y : s64[]
    %c = compare {number}, %bound direction({direction}) : pred[]
    if %c {{
      store %o[{place}], %v
    }} else {{
    }}
  }}
}}"""


@pytest.mark.parametrize("place", ["%y", "%whole"])
@pytest.mark.parametrize(
    "number, direction, bound, holds",
    [
        ("%r", "LE", 2, False),  # a digit of a place that is stored as the whole
        ("%r", "EQ", 3, False),
        ("%r", "LT", 4, True),
        ("%top", "LT", 1, False),
        ("%top", "LT", 2, True),
        ("%q", "GE", 1, False),
        ("%q", "GE", 0, True),
        ("%most", "GT", 3, False),  # a choice of which the place is one part
        ("%most", "GE", 3, True),
        ("%twice", "GT", 0, False),  # a multiple of the place
        ("%twice", "GE", 0, True),
    ],
)
def test_conditions_on_what_a_place_is_made_of(
    place: str, number: str, direction: str, bound: int, holds: bool
) -> None:
    text = CONDITIONAL.format(number=number, direction=direction, bound=bound, place=place)
    found = prove(parse_kernel(text))
    assert not found.accesses
    assert (not found.writes) == holds
