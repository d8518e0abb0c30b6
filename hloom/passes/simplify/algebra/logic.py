"""Bits, comparisons, choices."""

from dataclasses import replace
from math import inf

from hloom.ir.instruction import Instruction
from hloom.rewrite.build import RuleBuilder
from hloom.rewrite.pattern import any_of, constant, m, var
from hloom.rewrite.rule import rule

x, y, p = var("x"), var("y"), var("p")
OPPOSITE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}


def _exact(i: Instruction) -> bool:
    return not (i.shape.dtype.is_floating or i.shape.dtype.is_complex)


def _pred(i: Instruction) -> bool:
    return i.shape.dtype.is_pred


@rule(any_of(["and", "or", "maximum", "minimum"], x, x))
def same_twice(b: RuleBuilder, x):
    """x & x, x | x, max(x, x), min(x, x)  =>  x"""
    return x


@rule(m.maximum(x, constant(value=-inf)))
def maximum_of_least(b: RuleBuilder, x):
    """max(x, -inf)  =>  x"""
    return x


@rule(m.minimum(x, constant(value=inf)))
def minimum_of_most(b: RuleBuilder, x):
    """min(x, inf)  =>  x"""
    return x


@rule(m.xor(x, x, name="out"))
def xor_itself(b: RuleBuilder, x, out):
    """x ^ x  =>  0"""
    return b.filled(0, out.shape)


@rule(any_of(["or", "xor"], x, constant(value=0)))
def or_zero(b: RuleBuilder, x):
    """x | 0, x ^ 0  =>  x"""
    return x


@rule(m.and_(x, constant(value=0), name="out"))
def and_zero(b: RuleBuilder, x, out):
    """x & 0  =>  0"""
    return b.filled(0, out.shape)


@rule(m.and_(x, constant(value=1), where=_pred))
def and_true(b: RuleBuilder, x):
    """x & true  =>  x    pred"""
    return x


@rule(m.or_(x, constant(value=1), name="out", where=_pred))
def or_true(b: RuleBuilder, x, out):
    """x | true  =>  true    pred"""
    return b.filled(1, out.shape)


@rule(m.not_(m.not_(x)))
def not_twice(b: RuleBuilder, x):
    """not(not(x))  =>  x"""
    return x


@rule(any_of(["shift-left", "shift-right-logical", "shift-right-arithmetic"], x, constant(value=0)))
def shift_zero(b: RuleBuilder, x):
    """x << 0, x >> 0  =>  x"""
    return x


@rule(m.not_(m.compare(x, y, name="c")))
def not_compare(b: RuleBuilder, x, y, c):
    """not(x < y)  =>  x >= y    integers, any direction: NaN is in no order"""
    if not _exact(x) or len(c.users) > 1:
        return None
    opposite = b.like(c, x, y)
    opposite.attrs = replace(c.attrs, direction=OPPOSITE[c.attrs.direction])
    return opposite


@rule(m.compare(x, x, name="c"))
def compare_itself(b: RuleBuilder, x, c):
    """x == x  =>  true, x < x  =>  false    integers, any direction"""
    if not _exact(x):
        return None
    return b.filled(c.attrs.direction in ("EQ", "LE", "GE"), c.shape)


@rule(m.select(p, x, x))
def select_same(b: RuleBuilder, x):
    """select(p, x, x)  =>  x"""
    return x


@rule(m.select(constant(value=1), x, y))
def select_true(b: RuleBuilder, x):
    """select(true, x, y)  =>  x"""
    return x


@rule(m.select(constant(value=0), x, y))
def select_false(b: RuleBuilder, y):
    """select(false, x, y)  =>  y"""
    return y


@rule(m.select(m.not_(p), x, y))
def select_not(b: RuleBuilder, p, x, y):
    """select(not(p), x, y)  =>  select(p, y, x)"""
    return b.select(p, y, x)


@rule(m.select(p, constant(value=1), constant(value=0), name="out", where=_pred))
def select_predicate(b: RuleBuilder, p, out):
    """select(p, true, false)  =>  p    pred of the same shape"""
    return p if p.shape.compatible(out.shape) else None


RULES = (
    same_twice,
    maximum_of_least,
    minimum_of_most,
    xor_itself,
    or_zero,
    and_zero,
    and_true,
    or_true,
    not_twice,
    shift_zero,
    not_compare,
    compare_itself,
    select_same,
    select_true,
    select_false,
    select_not,
    select_predicate,
)
