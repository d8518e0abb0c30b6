"""Constants, and operations that move data."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import integer, ints
from hloom.frontends.stablehlo.constants import (
    blob_name,
    literal_of,
    literal_of_blob,
    literal_of_text,
)
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope, taken_apart
from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import Padding
from hloom.ir.values.slices import Slices
from hloom.types.literal import Literal
from hloom.types.shape import Shape, shape


@IMPORT.of("stablehlo.constant", "chlo.constant", "sdy.constant", "mhlo.constant", "arith.constant")
def constant(scope: Scope, op: Any) -> Instruction:
    """A literal; the same attribute is the same literal wherever it stands."""
    made_shape = scope.result_shape(op)
    if made_shape.dtype.is_complex:
        literal = literal_of_text(op.operation.get_asm(), made_shape)
    else:
        attribute = op.attributes["value"]
        literals = scope.program.literals
        literal = literals.get(attribute)
        if literal is None:
            literal = literals[attribute] = _literal(scope, attribute, made_shape)
    return scope.emit("constant", (), made_shape, literal=literal)


def _literal(scope: Scope, attribute: Any, made_shape: Shape) -> Literal:
    text = "" if hasattr(attribute, "is_splat") else str(attribute)
    name = blob_name(text)
    if name is None:
        return literal_of(attribute, made_shape)
    digits = scope.program.blobs.get(name.strip('"'))
    if digits is None:
        raise scope.error(
            f"the bytes of the resource {name} are not in the file",
            rule="resource",
            hint="write the program with its resources, not elided",
        )
    return literal_of_blob(digits, made_shape)


@IMPORT.of("stablehlo.iota")
def iota(scope: Scope, op: Any) -> Instruction:
    return scope.emit(
        "iota", (), scope.result_shape(op), iota_dimension=integer(op, "iota_dimension")
    )


@IMPORT.of("stablehlo.broadcast_in_dim")
def broadcast_in_dim(scope: Scope, op: Any) -> Instruction:
    dims = ints(op, "broadcast_dimensions")
    return broadcast_to(scope, scope.operands(op)[0], scope.result_shape(op), dims)


def broadcast_to(
    scope: Scope, x: Instruction, result: Shape, dimensions: tuple[int, ...]
) -> Instruction:
    """x along some dimensions of the result; a dimension of size 1 is dropped where it repeats."""
    source = x.shape
    kept_dims = [k for k, d in enumerate(dimensions) if source.dims[k] == result.dims[d]]
    if len(kept_dims) < source.rank:
        dropped = shape(
            source.dtype,
            [source.dims[k] for k in kept_dims],
            None,
            [source.is_dynamic_dim(k) for k in kept_dims],
        ).with_default_layouts()
        x = scope.emit("reshape", (x,), dropped)
        dimensions = tuple(dimensions[k] for k in kept_dims)
    return scope.emit("broadcast", (x,), result, dimensions=dimensions)


@IMPORT.of("stablehlo.broadcast")
def broadcast(scope: Scope, op: Any) -> Instruction:
    """New dimensions in front."""
    (x,) = scope.operands(op)
    result = scope.result_shape(op)
    new = result.rank - x.shape.rank
    return scope.emit("broadcast", (x,), result, dimensions=tuple(range(new, result.rank)))


@IMPORT.of("stablehlo.reshape")
def reshape(scope: Scope, op: Any) -> Instruction:
    return scope.emit("reshape", scope.operands(op), scope.result_shape(op))


@IMPORT.of("stablehlo.transpose")
def transpose(scope: Scope, op: Any) -> Instruction:
    operands, result = scope.operands(op), scope.result_shape(op)
    return scope.emit("transpose", operands, result, dimensions=ints(op, "permutation"))


@IMPORT.of("stablehlo.reverse")
def reverse(scope: Scope, op: Any) -> Instruction:
    operands, result = scope.operands(op), scope.result_shape(op)
    return scope.emit("reverse", operands, result, dimensions=ints(op, "dimensions"))


@IMPORT.of("stablehlo.concatenate")
def concatenate(scope: Scope, op: Any) -> Instruction:
    operands, result = scope.operands(op), scope.result_shape(op)
    return scope.emit("concatenate", operands, result, dimensions=(integer(op, "dimension"),))


@IMPORT.of("stablehlo.slice")
def slice_(scope: Scope, op: Any) -> Instruction:
    ranges = zip(
        ints(op, "start_indices"), ints(op, "limit_indices"), ints(op, "strides"), strict=True
    )
    slices = Slices.of(*ranges)
    return scope.emit("slice", scope.operands(op), scope.result_shape(op), slice=slices)


@IMPORT.of("stablehlo.pad")
def pad(scope: Scope, op: Any) -> Instruction:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    padding = Padding.of(*zip(*(ints(op, name) for name in names), strict=True))
    return scope.emit("pad", scope.operands(op), scope.result_shape(op), padding=padding)


@IMPORT.of("stablehlo.dynamic_slice")
def dynamic_slice(scope: Scope, op: Any) -> Instruction:
    sizes = ints(op, "slice_sizes")
    operands, result = scope.operands(op), scope.result_shape(op)
    return scope.emit("dynamic-slice", operands, result, dynamic_slice_sizes=sizes)


@IMPORT.of("stablehlo.dynamic_update_slice")
def dynamic_update_slice(scope: Scope, op: Any) -> Instruction:
    return scope.emit("dynamic-update-slice", scope.operands(op), scope.result_shape(op))


@IMPORT.of("stablehlo.get_dimension_size")
def get_dimension_size(scope: Scope, op: Any) -> Instruction:
    operands, result = scope.operands(op), scope.result_shape(op)
    return scope.emit(
        "get-dimension-size", operands, result, dimensions=(integer(op, "dimension"),)
    )


@IMPORT.of("stablehlo.set_dimension_size")
def set_dimension_size(scope: Scope, op: Any) -> Instruction:
    operands, result = scope.operands(op), scope.result_shape(op)
    return scope.emit(
        "set-dimension-size", operands, result, dimensions=(integer(op, "dimension"),)
    )


@IMPORT.of("stablehlo.tuple")
def tuple_(scope: Scope, op: Any) -> Instruction:
    operands = scope.operands(op)
    whole = taken_apart(operands)
    return whole or scope.emit("tuple", operands, scope.result_shape(op))


@IMPORT.of("stablehlo.get_tuple_element")
def get_tuple_element(scope: Scope, op: Any) -> Instruction:
    operands, result = scope.operands(op), scope.result_shape(op)
    return scope.emit("get-tuple-element", operands, result, index=integer(op, "index"))
