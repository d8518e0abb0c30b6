"""Indexed reads and writes."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import boolean, ints
from hloom.frontends.stablehlo.bindings import viewed
from hloom.frontends.stablehlo.captured import Elementwise
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction


@IMPORT.of("stablehlo.gather")
def gather(scope: Scope, op: Any) -> Instruction:
    return gathered(scope, op, scope.operands(op), ints(op, "slice_sizes"))


def gathered(
    scope: Scope, op: Any, operands: tuple[Instruction, ...], sizes: tuple[int, ...]
) -> Instruction:
    """The gather of slices of these sizes."""
    numbers = viewed(op.attributes["dimension_numbers"], "GatherDimensionNumbers")
    return scope.emit(
        "gather",
        operands,
        scope.result_shape(op),
        offset_dims=tuple(numbers.offset_dims),
        collapsed_slice_dims=tuple(numbers.collapsed_slice_dims),
        start_index_map=tuple(numbers.start_index_map),
        operand_batching_dims=tuple(numbers.operand_batching_dims),
        start_indices_batching_dims=tuple(numbers.start_indices_batching_dims),
        index_vector_dim=numbers.index_vector_dim,
        slice_sizes=sizes,
        indices_are_sorted=boolean(op, "indices_are_sorted"),
    )


@IMPORT.of("stablehlo.scatter")
def scatter(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    numbers = viewed(op.attributes["scatter_dimension_numbers"], "ScatterDimensionNumbers")
    update = Elementwise(scope, op.regions[0])
    operands = scope.operands(op)
    half = len(operands) // 2
    inputs, indices, updates = operands[:half], operands[half], operands[half + 1 :]
    more = update.spread(inputs[0].shape), update.spread(updates[0].shape)
    instruction = scope.emit(
        "scatter",
        (*inputs, *more[0], indices, *updates, *more[1]),
        update.shape(scope.tuple_or_one(op)),
        (update.folding("region"),),
        update_window_dims=tuple(numbers.update_window_dims),
        inserted_window_dims=tuple(numbers.inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(numbers.scattered_dims_to_operand_dims),
        input_batching_dims=tuple(numbers.input_batching_dims),
        scatter_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims),
        index_vector_dim=numbers.index_vector_dim,
        indices_are_sorted=boolean(op, "indices_are_sorted"),
        unique_indices=boolean(op, "unique_indices"),
    )
    return update.results(instruction, len(op.results))
