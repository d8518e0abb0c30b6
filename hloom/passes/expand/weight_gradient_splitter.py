"""Gradients of few weights over many images, in parts that threads share.

The gradient of a depthwise convolution has a few weights for each channel, each a sum over all
images: one thread would go through everything for a few channels at a time, taking a little of
every line of memory. Here the images are cut in parts, whose gradients are added in the end. A
part is a dimension that both operands and the result share (`analysis/shared_window.py`).

    conv(x: [n, h, w, c], g: [n, h, w, c])  =>  reduce(conv(x: [s, n/s, h, w, c], ...), over s)
"""

from __future__ import annotations

from dataclasses import replace

from hloom.analysis.fusible import is_row_major
from hloom.analysis.shared_window import is_shared, shared_window
from hloom.ir.instruction import Instruction
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.window import Window
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.split_k_rewriter import MOST_NARROW, MOST_RESULTS
from hloom.passes.expand.tree_reduction_rewriter import COSTS
from hloom.passes.layout.layout_normalization import row_major_inside
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class WeightGradientSplitter(Expander):
    """Cut the images of convolutions that are gradients of few weights."""

    name = "weight-gradient-splitter"
    needs = (row_major_inside,)
    opcodes = frozenset(["convolution"])

    most_parts: int = 16
    """Of the images: more would be more sums to add up than there are threads for."""
    most_channels: int = 512
    """With more there are enough for every thread, and wide enough rows of them."""
    least_bytes: int = COSTS.parallel_bytes
    """Less is done before other threads have woken up."""

    def wants(self, i: Instruction) -> bool:
        return i.attrs.convolution_kind == "wgrad" or i.attrs.batch_group_count != 1

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, y = i.operands
        labels, dims = i.attrs.dim_labels, i.attrs.window.dimensions
        if not all(map(_is_plain, (x, y, i))) or i.has_control_edges:
            return None
        if not i.shape.dtype.is_floating or i.shape.dtype.bits < 32:
            return None
        if i.attrs.feature_group_count != 1 or any(map(is_shared, dims)) or not self._is_narrow(i):
            return None
        images = x.shape.dims[labels.input_feature_dimension]
        parts = max([n for n in range(1, self.most_parts + 1) if images % n == 0])
        if parts == 1 or x.shape.size_bytes + y.shape.size_bytes < self.least_bytes:
            return None
        if parts * i.shape.size * 4 > x.shape.size + y.shape.size:
            return None
        left, right = labels.input_feature_dimension, labels.kernel_input_feature_dimension
        cut = _cut(b, x, left, parts), _cut(b, y, right, parts)
        of = shape(i.shape.dtype, (parts, *i.shape.dims)).with_default_layouts()
        partial = b.like(i, *cut, shape=of)
        partial.attrs = replace(
            i.attrs,
            window=Window((shared_window(parts), *dims)),
            dim_labels=_labels(labels),
        )
        return b.total(partial, (0,))

    def _is_narrow(self, i: Instruction) -> bool:
        """Whether there are too few weights for threads to share, or one for each channel."""
        columns = i.shape.dims[i.attrs.dim_labels.output_feature_dimension]
        if i.attrs.batch_group_count != 1:
            return i.attrs.batch_group_count == columns <= self.most_channels
        rows = i.shape.size // columns
        return min(rows, columns) <= MOST_NARROW and rows * columns <= MOST_RESULTS


def _is_plain(i: Instruction) -> bool:
    s = i.shape
    return s.is_array and s.is_static and s.has_layout and is_row_major(s) and s.size > 0


def _cut(b: Expansion, x: Instruction, at: int, parts: int) -> Instruction:
    dims = x.shape.dims
    return b.reshaped(x, [*dims[:at], parts, dims[at] // parts, *dims[at + 1 :]])


def _labels(of: ConvolutionDimensions) -> ConvolutionDimensions:
    """With the parts as the first spatial dimension: before the images, and first in the result."""
    left, right = of.input_feature_dimension, of.kernel_input_feature_dimension

    def behind(d: int, at: int) -> int:
        return d + 1 if d >= at else d

    return ConvolutionDimensions(
        behind(of.input_batch_dimension, left),
        left + 1,
        (left, *[behind(d, left) for d in of.input_spatial_dimensions]),
        right + 1,
        behind(of.kernel_output_feature_dimension, right),
        (right, *[behind(d, right) for d in of.kernel_spatial_dimensions]),
        of.output_batch_dimension + 1,
        of.output_feature_dimension + 1,
        (0, *[d + 1 for d in of.output_spatial_dimensions]),
    )
