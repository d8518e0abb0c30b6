"""What calls of LAPACK do, by their names: for who runs beside whom, and expected times."""

from __future__ import annotations

import re
from math import prod

from hloom.ir.instruction import Instruction
from hloom.program.thunks.linalg import Work, cholesky_work, solve_work

_NAME = re.compile(r"lapack_([sdcz])(\w+?)_ffi")
_WIDTHS = {"s": 1.0, "d": 2.0, "c": 4.0, "z": 8.0}
"""What a multiply-add takes beside one of f32."""
_SQUARE = {
    "getrf": (0.33, 3),
    "geqrf": (0.83, 6),
    "geqp3": (1.7, 12),
    "orgqr": (0.83, 6),
    "ungqr": (0.83, 6),
    "ormqr": (1.7, 6),
    "unmqr": (1.7, 6),
    "gehrd": (4, 20),
    "sytrd": (1.3, 10),
    "hetrd": (1.3, 10),
    "syevd": (2.7, 35),
    "heevd": (2.7, 35),
    "geev": (13, 110),
    "gees": (13, 110),
    "gesdd": (6.7, 55),
    "gesvd": (13, 110),
}
"""Multiply-adds of n**3, elements swept over of n**2, for a matrix of n x n; measured on a Zen 4
for getrf, geqrf, orgqr, syevd, geev and gesdd, the others after their operation counts."""


def lapack_work(i: Instruction) -> Work | None:
    """The work of all matrices of a custom call; None where the target is no LAPACK."""
    matched = _NAME.fullmatch(i.attrs.custom_call_target)
    if matched is None or not i.operands or i.operands[0].shape.rank < 2:
        return None
    width, name = _WIDTHS[matched[1]], matched[2]
    *batch, m, n = i.operands[0].shape.dims
    if name == "potrf":
        one = cholesky_work(n, width)
    elif name == "trsm":
        of = i.operands[-1].shape.dims
        one = solve_work(n, prod(of[-2:]) // max(n, 1), width)
    elif name in _SQUARE:
        cubic, square = _SQUARE[name]
        one = Work(width * cubic * m * n * min(m, n), square * m * n)
    else:
        return None
    return Work(prod(batch) * one.multiply_adds, prod(batch) * one.elements)
