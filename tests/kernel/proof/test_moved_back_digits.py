"""A last tile that is moved back, whose columns are taken apart in three digits: the first column
that it does not write again is a constant that was divided before. As products write them whose
columns are several dimensions in another order. Whatever is proved is compared with the places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hloom.kernel.proof.prove import prove
from hloom.kernel.text import parse_kernel


class Tiles(NamedTuple):
    """Columns in tiles of `wide`; the last begins at `last`, where all but its first `known`
    columns are written. Each goes to the digits of its number by `low` and `mid`."""

    size: int
    count: int
    wide: int
    last: int
    known: int
    low: int
    mid: int
    strides: tuple[int, int, int]
    steps: int = 1

    def text(self) -> str:
        quotient, rest = divmod(self.known, self.low)
        each = -(-self.count // self.steps)
        numbers = {0, 1, each, self.count, self.count - 1, self.wide, self.last, self.low, self.mid}
        numbers |= {self.wide - self.known, quotient, rest, *self.strides}
        lines = [f"%c{n} = constant {n} : s64[]" for n in sorted(numbers)]
        lines += ["%v = constant 1.0 : f32[]", f"%f = multiply %g, %c{each} : s64[]"]
        lines += [f"%to = add %f, %c{each} : s64[]", f"%e = minimum %to, %c{self.count} : s64[]"]
        lines += ["for %t = %f to %e step 1 {", f"%tw = multiply %t, %c{self.wide} : s64[]"]
        lines += [f"%b = minimum %tw, %c{self.last} : s64[]"]
        lines += [f"%is = compare %t, %c{self.count - 1} direction(LT) : pred[]"]
        lines += ["%n = select %is, %c1, %c0 : s64[]"]
        lines += ["for %r = %c0 to %n step 1 {", f"for %l = %c0 to %c{self.wide} step 1 {{"]
        lines += ["%x = add %b, %l : s64[]", *self._place("x", "x", 0), "}", "}"]
        lines += ["for %q = %n to %c1 step 1 {"]
        lines += [f"for %m = %c0 to %c{self.wide - self.known} step 1 {{"]
        lines += [f"%br = add %b, %c{rest} : s64[]", "%y = add %br, %m : s64[]"]
        lines += [*self._place("y", "y", quotient), "}", "}", "}"]
        body = "\n".join(lines)
        return f"kernel @k(%o: buffer<f32>[{self.size}] out) grid(%g: {self.steps}) {{\n{body}\n}}"

    def _place(self, x: str, n: str, above: int) -> list[str]:
        """A store at the digits of x, to whose quotient a constant is added."""
        lines = [f"%{n}0 = remainder %{x}, %c{self.low} : s64[]"]
        lines += [f"%{n}q = divide %{x}, %c{self.low} : s64[]"]
        lines += [f"%{n}a = add %{n}q, %c{above} : s64[]"]
        lines += [f"%{n}1 = remainder %{n}a, %c{self.mid} : s64[]"]
        lines += [f"%{n}2 = divide %{n}a, %c{self.mid} : s64[]"]
        lines += [f"%{n}s{k} = multiply %{n}{k}, %c{c} : s64[]" for k, c in enumerate(self.strides)]
        lines += [f"%{n}t = add %{n}s0, %{n}s1 : s64[]", f"%{n}p = add %{n}t, %{n}s2 : s64[]"]
        return [*lines, f"store %o[%{n}p], %v"]

    @property
    def is_proved(self) -> bool:
        proof = prove(parse_kernel(self.text()))
        return not proof.accesses and not proof.writes

    @property
    def is_right(self) -> bool:
        """Whether each element is written, and by one step, by running the places."""
        each = -(-self.count // self.steps)
        steps: dict[int, set[int]] = {}
        for t in range(self.count):
            begin = min(t * self.wide, self.last)
            for lane in range(self.known if t == self.count - 1 else 0, self.wide):
                quotient, first = divmod(begin + lane, self.low)
                third, second = divmod(quotient, self.mid)
                at = sum(d * c for d, c in zip((first, second, third), self.strides))
                steps.setdefault(at, set()).add(t // each)
        return sorted(steps) == list(range(self.size)) and max(map(len, steps.values())) == 1


# 120 columns: (5, 4, 6) of them exchanged to (6, 4, 5) in memory.
ONE = Tiles(120, 2, 64, 56, 8, 5, 4, (24, 6, 1))
# 180 columns in three tiles, of which another step does the last.
TWO = Tiles(180, 3, 64, 116, 12, 5, 4, (36, 9, 1), 2)
SAME = Tiles(120, 4, 32, 88, 8, 8, 3, (1, 8, 24), 2)
RIGHT = [ONE, TWO, SAME]


@pytest.mark.parametrize("right", RIGHT)
def test_moved_back_tiles_of_three_digits_are_proved(right):
    assert right.is_right and right.is_proved


def neighbours(tiles: Tiles) -> Iterator[Tiles]:
    """All that have one number more or less somewhere."""
    for by in (-1, 1):
        for name in ("size", "wide", "last", "known", "low", "mid"):
            yield tiles._replace(**{name: getattr(tiles, name) + by})
        for k, stride in enumerate(tiles.strides):
            strides = (*tiles.strides[:k], stride + by, *tiles.strides[k + 1 :])
            yield tiles._replace(strides=strides)


@pytest.mark.parametrize("right", RIGHT)
def test_one_more_or_less_of_any_number_is_refused(right):
    wrong = [tiles for tiles in neighbours(right) if not tiles.is_right]
    assert len(wrong) > 10
    for tiles in wrong:
        assert not tiles.is_proved, tiles
