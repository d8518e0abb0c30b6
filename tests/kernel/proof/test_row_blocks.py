"""Rows in blocks, the last of which is shorter, that are taken apart into digits: what bounds an
index of the number that is divided is another index. Whatever is proved is compared with the places
that are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hloom.kernel.proof.prove import prove
from hloom.kernel.text import parse_kernel


class Rows(NamedTuple):
    """A kernel whose steps write `block` times `tile` rows each, `total` tiles together. A row is
    `by * quotient + remainder`; what whole tiles and blocks have of it is taken out of the division
    as often as `wholes` say."""

    size: int
    steps: int
    block: int
    total: int
    tile: int
    by: int
    wholes: tuple[int, int]
    strides: tuple[int, int]
    """Of the quotient and of the remainder."""

    def text(self) -> str:
        of_block, of_tile = self.wholes
        numbers = {
            "block": self.block,
            "total": self.total,
            "tile": self.tile,
            "by": self.by,
            "rest": self.tile - self.by * of_tile,
            "block_rest": self.block * self.tile - self.by * of_block,
            "per_block": of_block * self.strides[0],
            "per_tile": of_tile * self.strides[0],
            "up": self.strides[0],
            "across": self.strides[1],
        }
        constants = "\n".join(f"%{name} = constant {n} : s64[]" for name, n in numbers.items())
        return f"""kernel @k(%o: buffer<f32>[{self.size}] out) grid(%g: {self.steps}) {{
  %z = constant 0 : s64[]
  %v = constant 1.0 : f32[]
  {constants}
  %first = multiply %g, %block : s64[]
  %next = add %first, %block : s64[]
  %end = minimum %next, %total : s64[]
  %count = subtract %end, %first : s64[]
  %gp = multiply %g, %per_block : s64[]
  %gr = multiply %g, %block_rest : s64[]
  for %i = %z to %count step 1 {{
    %ip = multiply %i, %per_tile : s64[]
    %ir = multiply %i, %rest : s64[]
    %whole = add %gp, %ip : s64[]
    %left = add %gr, %ir : s64[]
    for %j = %z to %tile step 1 {{
      %n = add %left, %j : s64[]
      %q = divide %n, %by : s64[]
      %r = remainder %n, %by : s64[]
      %qs = multiply %q, %up : s64[]
      %rs = multiply %r, %across : s64[]
      %a = add %whole, %qs : s64[]
      %p = add %a, %rs : s64[]
      store %o[%p], %v
    }}
  }}
}}"""

    @property
    def is_proved(self) -> bool:
        proof = prove(parse_kernel(self.text()))
        return not proof.accesses and not proof.writes

    @property
    def is_right(self) -> bool:
        """Whether each element is written just once, by running the places."""
        places: Counter[int] = Counter()
        for g in range(self.steps):
            for i in range(min(self.total - g * self.block, self.block)):
                whole = (g * self.wholes[0] + i * self.wholes[1]) * self.strides[0]
                left = g * (self.block * self.tile - self.by * self.wholes[0])
                left += i * (self.tile - self.by * self.wholes[1])
                for j in range(self.tile):
                    up, across = divmod(left + j, self.by)
                    if left + j < 0:
                        return False
                    places[whole + up * self.strides[0] + across * self.strides[1]] += 1
        return places == Counter(range(self.size))


# 86 tiles of 6 rows: 129 positions of 4 heads each, as attention with grouped heads has them.
HEADS = Rows(516, 4, 22, 86, 6, 4, (33, 1), (4, 1))
# As many whose remainders lie further apart than quotients.
ACROSS = Rows(516, 4, 22, 86, 6, 4, (33, 1), (1, 129))
# Tiles of 10 rows, divided by 3, of which blocks are no multiple.
THIRDS = Rows(210, 4, 6, 21, 10, 3, (18, 3), (3, 1))
# Nothing is taken out for a tile.
BLOCKS = Rows(208, 4, 15, 52, 4, 8, (7, 0), (8, 1))
RIGHT = [HEADS, ACROSS, THIRDS, BLOCKS]


@pytest.mark.parametrize("right", RIGHT)
def test_rows_in_blocks_are_proved_to_be_written_once(right):
    assert right.is_right and right.is_proved


def neighbours(d: Rows) -> Iterator[Rows]:
    """All that have one number more or less somewhere."""
    for by in (-1, 1):
        for name in ("size", "steps", "block", "total", "tile", "by"):
            yield d._replace(**{name: getattr(d, name) + by})
        for name in ("wholes", "strides"):
            one, two = getattr(d, name)
            yield d._replace(**{name: (one + by, two)})
            yield d._replace(**{name: (one, two + by)})


@pytest.mark.parametrize("right", RIGHT)
def test_one_more_or_less_of_any_number_is_refused(right):
    wrong = [d for d in neighbours(right) if not d.is_right]
    assert len(wrong) > 10
    for d in wrong:
        assert not d.is_proved, d
