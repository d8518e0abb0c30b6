"""Operations that move data: concatenate, pad, slice, reshape and their kin."""

from collections.abc import Sequence
from math import prod

from hloom.ir.infer.compare import (
    braced,
    compatible,
    expect_array,
    expect_dimensions,
    flags,
    higher_precision,
    listed,
    same_kind,
    sizes_fit,
)
from hloom.ir.op import ShapeError
from hloom.ir.values.padding import Padding
from hloom.ir.values.slices import Slices
from hloom.types.dtype import S32
from hloom.types.shape import UNBOUNDED, Shape, shape, tuple_shape

_INT32_MAX = 2**31 - 1
Size = tuple[int, int | None]
"""What is known of a dimension's size: the size, and its bound if it is dynamic."""


def check_broadcast(declared: Shape, x: Shape, dimensions: Sequence[int]) -> None:
    expect_array(x, "the operand of broadcast")
    expect_array(declared, "the result of broadcast")
    if not same_kind(declared.dtype, x.dtype):
        raise ShapeError(f"broadcast keeps the element type, but {x.bare} becomes {declared.bare}")
    if len(dimensions) != x.rank:
        raise ShapeError(f"dimensions={braced(dimensions)} must name {x.rank}, as in {x.bare}")
    for k, d in enumerate(dimensions):
        if not 0 <= d < declared.rank or declared.dims[d] != x.dims[k]:
            raise ShapeError(
                f"dimension {k} of {x.bare} cannot be dimension {d} of {declared.bare}"
            )
    if len(set(dimensions)) != len(dimensions):
        raise ShapeError(f"dimensions={braced(dimensions)} names a dimension twice")


def concatenate(inputs: Sequence[Shape], dimensions: Sequence[int]) -> Shape:
    if not inputs:
        raise ShapeError("concatenate needs at least one operand")
    first = inputs[0]
    expect_array(first, "an operand of concatenate")
    if len(dimensions) != 1 or not 0 <= dimensions[0] < first.rank:
        raise ShapeError(f"dimensions={braced(dimensions)} must name one of {first.bare}")
    along, element_type = dimensions[0], first.dtype
    sizes: list[Size] = [(UNBOUNDED, None)] * first.rank
    sizes[along] = (0, None)
    for x in inputs:
        expect_array(x, "an operand of concatenate")
        if x.rank != first.rank or not same_kind(x.dtype, first.dtype):
            raise ShapeError(f"operands must have one rank and element type: {listed(inputs)}")
        element_type = higher_precision(element_type, x.dtype)
        for d, size in enumerate(x.dims):
            here = (size, size if x.is_dynamic_dim(d) and size != UNBOUNDED else None)
            if d == along:
                sizes[d] = _added(sizes[d], here)
            elif not sizes_fit(size, first.dims[d]):
                raise ShapeError(
                    f"operands may differ only in dimension {along}: {first.bare} and {x.bare}"
                )
            else:
                sizes[d] = _merged(d, sizes[d], here)
    dynamic = [bound is not None or size == UNBOUNDED for size, bound in sizes]
    return shape(element_type, [size for size, _ in sizes], None, dynamic)


def _added(a: Size, b: Size) -> Size:
    """The size of two parts behind each other; a bound spreads, no bound wins."""
    if UNBOUNDED in (a[0], b[0]):
        return UNBOUNDED, None
    total = a[0] + b[0]
    return total, total if a[1] is not None or b[1] is not None else None


def _merged(dimension: int, a: Size, b: Size) -> Size:
    """What two operands together say of one size."""
    if a[1] is not None and b[1] is not None and a[1] != b[1]:
        raise ShapeError(f"bounds {a[1]} and {b[1]} differ in dimension {dimension}")
    return (b[0] if a[0] == UNBOUNDED else a[0]), (b[1] if a[1] is None else a[1])


def pad(x: Shape, value: Shape, padding: Padding) -> Shape:
    expect_array(x, "the operand of pad")
    if not value.is_scalar:
        raise ShapeError(f"the padding value must be a scalar, not {value.bare}")
    if len(padding.dimensions) != x.rank:
        raise ShapeError(f"padding={padding.text} must have {x.rank} entries, as {x.bare}")
    if not same_kind(x.dtype, value.dtype):
        raise ShapeError(f"operand and padding value differ in type: {x.bare}, {value.bare}")
    dims = []
    for d, (size, p) in enumerate(zip(x.dims, padding.dimensions, strict=True)):
        if p.interior_padding < 0:
            raise ShapeError(f"interior padding must not be negative: {padding.text}")
        new = UNBOUNDED if size == UNBOUNDED else p.output_size(size)
        if new < 0 and size != UNBOUNDED:
            raise ShapeError(f"padding={padding.text} makes dimension {d} of {x.bare} negative")
        dims.append(new)
    return shape(higher_precision(x.dtype, value.dtype), dims, None, x.dynamic)


