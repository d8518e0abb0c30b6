"""A number that a place has several digits of, and the values that it takes.

Where a quotient or a remainder is not of an index itself but of a sum, or of the end of a window
that is moved back, its values are resolved like those of a place: in cases, with what is known of
the indices that it is made of.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hloom.kernel.proof import parts as digit
from hloom.kernel.proof.cases import Demand, InCases, Unresolved
from hloom.kernel.proof.linear import Linear, Symbol
from hloom.kernel.proof.parts import Parts, part_of, within
from hloom.kernel.proof.tiling import Box, Digit, covers
from hloom.kernel.proof.windows import Cut, NumberSpan, as_made, is_bound, tells, window_places


class Windowed(NamedTuple):
    """The places of all numbers of a window: the first, their digits, the axes of the grid that
    the number tells, and what is known of the step besides."""

    const: int
    digits: list[Digit]
    axes: set[Symbol]
    step: set[object]


class Dividend:
    """The number `whole`, called `base`, in one case: `facts` hold, of which `inner` are about the
    indices that nothing else of the place is made of. With `windowed` the symbols of its digits
    are those of a part of it."""

    def __init__(
        self,
        base: Any,
        whole: Linear,
        demand: Demand,
        facts: list[Linear],
        inner: list[Linear],
        windowed: bool,
    ) -> None:
        self.base, self.whole, self.windowed = base, whole, windowed
        self.demand, self.facts, self.inner = demand, facts, inner
        self.known_symbols = {s for fact in facts for s in fact.terms}
        self.grid = {s for s in demand.grid & within(whole) if s.low < s.high}

    def places(self) -> list[Box]:
        """The values of the number, whatever bounded its digits."""
        grid = self.demand.grid & within(self.whole)
        with as_made(self.whole, self.known_symbols):
            return self.demand.places(self.whole, self.demand._replace(grid=grid), self.inner)

    def window(self, parts: Parts) -> Windowed | None:
        """The places of a number that fills a window, each number of it in one step; None if it
        is none."""
        if any(part_of(s).base == self.base for s in self.known_symbols):
            return None  # what bounds a digit by itself is for `number`
        ordered = sorted([(part, c) for part, _, c in parts], key=lambda p: -p[0].by)
        window_, places = NumberSpan.of(self.places()), None
        if window_ is not None:
            window_ = window_.within(self.whole, self.facts)
            if window_.low > window_.high:
                return Windowed(0, [Digit(1, 0)], self.grid, set())
            if not self.grid or tells(window_, [part for part, _ in ordered]):
                places = window_places(window_, ordered)
        if places is None:
            if self.inner or any(len(f.terms) > 1 and is_bound(f, self.whole) for f in self.facts):
                raise Unresolved(f"digits of {self.whole}, which are bounded")
            return None
        if isinstance(places, Cut):
            below = self.whole.times(-1).shifted(places.at - 1)
            above = self.whole.shifted(-places.at)
            raise InCases([([below], None, below), ([above], None, above)])
        if not self.grid:
            return Windowed(places.const, [d for _, _, d in places.digits], set(), set())
        digits = [
            d._replace(owner=(self.base, part.by, part.of, d.stride, value))
            for part, value, d in places.digits
        ]
        return Windowed(places.const, digits, self.grid, set(places.fixed))

    def number(self, parts: Parts) -> tuple[int, int, set[Symbol]]:
        """How many values it has from 0 on, their step, and the grid axes that it tells."""
        if self.windowed:
            raise Unresolved(f"digits of {self.whole}, which fill no window")
        everywhere = self.demand.everywhere
        boxes = self.places()
        count = max((b.start + b.extent for b in boxes), default=0)
        step = digit.common_step(self.whole, parts, boxes)
        if step > 1:
            boxes, count = [digit.in_steps(b, step) for b in boxes], -(-count // step)
        if everywhere and not covers(boxes, count):
            raise Unresolved(f"digits of {self.whole}, which leaves numbers out")
        tells_steps = everywhere or covers(boxes, count, False)
        return count, step, self.demand.grid & within(self.whole) if tells_steps else set()
