"""Operations that bring data in or name it anew: constants, iota, broadcast, transpose, reshape,
tuples."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from hloom.ir.instruction import Instruction
from hloom.passes.partition.factors import Dims, Factors, by_factors, pulled, pushed
from hloom.passes.partition.partitioner import Walk, partitions, replicated
from hloom.passes.partition.tiling import Tiling
from hloom.passes.partition.value import Value
from hloom.types.dtype import S32
from hloom.types.shape import shape


@partitions("parameter")
def parameter(walk: Walk, i: Instruction) -> Sequence[Value]:
    given = walk.given[i.attrs.number]
    made = walk.b.emit(
        "parameter", number=i.attrs.number, name=i.name, shape=walk.local_shape(i.shape, given)
    )
    return walk.results(
        i,
        made,
        given,
        [w and w.without(frozenset(t.manual)) for w, t in zip(walk.wanted(i), given)],
    )


@partitions("tuple")
def tuple_(walk: Walk, i: Instruction) -> Sequence[Value]:
    return [v for x in i.operands for v in walk.values[x]]


@partitions("get-tuple-element")
def get_tuple_element(walk: Walk, i: Instruction) -> Sequence[Value]:
    of = i.operands[0].shape
    first = sum(e.leaf_count for e in of.elements[: i.attrs.index])
    return walk.values[i.operands[0]][first : first + i.shape.leaf_count]


@partitions("opt-barrier")
def optimization_barrier(walk: Walk, i: Instruction) -> Sequence[Value]:
    values = walk.values[i.operands[0]]
    tilings = [w or v.primary for w, v in zip(walk.wanted(i), values)]
    given = walk.tuple_of(i.shape, iter([v.get(t) for v, t in zip(values, tilings)]))
    made = walk.b.emit_like(i, [given], given.shape)
    return walk.results(i, made, tilings)


@partitions("domain")
def domain(walk: Walk, i: Instruction) -> Sequence[Value]:
    return walk.values[i.operands[0]]


@partitions("constant")
def constant(walk: Walk, i: Instruction) -> Sequence[Value]:
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
def iota(walk: Walk, i: Instruction) -> Sequence[Value]:
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
def broadcast(walk: Walk, i: Instruction) -> Sequence[Value]:
    x = walk.value(i.operands[0])
    if i.shape.is_dynamic or x.shape.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    every: Dims = tuple([(k,) for k in range(i.shape.rank)])
    f = Factors(list(i.shape.dims), [tuple([(k,) for k in i.attrs.dimensions])], [every])
    (want,) = walk.wanted(i)
    natural = pushed(f, every, pulled(walk, f, f.operands[0], x.primary))

    def needed(t: Tiling) -> Tiling:
        return pushed(f, f.operands[0], pulled(walk, f, every, t))

    def make(t: Tiling) -> Instruction:
        part = x.get(needed(t))
        return walk.b.emit_like(i, [part], walk.b.local_shape(i.shape, t))

    return [walk.free(i.shape, want or natural, make, lambda t: x.cost(needed(t)))]


@partitions("transpose")
def transpose(walk: Walk, i: Instruction) -> Sequence[Value]:
    if i.shape.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    of = i.operands[0].shape
    every: Dims = tuple([(k,) for k in range(of.rank)])
    return by_factors(
        walk, i, Factors(list(of.dims), [every], [tuple([(k,) for k in i.attrs.dimensions])])
    )


@partitions("reshape")
def reshape(walk: Walk, i: Instruction) -> Sequence[Value]:
    if i.shape.is_dynamic or i.operands[0].shape.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    f = reshape_factors(i.operands[0].shape.dims, i.shape.dims)

    def emit(parts, chosen):
        dims = walk.b.local_dims(i.shape.dims, chosen.results[0])
        return [walk.b.reshaped(parts[0], dims)]

    return by_factors(walk, i, f, emit)


def reshape_factors(before: Sequence[int], after: Sequence[int]) -> Factors:
    """The factors that dimensions before and after a reshape have in common, major ones first.

    Where the two do not divide each other, the rest of what is mixed is one whole.
    """
    f = Factors([], [], [])
    if 0 in before or 0 in after:
        lists = []
        for dims in (before, after):
            lists.append(tuple([(f.new(n),) for n in dims]))
        f.whole.update(range(len(f.sizes)))
        f.operands, f.results = lists[:1], lists[1:]
        return f
    sides = [[list[int]() for _ in before], [list[int]() for _ in after]]
    left = [list(before), list(after)]
    at = [0, 0]
    is_mixed = False
    seen = [1, 1]
    while at[0] < len(before) or at[1] < len(after):
        for s in (0, 1):
            while at[s] < len(left[s]) and left[s][at[s]] == 1:
                at[s] += 1
        if at[0] >= len(before) or at[1] >= len(after):
            break
        if is_mixed:
            s = 0 if seen[0] <= seen[1] else 1
            k = at[s]
            n, left[s][k] = left[s][k], 1
            new = f.new(n)
            f.whole.add(new)
            sides[s][k].append(new)
            seen[s] *= n
            is_mixed = seen[0] != seen[1]
            continue
        n = gcd(left[0][at[0]], left[1][at[1]])
        if n == 1:
            is_mixed, seen = True, [1, 1]
            continue
        new = f.new(n)
        for s in (0, 1):
            sides[s][at[s]].append(new)
            left[s][at[s]] //= n
    # What is left over are sizes of 1, and the end of what is mixed.
    for s, dims in enumerate((before, after)):
        for k in range(len(dims)):
            if left[s][k] != 1 or not sides[s][k]:
                new = f.new(left[s][k])
                f.whole.add(new)
                sides[s][k].append(new)
    f.operands = [tuple(map(tuple, sides[0]))]
    f.results = [tuple(map(tuple, sides[1]))]
    return f
