"""Factorisations and solves of batches of matrices."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import thunk_kind


def batch_of(t: Routine) -> int:
    """How many matrices there are: the second argument, behind the type."""
    batch = t.arguments[1]
    assert isinstance(batch, int)
    return batch


@thunk_kind
class Cholesky(Routine):
    """The triangular factor of each matrix."""

    kind = "Cholesky"

    def parts(self) -> int:
        return batch_of(self)


@thunk_kind
class TriangularSolve(Routine):
    """Solve for each matrix of right-hand sides."""

    kind = "TriangularSolve"

    def parts(self) -> int:
        return batch_of(self)
