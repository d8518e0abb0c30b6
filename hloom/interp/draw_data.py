"""Instances of operations that bring in, move or name data."""

from __future__ import annotations

from hloom.interp.draw import ANY, DRAW, NUMBERS, Sketch
from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import Padding
from hloom.ir.values.slices import Slices
from hloom.types.dtype import S32
from hloom.types.layout import layout
from hloom.types.shape import Shape, shape, tuple_shape


def factors(s: Sketch, count: int) -> tuple[int, ...]:
    """Random sizes whose product is `count`."""
    if count == 0:
        return (0, s.integer(1, 3))
    sizes: list[int] = []
    while count > 1:
        divisor = s.pick([d for d in range(2, count + 1) if count % d == 0])
        sizes.append(divisor)
        count //= divisor
    for _ in range(s.integer(0, 2)):
        sizes.append(1)
    return s.shuffled(sizes)


@DRAW.of("bitcast")
def bitcast(s: Sketch) -> Instruction:
    """The bytes under other sizes, or a transpose that the layout undoes."""
    x = s.array("f32 s32 bf16 u8 pred")
    if x.shape.rank and s.chance():
        order = s.shuffled(range(x.shape.rank))
        back = [order.index(d) for d in reversed(range(x.shape.rank))]
        dims = [x.shape.dims[d] for d in order]
        return s.add("bitcast", x, shape=shape(x.shape.dtype, dims, layout(back)))
    return s.add("bitcast", x, shape=shape(x.shape.dtype, factors(s, x.shape.size)))


@DRAW.of("broadcast")
def broadcast(s: Sketch) -> Instruction:
    x = s.array(ANY, most=2)
    rank = x.shape.rank + s.integer(0, 2)
    at = s.shuffled(range(rank))[: x.shape.rank]
    dims = list(s.integers(rank, 1, 4))
    for k, d in enumerate(at):
        dims[d] = x.shape.dims[k]
    return s.add("broadcast", x, shape=shape(x.shape.dtype, dims), dimensions=at)


@DRAW.of("concatenate")
def concatenate(s: Sketch) -> Instruction:
    x = s.array(ANY, least=1, smallest=0)
    axis = s.axis(x)
    parts = [x]
    for _ in range(s.integer(0, 3)):
        dims = list(x.shape.dims)
        dims[axis] = s.integer(0, 3)
        parts.append(s.parameter(shape(x.shape.dtype, dims)))
    dims = list(x.shape.dims)
    dims[axis] = sum(p.shape.dims[axis] for p in parts)
    return s.add("concatenate", *parts, shape=shape(x.shape.dtype, dims), dimensions=(axis,))


@DRAW.of("copy")
def copy(s: Sketch) -> Instruction:
    """Often into another layout."""
    x = s.array(ANY)
    to = x.shape
    if to.rank > 1 and s.chance():
        to = to.with_layout(layout(s.shuffled(range(to.rank))))
    return s.add("copy", x, shape=to)


@DRAW.of("reshape")
def reshape(s: Sketch) -> Instruction:
    x = s.array(ANY, smallest=0)
    return s.add("reshape", x, shape=shape(x.shape.dtype, factors(s, x.shape.size)))


@DRAW.of("dynamic-reshape")
def dynamic_reshape(s: Sketch) -> Instruction:
    x = s.array(NUMBERS)
    dims = factors(s, x.shape.size) or (1,)
    sizes = [s.constant(n, shape(S32)) for n in dims]
    dynamic = [s.chance() for _ in dims]
    return s.add("dynamic-reshape", x, *sizes, shape=shape(x.shape.dtype, dims, None, dynamic))


@DRAW.of("dynamic-slice")
def dynamic_slice(s: Sketch) -> Instruction:
    x = s.array(ANY)
    index = s.index()
    starts = [index if s.chance(0.2) else s.like(index) for _ in range(x.shape.rank)]
    sizes = tuple(s.integer(0, n) for n in x.shape.dims)
    return s.add(
        "dynamic-slice", x, *starts, shape=shape(x.shape.dtype, sizes), dynamic_slice_sizes=sizes
    )


@DRAW.of("dynamic-update-slice")
def dynamic_update_slice(s: Sketch) -> Instruction:
    x = s.array(ANY)
    update = s.parameter(shape(x.shape.dtype, [s.integer(0, n) for n in x.shape.dims]))
    index = s.index()
    starts = [s.like(index) for _ in range(x.shape.rank)]
    return s.add("dynamic-update-slice", x, update, *starts, shape=x.shape)


