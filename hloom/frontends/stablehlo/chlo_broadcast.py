"""CHLO's operations that broadcast their operands to one shape first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloom.frontends.stablehlo.attributes import enumerated, ints
from hloom.frontends.stablehlo.chlo_special import neighbour
from hloom.frontends.stablehlo.chlo_zeta import polygamma, zeta
from hloom.frontends.stablehlo.data import broadcast_to
from hloom.frontends.stablehlo.formula import computed
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape, shape

Imported = Callable[[Scope, Any, Sequence[Instruction]], Instruction]
OPCODES = (
    "add and atan2 divide maximum minimum multiply or power remainder shift_left "
    "shift_right_arithmetic shift_right_logical subtract xor"
).split()


def spread(scope: Scope, op: Any) -> list[Instruction]:
    """The operands in the shape of the result, element types kept.

    Dimensions are matched from the last one; `broadcast_dimensions` says where those of the
    operand of lower rank go instead.
    """
    operands, result = scope.operands(op), scope.result_shape(op)
    dimensions = ints(op, "broadcast_dimensions")
    spread_operands = []
    for x in operands:
        if x.shape.dims == result.dims and x.shape.dynamic == result.dynamic:
            spread_operands.append(x)
            continue
        rank = x.shape.rank
        dims = tuple(range(result.rank - rank, result.rank))
        if dimensions and rank == len(dimensions) and rank < result.rank:
            dims = dimensions
        spread_operands.append(broadcast_to(scope, x, _retyped(result, x.shape), dims))
    return spread_operands


def _retyped(result: Shape, x: Shape) -> Shape:
    return shape(x.dtype, result.dims, result.layout, result.dynamic)


def _declare(name: str, function: Imported) -> None:
    def read(scope: Scope, op: Any) -> Instruction:
        return function(scope, op, spread(scope, op))

    IMPORT.add(f"chlo.broadcast_{name}", read)


def _opcode(name: str) -> Imported:
    opcode = name.replace("_", "-")
    return lambda scope, op, x: scope.emit(opcode, tuple(x), scope.result_shape(op))


for _name in [*OPCODES, "complex", "select"]:
    _declare(_name, _opcode(_name))
_declare("zeta", lambda scope, op, x: computed(zeta, scope, *x))
_declare("polygamma", lambda scope, op, x: computed(polygamma, scope, *x))
_declare("next_after", lambda scope, op, x: neighbour(scope, *x))


def _compared(scope: Scope, op: Any, x: Sequence[Instruction]) -> Instruction:
    direction = enumerated(op, "comparison_direction", "ComparisonDirectionAttr")
    kind = enumerated(op, "compare_type", "ComparisonTypeAttr")
    fields: dict[str, Any] = {"type": kind} if kind == "TOTALORDER" else {}
    return scope.emit("compare", tuple(x), scope.result_shape(op), direction=direction, **fields)


_declare("compare", _compared)
