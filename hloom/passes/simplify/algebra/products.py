"""Sums of products that are dots: what `(x[:, None] * y[None]).sum(-1)` means.

Computed as written each of M x N results reads both of its K factors again; a dot keeps them in
registers. Where only one side has dimensions of its own, nothing is read twice and the sum stays.
"""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.passes.simplify.algebra.folds import combining
from hloom.rewrite.build import RuleBuilder
from hloom.rewrite.pattern import any_of, m, var
from hloom.rewrite.rule import Declined, rule

LEAST_TERMS = 5
LEAST_RESULTS = 100
LEAST_OWN = 4
"""A sum has so many terms, each of them is read for so many results, and each side has so many
elements for it. Time of the dot by that of the sum on a Zen 5 (AVX-512): 0.5 on average of 60 sizes
in f32; 8 x 8 results of 20,000 terms 1.4, 12 x 12 0.05; 700 x 700 of one term 1.4, of eight 0.7;
20,000 times 12 x 12 of three terms 1.3 to 1.9, 10 x 10 of ten 0.3 to 0.9. Losing: 10 x 10 of c128
1.3 to 1.6, one 4 x 25 of f64 1.2."""
LEAST_WORK = 4000
"""So many products: below, a kernel of its own costs more than it saves."""

x, y = var("x"), var("y")


def _sums(i: Instruction) -> bool:
    return (
        combining(i) == "add"
        and (i.shape.dtype.is_floating or i.shape.dtype.is_complex)
        and i.shape.dtype.bits >= 32
        and i.sharding is None
        and not (i.shape.is_dynamic or i.operands[0].shape.is_dynamic)
    )


@rule(
    any_of(
        ["reduce"],
        m.multiply(
            any_of(["broadcast"], x, name="left"),
            any_of(["broadcast"], y, name="right"),
            name="product",
            one_user=True,
        ),
        var("start"),
        name="out",
        where=_sums,
    )
)
def sum_of_products(b: RuleBuilder, x, y, left, right, product, start, out):
    """sum(broadcast(x) * broadcast(y), start)  =>  start + dot(x, y)    no dimension in neither"""
    dims, folded = product.shape.dims, set(out.attrs.dimensions)
    of_x, of_y = left.attrs.dimensions, right.attrs.dimensions
    both = set(of_x) & set(of_y)
    if set(range(len(dims))) - set(of_x) - set(of_y) or not folded or folded - both:
        return Declined("a dimension of neither, or a sum along one of one side")
    own = [[d for d in side if d not in both] for side in (of_x, of_y)]
    counts = [prod(dims[d] for d in side) for side in own]
    if min(counts) < LEAST_OWN or prod(counts) < LEAST_RESULTS or prod(dims) < LEAST_WORK:
        return Declined("few results for each factor")
    if prod(dims[d] for d in folded) < LEAST_TERMS:
        return Declined("a sum of hardly any terms")
    batch = [d for d in range(len(dims)) if d in both and d not in folded]
    terms = sorted(folded)
    value = b.dot(
        x,
        y,
        lhs_batch_dims=tuple(of_x.index(d) for d in batch),
        rhs_batch_dims=tuple(of_y.index(d) for d in batch),
        lhs_contracting_dims=tuple(of_x.index(d) for d in terms),
        rhs_contracting_dims=tuple(of_y.index(d) for d in terms),
        operand_precision=("highest", "highest"),
    )
    order = [*batch, *own[0], *own[1]]
    kept = [d for d in range(len(dims)) if d not in folded]
    if order != kept:
        value = b.transpose(value, dimensions=tuple(order.index(d) for d in kept))
    return b.add(b.broadcast(start, dimensions=(), shape=out.shape), value)


RULES = (sum_of_products,)
