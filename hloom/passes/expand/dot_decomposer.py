"""Every dot in one form, which a code generator can take strides from.

Canonical dot: lhs `[batch..., M, K]` or `[batch..., K, M]`, rhs `[batch..., K, N]` or
`[batch..., N, K]`, result `[batch..., M, N]`. Batch dimensions lead in the same order on both
sides; exactly one contracting and one free dimension follow on each side, in either order, with
size 1 where the program has none. Operands have one type, the result that type or one of
`product_types.KEPT`.

The trick is to move as little as possible: of the orders in which several contracting dimensions
can be merged the one is taken that the larger operand has already, and an operand whose
dimensions lie in groups is only reshaped. Where a transposition is needed, the dimension that
varies fastest keeps its place.
"""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.product_types import product_types
from hloom.passes.facts import fact
from hloom.passes.pass_ import register
from hloom.types.dtype import F32
from hloom.types.shape import shape

Dims = tuple[int, ...]

# Elements of a line of a cache, of which one is read where neighbours are parted.
PARTED = 8


def is_canonical(dot: Instruction) -> bool:
    """Whether a dot has the form described above."""
    a = dot.attrs
    count = len(a.lhs_batch_dims)
    leading = tuple(range(count))
    if a.lhs_batch_dims != leading or a.rhs_batch_dims != leading:
        return False
    if not _has_one_of_each(dot):
        return False
    x, y = (o.shape for o in dot.operands)
    return product_types(x.dtype, y.dtype, dot.shape.dtype) == (x.dtype, dot.shape.dtype) and (
        x.dtype is y.dtype
    )


def _has_one_of_each(dot: Instruction) -> bool:
    a = dot.attrs
    rank = len(a.lhs_batch_dims) + 2
    return (
        len(a.lhs_contracting_dims) == len(a.rhs_contracting_dims) == 1
        and dot.operands[0].shape.rank == dot.operands[1].shape.rank == rank
    )


@fact
def canonical_dots(module) -> bool:
    """Every dot of static shape has one contracting and one free dimension on each side."""
    return all(
        _has_one_of_each(i) or _is_dynamic(i) for i in module.instructions() if i.opcode == "dot"
    )


def _is_dynamic(i: Instruction) -> bool:
    return i.shape.is_dynamic or any(o.shape.is_dynamic for o in i.operands)


class _Side:
    """One operand: which of its dimensions are batch, free and contracting."""

    def __init__(self, x: Instruction, batch: Dims, contracting: Dims) -> None:
        self.x = x
        self.batch = batch
        self.contracting = contracting
        named = {*batch, *contracting}
        self.free = tuple(d for d in range(x.shape.rank) if d not in named)

    def sizes(self, dims: Dims) -> Dims:
        return tuple(self.x.shape.dims[d] for d in dims)

    @property
    def fastest(self) -> int | None:
        """The dimension whose elements are neighbours; None if all have size 1."""
        large = [d for d, size in enumerate(self.x.shape.dims) if size != 1]
        return large[-1] if large else None

    def orders(self, contracting: Dims) -> tuple[Dims, Dims]:
        """The two orders of dimensions that need only a reshape: free last, contracting last."""
        return (
            (*self.batch, *contracting, *self.free),
            (*self.batch, *self.free, *contracting),
        )

    def moves(self, contracting: Dims) -> bool:
        """Whether it must be transposed if contracting dimensions come in this order."""
        return not any(self.is_in_order(order) for order in self.orders(contracting))

    def cost_of_order(self, contracting: Dims) -> int:
        """Elements that are moved if contracting dimensions come in this order; those whose
        neighbours are parted count as lines of a cache."""
        if not self.moves(contracting):
            return 0
        large = [d for d in contracting if self.x.shape.dims[d] != 1]
        is_parted = self.fastest in contracting and large[-1] != self.fastest
        return self.x.shape.size * (PARTED if is_parted else 1)

    def is_in_order(self, order: Dims) -> bool:
        """Whether these dimensions are in their order already; those of size 1 do not count."""
        large = [d for d in order if self.x.shape.dims[d] != 1]
        return large == sorted(large)

    def matrix(self, b: Expansion, contracting: Dims, prefer_last: bool) -> tuple[Instruction, int]:
        """The operand as [batch..., two dimensions], and which of the two is contracting."""
        free_last, contracting_last = self.orders(contracting)
        stays = [self.is_in_order(o) for o in (contracting_last, free_last)]
        if stays[0] and stays[1]:  # one of the two has size 1
            last = prefer_last
        elif stays[0] or stays[1]:
            last = stays[0]
        else:
            last = self.fastest in contracting
        order = contracting_last if last else free_last
        batch = self.sizes(self.batch)
        k, free = prod(self.sizes(contracting)), prod(self.sizes(self.free))
        x = self.x
        if not self.is_in_order(order):
            x = b.transposed(x, order)
        reshaped = b.reshaped(x, (*batch, free, k) if last else (*batch, k, free))
        return reshaped, len(batch) + 1 if last else len(batch)


