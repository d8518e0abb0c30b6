"""Random numbers."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import enumerated
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction

ALGORITHMS = {
    "DEFAULT": "rng_default",
    "THREE_FRY": "rng_three_fry",
    "PHILOX": "rng_philox",
}


@IMPORT.of("stablehlo.rng")
def rng(scope: Scope, op: Any) -> Instruction:
    """The third operand says the shape of the result, which has it anyway."""
    low, high, sizes = scope.operands(op)
    if sizes.opcode == "constant":
        scope.tuple_elements.append(sizes)
    kind = enumerated(op, "rng_distribution", "RngDistributionAttr")
    return scope.emit(
        "rng", (low, high), scope.result_shape(op), distribution=f"rng_{kind.lower()}"
    )


@IMPORT.of("stablehlo.rng_bit_generator")
def rng_bit_generator(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    word = enumerated(op, "rng_algorithm", "RngAlgorithmAttr")
    instruction = scope.emit(
        "rng-bit-generator",
        scope.operands(op),
        scope.tuple_or_one(op),
        algorithm=ALGORITHMS[word],
    )
    return scope.elements(instruction, 2)
