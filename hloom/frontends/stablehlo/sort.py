"""Orders."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import boolean, integer
from hloom.frontends.stablehlo.captured import Elementwise
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction


@IMPORT.of("stablehlo.sort")
def sort(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    """A negative dimension counts from the last."""
    operands = scope.operands(op)
    along = integer(op, "dimension", -1)
    order = Elementwise(scope, op.regions[0])
    instruction = scope.emit(
        "sort",
        (*operands, *order.spread(operands[0].shape)),
        order.shape(scope.tuple_or_one(op)),
        (order.ordering("comparator"),),
        dimensions=(along % max(operands[0].shape.rank, 1),),
        is_stable=boolean(op, "is_stable"),
    )
    return order.results(instruction, len(op.results))


@IMPORT.of("chlo.top_k", "mhlo.topk")
def top_k(scope: Scope, op: Any) -> list[Instruction]:
    """The largest (or smallest) elements of the last dimension, and where they were."""
    instruction = scope.emit(
        "topk",
        scope.operands(op),
        scope.tuple_or_one(op),
        k=integer(op, "k"),
        largest=boolean(op, "largest", True),
        is_stable=boolean(op, "is_stable"),
    )
    return [scope.element(instruction, k) for k in range(2)]
