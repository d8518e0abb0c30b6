"""Quantised programs by the definitions of the specification, in plain operations.

A value of a quantised type is its integers. What only moves values moves those. Contractions sum
products of integers exactly and scale the sum. Everything else is computed as the specification
says: dequantise, compute with floats, quantise (divide by the scale, add the zero point, clamp,
round half to even). Scales are those of single precision, and so is what is done with them, where
a type stands for narrower floats, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from hloom.frontends.stablehlo.bindings import viewed
from hloom.frontends.stablehlo.quantised_type import Quantised
from hloom.frontends.stablehlo.registry import IMPORT, Importer
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.types.convert import converted
from hloom.types.dtype import F32, F64, S32, S64, DType
from hloom.types.literal import Literal
from hloom.types.shape import shape

Imported = Instruction | Sequence[Instruction] | None
MOVES = frozenset(
    f"stablehlo.{name}"
    for name in """transpose reshape broadcast_in_dim dynamic_broadcast_in_dim dynamic_reshape
    concatenate slice real_dynamic_slice dynamic_slice dynamic_update_slice gather dynamic_gather
    pad dynamic_pad reverse select tuple get_tuple_element optimization_barrier while if case return
    constant bitcast_convert reduce reduce_window sort scatter select_and_scatter map custom_call
    composite all_gather all_to_all all_reduce reduce_scatter collective_permute
    collective_broadcast collective_reduce async_start async_done""".split()
) | {"func.return", "func.call"}
"""Operations that take and give integers as they are, or whose regions compute."""
CONTRACTIONS = frozenset(["stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"])
LARGEST_S32, LARGEST_S64 = 2**31, 2**63


def reader(handler: Importer, scope: Scope, op: Any) -> Importer:
    """How an operation is read some of whose values may be quantised."""
    types = scope.program.types
    kinds = [types.quantised(v.type) for v in (*op.operands, *op.results)]
    if not any(kinds) or op.operation.name in IMPORTED:
        return handler
    name = op.operation.name
    if name in MOVES and len({q.parameters for q in kinds if q}) <= 1:
        return handler
    if op.regions:
        return handler
    if name in CONTRACTIONS and all(kinds):
        contraction = _contraction(op, handler, kinds)
        if contraction is not None:
            return contraction
    return lambda scope, op: computed(scope, op, handler)


def computed(scope: Scope, op: Any, handler: Importer) -> Imported:
    """Dequantise the operands, compute with floats, quantise the results."""
    with scope.program.types.quantised_as(lambda q: q.expressed):
        results = _on(scope, op, handler, dequantised)
    return _quantised_results(scope, op, results, quantised)


def _on(scope: Scope, op: Any, handler: Importer, change: Callable[..., Instruction]) -> Imported:
    """What a handler makes of changed operands."""
    types, before = scope.program.types, {}
    for value in op.operands:
        kind = types.quantised(value.type)
        if kind is not None and value not in before:
            before[value] = scope.value(value)
            scope.values[value] = change(scope, before[value], kind)
    results = handler(scope, op)
    scope.values.update(before)
    return results


def _quantised_results(
    scope: Scope, op: Any, results: Imported, change: Callable[..., Instruction]
) -> Imported:
    if results is None:
        return None
    instructions = [results] if isinstance(results, Instruction) else results
    kinds = [scope.program.types.quantised(r.type) for r in op.results]
    done = [
        x if q is None else change(scope, x, q) for x, q in zip(instructions, kinds, strict=True)
    ]
    return done[0] if isinstance(results, Instruction) else done


def _spread(scope: Scope, values: Any, dtype: DType, like: Instruction, axis: int | None):
    """A number, or one for each index of `axis`, in the sizes of an array."""
    array = converted(np.array(values, np.float64), F64, dtype)
    of = shape(dtype, like.shape.dims).with_default_layouts()
    if axis is None or len(values) == 1:
        constant_shape = shape(dtype)
        value = scope.emit(
            "constant", (), constant_shape, literal=Literal(constant_shape, array.reshape(()))
        )
        return scope.emit("broadcast", (value,), of) if of.dims else value
    constant_shape = shape(dtype, array.shape).with_default_layouts()
    value = scope.emit("constant", (), constant_shape, literal=Literal(constant_shape, array))
    return scope.emit("broadcast", (value,), of, dimensions=(axis,))


def _as(scope: Scope, x: Instruction, dtype: DType) -> Instruction:
    return x if x.shape.dtype is dtype else scope.emit("convert", (x,), x.shape.with_dtype(dtype))


def _differences(scope: Scope, x: Instruction, q: Quantised, wide: DType) -> Instruction:
    """Integers less their zero points."""
    x = _as(scope, x, wide)
    if not any(q.zero_points):
        return x
    return scope.add("subtract", x, _spread(scope, q.zero_points, wide, x, q.axis))


def dequantised(scope: Scope, x: Instruction, q: Quantised) -> Instruction:
    """(integer - zero point) * scale."""
    wide = S32 if q.storage.bits < 32 else S64
    real = _as(scope, _differences(scope, x, q, wide), F32)
    real = scope.add("multiply", real, _spread(scope, q.scales, F32, real, q.axis))
    return _as(scope, real, q.expressed)


def quantised(scope: Scope, x: Instruction, q: Quantised) -> Instruction:
    """The nearest integer that the type can store, half to even."""
    x = _as(scope, x, F32)
    scaled = scope.add("divide", x, _spread(scope, q.scales, F32, x, q.axis))
    if any(q.zero_points):
        scaled = scope.add("add", scaled, _spread(scope, q.zero_points, F32, x, q.axis))
    low, high = (scope.scalar(edge, F32) for edge in (q.low, q.high))
    rounded = scope.add("round-nearest-even", scope.add("clamp", low, scaled, high))
    return _as(scope, rounded, q.storage)


def _contraction(op: Any, handler: Importer, kinds: list[Quantised | None]) -> Importer | None:
    """Products of integers summed exactly; None where scales differ along what is summed over, or
    sums do not fit 64 bits."""
    lhs, rhs, _ = (q for q in kinds if q is not None)
    terms, result_axis = _terms(op, rhs.axis)
    if lhs.axis is not None or (rhs.axis is not None and result_axis is None):
        return None
    largest = lhs.largest * rhs.largest * max(terms, 1)
    if largest >= LARGEST_S64:
        return None
    wide = S32 if largest < LARGEST_S32 else S64

    def read(scope: Scope, op: Any) -> Imported:
        with scope.program.types.quantised_as(lambda q: wide):
            total = _on(scope, op, handler, lambda s, x, q: _differences(s, x, q, wide))
        assert isinstance(total, Instruction)
        real = _as(scope, total, F32)
        scales = [lhs.scales[0] * scale for scale in rhs.scales]
        real = scope.add("multiply", real, _spread(scope, scales, F32, real, result_axis))
        return _quantised_results(scope, op, real, quantised)

    return read


def _terms(op: Any, axis: int | None) -> tuple[int, int | None]:
    """How many products are summed for an element of the result, and which dimension of that is
    `axis` of the second operand (None where it is summed over)."""
    lhs, rhs = (list(v.type.shape) for v in op.operands)
    name = op.operation.name
    if name == "stablehlo.convolution":
        numbers = viewed(op.attributes["dimension_numbers"], "ConvDimensionNumbers")
        out = numbers.kernel_output_feature_dimension
        terms = prod(n for d, n in enumerate(rhs) if d != out)
        return terms, numbers.output_feature_dimension if axis == out else None
    if name == "stablehlo.dot":
        place = len(lhs) - 1 + (0 if axis is None else axis - 1)
        return lhs[-1], place if axis else None
    numbers = viewed(op.attributes["dot_dimension_numbers"], "DotDimensionNumbers")
    batch = list(numbers.rhs_batching_dimensions)
    summed = list(numbers.rhs_contracting_dimensions)
    free = [d for d in range(len(rhs)) if d not in batch and d not in summed]
    terms = prod(rhs[d] for d in summed)
    if axis in batch:
        return terms, batch.index(axis)
    before = len(lhs) - len(summed)  # batch dimensions and free ones of the first operand
    return terms, before + free.index(axis) if axis in free else None


@IMPORT.of("stablehlo.uniform_quantize")
def uniform_quantize(scope: Scope, op: Any) -> Instruction:
    """Of a float, or of a value of another quantised type, which is dequantised before."""
    (x,) = scope.operands(op)
    types = scope.program.types
    kind = types.quantised(op.operands[0].type)
    to = types.quantised(op.results[0].type)
    assert to is not None, "MLIR verified it"
    if kind is not None:
        x = dequantised(scope, x, kind)
    return quantised(scope, x, to)


@IMPORT.of("stablehlo.uniform_dequantize")
def uniform_dequantize(scope: Scope, op: Any) -> Instruction:
    (x,) = scope.operands(op)
    kind = scope.program.types.quantised(op.operands[0].type)
    assert kind is not None, "MLIR verified it"
    return _as(scope, dequantised(scope, x, kind), scope.result_shape(op).dtype)


IMPORTED = frozenset(["stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"])
