"""Factorisations and solves of batches of matrices."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import thunk_kind


@thunk_kind
class Cholesky(Routine):
    """The triangular factor of each matrix."""

    kind = "Cholesky"


@thunk_kind
class TriangularSolve(Routine):
    """Solve for each matrix of right-hand sides."""

    kind = "TriangularSolve"
