"""Convolution."""

from __future__ import annotations

from hloom.frontends.stablehlo.export.registry import export
from hloom.frontends.stablehlo.export.text import booleans, integer, ints, precision, table
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction

HANDLES = "window dim_labels feature_group_count batch_group_count operand_precision"


@export("convolution", handles=HANDLES)
def convolution(w: Writer, i: Instruction) -> None:
    a, dims = i.attrs, i.attrs.window.dimensions
    numbers = a.dim_labels
    words = [
        f"input_batch_dimension = {numbers.input_batch_dimension}",
        f"input_feature_dimension = {numbers.input_feature_dimension}",
        f"input_spatial_dimensions = {list(numbers.input_spatial_dimensions)}",
        f"kernel_input_feature_dimension = {numbers.kernel_input_feature_dimension}",
        f"kernel_output_feature_dimension = {numbers.kernel_output_feature_dimension}",
        f"kernel_spatial_dimensions = {list(numbers.kernel_spatial_dimensions)}",
        f"output_batch_dimension = {numbers.output_batch_dimension}",
        f"output_feature_dimension = {numbers.output_feature_dimension}",
        f"output_spatial_dimensions = {list(numbers.output_spatial_dimensions)}",
    ]
    fields = {
        "dimension_numbers": f"#stablehlo.conv<raw {', '.join(words)}>",
        "feature_group_count": integer(a.feature_group_count),
        "batch_group_count": integer(a.batch_group_count),
        **precision(a.operand_precision),
    }
    if dims:
        fields |= {
            "window_strides": ints(d.stride for d in dims),
            "padding": table([(d.padding_low, d.padding_high) for d in dims]),
            "lhs_dilation": ints(d.base_dilation for d in dims),
            "rhs_dilation": ints(d.window_dilation for d in dims),
            "window_reversal": booleans(d.window_reversal for d in dims),
        }
    w.simple(i, "stablehlo.convolution", fields)
