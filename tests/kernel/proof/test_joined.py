"""Digits that were computed from sums with a quotient in them, of which a number is made that none
of them holds. Whatever is proved is compared with the places that are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest

from hloom.kernel.proof.prove import prove
from hloom.kernel.text import parse_kernel


class Digits(NamedTuple):
    """A kernel: of each x of the grid and each l, `t = c * x + l` is divided, to the quotient a
    multiple of x is added, and so on; a store goes where the digits say."""

    size: int
    steps: int
    rows: int
    lanes: int
    stages: tuple[tuple[int, int], ...]
    """By what x is multiplied and what is divided by, from the lowest digit."""
    strides: tuple[int, ...]
    """Of each digit, and of the last quotient."""
    only: tuple[str, int] | None = None
    """A name whose value must be less than a number where is stored."""

    def text(self) -> str:
        lines = ["%z = constant 0 : s64[]", "%v = constant 1.0 : f32[]"]
        numbers = {self.rows, self.lanes, *self.strides, *[n for s in self.stages for n in s]}
        numbers.add(self.only[1] if self.only else 0)
        lines += [f"%c{n} = constant {n} : s64[]" for n in sorted(numbers)]
        lines += [f"%first = multiply %g, %c{self.rows} : s64[]"]
        lines += [f"%end = add %first, %c{self.rows} : s64[]"]
        lines += ["for %x = %first to %end step 1 {"]
        lines += [f"for %l = %z to %c{self.lanes} step 1 {{"]
        above, at = "%l", "%z"
        digits = []
        for k, (times, by) in enumerate(self.stages):
            lines += [f"%m{k} = multiply %x, %c{times} : s64[]"]
            lines += [f"%t{k} = add %m{k}, {above} : s64[]"]
            lines += [f"%d{k} = remainder %t{k}, %c{by} : s64[]"]
            lines += [f"%q{k} = divide %t{k}, %c{by} : s64[]"]
            above = f"%q{k}"
            digits.append(f"%d{k}")
        for k, (digit, stride) in enumerate(zip([*digits, above], self.strides)):
            lines += [f"%f{k} = multiply {digit}, %c{stride} : s64[]"]
            lines += [f"%p{k} = add {at}, %f{k} : s64[]"]
            at = f"%p{k}"
        store = f"store %o[{at}], %v"
        if self.only:
            name, most = self.only
            lines += [f"%is = compare {name}, %c{most} direction(LT) : pred[]"]
            store = f"if %is {{\n{store}\n}} else {{\n}}"
        body = "\n".join([*lines, store, "}", "}"])
        return f"kernel @k(%o: buffer<f32>[{self.size}] out) grid(%g: {self.steps}) {{\n{body}\n}}"

    @property
    def is_proved(self) -> bool:
        found = prove(parse_kernel(self.text()))
        return not found.accesses and not found.writes

    @property
    def is_right(self) -> bool:
        """Whether each element is written just once, by running the places."""
        seen: Counter[int] = Counter()
        for x, lane in product(range(self.steps * self.rows), range(self.lanes)):
            values = {"%x": x, "%l": lane}
            above, at = lane, 0
            for k, (times, by) in enumerate(self.stages):
                values[f"%t{k}"] = t = times * x + above
                values[f"%d{k}"], above = t % by, t // by
                values[f"%q{k}"] = above
                at += t % by * self.strides[k]
            at += above * self.strides[-1]
            if self.only is None or values[self.only[0]] < self.only[1]:
                seen[at] += 1
        return seen == Counter(range(self.size))


# `12 * x + l` has the digits of 8, 3 and 16, the first two exchanged in memory.
TWO = Digits(384, 2, 16, 12, ((4, 8), (1, 3)), (3, 1, 24))
# `50 * x + l` has those of 5, 2, 5 and 8: 50 = 0 + 5 * (1 + 2 * (2 + 5 * 0)) + ...
THREE = Digits(400, 2, 4, 50, ((0, 5), (0, 2), (5, 5)), (1, 5, 10, 50))
# `30 * x + l`, of 4, 5 and the rest: 30 = 2 + 4 * (2 + 5 * 1).
MIXED = Digits(240, 2, 4, 30, ((2, 4), (2, 5), (1, 3)), (1, 4, 20, 60))
RIGHT = [TWO, THREE, MIXED]


@pytest.mark.parametrize("right", RIGHT)
def test_digits_of_a_number_that_no_sum_holds_are_proved(right):
    assert right.is_right and right.is_proved


def neighbours(d: Digits) -> Iterator[Digits]:
    """All that have one number more or less somewhere."""
    for by in (-1, 1):
        for name in ("size", "steps", "rows", "lanes"):
            yield d._replace(**{name: getattr(d, name) + by})
        for k, (times, divisor) in enumerate(d.stages):
            for stage in ((times + by, divisor), (times, divisor + by)):
                yield d._replace(stages=(*d.stages[:k], stage, *d.stages[k + 1 :]))
        for k, stride in enumerate(d.strides):
            yield d._replace(strides=(*d.strides[:k], stride + by, *d.strides[k + 1 :]))


@pytest.mark.parametrize("right", RIGHT)
def test_one_more_or_less_of_any_number_is_refused(right):
    wrong = [d for d in neighbours(right) if not d.is_right]
    assert len(wrong) > 10
    for d in wrong:
        assert not d.is_proved, d


@pytest.mark.parametrize("right", RIGHT)
@pytest.mark.parametrize("name", ["%x", "%l", "%t0", "%d0", "%t1", "%d1", "%q1"])
def test_what_a_condition_leaves_out_is_not_written(right, name):
    for most in (1, 2, 3, 4, 7, 11, 23):
        only = right._replace(only=(name, most))
        assert only.is_right or not only.is_proved, only


def test_what_is_proved_is_so_for_small_numbers():
    proved = 0
    for up, down, low, mid, lanes, steps in product(
        (0, 1, 2), (0, 1, 2, 4), (2, 4, 8), (2, 3), (4, 5, 6, 8, 12), (1, 2)
    ):
        size = lanes * 4 * steps
        d = Digits(size, steps, 4, lanes, ((down, low), (up, mid)), (1, low, low * mid))
        if d.is_proved:
            assert d.is_right, d
            proved += 1
    assert proved > 20


# The greatest number is `64 * (MOST - 1) + 63`; what is read
# is at `11 * g + (2 * i + n div 27) div 3`.
READ = """kernel @k(%w: buffer<f32>[SIZE] in, %o: buffer<f32>[5760] out) grid(%g: 6) {
  %z = constant 0 : s64[]
  %fourteen = constant 14 : s64[]
  %most = constant MOST : s64[]
  %a = multiply %g, %fourteen : s64[]
  %b = add %a, %fourteen : s64[]
  %c = minimum %b, %most : s64[]
  %count = subtract %c, %a : s64[]
  %five = constant 5 : s64[]
  %ten = constant 10 : s64[]
  %two = constant 2 : s64[]
  %three = constant 3 : s64[]
  %eleven = constant 11 : s64[]
  %sixteen = constant 16 : s64[]
  %n27 = constant 27 : s64[]
  %n432 = constant 432 : s64[]
  %n1296 = constant 1296 : s64[]
  %n64 = constant 64 : s64[]
  %g5 = multiply %g, %five : s64[]
  %g11 = multiply %g, %eleven : s64[]
  for %i = %z to %count step 1 {
    %i10 = multiply %i, %ten : s64[]
    %i2 = multiply %i, %two : s64[]
    for %j = %z to %n64 step 1 {
      %n0 = add %g5, %i10 : s64[]
      %n = add %n0, %j : s64[]
      %q0 = remainder %n, %n27 : s64[]
      %r0 = divide %n, %n27 : s64[]
      %t = add %i2, %r0 : s64[]
      %q1 = remainder %t, %three : s64[]
      %r1 = divide %t, %three : s64[]
      %u = add %g11, %r1 : s64[]
      %q2 = remainder %u, %sixteen : s64[]
      %r2 = divide %u, %sixteen : s64[]
      %p0 = multiply %q0, %sixteen : s64[]
      %p1 = multiply %q1, %n432 : s64[]
      %p2 = multiply %r2, %n1296 : s64[]
      %p3 = add %p0, %p1 : s64[]
      %p4 = add %p3, %p2 : s64[]
      %p = add %p4, %q2 : s64[]
      %v = load %w[%p] : f32[]
    }
  }
}"""


def greatest_read(most: int) -> int:
    found = 0
    for g in range(6):
        for i, j in product(range(min(14, most - 14 * g)), range(64)):
            n = 5 * g + 10 * i + j
            t = 2 * i + n // 27
            u = 11 * g + t // 3
            found = max(found, n % 27 * 16 + t % 3 * 432 + u // 16 * 1296 + u % 16)
    return found


@pytest.mark.parametrize("most", [81, 61, 62, 80])
def test_the_greatest_quotient_is_that_of_the_whole_number(most):
    last = greatest_read(most)
    for size in (last - 1295, last - 1, last, last + 1, 5184):
        text = READ.replace("SIZE", str(size)).replace("MOST", str(most))
        assert prove(parse_kernel(text)).accesses or size > last
    whole = READ.replace("SIZE", "5184").replace("MOST", str(most))
    assert prove(parse_kernel(whole)).accesses == []
