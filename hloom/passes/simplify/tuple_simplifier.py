"""Fold pairs of tuple and get-tuple-element."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.pass_ import RewritePass, register
from hloom.rewrite.build import RuleBuilder
from hloom.rewrite.pattern import any_of, m, var
from hloom.rewrite.rule import Declined, rule

x = var("x")


@rule(m.get_tuple_element(any_of(["tuple"], name="t"), name="g"))
def element_of_tuple(b: RuleBuilder, t: Instruction, g: Instruction):
    """get-tuple-element(tuple(x0, x1, ...), index=k)  =>  xk"""
    return t.operands[g.attrs.index]


def _elements_of_one(t: Instruction) -> bool:
    if not t.operands or any(o.opcode != "get-tuple-element" for o in t.operands):
        return False
    source = t.operands[0].operands[0]
    return len(source.shape.elements) == len(t.operands) and all(
        o.operands[0] is source and o.attrs.index == k for k, o in enumerate(t.operands)
    )


@rule(any_of(["tuple"], name="t", where=_elements_of_one))
def tuple_of_elements(b: RuleBuilder, t: Instruction):
    """tuple(get-tuple-element(x, 0), get-tuple-element(x, 1), ...)  =>  x    all elements of x"""
    source = t.operands[0].operands[0]
    if any(o.sharding is not None for o in t.operands) and source.sharding is None:
        return Declined("the elements have shardings that the tuple has not")
    return source


@register
class TupleSimplifier(RewritePass):
    """Fewest tuples: elements are read directly, and whole tuples are not taken apart."""

    name = "tuple-simplifier"
    rules = (element_of_tuple, tuple_of_elements)
