"""Operations that take a shape as an operand, once the shape is known.

A result whose type has all sizes needs no operand to say them; where it has bounds instead, the
operand gives the sizes at run time. What else is passed as an operand must be a constant.
"""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import integer, ints
from hloom.frontends.stablehlo.bindings import viewed
from hloom.frontends.stablehlo.constants import literal_of
from hloom.frontends.stablehlo.conv import convolved
from hloom.frontends.stablehlo.data import broadcast_to
from hloom.frontends.stablehlo.gather import gathered
from hloom.frontends.stablehlo.random import ALGORITHMS
from hloom.frontends.stablehlo.refine_calls import window_of
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import Padding
from hloom.ir.values.slices import Slices
from hloom.ir.values.window import Window
from hloom.types.dtype import S32
from hloom.types.shape import Shape, shape


def constant_of(scope: Scope, value: Any) -> Any:
    """The array that a value is, when it is a constant; else an error."""
    owner = value.owner
    if getattr(owner, "operation", None) is None or owner.operation.name != "stablehlo.constant":
        raise scope.error(
            "an operand that says a shape is not a constant",
            rule="dynamic",
            hint="give the shapes of the arguments (--shapes f32[8,3],s32[])",
        )
    return literal_of(owner.attributes["value"], scope.shape(value)).array


def constant_ints(scope: Scope, value: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in constant_of(scope, value).reshape(-1))


def static(scope: Scope, op: Any) -> Shape:
    """The shape of the result, all of whose sizes must be known."""
    result = scope.result_shape(op)
    if not result.is_static:
        raise scope.error(
            f"the result {result.bare} has sizes that are known only at run time",
            rule="dynamic",
            hint="give the shapes of the arguments (--shapes f32[8,3],s32[])",
        )
    return result


@IMPORT.of("stablehlo.dynamic_reshape")
def dynamic_reshape(scope: Scope, op: Any) -> Instruction:
    x, sizes = scope.operands(op)
    result = scope.result_shape(op)
    if result.is_static:
        return scope.emit("reshape", (x,), result)
    return scope.emit("dynamic-reshape", (x, *split(scope, sizes)), result)


def split(scope: Scope, vector: Instruction) -> list[Instruction]:
    """The elements of a vector as s32 scalars."""
    scalars = []
    for k in range(vector.shape.dims[0]):
        part = scope.add("slice", vector, slice=Slices.of((k, k + 1)))
        scalar = scope.emit("reshape", (part,), shape(vector.shape.dtype))
        if scalar.shape.dtype is not S32:
            scalar = scope.emit("convert", (scalar,), shape(S32))
        scalars.append(scalar)
    return scalars


@IMPORT.of("stablehlo.dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(scope: Scope, op: Any) -> Instruction:
    x = scope.operands(op)[0]
    return broadcast_to(scope, x, static(scope, op), ints(op, "broadcast_dimensions"))


@IMPORT.of("stablehlo.dynamic_iota")
def dynamic_iota(scope: Scope, op: Any) -> Instruction:
    along = integer(op, "iota_dimension")
    return scope.emit("iota", (), static(scope, op), iota_dimension=along)


@IMPORT.of("stablehlo.dynamic_pad")
def dynamic_pad(scope: Scope, op: Any) -> Instruction:
    values = list(op.operands)
    x, filler = scope.value(values[0]), scope.value(values[1])
    padding = Padding.of(*zip(*(constant_ints(scope, v) for v in values[2:]), strict=True))
    return scope.emit("pad", (x, filler), static(scope, op), padding=padding)


@IMPORT.of("stablehlo.dynamic_gather")
def dynamic_gather(scope: Scope, op: Any) -> Instruction:
    x, indices, sizes = op.operands
    operands = (scope.value(x), scope.value(indices))
    static(scope, op)
    return gathered(scope, op, operands, constant_ints(scope, sizes))


@IMPORT.of("stablehlo.dynamic_conv")
def dynamic_conv(scope: Scope, op: Any) -> Instruction:
    lhs, rhs, padding = op.operands
    static(scope, op)
    rows = tuple(map(tuple, constant_of(scope, padding).tolist()))
    return convolved(scope, op, scope.value(lhs), scope.value(rhs), rows)


@IMPORT.of("stablehlo.real_dynamic_slice")
def real_dynamic_slice(scope: Scope, op: Any) -> Instruction:
    """Constants give a slice; else only where it starts may be known late."""
    x, starts, limits, strides = op.operands
    result = static(scope, op)
    steps = constant_ints(scope, strides)
    if is_constant(starts) and is_constant(limits):
        first, last = constant_ints(scope, starts), constant_ints(scope, limits)
        ranges = list(zip(first, last, steps, strict=True))
        _check_slice(scope, scope.shape(x).dims, ranges, result)
        return scope.emit("slice", (scope.value(x),), result, slice=Slices.of(*ranges))
    if any(step != 1 for step in steps):
        raise scope.error("a slice with steps must start at a constant", rule="dynamic")
    begin = split(scope, scope.value(starts))
    return scope.emit(
        "dynamic-slice", (scope.value(x), *begin), result, dynamic_slice_sizes=result.dims
    )


def _check_slice(
    scope: Scope, dims: tuple[int, ...], ranges: list[tuple[int, int, int]], result: Shape
) -> None:
    """Constants that say a slice go with the operand and the result, which MLIR does not ask."""
    for k, (start, limit, step) in enumerate(ranges):
        if not 0 <= start <= limit <= dims[k] or step < 1:
            raise scope.error(
                f"the slice [{start}:{limit}:{step}] leaves dimension {k} of size {dims[k]}",
                rule="shape",
            )
    sizes = tuple(-(-(limit - start) // step) for start, limit, step in ranges)
    if sizes != result.dims:
        raise scope.error(f"the slice has the sizes {sizes}, not {result.bare}", rule="shape")


def dynamic_reduce_window(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    """The custom call that JAX makes of a window of open sizes."""
    window = window_of(op)
    if window is None:
        raise scope.error("the window is not known", rule="dynamic")
    fold = scope.program.function(op.attributes["called_computations"][0].value, scope)
    operands = tuple([scope.value(x) for x in list(op.operands)[:-5]])
    instruction = scope.emit(
        "reduce-window", operands, scope.tuple_or_one(op), (fold,), window=Window(window)
    )
    return scope.elements(instruction, len(op.results))


def dynamic_rng_bit_generator(scope: Scope, op: Any) -> list[Instruction]:
    """The custom call that JAX makes of random bits of an open size."""
    word = viewed(op.attributes["rng_algorithm"], "RngAlgorithmAttr").value
    state = scope.value(op.operands[0])
    instruction = scope.emit(
        "rng-bit-generator", (state,), scope.tuple_or_one(op), algorithm=ALGORITHMS[word]
    )
    return [scope.element(instruction, k) for k in range(2)]


def is_constant(value: Any) -> bool:
    owner = value.owner
    return hasattr(owner, "operation") and owner.operation.name == "stablehlo.constant"
