"""Operations that only move data: those that move nothing go, pairs become one."""

from hloom.ir.instruction import Instruction
from hloom.ir.values.slices import SliceDimension, Slices
from hloom.rewrite.build import RuleBuilder
from hloom.rewrite.pattern import any_of, constant, m, var
from hloom.rewrite.rule import Declined, rule
from hloom.types.casts import preserves_values

p, x = var("p"), var("x")
PART = any_of(["dynamic-update-slice"], name="part")
MOST_JOINED = 64
"""Arrays that are joined at once, where they were joined in two steps."""


def _same_shape(a: Instruction, b: Instruction) -> bool:
    return a.shape.compatible(b.shape)


@rule(m.reshape(m.reshape(x), name="out"))
def reshape_twice(b: RuleBuilder, x, out):
    """reshape(reshape(x))  =>  reshape(x)    static shapes"""
    if out.shape.is_dynamic or x.shape.is_dynamic or out.operands[0].shape.is_dynamic:
        return None
    return b.reshape(x, shape=out.shape)


@rule(m.reshape(x, name="out"))
def reshape_nothing(b: RuleBuilder, x, out):
    """reshape(x)  =>  x    same dimensions"""
    return x if _same_shape(x, out) else None


@rule(m.transpose(m.transpose(x, name="inner"), name="outer"))
def transpose_twice(b: RuleBuilder, x, inner, outer):
    """transpose(transpose(x, p), q)  =>  transpose(x, p[q])"""
    first, second = inner.attrs.dimensions, outer.attrs.dimensions
    return b.transpose(x, dimensions=tuple(first[d] for d in second))


@rule(m.transpose(x, name="out"))
def transpose_nothing(b: RuleBuilder, x, out):
    """transpose(x, identity)  =>  x"""
    return x if out.attrs.dimensions == tuple(range(x.shape.rank)) else None


@rule(m.broadcast(m.broadcast(x, name="inner"), name="outer"))
def broadcast_twice(b: RuleBuilder, x, inner, outer):
    """broadcast(broadcast(x, p), q)  =>  broadcast(x, q[p])"""
    second = outer.attrs.dimensions
    dimensions = tuple(second[d] for d in inner.attrs.dimensions)
    return b.broadcast(x, dimensions=dimensions, shape=outer.shape)


@rule(m.broadcast(x, name="out"))
def broadcast_nothing(b: RuleBuilder, x, out):
    """broadcast(x)  =>  x    same dimensions, in order"""
    in_order = out.attrs.dimensions == tuple(range(x.shape.rank))
    return x if in_order and _same_shape(x, out) else None


def _of_scalar(i: Instruction) -> bool:
    return i.operands[0].shape.rank == 0


FILL = any_of(["broadcast"], x, where=_of_scalar)


@rule(any_of(["reshape", "slice", "transpose", "reverse"], FILL, name="out"))
def rearranged_fill(b: RuleBuilder, x, out):
    """f(broadcast(x))  =>  broadcast(x)    x scalar, f reshape, slice, transpose or reverse"""
    if out.shape.is_dynamic:
        return None
    return b.broadcast(x, dimensions=(), shape=out.shape)


def _is_fill(i: Instruction) -> bool:
    return i.opcode == "broadcast" and _of_scalar(i) and not i.shape.is_dynamic


@rule(any_of(["dynamic-slice"], name="out", where=lambda i: _is_fill(i.operands[0])))
def part_of_fill(b: RuleBuilder, out):
    """dynamic-slice(broadcast(x), starts)  =>  broadcast(x)    x scalar"""
    return b.broadcast(out.operands[0].operands[0], dimensions=(), shape=out.shape)


ZEROS = constant(value=0)


def _is_part_of_zeros(i: Instruction) -> bool:
    base, part = i.operands[:2]
    return ZEROS.match(base) is not None and 2 * part.shape.size <= base.shape.size


@rule(m.add(x, any_of(["dynamic-update-slice"], name="part", where=_is_part_of_zeros), name="out"))
def add_to_part(b: RuleBuilder, x, part, out):
    """x + dynamic-update-slice(0, u, at)  =>  dynamic-update-slice(x, dynamic-slice(x, at) + u, at)

    What JAX writes for the gradient of `x[at]`: in a loop, each step then touches a part of `x`,
    where it cleared and added as much as all of it. At most half is added to."""
    if len(part.users) > 1:
        return Declined("others read what is added, too")
    update, at = part.operands[1], part.operands[2:]
    if any(i.shape.is_dynamic or i.sharding for i in (x, update, part, out)):
        return Declined("its size, or who holds it, is not known here")
    old = b.emit("dynamic-slice", x, *at, dynamic_slice_sizes=update.shape.dims)
    return b.emit("dynamic-update-slice", x, b.add(old, update), *at)


