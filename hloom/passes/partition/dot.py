"""Contractions: cut along batch and free dimensions, or summed over contracting ones."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.factors import Chosen, Factors, by_factors
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.value import Value


@partitions("dot")
def dot(walk: Walk, i: Instruction) -> Sequence[Value]:
    a = i.attrs
    lhs, rhs = [x.shape for x in i.operands]
    f = Factors([], [], [])
    of_lhs = dict[int, int]()
    of_rhs = dict[int, int]()
    for k, n in zip(a.lhs_batch_dims, a.rhs_batch_dims):
        of_lhs[k] = of_rhs[n] = f.new(lhs.dims[k])
    batch = [of_lhs[k] for k in a.lhs_batch_dims]
    for k, n in zip(a.lhs_contracting_dims, a.rhs_contracting_dims):
        of_lhs[k] = of_rhs[n] = f.new(lhs.dims[k])
        f.reduced.add(of_lhs[k])
    free: list[int] = []
    for of, s in ((of_lhs, lhs), (of_rhs, rhs)):
        for d in range(s.rank):
            if d not in of:
                of[d] = f.new(s.dims[d])
                free.append(of[d])
    f.operands = [
        tuple([(of[d],) for d in range(s.rank)]) for of, s in ((of_lhs, lhs), (of_rhs, rhs))
    ]
    f.results = [tuple([(k,) for k in (*batch, *free)])]
    if i.shape.dtype.is_pred:
        f.whole |= f.reduced

    def emit(parts: list[Instruction], chosen: Chosen) -> list[Instruction]:
        sides = (a.lhs_contracting_dims, a.rhs_contracting_dims)
        for k, dims in enumerate(sides):
            zero = walk.b.zero(parts[k].shape.dtype)
            of = i.operands[k].shape
            parts[k] = walk.b.masked(parts[k], of, chosen.operands[k], dims, zero)
        return [walk.b.emit_like(i, parts, walk.local_shape(i.shape, chosen.results))]

    return by_factors(walk, i, f, emit)
