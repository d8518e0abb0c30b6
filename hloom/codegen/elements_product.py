"""Dots and convolutions as loops: for small ones inside other kernels, and for odd cases."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.codegen.affine import ZERO, Affine
from hloom.codegen.blocked_fold import sum_restart
from hloom.codegen.elements import ELEMENT, Elements, Index
from hloom.codegen.elements_data import both, choose, lanes_of
from hloom.codegen.elements_window import window_position
from hloom.codegen.fold import nest
from hloom.codegen.row_products import accumulator_type, multiply_add, row_product
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value


@ELEMENT.of("dot")
def dot(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    """A dot as a loop over what it contracts: for small ones inside other kernels."""
    a = i.attrs
    lhs, rhs = i.operands
    batch = index[: len(a.lhs_batch_dims)]
    left = [
        d for d in range(lhs.shape.rank) if d not in (*a.lhs_batch_dims, *a.lhs_contracting_dims)
    ]
    right = [
        d for d in range(rhs.shape.rank) if d not in (*a.rhs_batch_dims, *a.rhs_contracting_dims)
    ]
    at, bt = [ZERO] * lhs.shape.rank, [ZERO] * rhs.shape.rank
    for d, x in zip(a.lhs_batch_dims, batch):
        at[d] = x
    for d, x in zip(a.rhs_batch_dims, batch):
        bt[d] = x
    rest = index[len(batch) :]
    for d, x in zip(left, rest[: len(left)]):
        at[d] = x
    for d, x in zip(right, rest[len(left) :]):
        bt[d] = x
    by_rows = row_product(e, i, (tuple(at), tuple(bt)), mask)
    if by_rows is not None:
        return by_rows
    extents = [lhs.shape.dims[d] for d in a.lhs_contracting_dims]
    of = accumulator_type(i.shape.dtype)

    def products(position: Sequence[Affine], total: Value) -> Sequence[Value]:
        for d, e_, x in zip(a.lhs_contracting_dims, a.rhs_contracting_dims, position):
            at[d], bt[e_] = x, x
        x = e.builder.convert(e.value(lhs, tuple(at), mask), of)
        y = e.builder.convert(e.value(rhs, tuple(bt), mask), of)
        return [multiply_add(e, x, y, total)]

    zero = e.builder.constant(of, 0, lanes_of(e, index, mask))
    if 0 in extents:
        return e.builder.convert(zero, i.shape.dtype)
    [total] = nest(e, extents, [zero], products, sum_restart(e, [zero]))
    return e.builder.convert(total, i.shape.dtype)


@ELEMENT.of("convolution")
def convolution(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    """A convolution as loops over window and input features: the form for every case."""
    lhs, rhs = i.operands
    a = i.attrs
    labels = a.dim_labels
    dims = a.window.dimensions
    spatial = len(dims)
    out_feature = index[labels.output_feature_dimension]
    features = rhs.shape.dims[labels.kernel_input_feature_dimension]
    outputs = rhs.shape.dims[labels.kernel_output_feature_dimension]
    of = accumulator_type(i.shape.dtype)
    out_spatial = tuple([index[d] for d in labels.output_spatial_dimensions])
    sizes = [lhs.shape.dims[d] for d in labels.input_spatial_dimensions]
    batch = index[labels.output_batch_dimension]
    base = ZERO
    if a.feature_group_count > 1:
        group = e.indices.quotient(out_feature, outputs // a.feature_group_count)
        base = group.times(features)
    if a.batch_group_count > 1:
        group = e.indices.quotient(out_feature, outputs // a.batch_group_count)
        per_group = lhs.shape.dims[labels.input_batch_dimension] // a.batch_group_count
        batch = batch.plus(group.times(per_group))

    def products(position: Sequence[Affine], total: Value) -> Sequence[Value]:
        offsets, k = position[:spatial], position[spatial]
        where, inside = window_position(e, out_spatial, offsets, dims, sizes)
        both_masks = both(e, mask, inside)
        at, bt = [ZERO] * lhs.shape.rank, [ZERO] * rhs.shape.rank
        at[labels.input_batch_dimension] = batch
        at[labels.input_feature_dimension] = base.plus(k)
        bt[labels.kernel_input_feature_dimension] = k
        bt[labels.kernel_output_feature_dimension] = out_feature
        for n, (d, s) in enumerate(
            zip(labels.input_spatial_dimensions, labels.kernel_spatial_dimensions)
        ):
            at[d] = where[n]
            reversed_ = dims[n].window_reversal
            bt[s] = offsets[n].times(-1).plus(dims[n].size - 1) if reversed_ else offsets[n]
        x = e.builder.convert(e.value(lhs, tuple(at), both_masks), of)
        if inside is not None:
            x = choose(e, inside, x, e.builder.constant(of, 0))
        y = e.builder.convert(e.value(rhs, tuple(bt), mask), of)
        return [multiply_add(e, x, y, total)]

    zero = e.builder.constant(of, 0, lanes_of(e, index, mask))
    extents = [w.size for w in dims] + [features]
    if 0 in extents or 0 in lhs.shape.dims:
        return e.builder.convert(zero, i.shape.dtype)
    [total] = nest(e, extents, [zero], products, sum_restart(e, [zero]))
    return e.builder.convert(total, i.shape.dtype)