def canonical_dot(
    b: Expansion, dot: Instruction, x: Instruction, y: Instruction, attrs
) -> Instruction:
    """The dot of `x` and `y` under the dimension numbers of `attrs` in canonical form, with the
    shape of `dot`."""
    of = dot.shape
    operands, result = product_types(x.shape.dtype, y.shape.dtype, of.dtype)
    x, y = b.converted(x, operands), b.converted(y, operands)
    left = _Side(x, tuple(attrs.lhs_batch_dims), tuple(attrs.lhs_contracting_dims))
    right = _Side(y, tuple(attrs.rhs_batch_dims), tuple(attrs.rhs_contracting_dims))
    x_order, y_order = _contracting_orders(left, right)
    lhs, lhs_k = left.matrix(b, x_order, True)
    rhs, rhs_k = right.matrix(b, y_order, False)
    leading = tuple(range(len(left.batch)))
    m, n = prod(left.sizes(left.free)), prod(right.sizes(right.free))
    product = b.emit(
        "dot",
        lhs,
        rhs,
        shape=shape(result, (*left.sizes(left.batch), m, n)),
        lhs_batch_dims=leading,
        rhs_batch_dims=leading,
        lhs_contracting_dims=(lhs_k,),
        rhs_contracting_dims=(rhs_k,),
        operand_precision=attrs.operand_precision,
        algorithm=attrs.algorithm,
    )
    product.backend_config = dot.backend_config
    return b.converted(b.reshaped(product, of.dims), of.dtype)


def sums_of_products(b: Expansion, dot: Instruction) -> Instruction | None:
    """A dot without free dimensions, whose batch varies fastest in both operands or stands between
    what is contracted, as products element by element that are added up: rows are read whole, and
    nothing is transposed."""
    a, of = dot.attrs, dot.shape
    x, y = dot.operands
    left = _Side(x, tuple(a.lhs_batch_dims), tuple(a.lhs_contracting_dims))
    right = _Side(y, tuple(a.rhs_batch_dims), tuple(a.rhs_contracting_dims))
    if prod((*left.sizes(left.free), *right.sizes(right.free))) != 1 or not of.size:
        return None
    is_row = left.fastest not in left.batch or right.fastest not in right.batch
    if is_row and not _stands_between(left, right):
        return None
    _, wide = product_types(x.shape.dtype, y.shape.dtype, of.dtype)
    if wide.is_floating and wide.bits < 32:
        wide = F32
    kept_dims = [d for d in range(x.shape.rank) if d not in left.free]
    pairs = dict(zip(left.batch, right.batch, strict=True))
    pairs.update(zip(left.contracting, right.contracting, strict=True))
    there = [d for d in range(y.shape.rank) if d not in right.free]
    order = [there.index(pairs[d]) for d in kept_dims]
    x = b.converted(b.reshaped(x, left.sizes(tuple(kept_dims))), wide)
    y = b.converted(b.transposed(b.reshaped(y, right.sizes(tuple(there))), order), wide)
    product = b.emit("multiply", x, y)
    sums = b.total(product, [k for k, d in enumerate(kept_dims) if d in left.contracting])
    batch = sorted(left.batch)
    sums = b.transposed(sums, [batch.index(d) for d in left.batch])
    return b.converted(b.reshaped(sums, of.dims), of.dtype)


def _stands_between(left: _Side, right: _Side) -> bool:
    """Whether a batch separates what is contracted, so that a matrix would have to be moved, in
    two operands that lie alike."""
    x_order, y_order = _contracting_orders(left, right)
    if not (left.moves(x_order) or right.moves(y_order)):
        return False
    pairs = zip((*left.batch, *left.contracting), (*right.batch, *right.contracting), strict=True)
    there = [d for _, d in sorted(pairs)]
    return there == sorted(there)


def _contracting_orders(left: _Side, right: _Side) -> tuple[Dims, Dims]:
    """The same order of contracting dimensions on both sides: the one the larger operand has,
    unless only the other one leaves an operand where it is, or neighbours beside each other."""
    pairs = list(zip(left.contracting, right.contracting, strict=True))
    by_left, by_right = sorted(pairs), sorted(pairs, key=lambda p: p[1])
    choices = []
    for order in (by_left, by_right):
        x_order, y_order = tuple(p[0] for p in order), tuple(p[1] for p in order)
        cost = left.cost_of_order(x_order) + right.cost_of_order(y_order)
        choices.append((cost, x_order, y_order))
    _, x_order, y_order = min(choices, key=lambda choice: choice[0])
    return x_order, y_order


@register
class DotDecomposer(Expander):
    """Write every dot as batches of one matrix times one matrix, of one type.

    Sizes are merged and split by reshapes; operands are transposed only where their dimensions
    are interleaved. A batch of dots of two vectors that varies fastest, or stands between what
    is contracted, is a reduction. Dots of dynamic shape are left to `dynamic-padder`.
    """

    name = "dot-decomposer"
    gives = (canonical_dots,)
    opcodes = frozenset(["dot"])

    def wants(self, i: Instruction) -> bool:
        return not (is_canonical(i) or _is_dynamic(i))

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, y = i.operands
        return sums_of_products(b, i) or canonical_dot(b, i, x, y, i.attrs)
