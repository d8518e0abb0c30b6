"""Operations on elements: operands and result are cut alike."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.passes.partition.factors import Factors, by_factors
from hloom.passes.partition.partitioner import Walk, partitions, replicated
from hloom.passes.partition.value import Value


@partitions(*sorted(opcodes(ELEMENTWISE)), "copy", "map")
def elementwise(walk: Walk, i: Instruction) -> Sequence[Value]:
    if not i.shape.is_array or i.shape.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    shapes = [x.shape for x in i.operands]
    f = Factors.pointwise(shapes, [i.shape])
    if i.opcode == "bitcast-convert" and shapes[0].rank != i.shape.rank:
        # The last dimension of the wider rank is inside an element of the other.
        narrow, wide = sorted((shapes[0], i.shape), key=lambda s: s.rank)
        f = Factors.pointwise([narrow], [narrow])
        inner = f.new(wide.dims[-1])
        f.whole.add(inner)
        more = (*f.results[0], (inner,))
        if shapes[0] is wide:
            f.operands = [more]
        else:
            f.results = [more]
    return by_factors(walk, i, f)
