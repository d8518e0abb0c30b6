"""Factorisations and solves of batches of matrices."""

from __future__ import annotations

from typing import NamedTuple

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import Rates, thunk_kind


class Work(NamedTuple):
    """What a factorisation does, from which its time is guessed."""

    multiply_adds: float
    """Of f32, in products of blocks."""
    elements: float
    """That it sweeps over: what small matrices take."""

    def ns(self, rates: Rates) -> float:
        """A guess of its time on one thread."""
        return self.multiply_adds * rates.multiply_add_ns + self.elements * rates.matrix_element_ns


def batch_of(t: Routine) -> int:
    """How many matrices there are: the second argument, behind the type."""
    batch = t.arguments[1]
    assert isinstance(batch, int)
    return batch


def cholesky_work(n: int, width: float) -> Work:
    """Of a matrix of n rows; `width`: what a multiply-add takes beside one of f32."""
    return Work(width * n**3 / 4, 2.4 * n**2)


def solve_work(m: int, n: int, width: float) -> Work:
    """Of n systems of m equations with one triangular matrix."""
    return Work(width * m**2 * n / 2, 0.3 * m**2 + 1.7 * m * n + 100)


@thunk_kind
class Cholesky(Routine):
    """The triangular factor of each matrix."""

    kind = "Cholesky"

    def serial_ns(self, rates: Rates) -> float:
        batch, n = batch_of(self), self.arguments[2]
        assert isinstance(n, int)
        width = _width(self, batch * n * n)
        return batch * cholesky_work(n, width).ns(rates)

    def parts(self) -> int:
        return batch_of(self)


@thunk_kind
class TriangularSolve(Routine):
    """Solve for each matrix of right-hand sides."""

    kind = "TriangularSolve"

    def serial_ns(self, rates: Rates) -> float:
        batch, m, n, left = [x for x in self.arguments[1:5] if isinstance(x, int)]
        width = _width(self, batch * m * n)
        rows, systems = (m, n) if left else (n, m)
        return batch * solve_work(rows, systems, width).ns(rates)

    def parts(self) -> int:
        return batch_of(self)


def _width(t: Routine, elements: int) -> float:
    """What a multiply-add takes beside one of f32: by the bytes of a result of so many elements."""
    return sum([s.size_bytes for s in t.writes]) / max(4 * elements, 1)
