"""Convolutions: cut along batch, features and groups, along images with halos; summed over input
features, and over images whose kernel is an image too (gradients of weights)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloom.ir.instruction import Instruction
from hloom.ir.values.window import Window
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.halo import Halo, read
from hloom.passes.partition.moves import cut_halos, local
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.value import TiledValue
from hloom.passes.partition.windows import local_window, window_halo


@partitions("convolution")
def convolution(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    f, labels = Loops.of(i), i.attrs.dim_labels
    summed = _image_halos(i, f)

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        parts, windows = list(parts), list(i.attrs.window.dimensions)
        b, zero = walk.b, walk.b.zero(i.operands[0].shape.dtype)
        for h, axes in cut_halos(walk, f, chosen):
            parts[0] = read(b, parts[0], h, axes, zero)
            k = labels.input_spatial_dimensions.index(h.dimension)
            windows[k] = local_window(windows[k], h, walk.mesh.count(axes))
            if k in summed:
                d = labels.kernel_spatial_dimensions[k]
                windows[k] = replace(windows[k], size=parts[1].shape.dims[d])
        features = (labels.input_feature_dimension, labels.kernel_input_feature_dimension)
        parts[0] = b.masked(parts[0], i.operands[0].shape, chosen.operands[0], features[:1], zero)
        beyond = [labels.kernel_spatial_dimensions[k] for k in summed] + [features[1]]
        parts[1] = b.masked(
            parts[1],
            i.operands[1].shape,
            chosen.operands[1],
            beyond,
            b.zero(i.operands[1].shape.dtype),
        )
        changed = _counts(walk, i, f, chosen) | {"window": Window(tuple(windows))}
        return [b.emit_like(i, parts, local(walk, i, chosen), **changed)]

    return by_factors(walk, i, f, emit)


def _image_halos(i: Instruction, f: Loops) -> set[int]:
    """Say what parts of images read; the spatial dimensions that are summed over come back."""
    labels, lhs = i.attrs.dim_labels, i.operands[0].shape.dims
    summed: set[int] = set()
    for k, w in enumerate(i.attrs.window.dimensions):
        d, out = labels.input_spatial_dimensions[k], labels.output_spatial_dimensions[k]
        (factor,) = f.operands[0][d]
        size = i.shape.dims[out]
        if factor in f.operands[1][labels.kernel_spatial_dimensions[k]]:
            # The kernel's elements are what is cut: each meets `size` places of the image.
            span = (size - 1) * w.stride + 1
            steps = (w.size, w.window_dilation, -w.padding_low, span, w.base_dilation)
            f.moves(factor, Halo(0, d, lhs[d], *steps))
            summed.add(k)
        elif not w.is_trivial and f.results[0][out] == (factor,):
            f.moves(factor, window_halo(0, d, lhs[d], size, w))
    return summed


def _counts(walk: Walk, i: Instruction, f: Loops, chosen: Chosen) -> dict[str, int]:
    """The groups that a device has: the first factor of a dimension that has groups."""
    n, a = i.attrs.dim_labels, i.attrs

    def left(count: int, d: int) -> int:
        return (
            count // walk.mesh.count(chosen.axes.get(f.operands[0][d][0], ()))
            if count > 1
            else count
        )

    return {
        "feature_group_count": left(a.feature_group_count, n.input_feature_dimension),
        "batch_group_count": left(a.batch_group_count, n.input_batch_dimension),
    }
