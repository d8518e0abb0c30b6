"""Every convolution in one of two forms (`conv_forms.py`), or as a dot.

What is done, in this order:

1. operands get one type (`product_types`), reversed windows become `reverse` of the kernel;
2. a window of one element, or of the whole base, is a dot over channels, and so is any window on a
   base of one element;
3. the gradient of weights keeps its operands as they lie and is marked;
4. other dimension orders become transposes, batch groups become feature groups: the groups of the
   batch move in front of the channels;
5. base dilation (a transposed convolution) is taken apart: result element q*d + r meets only the
   kernel elements that fall on a base element, every d-th, so the result is d^rank interleaved
   convolutions with a part of the kernel each, none of which multiplies by inserted zeros. Where
   d divides the kernel's size they are one convolution with d^rank times the features.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product as all_of
from math import prod

from hloom.ir.instruction import Instruction
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.padding import Padding
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.expand.conv_forms import (
    WGRAD,
    computes_far_more,
    forward_labels,
    gradient_labels,
    has_equal_phases,
    is_canonical,
    is_of_points,
    is_phased,
    is_point_like,
    is_weight_gradient,
    splits_into_phases,
)
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.expansion import Expander, Expansion, refuse
from hloom.passes.expand.product_types import product_types
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register
from hloom.types.dtype import DType
from hloom.types.shape import shape

Dims = tuple[int, ...]


def _order(named: tuple[int, ...], spatial: Dims, at: tuple[int, ...], inner: Dims) -> Dims:
    """The permutation that brings dimensions `named` and `spatial` to places `at` and `inner`."""
    order = [0] * (len(named) + len(spatial))
    for d, place in zip((*named, *spatial), (*at, *inner), strict=True):
        order[place] = d
    return tuple(order)


def brought_to(
    b: Expansion, x: Instruction, y: Instruction, old: ConvolutionDimensions, new
) -> tuple[Instruction, Instruction]:
    """Both operands with their dimensions as the labels `new` say."""
    lhs = _order(
        (old.input_batch_dimension, old.input_feature_dimension),
        old.input_spatial_dimensions,
        (new.input_batch_dimension, new.input_feature_dimension),
        new.input_spatial_dimensions,
    )
    rhs = _order(
        (old.kernel_input_feature_dimension, old.kernel_output_feature_dimension),
        old.kernel_spatial_dimensions,
        (new.kernel_input_feature_dimension, new.kernel_output_feature_dimension),
        new.kernel_spatial_dimensions,
    )
    return b.transposed(x, lhs), b.transposed(y, rhs)


def brought_back(b: Expansion, y: Instruction, made_labels, labels) -> Instruction:
    """A result with the dimensions of `made_labels` as `wanted` says."""
    order = _order(
        (made_labels.output_batch_dimension, made_labels.output_feature_dimension),
        made_labels.output_spatial_dimensions,
        (labels.output_batch_dimension, labels.output_feature_dimension),
        labels.output_spatial_dimensions,
    )
    return b.transposed(y, order)


def convolved(
    b: Expansion, i: Instruction, x: Instruction, y: Instruction, dtype: DType, **attributes
) -> Instruction:
    """A convolution with the annotations of `i`, of these operands and attributes."""
    convolution = b.emit(
        "convolution", x, y, operand_precision=i.attrs.operand_precision, **attributes
    )
    convolution.shape = shape(dtype, convolution.shape.dims).with_default_layouts()
    convolution.backend_config = i.backend_config
    return convolution


def as_dot(b: Expansion, i: Instruction, x: Instruction, y: Instruction, dtype: DType):
    """The result [b, spatial..., f] of a window of one element, or of the whole base."""
    rows, rank = i.attrs.window.dimensions, i.attrs.window.rank
    if all(d.size == 1 for d in rows):
        ranges = [(0, size, 1) for size in x.shape.dims]
        for axis, d in enumerate(rows, start=1):
            ranges[axis] = (-d.padding_low, x.shape.dims[axis] + d.padding_high, d.stride)
        x = b.cut(x, ranges)
        y = b.reshaped(y, y.shape.dims[rank:])
        lhs_dims, rhs_dims = (rank + 1,), (0,)
    else:
        lhs_dims, rhs_dims = tuple(range(1, rank + 2)), tuple(range(rank + 1))
    # No dimensions are merged here: orders can still be chosen, and the dot-decomposer merges.
    free = tuple(d for d in range(rank + 2) if d not in lhs_dims)
    features = y.shape.dims[-1]
    dot = b.emit(
        "dot",
        x,
        y,
        shape=shape(dtype, (*(x.shape.dims[d] for d in free), features)),
        lhs_contracting_dims=lhs_dims,
        rhs_contracting_dims=rhs_dims,
        operand_precision=i.attrs.operand_precision,
    )
    if len(free) == rank + 1:
        return dot
    return b.reshaped(dot, (x.shape.dims[0], *(1 for _ in rows), features))


def as_spread_dot(b: Expansion, i: Instruction, x: Instruction, y: Instruction, dtype: DType):
    """The result [b, spatial..., f] for images of one element: that times the whole kernel, which
    meets it from its last place to its first."""
    rows, rank = i.attrs.window.dimensions, i.attrs.window.rank
    out = [i.shape.dims[d] for d in i.attrs.dim_labels.output_spatial_dimensions]
    # Result element o meets place `padding_low - o` of the kernel, where there is such a place.
    lows = [max(0, d.padding_low - d.size + 1) for d in rows]
    highs = [min(n, d.padding_low + 1) for n, d in zip(out, rows, strict=True)]
    if any(low >= high for low, high in zip(lows, highs, strict=True)):
        return b.full(0, dtype, (x.shape.dims[0], *out, y.shape.dims[-1]))
    ranges = [(0, size, 1) for size in y.shape.dims]
    for axis, (d, low, high) in enumerate(zip(rows, lows, highs, strict=True)):
        ranges[axis] = (d.padding_low - high + 1, d.padding_low - low + 1, 1)
    y = b.cut(y, ranges)
    turned = tuple(axis for axis in range(rank) if y.shape.dims[axis] > 1)
    y = b.emit("reverse", y, dimensions=turned) if turned else y
    x = b.reshaped(x, (x.shape.dims[0], x.shape.dims[-1]))
    sizes = (x.shape.dims[0], *y.shape.dims[:rank], y.shape.dims[-1])
    dot = b.emit(
        "dot",
        x,
        y,
        shape=shape(dtype, sizes),
        lhs_contracting_dims=(1,),
        rhs_contracting_dims=(rank,),
        operand_precision=i.attrs.operand_precision,
    )
    around = zip(lows, highs, out, strict=True)
    beside = [(low, n - high, 0) for low, high, n in around]
    padding = Padding.of((0, 0, 0), *beside, (0, 0, 0))
    return dot if padding.is_none else b.emit("pad", dot, b.scalar(0, dtype), padding=padding)


def as_gradient(b: Expansion, i: Instruction, x: Instruction, y: Instruction, dtype: DType):
    """The result, under the labels of `i`, as a gradient of weights."""
    labels = gradient_labels(i.attrs.window.rank)
    x, y = brought_to(b, x, y, i.attrs.dim_labels, labels)
    gradient = convolved(
        b,
        i,
        x,
        y,
        dtype,
        window=i.attrs.window,
        dim_labels=labels,
        batch_group_count=i.attrs.batch_group_count,
        convolution_kind=WGRAD,
    )
    return brought_back(b, gradient, labels, i.attrs.dim_labels)


def in_its_form(b: Expansion, convolution: Instruction) -> Instruction:
    """A forward form that was made, as a dot or gradient where it is one now: parts of a kernel
    are smaller, and reversed windows have gone."""
    x, y = convolution.operands
    if is_point_like(convolution):
        return as_dot(b, convolution, x, y, convolution.shape.dtype)
    if is_of_points(convolution):
        return as_spread_dot(b, convolution, x, y, convolution.shape.dtype)
    if is_weight_gradient(convolution):
        return as_gradient(b, convolution, x, y, convolution.shape.dtype)
    return convolution


def with_feature_groups(b: Expansion, x: Instruction, batches: int, features: int) -> Instruction:
    """lhs [b, spatial..., f] with its batch groups moved in front of the features, group by group
    as result features are ordered."""
    n, *inner, f = x.shape.dims
    rank = len(inner)
    x = b.reshaped(x, (batches, n // batches, *inner, f))
    x = b.transposed(x, (*range(1, rank + 2), 0, rank + 2))
    return b.reshaped(x, (n // batches, *inner, batches * f))


def in_phases(b: Expansion, i: Instruction, x, y, dtype: DType, groups: int) -> Instruction:
    """The result [b, spatial..., f] of a forward form with base dilation, phase by phase."""
    rows = i.attrs.window.dimensions
    labels = i.attrs.dim_labels
    sizes = [i.shape.dims[d] for d in labels.output_spatial_dimensions]
    steps = [d.base_dilation if is_phased(d) else 1 for d in rows]
    each = [-(-n // s) for n, s in zip(sizes, steps, strict=True)]
    parts: dict[Dims, Instruction] = {}
    for phase in all_of(*(range(s) for s in steps)):
        part = _one_phase(b, i, x, y, dtype, groups, phase, each)
        spaced = [part.shape.dims[0]]
        for n in each:
            spaced += [n, 1]
        parts[phase] = b.reshaped(part, (*spaced, part.shape.dims[-1]))
    for axis in range(len(steps) - 1, -1, -1):
        heads = dict.fromkeys(phase[:axis] for phase in parts)
        parts = {
            head: b.joined([parts[*head, r] for r in range(steps[axis])], 2 * axis + 2)
            for head in heads
        }
    whole = parts[()]
    n, f = whole.shape.dims[0], whole.shape.dims[-1]
    whole = b.reshaped(whole, (n, *(q * s for q, s in zip(each, steps, strict=True)), f))
    for axis, size in enumerate(sizes, start=1):
        whole = b.sliced(whole, axis, 0, size)
    return whole


def in_features(b: Expansion, i: Instruction, x: Instruction, y: Instruction, dtype: DType):
    """The result [b, spatial..., f] of a forward form with base dilation; its phases are features.

    Result elements are counted from `before` places in front of the first, so that those of one
    q, `q * s + r - before` for all r < s, meet the same elements of the base.
    """
    rows, rank = i.attrs.window.dimensions, i.attrs.window.rank
    sizes = [i.shape.dims[d] for d in i.attrs.dim_labels.output_spatial_dimensions]
    steps = [d.base_dilation if is_phased(d) else 1 for d in rows]
    before = [-(d.padding_low + 1) % s for d, s in zip(rows, steps, strict=True)]
    each = [-(-(n + t) // s) for n, t, s in zip(sizes, before, steps, strict=True)]
    window: list[WindowDimension] = []
    split: list[int] = []
    for axis, (d, s, t, n) in enumerate(zip(rows, steps, before, each, strict=True)):
        split += [d.size // s, s]
        if s == 1:
            window.append(replace(d, window_reversal=False))
            continue
        low = (t + d.padding_low + 1) // s - 1
        taps = d.size // s
        window.append(WindowDimension(taps, 1, low, n + taps - 1 - x.shape.dims[axis + 1] - low))
    channels, features = y.shape.dims[rank:]
    y = b.reshaped(y, (*split, channels, features))
    turned = tuple(2 * k + 1 for k, s in enumerate(steps) if s > 1)
    y = b.emit("reverse", y, dimensions=turned)
    taps_first = (*range(0, 2 * rank, 2), 2 * rank, *range(1, 2 * rank, 2), 2 * rank + 1)
    y = b.transposed(y, taps_first)
    y = b.reshaped(y, (*split[::2], channels, prod(steps) * features))
    labels = forward_labels(rank)
    convolution = convolved(b, i, x, y, dtype, window=Window(tuple(window)), dim_labels=labels)
    convolution = in_its_form(b, convolution)
    batch = convolution.shape.dims[0]
    convolution = b.reshaped(convolution, (batch, *each, *steps, features))
    between = [d for k in range(rank) for d in (1 + k, 1 + rank + k)]
    convolution = b.transposed(convolution, (0, *between, 2 * rank + 1))
    convolution = b.reshaped(
        convolution, (batch, *(n * s for n, s in zip(each, steps, strict=True)), features)
    )
    for axis, (size, t) in enumerate(zip(sizes, before, strict=True), start=1):
        convolution = b.sliced(convolution, axis, t, t + size)
    return convolution


def _one_phase(
    b: Expansion,
    i: Instruction,
    x: Instruction,
    y: Instruction,
    dtype: DType,
    groups: int,
    phase: Dims,
    each: list[int],
) -> Instruction:
    """Result elements q * dilation + phase, `each` of them in every spatial dimension."""
    window = []
    for axis, (d, r, n) in enumerate(zip(i.attrs.window.dimensions, phase, each, strict=True)):
        base = x.shape.dims[axis + 1]
        if not is_phased(d):  # other dimensions keep their window; the kernel is reversed already
            window.append(replace(d, window_reversal=False))
            continue
        first = (d.padding_low - r) % d.base_dilation
        y = b.sliced(y, axis, min(first, d.size), d.size, d.base_dilation)
        taps = y.shape.dims[axis]
        low = -((r + first - d.padding_low) // d.base_dilation)
        window.append(WindowDimension(taps, 1, low, n + taps - 1 - base - low))
    if any(d.size == 0 for d in window):
        return b.full(0, dtype, (x.shape.dims[0], *each, y.shape.dims[-1]))
    convolution = convolved(
        b,
        i,
        x,
        y,
        dtype,
        window=Window(tuple(window)),
        dim_labels=forward_labels(len(window)),
        feature_group_count=groups,
    )
    return in_its_form(b, convolution)


@register
class ConvolutionCanonicalization(Expander):
    """Bring convolutions to NHWC-HWIO or to the form of a weight gradient, or make them dots."""

    name = "conv-canonicalization"
    breaks = (canonical_dots, no_dead_code)
    opcodes = frozenset(["convolution"])

    most_phases: int = 64
    """Base dilation is taken apart into at most so many convolutions, else it is kept."""

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.shape.is_dynamic or any(o.shape.is_dynamic for o in i.operands):
            return None
        if i.attrs.sparsity_config is not None:
            raise refuse(i, "no code is made for sparse convolutions", "conv-sparsity")
        if is_canonical(i, self.most_phases):
            return None
        a, of = i.attrs, i.shape
        x, y = i.operands
        operands, dtype = product_types(x.shape.dtype, y.shape.dtype, of.dtype)
        x, y = b.converted(x, operands), b.converted(y, operands)
        if 0 in x.shape.dims or 0 in y.shape.dims or 0 in of.dims:
            return b.full(0, of.dtype, of.dims)
        old = a.dim_labels
        rank = a.window.rank
        if is_weight_gradient(i) and not is_point_like(i) and not is_of_points(i):
            return b.converted(as_gradient(b, i, x, y, dtype), of.dtype)
        turned = [
            at
            for at, d in zip(old.kernel_spatial_dimensions, a.window.dimensions, strict=True)
            if d.window_reversal and d.size > 1
        ]
        if turned:
            y = b.reverse(y, dimensions=tuple(sorted(turned)))
        new = forward_labels(rank)
        x, y = brought_to(b, x, y, old, new)
        convolution = self.forward(b, i, x, y, dtype)
        return b.converted(brought_back(b, convolution, new, old), of.dtype)

    def forward(self, b: Expansion, i: Instruction, x: Instruction, y: Instruction, dtype: DType):
        """The result [b, spatial..., f] for operands in NHWC and HWIO."""
        a = i.attrs
        if is_point_like(i):
            return as_dot(b, i, x, y, dtype)
        if is_of_points(i):
            return as_spread_dot(b, i, x, y, dtype)
        groups = a.feature_group_count * a.batch_group_count
        if a.batch_group_count > 1:
            x = with_feature_groups(b, x, a.batch_group_count, a.feature_group_count)
        few = splits_into_phases(i, self.most_phases)
        if has_equal_phases(i) and not (few and computes_far_more(i)):
            return in_features(b, i, x, y, dtype)
        if splits_into_phases(i, self.most_phases):
            return in_phases(b, i, x, y, dtype, groups)
        rows = tuple(replace(d, window_reversal=False) for d in a.window.dimensions)
        convolution = convolved(
            b,
            i,
            x,
            y,
            dtype,
            window=Window(rows),
            dim_labels=forward_labels(a.window.rank),
            feature_group_count=groups,
        )
        return in_its_form(b, convolution)