def slice_(x: Shape, slices: Slices) -> Shape:
    expect_array(x, "the operand of slice")
    if len(slices.dimensions) != x.rank:
        raise ShapeError(f"slice={slices.text} must have {x.rank} ranges, as {x.bare}")
    dims, dynamic = [], []
    for d, (size, r) in enumerate(zip(x.dims, slices.dimensions, strict=True)):
        if r.start < 0 or r.start > r.limit or (size != UNBOUNDED and r.limit > size):
            raise ShapeError(f"slice={slices.text} leaves dimension {d} of {x.bare}")
        if r.stride <= 0:
            raise ShapeError(f"slice={slices.text}: the stride must be positive")
        dims.append(r.size)
        dynamic.append(r.size != 1 and x.is_dynamic_dim(d) and size != UNBOUNDED)
    return shape(x.dtype, dims, None, dynamic)


def _check_starts(x: Shape, starts: Sequence[Shape]) -> None:
    """Start indices are one integer scalar per dimension, or one vector of them."""
    if starts and starts[0].is_array and starts[0].rank == 1:
        if len(starts) != 1 or not starts[0].dtype.is_integral or starts[0].dims[0] != x.rank:
            raise ShapeError(f"starts of {x.bare} must be {x.rank} integers, not {listed(starts)}")
        return
    if len(starts) != x.rank:
        raise ShapeError(f"{x.bare} needs {x.rank} start indices, not {len(starts)}")
    for s in starts:
        if not s.is_scalar or not s.dtype.is_integral:
            raise ShapeError(f"a start index must be an integer scalar, not {s.bare}")
        if s.bare is not starts[0].bare:
            raise ShapeError(f"start indices must have one type: {listed(starts)}")


def dynamic_slice(x: Shape, starts: Sequence[Shape], sizes: Sequence[int]) -> Shape:
    expect_array(x, "the operand of dynamic-slice")
    _check_starts(x, starts)
    if len(sizes) != x.rank:
        raise ShapeError(f"dynamic_slice_sizes={braced(sizes)} must have {x.rank} sizes")
    dynamic = []
    for d, (size, slice_size) in enumerate(zip(x.dims, sizes, strict=True)):
        if slice_size < 0 or (size != UNBOUNDED and slice_size > size):
            raise ShapeError(f"dynamic_slice_sizes={braced(sizes)} do not fit in {x.bare}")
        dynamic.append(x.is_dynamic_dim(d) and slice_size > 1 and slice_size == size)
    return shape(x.dtype, sizes, None, dynamic)


def dynamic_update_slice(x: Shape, update: Shape, starts: Sequence[Shape]) -> Shape:
    expect_array(x, "the operand of dynamic-update-slice")
    expect_array(update, "the update of dynamic-update-slice")
    _check_starts(x, starts)
    if update.rank != x.rank:
        raise ShapeError(f"operand and update differ in rank: {x.bare} and {update.bare}")
    if not same_kind(x.dtype, update.dtype):
        raise ShapeError(f"operand and update differ in type: {x.bare} and {update.bare}")
    if any(u > s for s, u in zip(x.dims, update.dims) if UNBOUNDED not in (s, u)):
        raise ShapeError(f"the update {update.bare} does not fit in {x.bare}")
    dynamic = [
        x.is_dynamic_dim(d) or (update.is_dynamic_dim(d) and update.dims[d] == x.dims[d])
        for d in range(x.rank)
    ]
    return shape(x.dtype, x.dims, None, dynamic)


def check_reshape(declared: Shape, x: Shape) -> None:
    expect_array(x, "the operand of reshape")
    expect_array(declared, "the result of reshape")
    if not same_kind(declared.dtype, x.dtype):
        raise ShapeError(f"reshape keeps the element type, but {x.bare} becomes {declared.bare}")
    if x.dims == declared.dims or UNBOUNDED in x.dims or UNBOUNDED in declared.dims:
        return
    if prod(declared.dims) != prod(x.dims):
        raise ShapeError(
            f"reshape keeps the element count, but {x.bare} has {prod(x.dims)} elements "
            f"and {declared.bare} {prod(declared.dims)}"
        )


def check_dynamic_reshape(declared: Shape, x: Shape, sizes: Sequence[Shape]) -> None:
    check_reshape(declared, x)
    if len(sizes) != declared.rank:
        raise ShapeError(f"{declared.bare} needs {declared.rank} sizes, not {len(sizes)}")
    for s in sizes:
        if s.dtype is not S32 or prod(s.dims) != 1:
            raise ShapeError(f"a run-time size must be s32[], not {s.bare}")


