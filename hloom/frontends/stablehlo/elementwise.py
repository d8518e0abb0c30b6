"""Operations on each element: most of them are an operation of HLO under the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.frontends.stablehlo.attributes import accuracy, enumerated, integer
from hloom.frontends.stablehlo.registry import IMPORT, Importer
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS

SAME = (
    "abs add and atan2 ceil clamp complex convert count_leading_zeros divide floor imag is_finite "
    "maximum minimum multiply negate not or popcnt power real remainder round_nearest_afz "
    "round_nearest_even select shift_left shift_right_arithmetic shift_right_logical sign "
    "subtract xor"
).split()
"""Without attributes that count, under the same name with `-` for `_`."""
ACCURATE = (
    "cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan tanh"
).split()
"""The same, with a `result_accuracy`."""


def same(opcode: str) -> Callable[[Scope, Any], Instruction]:
    """An operation that is one of HLO on the same operands."""
    attrs = OPS[opcode].empty

    def read(scope: Scope, op: Any) -> Instruction:
        shape = scope.program.types.shape(op.results[0].type)
        instruction = scope.computation.append(opcode, attrs, scope.operands(op), shape)
        instruction.metadata = scope.metadata()
        return instruction

    return read


def accurate(opcode: str) -> Importer:
    """An operation that is one of HLO and says how exact it must be."""
    plain = same(opcode)

    def read(scope: Scope, op: Any) -> Instruction:
        stated = accuracy(op)
        if stated is None:
            return plain(scope, op)
        return scope.emit(
            opcode, scope.operands(op), scope.result_shape(op), result_accuracy=stated
        )

    return read


for _name in SAME:
    IMPORT.add(f"stablehlo.{_name}", same(_name.replace("_", "-")))
for _name in ACCURATE:
    IMPORT.add(f"stablehlo.{_name}", accurate(_name.replace("_", "-")))


_cbrt = accurate("cbrt")
_bitcast = same("bitcast-convert")


@IMPORT.of("stablehlo.cbrt")
def cbrt(scope: Scope, op: Any) -> Any:
    """Of a complex number, which HLO has no cube root of, its power of a third."""
    [x] = operands = scope.operands(op)
    if not x.shape.dtype.is_complex:
        return _cbrt(scope, op)
    to = scope.result_shape(op)
    return scope.emit("power", (*operands, scope.full(1 / 3, to)), to)


@IMPORT.of("stablehlo.bitcast_convert")
def bitcast_convert(scope: Scope, op: Any) -> Instruction:
    [x] = scope.operands(op)
    to = scope.result_shape(op)
    if x.shape.dtype.is_pred != to.dtype.is_pred:
        raise scope.error(
            f"bits of {x.shape.bare} as {to.bare}: i1 is one bit in StableHLO, and a byte in HLO",
            rule="mlir-type",
            hint="shift and convert the integers instead",
        )
    return _bitcast(scope, op)


@IMPORT.of("stablehlo.compare")
def compare(scope: Scope, op: Any) -> Instruction:
    """The type is written only where it is not the usual one of the operands."""
    direction = enumerated(op, "comparison_direction", "ComparisonDirectionAttr")
    kind = enumerated(op, "compare_type", "ComparisonTypeAttr")
    operands, shape = scope.operands(op), scope.result_shape(op)
    if kind == "TOTALORDER":
        return scope.emit("compare", operands, shape, direction=direction, type=kind)
    return scope.emit("compare", operands, shape, direction=direction)


@IMPORT.of("stablehlo.reduce_precision")
def reduce_precision(scope: Scope, op: Any) -> Instruction:
    return scope.emit(
        "reduce-precision",
        scope.operands(op),
        scope.result_shape(op),
        exponent_bits=integer(op, "exponent_bits"),
        mantissa_bits=integer(op, "mantissa_bits"),
    )
