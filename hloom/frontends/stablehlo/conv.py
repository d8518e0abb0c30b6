"""Convolution."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import flags, integer, ints, precisions, table
from hloom.frontends.stablehlo.bindings import viewed
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.window import Window, WindowDimension


@IMPORT.of("stablehlo.convolution")
def convolution(scope: Scope, op: Any) -> Instruction:
    lhs, rhs = scope.operands(op)
    return convolved(scope, op, lhs, rhs, table(op, "padding"))


def convolved(
    scope: Scope,
    op: Any,
    lhs: Instruction,
    rhs: Instruction,
    padding: tuple[tuple[int, ...], ...],
) -> Instruction:
    """The convolution with this padding and what else the operation says."""
    numbers = dimensions_of(op)
    sizes = [rhs.shape.dims[d] for d in numbers.kernel_spatial_dimensions]
    return scope.emit(
        "convolution",
        (lhs, rhs),
        scope.result_shape(op),
        window=window_of(op, sizes, padding),
        dim_labels=numbers,
        feature_group_count=integer(op, "feature_group_count", 1),
        batch_group_count=integer(op, "batch_group_count", 1),
        operand_precision=precisions(op),
    )


def dimensions_of(op: Any) -> ConvolutionDimensions:
    labels = viewed(op.attributes["dimension_numbers"], "ConvDimensionNumbers")
    return ConvolutionDimensions(
        labels.input_batch_dimension,
        labels.input_feature_dimension,
        tuple(labels.input_spatial_dimensions),
        labels.kernel_input_feature_dimension,
        labels.kernel_output_feature_dimension,
        tuple(labels.kernel_spatial_dimensions),
        labels.output_batch_dimension,
        labels.output_feature_dimension,
        tuple(labels.output_spatial_dimensions),
    )


def window_of(op: Any, sizes: list[int], padding: tuple[tuple[int, ...], ...]) -> Window:
    """The window over the spatial dimensions."""
    ones = (1,) * len(sizes)
    strides = ints(op, "window_strides") or ones
    base = ints(op, "lhs_dilation") or ones
    window = ints(op, "rhs_dilation") or ones
    reversal = flags(op, "window_reversal") or (False,) * len(sizes)
    pads = padding or ((0, 0),) * len(sizes)
    return Window(
        tuple(
            WindowDimension(
                size, strides[k], pads[k][0], pads[k][1], window[k], base[k], reversal[k]
            )
            for k, size in enumerate(sizes)
        )
    )