def _is_one_updated(out: Instruction) -> bool:
    """Whether a scalar chooses between an array and the same with a part written."""
    chooser, one, other = out.operands
    if chooser.shape.rank and not _is_fill(chooser):
        return False
    ways = ((one, other), (other, one))
    return any(a.opcode == "dynamic-update-slice" and a.operands[0] is b for a, b in ways)


@rule(m.select(p, PART, x, name="out", where=_is_one_updated))
def select_of_part(b: RuleBuilder, p, part, x, out):
    """select(p, updated(x, u), x)  =>  updated(x, select(p, u, part(x)))    p scalar

    `updated` is a dynamic-update-slice, `part` the dynamic-slice of the same place. What pipelines
    write of their results, `where(is_last, out.at[k].set(y), out)`: each step then touches a part,
    where it copied all."""
    return _chosen_part(b, p, part, x, out, is_written=True)


@rule(m.select(p, x, PART, name="out", where=_is_one_updated))
def select_but_part(b: RuleBuilder, p, part, x, out):
    """select(p, x, updated(x, u))  =>  updated(x, select(p, part(x), u))    p scalar"""
    return _chosen_part(b, p, part, x, out, is_written=False)


def _chosen_part(b: RuleBuilder, p, part, x, out, is_written: bool):
    if len(part.users) > 1:
        return Declined("others read what is written, too")
    update, at = part.operands[1], part.operands[2:]
    if any(i.shape.is_dynamic or i.sharding for i in (x, update, part, out)):
        return Declined("its size, or who holds it, is not known here")
    if p.shape.rank:
        p = b.broadcast(p.operands[0], dimensions=(), shape=p.shape.with_dims(update.shape.dims))
    old = b.emit("dynamic-slice", x, *at, dynamic_slice_sizes=update.shape.dims)
    kept = b.select(p, update, old) if is_written else b.select(p, old, update)
    return b.emit("dynamic-update-slice", x, kept, *at)


@rule(m.slice(x, name="out"))
def slice_nothing(b: RuleBuilder, x, out):
    """slice(x)  =>  x    all of it"""
    return x if _same_shape(x, out) else None


