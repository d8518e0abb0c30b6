"""Loops over indices between bounds, whose last trip is moved back to fit: one piece of code serves
every length."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.elements import Elements
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Value


class Runs:
    """Bounds of indices, and loops whose last trip is moved back to fit."""

    e: Elements
    b: KernelBuilder

    def least(self, x: Affine, most: int, says_step: bool = True) -> Affine:
        """The smaller of an index and a number. `says_step`: of what it is a multiple; not where
        rows or runs of images are moved back, whose bounds across edges would not be proved."""
        low, high = x.bounds()
        if high <= most:
            return x
        if low >= most:
            return constant(most)
        value = self.b.binary("minimum", self.e.scalar(x), self.b.index(most))
        return self.e.indices.scalar(value, low, most, gcd(x.step, most) if says_step else 1)

    def lesser(self, x: Affine, y: Affine) -> Affine:
        """The smaller of two indices."""
        if y.is_constant:
            return self.least(x, y.const, says_step=False)
        value = self.b.binary("minimum", self.e.scalar(x), self.e.scalar(y))
        bounds = x.bounds(), y.bounds()
        low, high = min(bounds[0][0], bounds[1][0]), bounds[1][1]
        return self.e.indices.scalar(value, low, high)

    def each(self, low: Affine, high: Affine, step: int, body: Callable[[Affine], None]) -> None:
        """`body(k)` for k from `low` to `high`, step by step; the last ones moved back to fit."""
        e = self.e

        def one(k: Affine) -> tuple[Value, ...]:
            body(k)
            return ()

        def moved(k: Affine) -> tuple[Value, ...]:
            body(self.lesser(k, high.plus(-step)) if step > 1 else k)
            return ()

        if low.is_constant and high.is_constant:
            whole = (high.const - low.const) % step == 0
            e.loop(high.const, (), one if whole else moved, step=step, lower=low.const)
            return
        first, last = low.bounds()[0], high.bounds()[1]
        # An index of one value would be a number, and what is read at it be read before the loop,
        # which may have no iteration at all.
        most = max(last - 1, first + step)

        def write(k: Value) -> tuple[Value, ...]:
            return moved(e.indices.scalar(k, first, most, gcd(step, low.step)))

        e.for_(e.scalar(low), e.scalar(high), step, (), write)

    def positive(self, x: Affine) -> Affine:
        """An index, or 0 where it is less."""
        low, high = x.bounds()
        if low >= 0:
            return x
        if x.is_constant:
            return ZERO
        value = self.b.binary("maximum", self.e.scalar(x), self.b.index(0))
        return self.e.indices.scalar(value, 0, max(high, 0))

    def clamped(self, x: Affine, most: Affine) -> Affine:
        """An index between 0 and another one."""
        return self.lesser(self.positive(x), most)
