"""Sort, gather and scatter on arrays of run-time size (rules of the dynamic padder)."""

from __future__ import annotations

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.expand.dynamic_rules import RULES, again, least_sizes, several, values
from hloom.passes.expand.dynamic_values import Masks, Sized
from hloom.passes.expand.expansion import refuse
from hloom.types.dtype import PRED, S32, S64
from hloom.types.shape import shape


@RULES.of("sort")
def sort(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """Places without an element come last: one more operand says which they are."""
    b, axis = m.b, i.attrs.dimensions[0]
    sizes = least_sizes(m, operands)
    arrays = values(operands)
    if axis not in sizes:
        return several(m, again(m, i, *arrays), sizes)
    valid = m.valid(Sized(arrays[0], sizes), [axis])
    assert valid is not None
    missing = b.emit("not", valid)
    sorted_ = b.emit(
        "sort",
        *arrays,
        missing,
        called=(behind(m, i.called[0], len(arrays)),),
        dimensions=i.attrs.dimensions,
        is_stable=i.attrs.is_stable,
    )
    parts = [Sized(b.element(sorted_, k), sizes) for k in range(len(arrays))]
    return Sized(b.tuple(*(p.value for p in parts)), {}, parts) if i.shape.is_tuple else parts[0]


def behind(m: Masks, less: Computation, count: int) -> Computation:
    """The comparator for which elements that are missing (the last pair) come last."""
    c = m.b.module.add_computation(f"{less.name}_padded")
    parameters = [
        c.add("parameter", shape=p.shape, number=p.attrs.number, name=p.name)
        for p in less.parameters
    ]
    scalar = shape(PRED)
    a, b = (c.add("parameter", shape=scalar, number=2 * count + k) for k in range(2))
    inner = c.add("call", *parameters, called=(less,))
    same = c.add("compare", a, b, direction="EQ")
    c.root = c.add("select", same, inner, b)
    return c


def _wide(m: Masks, indices: Instruction) -> Instruction:
    """Index vectors in a type that holds every size, and one outside of all."""
    dtype = indices.shape.dtype
    if dtype.bits < 32 or dtype is S32:
        return m.b.converted(indices, S32)
    return m.b.converted(indices, S64)


def _last_starts(m: Masks, x: Sized, dims, sizes) -> list[Instruction]:
    """For each of some dimensions the last start of a window that lies inside; -1, or less, where
    the window is larger than the run-time size."""
    return [m.b.subtract(m.size(x, d), m.number(sizes[d])) for d in dims]


def _for_each(m: Masks, numbers: list[Instruction], indices: Instruction, vector_dim: int):
    """One number for each component of the index vectors, spread over the indices."""
    b, dtype = m.b, indices.shape.dtype
    row = b.joined([b.reshaped(b.converted(n, dtype), (1,)) for n in numbers], 0)
    if vector_dim == indices.shape.rank:
        return b.spread(b.reshaped(row, ()), indices.shape.dims)
    return b.spread(row, indices.shape.dims, (vector_dim,))


@RULES.of("gather")
def gather(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """Starts are clamped by run-time sizes; index vectors without meaning give garbage."""
    b, (x, indices), a = m.b, operands, i.attrs
    if any(d in x.sizes for d in a.operand_batching_dims):
        raise refuse(i, "batching dimensions of run-time size are not supported", "dynamic-shape")
    at = indices.value
    if any(d in x.sizes for d in a.start_index_map):
        if at.shape.dtype.bits < 32:
            at = _wide(m, at)
        last = _last_starts(m, x, a.start_index_map, a.slice_sizes)
        last = [b.maximum(n, m.number(0)) for n in last]
        at = b.minimum(at, _for_each(m, last, at, a.index_vector_dim))
    sizes = {}
    batch = [d for d in range(i.shape.rank) if d not in a.offset_dims]
    rows = [d for d in range(indices.value.shape.rank) if d != a.index_vector_dim]
    for place, d in zip(batch, rows, strict=True):
        if d in indices.sizes:
            sizes[place] = indices.sizes[d]
    gone = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    kept_dims = [d for d in range(x.value.shape.rank) if d not in gone]
    for place, d in zip(a.offset_dims, kept_dims, strict=True):
        if d in x.sizes and a.slice_sizes[d] == x.value.shape.dims[d]:
            sizes[place] = x.sizes[d]
    return Sized(again(m, i, x.value, at), sizes)


@RULES.of("scatter")
def scatter(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """Index vectors without meaning, and those outside of run-time sizes, point outside."""
    b, a, count = m.b, i.attrs, len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    window = set(a.update_window_dims)
    if any(d in window for u in updates for d in u.sizes) or a.input_batching_dims:
        raise refuse(i, "windows of run-time size are not supported", "dynamic-shape")
    at = _wide(m, indices.value)
    outside = b.full(-1, at.shape.dtype, at.shape.dims)
    rows = [d for d in range(at.shape.rank) if d != a.index_vector_dim]
    places = [d for d in range(updates[0].value.shape.rank) if d not in window]
    sizes = dict(indices.sizes)
    for d, place in zip(rows, places, strict=True):
        if place in updates[0].sizes:
            sizes.setdefault(d, updates[0].sizes[place])
    valid = m.valid(Sized(at, sizes))
    if valid is not None:
        at = b.select(valid, at, outside)
    x, index_map = inputs[0], a.scatter_dims_to_operand_dims
    widths = iter(updates[0].value.shape.dims[d] for d in a.update_window_dims)
    inserted = {*a.inserted_window_dims}
    wide = [1 if d in inserted else next(widths) for d in range(x.value.shape.rank)]
    if any(d in x.sizes for d in index_map):
        last = _for_each(m, _last_starts(m, x, index_map, wide), at, a.index_vector_dim)
        at = b.select(b.compared(at, last, "LE"), at, outside)
    for d in x.sizes:
        if d not in index_map and wide[d] > 0:  # its windows start at 0
            fits = b.compared(x.sizes[d], m.number(wide[d]), "GE")
            at = b.select(b.spread(fits, at.shape.dims), at, outside)
    scattered = again(m, i, *values(inputs), at, *values(updates))
    return several(m, scattered, dict(x.sizes))
