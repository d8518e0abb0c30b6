"""Dots of operands whose rows or columns are equal: each product is computed once, and repeated.

    dot(broadcast(x), y)  =>  broadcast(dot(x, y))    where rows of broadcast(x) are equal

Exact, as no sum changes; what is equal along contracted dimensions or a batch stays. It stands
before canonical forms, which join what is equal and what differs in one dimension.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class DotBroadcastSinking(Expander):
    """Compute products of equal rows or columns once, and broadcast them behind the dot."""

    name = "dot-broadcast-sinking"
    breaks = (canonical_dots, no_dead_code)
    opcodes = frozenset(["dot"])

    def wants(self, i: Instruction) -> bool:
        values = (i, *i.operands)
        return all(y.shape.is_static for y in values) and any(map(_equal, [i, i], (0, 1)))

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        operands = list(i.operands)
        repeated: list[int] = []
        for side in (0, 1):
            free, equal, before = _free(i, side), _equal(i, side), len(i.attrs.lhs_batch_dims)
            if not equal:
                continue
            repeated += [before + side * len(_free(i, 0)) + free.index(d) for d in equal]
            spread = i.operands[side]
            sizes = [1 if d in equal else n for d, n in enumerate(spread.shape.dims)]
            operands[side] = b.spread(spread.operands[0], sizes, spread.attrs.dimensions)
        results = [1 if d in repeated else n for d, n in enumerate(i.shape.dims)]
        of = shape(i.shape.dtype, results).with_default_layouts()
        product = b.like(i, *operands, shape=of)
        kept = [d for d in range(i.shape.rank) if d not in repeated]
        return b.spread(b.reshaped(product, [results[d] for d in kept]), i.shape.dims, kept)


def _free(i: Instruction, side: int) -> list[int]:
    """The dimensions of an operand that are those of the result, but batch dimensions."""
    a = i.attrs
    batch = a.rhs_batch_dims if side else a.lhs_batch_dims
    contracting = a.rhs_contracting_dims if side else a.lhs_contracting_dims
    rank = i.operands[side].shape.rank
    return [d for d in range(rank) if d not in (*batch, *contracting)]


def _equal(i: Instruction, side: int) -> list[int]:
    """Those along which an operand has equal elements."""
    spread = i.operands[side]
    if spread.opcode != "broadcast":
        return []
    places, dims = spread.attrs.dimensions, spread.shape.dims
    return [d for d in _free(i, side) if d not in places and dims[d] > 1]
