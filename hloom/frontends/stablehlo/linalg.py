"""Linear algebra."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import boolean, enumerated
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction


@IMPORT.of("stablehlo.cholesky")
def cholesky(scope: Scope, op: Any) -> Instruction:
    lower = boolean(op, "lower")
    return scope.emit("cholesky", scope.operands(op), scope.result_shape(op), lower=lower)


@IMPORT.of("stablehlo.triangular_solve")
def triangular_solve(scope: Scope, op: Any) -> Instruction:
    return scope.emit(
        "triangular-solve",
        scope.operands(op),
        scope.result_shape(op),
        left_side=boolean(op, "left_side"),
        lower=boolean(op, "lower"),
        unit_diagonal=boolean(op, "unit_diagonal"),
        transpose_a=enumerated(op, "transpose_a", "TransposeAttr"),
    )
