"""Operations that bring data in or name it anew: constants, iota, broadcast, transpose, reshape,
tuples."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.factor_axes import Dims, pulled, pushed
from hloom.passes.partition.loop_accumulators import linked, mark_partial
from hloom.passes.partition.partitioner import Walk, partitions, replicated
from hloom.passes.partition.tiling import Tiling
from hloom.passes.partition.value import TiledValue
from hloom.types.dtype import S32
from hloom.types.shape import shape


@partitions("parameter")
def parameter(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    tilings = walk.argument_tilings[i.attrs.number]
    mark_partial(walk, i, tilings)
    part = walk.b.emit(
        "parameter", number=i.attrs.number, name=i.name, shape=walk.local_shape(i.shape, tilings)
    )
    return walk.results(
        i,
        part,
        tilings,
        [w and w.without(frozenset(t.manual)) for w, t in zip(walk.wanted(i), tilings)],
    )


@partitions("tuple")
def tuple_(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    return [v for x in i.operands for v in walk.values[x]]


@partitions("get-tuple-element")
def get_tuple_element(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    of = i.operands[0].shape
    first = sum(e.leaf_count for e in of.elements[: i.attrs.index])
    return walk.values[i.operands[0]][first : first + i.shape.leaf_count]


@partitions("opt-barrier")
def optimization_barrier(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """What nobody reads behind a barrier stands in it as it is at hand."""
    values = walk.values[i.operands[0]]
    tilings = [
        w or v.primary if is_read else v.at_hand()
        for w, v, is_read in zip(walk.wanted(i), values, _are_read(i))
    ]
    bundle = walk.tuple_of(i.shape, iter([v.get(t) for v, t in zip(values, tilings)]))
    barrier = walk.b.emit_like(i, [bundle], bundle.shape)
    return walk.results(i, barrier, tilings)


def _are_read(i: Instruction) -> list[bool]:
    """For each leaf of a value whether somebody reads it."""
    if not i.shape.is_tuple or i.is_root or any(u.opcode != "get-tuple-element" for u in i.users):
        return [True] * i.shape.leaf_count
    elements = {u.attrs.index for u in i.users}
    return [k in elements for k, of in enumerate(i.shape.elements) for _ in range(of.leaf_count)]


@partitions("domain")
def domain(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    return walk.values[i.operands[0]]


@partitions("constant")
def constant(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    if not i.shape.is_array:
        return replicated(walk, i, "a constant")
    (want,) = walk.wanted(i)
    literal = i.attrs.literal
    whole = Tiling.replicated(i.shape.rank)
    if i.shape.rank and i.shape.size and literal.is_all_equal:
        first = literal.array.reshape(-1)[:1].reshape(())

        def make(t: Tiling) -> Instruction:
            dims = walk.b.local_dims(i.shape.dims, t)
            scalar = type(literal).of(first, shape(i.shape.dtype))
            return walk.b.spread(walk.b.constant(scalar), dims)

        return [walk.free(i.shape, want or whole, make)]
    return [walk.result(i.shape, whole, walk.b.emit_like(i, ()), want)]


@partitions("iota")
def iota(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    (want,) = walk.wanted(i)
    d = i.attrs.iota_dimension

    def make(t: Tiling) -> Instruction:
        b = walk.b
        local = b.local_shape(i.shape, t)
        if not t.dims[d]:
            return b.emit_like(i, (), local)
        # Counted as whole numbers, so that narrow floats are rounded once.
        at = b.iota(S32, local.dims, d)
        first = b.spread(b.offset(t.dims[d], local.dims[d]), local.dims)
        return b.converted(b.add(at, first), i.shape.dtype)

    return [walk.free(i.shape, want or Tiling.replicated(i.shape.rank), make)]


@partitions("broadcast")
def broadcast(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    x = walk.value(i.operands[0])
    f = Loops.of(i)
    every: Dims = f.results[0]
    (want,) = walk.wanted(i)
    natural = pushed(f, every, pulled(walk, f, f.operands[0], x.primary))

    def needed(t: Tiling) -> Tiling:
        return pushed(f, f.operands[0], pulled(walk, f, every, t))

    def make(t: Tiling) -> Instruction:
        part = x.get(needed(t))
        return walk.b.emit_like(i, [part], walk.b.local_shape(i.shape, t))

    value = walk.free(i.shape, want or natural, make, lambda t: x.cost(needed(t)))
    value.repeated_by(make, 0.0, [x])
    return [value]


@partitions("reshape")
def reshape(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        dims = walk.b.local_dims(i.shape.dims, chosen.results[0])
        return [walk.b.reshaped(parts[0], dims)]

    if (part := linked(walk, i)) is not None:
        return [part]
    return by_factors(walk, i, Loops.of(i), emit)
