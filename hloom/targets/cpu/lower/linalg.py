"""Factorisations and solves: routines of the runtime, which may use a LAPACK that is there."""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.program.thunks.linalg import Cholesky, TriangularSolve
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lower.sort import require_row_major
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering

_TRANSPOSES = {"NO_TRANSPOSE": 0, "TRANSPOSE": 1, "ADJOINT": 2, "TRANSPOSE_INVALID": 0}


@CPU_LOWERS.of("cholesky")
def cholesky(cpu: Lowering, i: Instruction) -> list[Thunk]:
    require_row_major(i)
    x = i.operands[0]
    n = x.shape.dims[-1]
    batch = prod(x.shape.dims[:-2])
    source, target = cpu.slice(x), cpu.slice(i)
    lower = int(i.attrs.lower)
    arguments = (x.shape.dtype.number, batch, n, lower, source, target)
    return [Cholesky(i.name, "hl_cholesky", arguments, (source,), (target,))]


@CPU_LOWERS.of("triangular-solve")
def triangular_solve(cpu: Lowering, i: Instruction) -> list[Thunk]:
    require_row_major(i)
    a, b = i.operands
    m, n = b.shape.dims[-2:]
    batch = prod(b.shape.dims[:-2])
    left, lower, unit = (
        int(i.attrs.left_side),
        int(i.attrs.lower),
        int(i.attrs.unit_diagonal),
    )
    sources, target = (cpu.slice(a), cpu.slice(b)), cpu.slice(i)
    trans = _TRANSPOSES[i.attrs.transpose_a]
    kind = b.shape.dtype.number
    arguments = (kind, batch, m, n, left, lower, trans, unit, *sources, target)
    symbol = "hl_triangular_solve"
    return [TriangularSolve(i.name, symbol, arguments, sources, (target,))]