def reverse(x: Shape, dimensions: Sequence[int]) -> Shape:
    expect_array(x, "the operand of reverse")
    expect_dimensions(dimensions, x.rank, "dimensions", order=False)
    return x.bare


def shuffle(x: Shape, dimensions: Sequence[int], shifts: Sequence[int]) -> Shape:
    expect_array(x, "the operand of shuffle")
    expect_dimensions(dimensions, x.rank, "dimensions", order=False)
    if not dimensions:
        raise ShapeError("a shuffle needs at least one dimension")
    if len(shifts) != len(dimensions):
        raise ShapeError(
            f"dimensions={braced(dimensions)} and shifts={braced(shifts)} differ in length"
        )
    if any(not -(2**63) <= s < 2**63 for s in shifts):
        raise ShapeError(f"shifts={braced(shifts)}: a shift is a number of 64 bits")
    return x.bare


def transpose(x: Shape, dimensions: Sequence[int]) -> Shape:
    expect_array(x, "the operand of transpose")
    if sorted(dimensions) != list(range(x.rank)):
        raise ShapeError(
            f"dimensions={braced(dimensions)} is not a permutation of those of {x.bare}"
        )
    dynamic = [x.dynamic[d] for d in dimensions] if x.dynamic else ()
    return shape(x.dtype, [x.dims[d] for d in dimensions], None, dynamic)


def check_iota(declared: Shape, dimension: int) -> None:
    expect_array(declared, "the result of iota")
    if not 0 <= dimension < declared.rank:
        raise ShapeError(f"{declared.bare} has no dimension {dimension} to count along")
    t = declared.dtype
    if not (t.is_integral or t.is_floating or t.is_complex):
        raise ShapeError(f"iota counts in numbers, not in {declared.bare}")


def dimension_size(x: Shape, dimensions: Sequence[int], size: Shape | None = None) -> int:
    """The dimension whose size is asked or set; raises when that is not possible."""
    expect_array(x, "the operand")
    if len(dimensions) != 1 or not 0 <= dimensions[0] < x.rank:
        raise ShapeError(f"dimensions={braced(dimensions)} must name one of {x.bare}")
    if x.dims[dimensions[0]] > _INT32_MAX:
        raise ShapeError(f"dimension {dimensions[0]} of {x.bare} does not fit in s32")
    if size is not None and not (size.is_scalar and size.dtype is S32):
        raise ShapeError(f"a dimension's size must be an s32 scalar, not {size.bare}")
    return dimensions[0]


def set_dimension_size(x: Shape, size: Shape, dimensions: Sequence[int]) -> Shape:
    dynamic = flags(x)
    dynamic[dimension_size(x, dimensions, size)] = True
    return shape(x.dtype, x.dims, None, dynamic)


def tuple_element(x: Shape, index: int) -> Shape:
    if not x.is_tuple:
        raise ShapeError(f"the operand must be a tuple, not {x.bare}")
    if not 0 <= index < len(x.elements):
        raise ShapeError(f"the tuple {x.bare} has no element {index}")
    return x.elements[index].bare


def check_sort(declared: Shape | None, inputs: Sequence[Shape], dimensions: Sequence[int]) -> Shape:
    """The result of sort, whose operands must all have the same sizes."""
    if not inputs:
        raise ShapeError("sort needs at least one operand")
    for x in inputs:
        expect_array(x, "an operand of sort")
        if x.dims != inputs[0].dims:
            raise ShapeError(f"operands of sort must have the same sizes: {listed(inputs)}")
    if len(dimensions) != 1 or not 0 <= dimensions[0] < inputs[0].rank:
        raise ShapeError(f"dimensions={braced(dimensions)} must name one of {inputs[0].bare}")
    result = inputs[0].bare if len(inputs) == 1 else tuple_shape(x.bare for x in inputs)
    if declared is not None and not compatible(declared, result):
        raise ShapeError(f"the shape is {declared.bare} but must be {result}")
    return result


def topk(x: Shape, k: int) -> Shape:
    expect_array(x, "the operand of topk")
    if not x.rank:
        raise ShapeError(f"topk needs at least one dimension, not {x.bare}")
    if k < 0 or (x.dims[-1] != UNBOUNDED and k > x.dims[-1]):
        raise ShapeError(f"cannot take the first {k} of the last dimension of {x.bare}")
    dims = (*x.dims[:-1], k)
    dynamic = (*x.dynamic[:-1], False) if x.dynamic else ()
    return tuple_shape((shape(x.dtype, dims, None, dynamic), shape(S32, dims, None, dynamic)))
