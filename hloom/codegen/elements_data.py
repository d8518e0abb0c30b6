"""Data movement as changes of the index: broadcasts, reshapes, slices, pads, gathers."""

from __future__ import annotations

from hloom.base.diagnostics import HloError
from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.elements import ELEMENT, Elements, Index
from hloom.codegen.tile_shape import common_shape
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import CHOOSES, RESHAPES, STRIDED
from hloom.kernel.kernel import PRED, S32, S64, Value
from hloom.types.dtype import dtype
from hloom.types.shape import Shape


@ELEMENT.of("broadcast")
def broadcast(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    x = i.operands[0]
    sizes = x.shape.dims
    at = [ZERO if sizes[k] == 1 else index[d] for k, d in enumerate(i.attrs.dimensions)]
    return e.value(x, tuple(at), mask)


@ELEMENT.of("copy", "add-dependency", "domain", "opt-barrier")
def copy(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    return e.value(i.operands[0], index, mask)


@ELEMENT.of("transpose")
def transpose(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    at = [ZERO] * len(index)
    for k, d in enumerate(i.attrs.dimensions):
        at[d] = index[k]
    return e.value(i.operands[0], tuple(at), mask)


@ELEMENT.of("reshape", "dynamic-reshape")
def reshape(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    x = i.operands[0]
    return e.value(x, reshaped(e, index, i.shape.dims, x.shape.dims), mask)


@ELEMENT.of("bitcast")
def bitcast(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    """The same bytes seen through another shape and layout (and another type of equal width)."""
    x = i.operands[0]
    if x.shape.dtype.size_bytes != i.shape.dtype.size_bytes:
        raise HloError(f"%{i.name}: a bitcast between element widths cannot be inside a kernel")
    outer, inner = _physical(i.shape), _physical(x.shape)
    physical = tuple([index[d] for d in outer])
    at = reshaped(
        e,
        physical,
        tuple([i.shape.dims[d] for d in outer]),
        tuple([x.shape.dims[d] for d in inner]),
    )
    logical = [ZERO] * len(inner)
    for k, d in enumerate(inner):
        logical[d] = at[k]
    value = e.value(x, tuple(logical), mask)
    if x.shape.dtype is not i.shape.dtype:
        value = e.builder.unary("bitcast-convert", value, i.shape.dtype)
    return value


def _physical(s: Shape) -> tuple[int, ...]:
    """Dimensions from slowest to fastest."""
    if s.layout is None:
        return tuple(range(len(s.dims)))
    return s.layout.minor_to_major[::-1]


def reshaped(e: Elements, index: Index, sizes: tuple[int, ...], to: tuple[int, ...]) -> Index:
    """The index into an array of sizes `to` with the same row-major position.

    Dimensions are taken in the smallest groups of equal products, so that numbers stay small and
    most groups are one to one.
    """
    result: list[Affine] = [ZERO] * len(to)
    if 0 in sizes:
        return tuple(result)
    a, b = len(sizes), len(to)
    while a or b:
        # One group, from the minor side.
        first, second = a, b
        left = right = 1
        if a:
            a -= 1
            left = sizes[a]
        if b:
            b -= 1
            right = to[b]
        while left != right:
            if left < right:
                a -= 1
                left *= sizes[a]
            else:
                b -= 1
                right *= to[b]
        group, result_dims = range(a, first), range(b, second)
        solid = [d for d in result_dims if to[d] != 1]
        parts = [d for d in group if sizes[d] != 1]
        if not solid:
            continue
        if len(solid) == 1 and len(parts) == 1:
            result[solid[0]] = index[parts[0]]
            continue
        position, step = ZERO, 1
        for d in reversed(parts):
            position = position.plus(index[d].times(step))
            step *= sizes[d]
        for d, digit in zip(solid, e.indices.digits(position, [to[d] for d in solid])):
            result[d] = digit
    return tuple(result)


@ELEMENT.of("slice")
def slice_(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    parts = i.attrs.slice.dimensions
    at = [x.times(p.stride).plus(p.start) for x, p in zip(index, parts)]
    return e.value(i.operands[0], tuple(at), mask)


@ELEMENT.of("reverse")
def reverse(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    at = list(index)
    for d in i.attrs.dimensions:
        at[d] = index[d].times(-1).plus(i.shape.dims[d] - 1)
    return e.value(i.operands[0], tuple(at), mask)


@ELEMENT.of("iota")
def iota(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    kind = i.shape.dtype
    position = index[i.attrs.iota_dimension]
    if kind.is_integral and kind.bits in (32, 64):
        if kind.is_signed_int:
            return e.numbers(position, kind)
        signed = dtype(f"s{kind.bits}")
        return e.builder.convert(e.numbers(position, signed), kind)
    return e.builder.convert(e.numbers(position), kind)


@ELEMENT.of("constant")
def constant_(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    literal = i.attrs.literal
    array = literal.array
    # Bits are compared: NaN is not equal to itself.
    if array.size and array.tobytes() == array.flat[0].tobytes() * array.size:
        return e.builder.constant(i.shape.dtype, array.flat[0])
    raise HloError(f"%{i.name}: an array constant cannot be inside a kernel")


@ELEMENT.of("dynamic-slice")
def dynamic_slice(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    x, starts = i.operands[0], i.operands[1:]
    begin = clamped_starts(e, starts, x.shape.dims, i.shape.dims)
    return e.value(x, tuple([a.plus(s) for a, s in zip(index, begin)]), mask)


@ELEMENT.of("dynamic-update-slice")
def dynamic_update_slice(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    x, update, starts = i.operands[0], i.operands[1], i.operands[2:]
    sizes = update.shape.dims
    begin = clamped_starts(e, starts, x.shape.dims, sizes)
    at = tuple([a.plus(s.times(-1)) for a, s in zip(index, begin)])
    inside: Value | None = None
    for position, size in zip(at, sizes):
        inside = both(e, inside, within(e, position, size))
    if update.shape.size == 0:
        return e.value(x, index, mask)
    new = e.value(update, at, both(e, mask, inside))
    if inside is None:
        return new
    return choose(e, inside, new, e.value(x, index, mask))


def clamped_starts(
    e: Elements,
    starts: tuple[Instruction, ...],
    sizes: tuple[int, ...],
    slice_sizes: tuple[int, ...],
) -> list[Affine]:
    """Where a dynamic slice begins: clamped so that all of it lies within the array."""
    if len(starts) == 1 and starts[0].shape.rank == 1:
        vector = starts[0]
        starts_ = [e.value(vector, (constant(d),)) for d in range(len(sizes))]
    else:
        starts_ = [e.value(x, ()) for x in starts]
    return [clamped(e, x, size - n) for x, size, n in zip(starts_, sizes, slice_sizes)]


def clamped(e: Elements, x: Value, high: int) -> Affine:
    """An integer value as an index between 0 and `high`, both included."""
    if high <= 0:
        return ZERO
    b = e.builder
    # Tiles stay narrow where all that the numbers may be is: half as many registers.
    is_narrow = bool(x.shape) and high < 2**31
    if x.dtype.name == "u64" or (x.dtype.name == "u32" and is_narrow):
        x = b.binary("minimum", x, b.constant(x.dtype, high, x.shape))
        x = b.convert(x, S64 if x.dtype.bits == 64 else S32)
    else:
        bits = x.dtype.bits + (0 if x.dtype.is_signed_int else 1)
        kind = S32 if is_narrow and bits <= 32 else S64
        x = b.convert(x, kind)
        x = b.binary("minimum", x, b.constant(kind, high, x.shape))
        x = b.binary("maximum", x, b.constant(kind, 0, x.shape))
    if not x.shape:
        return e.indices.scalar(x, 0, high)
    axes = frozenset([a for a, n in enumerate(x.shape) if n != 1])
    return e.indices.tile(x, axes, 0, high)


@ELEMENT.of("gather")
def gather(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    x, indices = i.operands
    a = i.attrs
    vector = a.index_vector_dim
    batch = [index[d] for d in range(len(index)) if d not in a.offset_dims]
    at = [ZERO] * x.shape.rank
    # Dimensions of the operand that the window keeps, in order, are the offset dimensions.
    gone = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    window_dims = [d for d in range(x.shape.rank) if d not in gone]
    for d, o in zip(window_dims, a.offset_dims):
        at[d] = index[o]
    for k, d in enumerate(a.start_index_map):
        position = list(batch)
        if vector < indices.shape.rank:
            position.insert(vector, constant(k))
        start = e.value(indices, tuple(position), mask)
        room = x.shape.dims[d] - a.slice_sizes[d]
        at[d] = at[d].plus(clamped(e, start, room))
    for d, s in zip(a.operand_batching_dims, a.start_indices_batching_dims):
        at[d] = at[d].plus(batch[s if s < vector else s - 1])
    return e.value(x, tuple(at), mask)


# -- masks


def within(e: Elements, x: Affine, size: int) -> Value | None:
    """Whether `0 <= x < size`; None where it always is."""
    low, high = x.bounds()
    result: Value | None = None
    if low >= 0 and high < size:
        return None
    b = e.builder
    number = e.numbers(x)
    if low < 0:
        result = b.compare("GE", number, b.constant(number.dtype, 0, number.shape))
    if high >= size:
        below = b.compare("LT", number, b.constant(number.dtype, size, number.shape))
        result = both(e, result, below)
    return result


def equals(e: Elements, x: Affine, constant_: int) -> Value | None:
    """Whether an index is a number; None where it always is."""
    if x.is_constant and x.const == constant_:
        return None
    number = e.numbers(x)
    return e.builder.compare(
        "EQ", number, e.builder.constant(number.dtype, constant_, number.shape)
    )


def lanes_of(e: Elements, index: Index, mask: Value | None) -> tuple[int, ...]:
    """The shape of the value at an index: where a mask has lanes, so has what is loaded by it."""
    shape = e.shape_of(frozenset[int]().union(*[x.axes for x in index]))
    return shape if mask is None else common_shape([shape, mask.shape])


def both(e: Elements, x: Value | None, y: Value | None) -> Value | None:
    """The conjunction of two masks; None is true everywhere."""
    if x is None:
        return y
    if y is None or x is y:
        return x
    x, y = e.matched([x, y])
    return e.builder.binary("and", x, y, PRED)


def choose(e: Elements, mask: Value, x: Value, y: Value) -> Value:
    """`x` where the mask is true, else `y`, stretched to one shape."""
    mask, x, y = e.matched([mask, x, y])
    return e.builder.select(mask, x, y)


@ELEMENT.of("bitcast-convert")
def bitcast_convert(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    """Bits read as another type; widths that differ add or take away a minor dimension."""
    x = i.operands[0]
    b = e.builder
    old, new = x.shape.dtype, i.shape.dtype
    if old is new:
        return e.value(x, index, mask)
    if old.bits == new.bits:
        return b.unary("bitcast-convert", e.value(x, index, mask), new)
    if old.bits > new.bits:
        part = _part(e, _unsigned(e, e.value(x, index[:-1], mask)), index[-1], new.bits)
        narrow = b.convert(_low_bits(e, part, new.bits), dtype(f"u{new.bits}"))
        return narrow if new is narrow.dtype else b.unary("bitcast-convert", narrow, new)
    wide = dtype(f"u{new.bits}")
    total: Value | None = None
    for k in range(new.bits // old.bits):
        part = b.convert(_unsigned(e, e.value(x, (*index, constant(k)), mask)), wide)
        part = b.binary("shift-left", part, b.constant(wide, k * old.bits, part.shape))
        if total is not None:
            total, part = e.matched([total, part])
            part = b.binary("or", total, part)
        total = part
    assert total is not None
    return total if new is wide else b.unary("bitcast-convert", total, new)


def _part(e: Elements, whole: Value, at: Affine, bits: int) -> Value:
    """An integer moved down by a number of parts, so that one of them is in its lowest bits.

    Machines move bytes by one distance for all lanes: of those, each part is chosen where it is
    asked for.
    """
    b = e.builder
    if whole.dtype.bits == 8 and not at.is_constant:
        chosen = whole
        for k in range(1, 8 // bits):
            moved = b.constant(whole.dtype, k * bits, whole.shape)
            part = b.binary("shift-right-logical", whole, moved)
            here = equals(e, at, k)
            assert here is not None
            chosen = choose(e, here, part, chosen)
        return chosen
    shift = b.convert(e.numbers(at.times(bits)), whole.dtype)
    whole, shift = e.matched([whole, shift])
    return b.binary("shift-right-logical", whole, shift)


def _unsigned(e: Elements, x: Value) -> Value:
    unsigned = dtype(f"u{x.dtype.bits}")
    return x if x.dtype is unsigned else e.builder.unary("bitcast-convert", x, unsigned)


def _low_bits(e: Elements, x: Value, bits: int) -> Value:
    ones = e.builder.constant(x.dtype, (1 << bits) - 1, x.shape)
    return e.builder.binary("and", x, ones)


# Opcodes that move elements to other places.
MOVED = opcodes(STRIDED, RESHAPES, CHOOSES, also=("dynamic-update-slice", "dynamic-reshape"))
