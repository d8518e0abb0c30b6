"""What each operation means on arrays of bounds with run-time sizes.

A rule gets the instruction and its operands as `Sized`; it returns the result as `Sized`. Sizes of
dimensions that the instruction's shape calls static are dropped by the caller, and those it calls
dynamic and nobody knows are their bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloom.base.registry import Registry
from hloom.ir.instruction import Instruction
from hloom.ir.values.window import WindowDimension
from hloom.passes.expand.dynamic_values import Masks, Sized, Sizes, static_shape
from hloom.passes.expand.expansion import refuse
from hloom.types.shape import Shape

Rule = Callable[[Masks, Instruction, list[Sized]], Sized]
RULES: Registry[str, Rule] = Registry("rule for dynamic shapes", ("hloom.passes.expand",))


def again(m: Masks, i: Instruction, *operands: Instruction) -> Instruction:
    """The same operation on static operands, with the bounds of its shape."""
    return m.b.like(i, *operands, shape=static_shape(i.shape).with_default_layouts())


def values(operands: list[Sized]) -> list[Instruction]:
    return [o.value for o in operands]


def pointwise(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """Elementwise: in each dimension the least run-time size that is not 1; where there is one
    element and others have more, it is repeated. (`interp/dynamic_sizes.py` has all rules.)"""
    b, operand_values, sizes = m.b, values(operands), {}
    for d in dict.fromkeys(d for o in operands for d in o.sizes):
        known = list(dict.fromkeys(o.sizes[d] for o in operands if d in o.sizes))
        size = known[0]
        for other in known[1:]:
            least = b.select(_is_one(m, other), size, b.minimum(size, other))
            size = b.select(_is_one(m, size), other, least)
        sizes[d] = size
        for k, o in enumerate(operands):
            if len(known) > 1 and d in o.sizes and operand_values[k].shape.dims[d] > 1:
                repeat = b.and_(_is_one(m, o.sizes[d]), b.compared(size, m.number(1), "GT"))
                operand_values[k] = _repeated(m, operand_values[k], d, repeat)
    return Sized(again(m, i, *operand_values), sizes)


def least(m: Masks, operands: list[Sized], dims: list[int]) -> Instruction | None:
    """The least run-time size of dimensions (one of each operand) that are walked together."""
    size: Instruction | None = None
    for n in dict.fromkeys(o.sizes[d] for o, d in zip(operands, dims, strict=True) if d in o.sizes):
        size = n if size is None else m.b.minimum(size, n)
    return size


def least_sizes(m: Masks, operands: list[Sized], but: int | None = None) -> Sizes:
    """The run-time sizes of arrays that are walked together, `but` in one dimension."""
    dims = dict.fromkeys(d for o in operands for d in o.sizes if d != but)
    least_sizes_ = {d: least(m, operands, [d] * len(operands)) for d in dims}
    return {d: size for d, size in least_sizes_.items() if size is not None}


def _is_one(m: Masks, size: Instruction) -> Instruction:
    return m.b.compared(size, m.number(1), "EQ")


def _repeated(m: Masks, x: Instruction, d: int, condition: Instruction) -> Instruction:
    """The array, all along a dimension its first element where the condition (a scalar) holds."""
    b, dims = m.b, x.shape.dims
    others = [k for k in range(len(dims)) if k != d]
    first = b.reshaped(b.sliced(x, d, 0, 1), [dims[k] for k in others])
    return b.select(b.spread(condition, dims), b.spread(first, dims, others), x)


@RULES.of("broadcast")
def broadcast(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    (x,) = operands
    at = i.attrs.dimensions
    return Sized(again(m, i, x.value), {at[d]: size for d, size in x.sizes.items()})


@RULES.of("transpose")
def transpose(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    (x,) = operands
    order = i.attrs.dimensions
    sizes = {k: x.sizes[d] for k, d in enumerate(order) if d in x.sizes}
    return Sized(again(m, i, x.value), sizes)


@RULES.of("set-dimension-size")
def set_dimension_size(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    x, size = operands
    return Sized(x.value, {**x.sizes, i.attrs.dimensions[0]: m.b.reshaped(size.value, ())})


@RULES.of("get-dimension-size")
def get_dimension_size(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    return Sized(m.size(operands[0], i.attrs.dimensions[0]))


@RULES.of("slice")
def slice_(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    b, (x,) = m.b, operands
    sizes: Sizes = {}
    for d, size in x.sizes.items():
        r = i.attrs.slice.dimensions[d]
        if (r.start, r.limit, r.stride) == (0, x.value.shape.dims[d], 1):
            sizes[d] = size
            continue
        end = b.minimum(size, m.number(r.limit))
        room = b.maximum(b.subtract(end, m.number(r.start)), m.number(0))
        stride = min(r.stride, max(x.value.shape.dims[d], 1))  # more reach the first just as well
        up = b.add(room, m.number(stride - 1))
        sizes[d] = b.divide(up, m.number(stride)) if stride > 1 else room
    return Sized(again(m, i, x.value), sizes)


@RULES.of("dynamic-slice")
def dynamic_slice(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    x, *starts = operands
    slice_sizes = i.attrs.dynamic_slice_sizes
    sizes = {d: s for d, s in x.sizes.items() if slice_sizes[d] == x.value.shape.dims[d]}
    return Sized(again(m, i, x.value, *values(starts)), sizes)


@RULES.of("dynamic-update-slice")
def dynamic_update_slice(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """Only elements that the update has are written; starts are clamped by its run-time size."""
    b, (x, update, *starts) = m.b, operands
    at = values(starts)
    if not update.sizes:
        return Sized(again(m, i, x.value, update.value, *at), dict(x.sizes))
    whole, sizes = x.value.shape.dims, update.value.shape.dims
    wide = x.value
    for d in update.sizes:  # room behind, so that the bound of the update lies inside
        rest = b.full(
            0, wide.shape.dtype, [sizes[d] if k == d else n for k, n in enumerate(wide.shape.dims)]
        )
        wide = b.joined([wide, rest], d)
        dtype = at[d].shape.dtype
        last = b.subtract(m.number(whole[d]), update.sizes[d])
        clamped = b.minimum(at[d], b.converted(last, dtype))
        at[d] = b.maximum(clamped, b.scalar(0, dtype))
    old = b.emit("dynamic-slice", wide, *at, dynamic_slice_sizes=sizes)
    inside = m.valid(update)
    assert inside is not None
    part = b.select(inside, update.value, old)
    updated = b.emit("dynamic-update-slice", wide, part, *at)
    updated = b.cut(updated, [(0, n, 1) for n in whole])
    return Sized(updated, dict(x.sizes))


@RULES.of("concatenate")
def concatenate(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """Each operand is written behind the run-time ends of those before, over their garbage."""
    axis = i.attrs.dimensions[0]
    sizes = least_sizes(m, operands, but=axis)
    if not any(axis in o.sizes for o in operands):
        return Sized(again(m, i, *values(operands)), sizes)
    joined_, end = concatenate_into(m, i.shape, axis, operands)
    return Sized(joined_, {**sizes, axis: end})


def concatenate_into(
    m: Masks, of: Shape, axis: int, parts: Sequence[Sized]
) -> tuple[Instruction, Instruction]:
    """The elements of all parts behind one another, in an array of this shape; and their end."""
    b = m.b
    joined_ = b.full(0, of.dtype, of.dims)
    end = zero = m.number(0)
    for x in parts:
        at = [end if d == axis else zero for d in range(of.rank)]
        joined_ = b.emit("dynamic-update-slice", joined_, x.value, *at)
        end = b.add(end, m.size(x, axis))
    return joined_, end


@RULES.of("pad")
def pad(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    b, (x, fill) = m.b, operands
    sizes: Sizes = {}
    padded = []
    for d, size in x.sizes.items():
        p = i.attrs.padding.dimensions[d]
        low, high, between = p.edge_padding_low, p.edge_padding_high, p.interior_padding
        if (low, high, between) == (0, 0, 0):
            sizes[d] = size
            continue
        padded.append(d)
        new = size
        if between:
            gaps = b.maximum(b.subtract(size, m.number(1)), m.number(0))
            new = b.add(size, b.multiply(gaps, m.number(between)))
        sizes[d] = b.maximum(b.add(new, m.number(low + high)), m.number(0))
    return Sized(again(m, i, m.masked(x, fill.value, padded), fill.value), sizes)


@RULES.of("reverse")
def reverse(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """Reversed within bounds, then moved so that the elements come first."""
    b, (x,) = m.b, operands
    reversed_ = again(m, i, x.value)
    for d, size in x.sizes.items():
        if d in i.attrs.dimensions:
            start = b.subtract(m.number(reversed_.shape.dims[d]), size)
            reversed_ = m.shifted(reversed_, d, start)
    return Sized(reversed_, dict(x.sizes))


def several(m: Masks, instruction: Instruction, sizes: Sizes) -> Sized:
    """A result of which every element, if it is a tuple, has these sizes."""
    if not instruction.shape.is_tuple:
        return Sized(instruction, sizes)
    parts = [
        Sized(m.b.element(instruction, k), sizes) for k in range(len(instruction.shape.elements))
    ]
    return Sized(instruction, {}, parts)


def window_size(m: Masks, d: WindowDimension, size: Instruction) -> Instruction:
    """How many positions a window has over a base of run-time size."""
    b = m.b
    if d.base_dilation != 1:
        gaps = b.maximum(b.subtract(size, m.number(1)), m.number(0))
        size = b.add(size, b.multiply(gaps, m.number(d.base_dilation - 1)))
    room = b.add(size, m.number(d.padding_low + d.padding_high - d.dilated_size()))
    steps = b.divide(room, m.number(d.stride)) if d.stride > 1 else room
    count = b.add(steps, m.number(1))
    return b.select(b.compared(room, m.number(0), "GE"), count, m.number(0))


@RULES.of("dot")
def dot(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    x, y = operands
    a = i.attrs
    lhs, rhs = _masked_together(m, x, y, a.lhs_contracting_dims, a.rhs_contracting_dims)
    sizes: Sizes = {}
    place = 0
    for d, e in zip(a.lhs_batch_dims, a.rhs_batch_dims, strict=True):
        size = least(m, operands, [d, e])
        if size is not None:
            sizes[place] = size
        place += 1
    for o, batch, gone in (
        (x, a.lhs_batch_dims, a.lhs_contracting_dims),
        (y, a.rhs_batch_dims, a.rhs_contracting_dims),
    ):
        for d in range(o.value.shape.rank):
            if d in batch or d in gone:
                continue
            if d in o.sizes:
                sizes[place] = o.sizes[d]
            place += 1
    return Sized(again(m, i, lhs, rhs), sizes)


def _masked_together(
    m: Masks, x: Sized, y: Sized, left: Sequence[int], right: Sequence[int]
) -> tuple[Instruction, Instruction]:
    """Both operands with zeros where one has no element to be summed: no infinity, which only the
    other has, meets a zero."""
    for_x, for_y = dict(x.sizes), dict(y.sizes)
    for d, e in zip(left, right, strict=True):
        size = least(m, [x, y], [d, e])
        if size is not None:
            for_x[d] = for_y[e] = size
    lhs = m.masked(Sized(x.value, for_x), None, left)
    return lhs, m.masked(Sized(y.value, for_y), None, right)


@RULES.of("convolution")
def convolution(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """The batch, and spatial dimensions of the base, may have run-time sizes; also features
    that are summed over."""
    (x, y), labels = operands, i.attrs.dim_labels
    features = labels.kernel_output_feature_dimension
    if any(d in y.sizes for d in labels.kernel_spatial_dimensions) or (
        i.attrs.feature_group_count * i.attrs.batch_group_count != 1
        and (labels.input_feature_dimension in x.sizes or features in y.sizes)
    ):
        raise refuse(i, "no code is made for windows or groups of run-time size", "dynamic-shape")
    sizes: Sizes = {}
    if labels.input_batch_dimension in x.sizes:
        if i.attrs.batch_group_count != 1:
            raise refuse(i, "batch groups need a static batch", "dynamic-shape")
        sizes[labels.output_batch_dimension] = x.sizes[labels.input_batch_dimension]
    if features in y.sizes:
        sizes[labels.output_feature_dimension] = y.sizes[features]
    places = zip(
        labels.input_spatial_dimensions,
        labels.output_spatial_dimensions,
        i.attrs.window.dimensions,
        strict=True,
    )
    for d, out, row in places:
        if d in x.sizes:
            sizes[out] = window_size(m, row, x.sizes[d])
    spatial = {d: s for d, s in x.sizes.items() if d in labels.input_spatial_dimensions}
    x = Sized(m.masked(Sized(x.value, spatial)), x.sizes)
    summed = [labels.input_feature_dimension], [labels.kernel_input_feature_dimension]
    if i.attrs.feature_group_count * i.attrs.batch_group_count != 1:
        y = Sized(m.masked(y, None, summed[1]), y.sizes)
        summed = [], []
    lhs, rhs = _masked_together(m, x, y, *summed)
    return Sized(again(m, i, lhs, rhs), sizes)
