"""Arrays of one value: what is computed from them is computed once, and spread afterwards."""

from hloom.analysis.fusible import POINTWISE
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes_where
from hloom.ir.traits import ELEMENTWISE
from hloom.rewrite.build import RuleBuilder
from hloom.rewrite.pattern import Pattern, any_of, var
from hloom.rewrite.rule import rule
from hloom.types.literal import Literal

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


RULES = (function_of_fill, function_of_fills, constant_fill)
