"""Convolutions: cut along batch, features and groups; summed over input features."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.factors import Chosen, Factors, by_factors
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.value import Value


@partitions("convolution")
def convolution(walk: Walk, i: Instruction) -> Sequence[Value]:
    a = i.attrs
    lhs, rhs = [x.shape for x in i.operands]
    f, groups, batch_groups = _factors(i)

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        n = a.dim_labels
        zero = walk.b.zero(lhs.dtype)
        features = (n.input_feature_dimension, n.kernel_input_feature_dimension)
        for k, (of, d) in enumerate(zip((lhs, rhs), features)):
            parts[k] = walk.b.masked(parts[k], of, chosen.operands[k], (d,), zero)
        counts = {
            "feature_group_count": a.feature_group_count // _tiles(walk, chosen, groups),
            "batch_group_count": a.batch_group_count // _tiles(walk, chosen, batch_groups),
        }
        return [walk.b.emit_like(i, parts, walk.local_shape(i.shape, chosen.results), **counts)]

    return by_factors(walk, i, f, emit)


def _tiles(walk: Walk, chosen: Chosen, factor: int | None) -> int:
    return 1 if factor is None else walk.mesh.count(chosen.axes.get(factor, ()))


def _factors(i: Instruction) -> tuple[Factors, int | None, int | None]:
    """The factors, and which of them count the feature groups and the batch groups."""
    a, n = i.attrs, i.attrs.dim_labels
    lhs, rhs = [x.shape.dims for x in i.operands]
    f = Factors([], [], [])
    groups = f.new(a.feature_group_count) if a.feature_group_count > 1 else None
    batch_groups = f.new(a.batch_group_count) if a.batch_group_count > 1 else None
    batch = f.new(lhs[n.input_batch_dimension] // a.batch_group_count)
    inner = f.new(rhs[n.kernel_input_feature_dimension])
    f.reduced.add(inner)
    outer = groups if groups is not None else batch_groups
    count = max(a.feature_group_count, a.batch_group_count)
    output = f.new(rhs[n.kernel_output_feature_dimension] // count)

    def several(*factors: int | None) -> tuple[int, ...]:
        return tuple([k for k in factors if k is not None])

    of_lhs = {
        n.input_batch_dimension: several(batch_groups, batch),
        n.input_feature_dimension: several(groups, inner),
    }
    of_rhs = {
        n.kernel_input_feature_dimension: (inner,),
        n.kernel_output_feature_dimension: several(outer, output),
    }
    of_out = {
        n.output_batch_dimension: (batch,),
        n.output_feature_dimension: several(outer, output),
    }
    sides = ((of_lhs, lhs), (of_rhs, rhs), (of_out, i.shape.dims))
    for of, dims in sides:
        for d, size in enumerate(dims):
            if d not in of:
                new = f.new(size)
                f.whole.add(new)
                of[d] = (new,)
    made = [tuple([of[d] for d in range(len(dims))]) for of, dims in sides]
    f.operands, f.results = made[:2], made[2:]
    return f, groups, batch_groups
