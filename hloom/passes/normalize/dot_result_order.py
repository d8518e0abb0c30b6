"""Dots whose results come in the order of dimensions in which they are read.

`einsum` in JAX takes its operands in the order that suits its search, and transposes what comes
out: scores of attention as keys by queries, which are then turned for a softmax along the keys. A
dot with its operands exchanged has the result the other way round, and free dimensions of a small
operand are moved there rather than in the product. The dimension that varies fastest is then one
that the dot has last, so what is left of the transpose moves whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.ir.traits import RESHAPES
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register
from hloom.types.shape import shape

Dims = tuple[int, ...]

LEAST_SHARE = 2
"""A result has to be so many times as large as an operand that is transposed in its place."""
MANY_ROWS = 128
"""To multiply so many rows by a matrix takes far longer than to pack the matrix."""


@dataclass(frozen=True)
class _Side:
    """One operand of a dot: its free dimensions, and the order in which a transpose has them."""

    x: Instruction
    batch: Dims
    contracting: Dims
    order: Dims
    """Numbers into `free`."""

    @property
    def free(self) -> Dims:
        named = (*self.batch, *self.contracting)
        return tuple(d for d in range(self.x.shape.rank) if d not in named)

    @property
    def sizes(self) -> Dims:
        """Of the free dimensions, in the order wanted."""
        return tuple(self.x.shape.dims[self.free[k]] for k in self.order)

    def moved(self, b: Expansion) -> Instruction:
        """The operand with its free dimensions in the order wanted; others stay where they are."""
        dims = list(range(self.x.shape.rank))
        for place, k in zip(self.free, self.order):
            dims[place] = self.free[k]
        return b.transposed(self.x, dims)


@register
class DotResultOrder(Expander):
    """Exchange operands of dots, and the free dimensions of small ones, for what reads the dots."""

    name = "dot-result-order"
    breaks = (canonical_dots, no_dead_code)
    opcodes = frozenset(["transpose"])

    images: bool = True
    """Whether dots that were convolutions of one element, images by weights, are exchanged: not
    before a layout is chosen for them and what is around them together."""
    others: bool = True
    """Whether all other dots are."""

    def wants(self, i: Instruction) -> bool:
        dot = i.operands[0]
        return (
            dot.opcode == "dot"
            and len(dot.users) == 1
            and not dot.is_root
            and not dot.shape.is_dynamic
            and dot.shape.size > 0
            and (self.images if _is_of_images(dot) else self.others)
        )

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        dot, wanted = i.operands[0], i.attrs.dimensions
        a, large = dot.attrs, [d for d in wanted if dot.shape.dims[d] != 1]
        batch = len(a.lhs_batch_dims)
        x, y = dot.operands
        middle = x.shape.rank - len(a.lhs_contracting_dims)
        left = [d - batch for d in wanted if batch <= d < middle]
        right = [d - middle for d in wanted if d >= middle]
        sides = [
            _Side(x, a.lhs_batch_dims, a.lhs_contracting_dims, _worth(dot, x, batch, left)),
            _Side(y, a.rhs_batch_dims, a.rhs_contracting_dims, _worth(dot, y, middle, right)),
        ]
        turned = bool(large) and batch <= large[-1] < middle and any(d >= middle for d in large)
        if not turned and all(s.order == tuple(range(len(s.order))) for s in sides):
            return None
        first, second = reversed(sides) if turned else sides
        product = b.emit(
            "dot",
            first.moved(b),
            second.moved(b),
            shape=shape(dot.shape.dtype, (*dot.shape.dims[:batch], *first.sizes, *second.sizes)),
            lhs_batch_dims=first.batch,
            rhs_batch_dims=second.batch,
            lhs_contracting_dims=first.contracting,
            rhs_contracting_dims=second.contracting,
            operand_precision=a.operand_precision[:: -1 if turned else 1],
            algorithm=a.algorithm,
        )
        product.backend_config, product.metadata = dot.backend_config, dot.metadata
        # Where the free dimensions of either side begin now.
        starts = (batch + len(first.order), batch) if turned else (batch, middle)
        place = {d: d for d in range(batch)}
        for side, old, new in zip(sides, (batch, middle), starts):
            place |= {old + k: new + at for at, k in enumerate(side.order)}
        return b.transposed(product, [place[d] for d in wanted])


def _worth(dot: Instruction, x: Instruction, start: int, wanted: list[int]) -> Dims:
    """The order of an operand's free dimensions: as wanted, unless moving them costs too much."""
    ordered = tuple(range(len(wanted)))
    large = [k for k in wanted if dot.shape.dims[start + k] != 1]
    if large == sorted(large) or LEAST_SHARE * x.shape.size > dot.shape.size:
        return ordered
    return tuple(wanted)


def _is_of_images(dot: Instruction) -> bool:
    """Whether a dot is that of a convolution of one element, images by weights, and has the
    weights packed at no cost that shows: once, as a constant, or for many places."""
    a, (x, y) = dot.attrs, dot.operands
    free = x.shape.rank - len(a.lhs_contracting_dims)
    if a.lhs_batch_dims or free <= 2 or y.shape.rank - len(a.rhs_contracting_dims) != 1:
        return False
    while y.opcode == "transpose" or RESHAPES in OPS[y.opcode].traits:
        y = y.operands[0]
    return y.opcode == "constant" or dot.shape.size >= MANY_ROWS * dot.shape.dims[-1]
