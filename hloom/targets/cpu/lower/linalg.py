"""Factorisations and solves: routines of the runtime, which may use a LAPACK that is there."""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.passes.expand.linalg_upcaster import LinalgUpcaster
from hloom.program.thunks.linalg import Cholesky, TriangularSolve
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lower.sort import require_row_major
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering, unsupported

KNOWN = frozenset("f32 f64 c64 c128".split())
"""Types that the routines are there for."""
_TRANSPOSES = {"NO_TRANSPOSE": 0, "TRANSPOSE": 1, "ADJOINT": 2, "TRANSPOSE_INVALID": 0}


def _require_known(i: Instruction) -> None:
    """Raise for what no routine is there for; a pass sees to it, unless it was left out."""
    require_row_major(i)
    if i.shape.dtype.name not in KNOWN:
        hint = f"let the pass {LinalgUpcaster.name} run"
        raise unsupported(i, f"of {i.shape.dtype.name} has no routine", hint)


@CPU_LOWERS.of("cholesky")
def cholesky(cpu: Lowering, i: Instruction) -> list[Thunk]:
    _require_known(i)
    x = i.operands[0]
    n = x.shape.dims[-1]
    batch = prod(x.shape.dims[:-2])
    source, target = cpu.slice(x), cpu.slice(i)
    lower = int(i.attrs.lower)
    arguments = (x.shape.dtype.number, batch, n, lower, source, target)
    return [Cholesky(i.name, "hl_cholesky", arguments, (source,), (target,))]


@CPU_LOWERS.of("triangular-solve")
def triangular_solve(cpu: Lowering, i: Instruction) -> list[Thunk]:
    _require_known(i)
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
