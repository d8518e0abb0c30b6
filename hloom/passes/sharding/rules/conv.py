"""Factors of convolutions."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.window import WindowDimension
from hloom.passes.sharding.factors import RULES, FactorTable, Kind


@RULES.of("convolution")
def convolution(table: FactorTable, i: Instruction) -> None:
    """Batch and features as of a dot, a group the major part of a dimension; where windows
    overlap, parts of a spatial dimension need elements of their neighbours (a halo)."""
    labels = i.attrs.dim_labels
    lhs, rhs = table.operand_dims
    groups, batches = i.attrs.feature_group_count, i.attrs.batch_group_count
    batch, feature = labels.input_batch_dimension, labels.input_feature_dimension
    inward, outward = (
        labels.kernel_input_feature_dimension,
        labels.kernel_output_feature_dimension,
    )
    result_batch, result = labels.output_batch_dimension, labels.output_feature_dimension
    if batches > 1:
        table.add(batches, {0: batch, 1: outward}, {0: result})
    table.add(lhs[batch] // max(batches, 1), {0: batch}, {0: result_batch})
    if groups > 1:
        table.add(groups, {0: feature, 1: outward}, {0: result})
    table.add(rhs[inward], {0: feature, 1: inward}, {}, Kind.REDUCE)
    table.add(rhs[outward] // max(groups, batches, 1), {1: outward}, {0: result})
    for k, w in enumerate(i.attrs.window.dimensions):
        image = labels.input_spatial_dimensions[k]
        kernel = labels.kernel_spatial_dimensions[k]
        out = labels.output_spatial_dimensions[k]
        if w.is_trivial:
            table.add(lhs[image], {0: image}, {0: out})
        elif _is_summed(w, lhs[image], i.shape.dims[out]):
            table.alone.add(len(table.factors))
            table.add(w.size, {0: image, 1: kernel}, {}, Kind.REDUCE)
        else:
            table.add(lhs[image], {0: image}, {0: out}, Kind.PERMUTE)


def _is_summed(w: WindowDimension, size: int, count: int) -> bool:
    """Whether the kernel is as large as the image and there are fewer windows than it has elements:
    a contraction, of one window or (a gradient of weights, whatever the convolution's strides and
    dilations) of some, which together reach all of the image but for less than a step."""
    if w.window_reversal or count >= w.size:
        return False
    reach = w.dilated_size() + (count - 1) * w.stride
    return reach > (size - 1) * w.base_dilation + 1 - w.window_dilation