@DRAW.of("pad")
def pad(s: Sketch) -> Instruction:
    """Negative edges never take away more than there is. No scalars: XLA cannot read those."""
    x = s.array(ANY, least=1)
    rows, dims = [], []
    for n in x.shape.dims:
        interior = s.integer(0, 2) if s.chance(0.3) else 0
        whole = n + max(0, n - 1) * interior
        low = s.integer(-min(2, whole), 2)
        high = s.integer(-min(2, max(0, whole + min(low, 0))), 2)
        rows.append((low, high, interior))
        dims.append(max(0, whole + low + high))
    value = s.scalar(x.shape.dtype)
    return s.add("pad", x, value, shape=shape(x.shape.dtype, dims), padding=Padding.of(*rows))


@DRAW.of("reverse")
def reverse(s: Sketch) -> Instruction:
    x = s.array(ANY, smallest=0)
    return s.add("reverse", x, shape=x.shape, dimensions=s.some_axes(x))


@DRAW.of("shuffle")
def shuffle(s: Sketch) -> Instruction:
    x = s.array(ANY, least=1, smallest=0)
    dimensions = s.some_axes(x, 1)
    shifts = tuple(s.integer(-9, 9) for _ in dimensions)
    return s.add("shuffle", x, shape=x.shape, dimensions=dimensions, mode="rotate", shifts=shifts)


@DRAW.of("slice")
def slice_(s: Sketch) -> Instruction:
    x = s.array(ANY, largest=6)
    ranges = []
    for n in x.shape.dims:
        start = s.integer(0, n)
        ranges.append((start, s.integer(start, n), s.integer(1, 3)))
    slices = Slices.of(*ranges)
    dims = [d.size for d in slices.dimensions]
    return s.add("slice", x, shape=shape(x.shape.dtype, dims), slice=slices)


@DRAW.of("transpose")
def transpose(s: Sketch) -> Instruction:
    x = s.array(ANY, smallest=0)
    order = s.shuffled(range(x.shape.rank))
    dims = [x.shape.dims[d] for d in order]
    return s.add("transpose", x, shape=shape(x.shape.dtype, dims), dimensions=order)


@DRAW.of("constant")
def constant(s: Sketch) -> Instruction:
    of = shape(s.dtype(ANY), s.dims(smallest=0)).with_default_layouts()
    return s.add("constant", shape=of, literal=s.random_literal(of))


@DRAW.of("iota")
def iota(s: Sketch) -> Instruction:
    dims = s.dims(1)
    of = shape(s.dtype(f"{NUMBERS} c64"), dims)
    return s.add("iota", shape=of, iota_dimension=s.integer(0, len(dims) - 1))


@DRAW.of("parameter")
def parameter(s: Sketch) -> Instruction:
    if s.chance(0.7):
        return s.array(ANY)
    return s.parameter(tuple_shape(shape(s.dtype(ANY), s.dims()) for _ in range(s.integer(0, 3))))


def dynamic_array(s: Sketch) -> tuple[Instruction, int]:
    """A parameter with one dynamic dimension, and which it is."""
    dims = s.dims(1)
    axis = s.integer(0, len(dims) - 1)
    flags = [d == axis for d in range(len(dims))]
    return s.parameter(shape(s.dtype(NUMBERS), dims, None, flags)), axis


@DRAW.of("get-dimension-size")
def get_dimension_size(s: Sketch) -> Instruction:
    x, axis = dynamic_array(s)
    if s.chance(0.3):
        axis = s.axis(x)
    return s.add("get-dimension-size", x, shape=shape(S32), dimensions=(axis,))


@DRAW.of("set-dimension-size")
def set_dimension_size(s: Sketch) -> Instruction:
    x = s.array(NUMBERS, least=1)
    axis = s.axis(x)
    size = s.scalar(S32)
    flags = [d == axis for d in range(x.shape.rank)]
    of = shape(x.shape.dtype, x.shape.dims, None, flags)
    return s.add("set-dimension-size", x, size, shape=of, dimensions=(axis,))


@DRAW.of("get-tuple-element")
def get_tuple_element(s: Sketch) -> Instruction:
    parts: list[Shape] = [shape(s.dtype(ANY), s.dims()) for _ in range(s.integer(1, 3))]
    index = s.integer(0, len(parts) - 1)
    x = s.parameter(tuple_shape(parts))
    return s.add("get-tuple-element", x, shape=parts[index], index=index)


@DRAW.of("tuple")
def tuple_(s: Sketch) -> Instruction:
    parts = [s.array(ANY) for _ in range(s.integer(0, 3))]
    return s.add("tuple", *parts, shape=tuple_shape(p.shape for p in parts))
