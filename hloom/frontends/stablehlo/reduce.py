"""Folds: reduce, windows, maps, batch normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.frontends.stablehlo.attributes import boolean, integer, ints, table
from hloom.frontends.stablehlo.captured import Elementwise
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.ir.values.window import Window, WindowDimension
from hloom.types.shape import tuple_shape


@IMPORT.of("stablehlo.reduce")
def reduce(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    fold = Elementwise(scope, op.regions[0])
    instruction = scope.emit(
        "reduce",
        _folded(fold, scope.operands(op)),
        fold.shape(scope.tuple_or_one(op)),
        (fold.folding("region"),),
        dimensions=ints(op, "dimensions"),
    )
    return fold.results(instruction, len(op.results))


def _folded(fold: Elementwise, operands: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Inputs and initial values, each followed by what the region captures."""
    half = len(operands) // 2
    inputs, starts = operands[:half], operands[half:]
    return (*inputs, *fold.spread(inputs[0].shape), *starts, *fold.scalars)


@IMPORT.of("stablehlo.reduce_window")
def reduce_window(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    sizes = ints(op, "window_dimensions")
    ones = (1,) * len(sizes)
    strides = ints(op, "window_strides") or ones
    base = ints(op, "base_dilations") or ones
    window = ints(op, "window_dilations") or ones
    pads = table(op, "padding") or ((0, 0),) * len(sizes)
    dims = [
        WindowDimension(size, strides[k], pads[k][0], pads[k][1], window[k], base[k])
        for k, size in enumerate(sizes)
    ]
    fold = Elementwise(scope, op.regions[0])
    instruction = scope.emit(
        "reduce-window",
        _folded(fold, scope.operands(op)),
        fold.shape(scope.tuple_or_one(op)),
        (fold.folding("region"),),
        window=Window(tuple(dims)),
    )
    return fold.results(instruction, len(op.results))


@IMPORT.of("stablehlo.select_and_scatter")
def select_and_scatter(scope: Scope, op: Any) -> Instruction:
    sizes = ints(op, "window_dimensions")
    strides = ints(op, "window_strides") or (1,) * len(sizes)
    pads = table(op, "padding") or ((0, 0),) * len(sizes)
    dims = tuple(
        WindowDimension(size, strides[k], pads[k][0], pads[k][1]) for k, size in enumerate(sizes)
    )
    select = scope.computation_of(op.regions[0], "select")
    scatter = scope.computation_of(op.regions[1], "scatter")
    return scope.emit(
        "select-and-scatter",
        scope.operands(op),
        scope.result_shape(op),
        (select, scatter),
        window=Window(dims),
    )


@IMPORT.of("stablehlo.map")
def map_(scope: Scope, op: Any) -> Instruction:
    body = Elementwise(scope, op.regions[0])
    operands = scope.operands(op)
    return scope.emit(
        "map",
        (*operands, *body.spread(operands[0].shape)),
        scope.result_shape(op),
        (body.mapping("region"),),
        dimensions=ints(op, "dimensions"),
    )


@IMPORT.of("chlo.scan")
def scan(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    """Inputs and carries; the results are the outputs, then the last carries."""
    body = scope.computation_of(op.regions[0], "scan")
    operands = scope.operands(op)
    segments = tuple(op.attributes["operandSegmentSizes"])
    results = tuple(op.attributes["resultSegmentSizes"])
    shapes = tuple_shape([scope.shape(r) for r in op.results])
    instruction = scope.emit(
        "scan",
        operands,
        scope.tuple_or_one(op) if len(op.results) == 1 else shapes,
        (body,),
        dimensions=(integer(op, "dimension"),),
        num_carries=segments[1] if len(segments) > 1 else results[1],
        is_reverse=boolean(op, "is_reverse"),
        is_associative=boolean(op, "is_associative"),
    )
    return scope.elements(instruction, len(op.results))


@IMPORT.of("stablehlo.batch_norm_inference")
def batch_norm_inference(scope: Scope, op: Any) -> Instruction:
    return scope.emit(
        "batch-norm-inference", scope.operands(op), scope.result_shape(op), **_norm(op)
    )


@IMPORT.of("stablehlo.batch_norm_training")
def batch_norm_training(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    instruction = scope.emit(
        "batch-norm-training", scope.operands(op), scope.tuple_or_one(op), **_norm(op)
    )
    return scope.elements(instruction, 3)


@IMPORT.of("stablehlo.batch_norm_grad")
def batch_norm_grad(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    instruction = scope.emit(
        "batch-norm-grad", scope.operands(op), scope.tuple_or_one(op), **_norm(op)
    )
    return scope.elements(instruction, 3)


def _norm(op: Any) -> dict[str, Any]:
    return {
        # As single precision writes it: 1e-5, not the double next to it.
        "epsilon": float(str(np.float32(op.attributes["epsilon"].value))),
        "feature_index": integer(op, "feature_index"),
    }
