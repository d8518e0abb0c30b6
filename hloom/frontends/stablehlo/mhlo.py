"""What MHLO has and StableHLO has not: operations that XLA made up between its passes."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import enumerated, integer
from hloom.frontends.stablehlo.dot import ragged_dot
from hloom.frontends.stablehlo.elementwise import accurate, same
from hloom.frontends.stablehlo.reduce import scan
from hloom.frontends.stablehlo.registry import IMPORT, refuse
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction

for _name in ("copy", "bitcast", "add_dependency", "stochastic_convert"):
    IMPORT.add(f"mhlo.{_name}", same(_name.replace("_", "-")))
for _name in ("exp2", "log2"):
    IMPORT.add(f"mhlo.{_name}", accurate(_name))
IMPORT.add("mhlo.mulhi", same("mulhi"))
IMPORT.add("mhlo.ragged_dot", ragged_dot)
IMPORT.add("mhlo.scan", scan)

refuse(
    "its types are those of XLA's own passes; StableHLO has async_start and async_done",
    "mhlo.async_start",
    "mhlo.async_update",
    "mhlo.async_done",
)
refuse(
    "it stands between two passes of XLA and never in a program that is handed to a compiler",
    "mhlo.domain",
    "mhlo.trace",
    "mhlo.minimum_broadcast_shapes",
)


@IMPORT.of("mhlo.fusion")
def fusion(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    body = scope.computation_of(op.regions[0], "fused")
    instruction = scope.emit(
        "fusion",
        scope.operands(op),
        body.root.shape,
        (body,),
        kind=enumerated(op, "fusion_kind", "FusionKindAttr", "kLoop"),
    )
    return scope.elements(instruction, len(op.results))


@IMPORT.of("mhlo.xla.rng_get_and_update_state")
def rng_get_and_update_state(scope: Scope, op: Any) -> Instruction:
    return scope.emit(
        "rng-get-and-update-state", (), scope.result_shape(op), delta=integer(op, "delta")
    )