@rule(m.slice(m.slice(x, name="inner"), name="outer"))
def slice_twice(b: RuleBuilder, x, inner, outer):
    """slice(slice(x))  =>  slice(x)"""
    dimensions = []
    pairs = zip(inner.attrs.slice.dimensions, outer.attrs.slice.dimensions, strict=True)
    for first, second in pairs:
        start = first.start + second.start * first.stride
        count = max(0, -((second.start - second.limit) // second.stride))
        stride = first.stride * second.stride
        limit = start + (count - 1) * stride + 1 if count else start
        dimensions.append(SliceDimension(start, limit, stride))
    return b.slice(x, slice=Slices(tuple(dimensions)))


@rule(m.reverse(m.reverse(x, name="inner"), name="outer"))
def reverse_twice(b: RuleBuilder, x, inner, outer):
    """reverse(reverse(x, p), q)  =>  reverse(x, p xor q)"""
    both = set(inner.attrs.dimensions) ^ set(outer.attrs.dimensions)
    return b.reverse(x, dimensions=tuple(sorted(both))) if both else x


@rule(m.reverse(x, name="out"))
def reverse_nothing(b: RuleBuilder, x, out):
    """reverse(x)  =>  x    along dimensions of size 1"""
    return x if all(x.shape.dims[d] == 1 for d in out.attrs.dimensions) else None


def _one_input(i: Instruction) -> bool:
    return len(i.operands) == 1


@rule(any_of(["concatenate"], name="out", where=_one_input))
def concatenate_one(b: RuleBuilder, out):
    """concatenate(x)  =>  x"""
    return out.operands[0]


def _has_empty_input(i: Instruction) -> bool:
    return len(i.operands) > 1 and any(0 in o.shape.dims for o in i.operands)


@rule(any_of(["concatenate"], name="out", where=_has_empty_input))
def concatenate_empty(b: RuleBuilder, out):
    """concatenate(x, empty, y)  =>  concatenate(x, y)"""
    nonempty = [o for o in out.operands if o.shape.dims[out.attrs.dimensions[0]] != 0]
    if len(nonempty) == len(out.operands) or out.shape.is_dynamic:
        return None
    return b.like(out, *nonempty) if nonempty else out.operands[0]


def _joins_joined(i: Instruction) -> bool:
    return any(_is_part(o, i) for o in i.operands)


def _is_part(o: Instruction, out: Instruction) -> bool:
    """Whether an operand is itself joined, along the same dimension and for nothing else."""
    return (
        o.opcode == "concatenate"
        and o.attrs.dimensions == out.attrs.dimensions
        and len(o.users) == 1
        and not o.is_root
    )


@rule(any_of(["concatenate"], name="out", where=_joins_joined))
def concatenate_twice(b: RuleBuilder, out):
    """concatenate(concatenate(x, y), z)  =>  concatenate(x, y, z)    few, inner ones of one use"""
    parts: list[Instruction] = []
    for o in out.operands:
        parts += o.operands if _is_part(o, out) else [o]
    if out.shape.is_dynamic or any(o.shape.is_dynamic for o in (*out.operands, *parts)):
        return None
    if len(parts) > MOST_JOINED:
        return Declined("more arrays than one kernel is to write")
    return b.like(out, *parts)


@rule(m.pad(x, var("v"), name="out"))
def pad_nothing(b: RuleBuilder, x, out):
    """pad(x, v)  =>  x    no padding anywhere"""
    sizes = ((d.edge_padding_low, d.edge_padding_high) for d in out.attrs.padding.dimensions)
    return x if _same_shape(x, out) and all(s == (0, 0) for s in sizes) else None


@rule(any_of(["dynamic-slice"], name="out"))
def dynamic_slice_all(b: RuleBuilder, out):
    """dynamic-slice(x, starts)  =>  x    as large as x, so every start is clamped to 0"""
    return out.operands[0] if _same_shape(out.operands[0], out) else None


def _constant_starts(i: Instruction) -> bool:
    starts = i.operands[1:]
    return all(s.opcode == "constant" and not s.attrs.literal.is_elided for s in starts)


@rule(any_of(["dynamic-slice"], name="out", where=_constant_starts))
def dynamic_slice_constant(b: RuleBuilder, out):
    """dynamic-slice(x, constants)  =>  slice(x)    starts clamped"""
    x = out.operands[0]
    if x.shape.is_dynamic:
        return None
    dimensions = []
    triples = zip(out.operands[1:], x.shape.dims, out.attrs.dynamic_slice_sizes, strict=True)
    for start, size, slice_size in triples:
        first = min(max(int(start.attrs.literal.first()), 0), size - slice_size)
        dimensions.append(SliceDimension(first, first + slice_size, 1))
    return b.slice(x, slice=Slices(tuple(dimensions)))


@rule(any_of(["dynamic-update-slice"], name="out"))
def dynamic_update_all(b: RuleBuilder, out):
    """dynamic-update-slice(x, update, starts)  =>  update    as large as x"""
    update = out.operands[1]
    return update if _same_shape(update, out) else None


@rule(m.convert(x, name="out"))
def convert_nothing(b: RuleBuilder, x, out):
    """convert(x)  =>  x    same type"""
    return x if x.shape.dtype is out.shape.dtype else None


@rule(m.convert(m.convert(x, name="inner"), name="out"))
def convert_there_and_back(b: RuleBuilder, x, inner, out):
    """convert(convert(x))  =>  convert(x)    the type between holds every value of x's type"""
    first, between, last = (i.shape.dtype for i in (x, inner, out))
    if not preserves_values(first, between):
        return None
    if first is last:
        return x
    wraps = last.is_integral and not (first.is_floating or first.is_complex)
    if wraps and not between.is_integral and not preserves_values(first, last):
        return Declined("integers wrap where a float between would saturate")
    return b.convert(x, shape=out.shape)


RULES = (
    reshape_nothing,
    reshape_twice,
    transpose_nothing,
    transpose_twice,
    broadcast_nothing,
    broadcast_twice,
    rearranged_fill,
    part_of_fill,
    slice_nothing,
    slice_twice,
    reverse_nothing,
    reverse_twice,
    concatenate_one,
    concatenate_empty,
    concatenate_twice,
    pad_nothing,
    dynamic_slice_all,
    dynamic_slice_constant,
    dynamic_update_all,
    add_to_part,
    select_of_part,
    select_but_part,
    convert_nothing,
    convert_there_and_back,
)
