"""Arrays of one value: what is computed from them is computed once, and spread afterwards."""

from math import prod

from hloom.analysis.fusible import POINTWISE
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes_where
from hloom.ir.traits import ELEMENTWISE
from hloom.rewrite.build import RuleBuilder
from hloom.rewrite.pattern import Pattern, any_of, var
from hloom.rewrite.rule import Declined, rule
from hloom.types.literal import Literal
from hloom.types.shape import Shape

UNARY, BINARY = (
    opcodes_where(
        lambda op, count=count: (
            ELEMENTWISE in op.traits and op.name in POINTWISE and op.operand_count == count
        )
    )
    for count in (1, 2)
)
"""Operations whose elements depend on one element of each operand."""

x, y = var("x"), var("y")


def _of_scalar(i: Instruction) -> bool:
    return i.operands[0].shape.rank == 0


def _may_shrink(i: Instruction) -> bool:
    return i.shape.is_array and not i.shape.is_dynamic and i.sharding is None


def _fill(value: Pattern) -> Pattern:
    return any_of(["broadcast"], value, where=_of_scalar)


@rule(any_of(UNARY, _fill(x), name="out", where=_may_shrink))
def function_of_fill(b: RuleBuilder, x, out):
    """f(broadcast(x))  =>  broadcast(f(x))    x scalar, f elementwise"""
    return _spread(b, out, x)


@rule(any_of(BINARY, _fill(x), _fill(y), name="out", where=_may_shrink))
def function_of_fills(b: RuleBuilder, x, y, out):
    """f(broadcast(x), broadcast(y))  =>  broadcast(f(x, y))    x, y scalar, f elementwise"""
    return _spread(b, out, x, y)


def _spread(b: RuleBuilder, out: Instruction, *scalars: Instruction) -> Instruction:
    value = b.like(out, *scalars, shape=out.shape.with_dims(()))
    return b.broadcast(value, dimensions=(), shape=out.shape)


def _of_one_value(i: Instruction) -> bool:
    literal = i.attrs.literal
    is_array = i.shape.is_array and i.shape.rank > 0 and i.shape.size > 1
    return is_array and not literal.is_elided and literal.is_all_equal


@rule(any_of(["constant"], name="out", where=_of_one_value))
def constant_fill(b: RuleBuilder, out):
    """constant {v, v, ...}  =>  broadcast(constant v)"""
    value = Literal.of(out.attrs.literal.first(), out.shape.dtype)
    return b.broadcast(b.constant(value), dimensions=(), shape=out.shape)


ENORMOUS = 1 << 31
"""Elements from which an array is computed from the few of it that differ."""


def _is_enormous(i: Instruction) -> bool:
    return _may_shrink(i) and i.shape.size >= ENORMOUS


def _of_dims(of: Shape, dims: tuple[int, ...]) -> Shape:
    return of.with_dims(dims).with_default_layouts()


def _few(b: RuleBuilder, out: Instruction) -> Instruction | Declined:
    """An operation on broadcasts, computed along the dimensions that one of them has."""
    different = sorted({d for o in out.operands for d in o.attrs.dimensions})
    dims = tuple(out.shape.dims[d] for d in different)
    if prod(dims) == out.shape.size:
        return Declined("its elements differ along every dimension")
    inner = [
        b.broadcast(
            o.operands[0],
            dimensions=tuple(different.index(d) for d in o.attrs.dimensions),
            shape=_of_dims(o.shape, dims),
        )
        for o in out.operands
    ]
    value = b.like(out, *inner, shape=_of_dims(out.shape, dims))
    return b.broadcast(value, dimensions=tuple(different), shape=out.shape)


SPREAD = any_of(["broadcast"])


@rule(any_of(UNARY, SPREAD, name="out", where=_is_enormous))
def function_of_spread(b: RuleBuilder, out):
    """f(broadcast(x))  =>  broadcast(f(x))    2**31 elements, fewer in x"""
    return _few(b, out)


@rule(any_of(BINARY, SPREAD, SPREAD, name="out", where=_is_enormous))
def function_of_spreads(b: RuleBuilder, out):
    """f(broadcast(x), broadcast(y))  =>  broadcast(f(x, y))    2**31 elements, fewer in both"""
    return _few(b, out)


@rule(any_of(["select"], SPREAD, SPREAD, SPREAD, name="out", where=_is_enormous))
def choice_of_spreads(b: RuleBuilder, out):
    """broadcast(p) ? broadcast(x) : broadcast(y)  =>  broadcast(p ? x : y)    2**31 elements"""
    return _few(b, out)


def _enormous_plane(i: Instruction) -> bool:
    return _is_enormous(i) and i.shape.rank > 1


@rule(any_of(["iota"], name="out", where=_enormous_plane))
def iota_of_one_dimension(b: RuleBuilder, out):
    """iota  =>  broadcast(iota of one dimension)    2**31 elements"""
    along = out.attrs.iota_dimension
    if out.shape.dims[along] == out.shape.size:
        return None
    row = b.iota(iota_dimension=0, shape=_of_dims(out.shape, (out.shape.dims[along],)))
    return b.broadcast(row, dimensions=(along,), shape=out.shape)


RULES = (
    function_of_fill,
    function_of_fills,
    function_of_spread,
    function_of_spreads,
    choice_of_spreads,
    iota_of_one_dimension,
    constant_fill,
)
