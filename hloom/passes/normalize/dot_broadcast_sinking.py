"""Dots of operands that are equal along a dimension: each product is computed once, and repeated;
a matrix that is equal along a batch is multiplied once by the rows of all of it.

    dot(broadcast(x), y)  =>  broadcast(dot(x, y))    where rows of broadcast(x) are equal
    dot(x, broadcast(y))  =>  dot(x, y)               where broadcast(y) is equal along a batch

Exact, as no sum changes; what is equal along contracted dimensions stays, and so does a first
operand that is equal along a batch, as the result would have to be transposed. It stands before
canonical forms, which join what is equal and what differs in one dimension.
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
    """Compute products of equal rows or columns once, and broadcast them behind the dot; multiply
    a matrix that is repeated along a batch by all rows at once."""

    name = "dot-broadcast-sinking"
    breaks = (canonical_dots, no_dead_code)
    opcodes = frozenset(["dot"])

    def wants(self, i: Instruction) -> bool:
        values = (i, *i.operands)
        return all(y.shape.is_static for y in values) and (
            bool(_repeated_batches(i)) or any(map(_equal, [i, i], (0, 1)))
        )

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        together = _rows_together(b, i) if _repeated_batches(i) else i
        return _spread_behind(b, together)


def _rows_together(b: Expansion, i: Instruction) -> Instruction:
    """A dot whose second operand is not repeated any more: batches of the first are rows of it."""
    a, (x, y) = i.attrs, i.operands
    gone = _repeated_batches(i)
    kept = [k for k in range(len(a.lhs_batch_dims)) if k not in gone]
    batch = [a.lhs_batch_dims[k] for k in kept]
    rows = [*[a.lhs_batch_dims[k] for k in gone], *_free(i, 0)]
    order = [*batch, *rows, *a.lhs_contracting_dims]
    left = b.transposed(x, order)
    dropped = {a.rhs_batch_dims[k] for k in gone}
    place = {d: at for at, d in enumerate(d for d in range(y.shape.rank) if d not in dropped)}
    sizes = [y.shape.dims[d] for d in place]
    right = b.spread(y.operands[0], sizes, [place[d] for d in y.attrs.dimensions])
    product = b.emit(
        "dot",
        left,
        right,
        shape=shape(i.shape.dtype, i.shape.dims),
        lhs_batch_dims=tuple(range(len(batch))),
        rhs_batch_dims=tuple(place[a.rhs_batch_dims[k]] for k in kept),
        lhs_contracting_dims=tuple(range(len(batch) + len(rows), len(order))),
        rhs_contracting_dims=tuple(place[d] for d in a.rhs_contracting_dims),
        operand_precision=a.operand_precision,
        algorithm=a.algorithm,
    )
    product.backend_config, product.metadata = i.backend_config, i.metadata
    return product


def _spread_behind(b: Expansion, i: Instruction) -> Instruction:
    """The dot of operands without equal rows or columns, and what repeats its elements."""
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
    if not repeated:
        return i
    results = [1 if d in repeated else n for d, n in enumerate(i.shape.dims)]
    of = shape(i.shape.dtype, results).with_default_layouts()
    product = b.like(i, *operands, shape=of)
    kept = [d for d in range(i.shape.rank) if d not in repeated]
    return b.spread(b.reshaped(product, [results[d] for d in kept]), i.shape.dims, kept)


def _repeated_batches(i: Instruction) -> list[int]:
    """Which batches the second operand has equal matrices along, none that differs behind them:
    the rows of such batches of the result lie as those of one matrix."""
    a, spread = i.attrs, i.operands[1]
    if spread.opcode != "broadcast":
        return []
    repeated: list[int] = []
    for k in reversed(range(len(a.rhs_batch_dims))):
        d = a.rhs_batch_dims[k]
        if d in spread.attrs.dimensions:
            break
        repeated.append(k)
    return repeated[::-1]


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
