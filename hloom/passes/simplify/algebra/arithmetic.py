"""Sums, products, powers: operations with a neutral element, and those that undo one another."""

from hloom.ir.instruction import Instruction
from hloom.rewrite.build import RuleBuilder
from hloom.rewrite.pattern import any_of, constant, m, var
from hloom.rewrite.rule import Declined, rule

x, y = var("x"), var("y")


def is_integer(i: Instruction) -> bool:
    return i.shape.dtype.is_integral


def is_signed(i: Instruction) -> bool:
    """Whether what is negated is there again when it is negated once more: of floats without a sign
    (f8e8m0fnu) it is NaN."""
    dtype = i.shape.dtype
    return dtype.is_signed or not dtype.is_floating


def is_exact(i: Instruction) -> bool:
    return i.shape.dtype.is_integral or i.shape.dtype.is_pred


@rule(m.add(x, constant(value=0)))
def add_zero(b: RuleBuilder, x):
    """x + 0  =>  x"""
    return x


@rule(m.subtract(x, constant(value=0)))
def subtract_zero(b: RuleBuilder, x):
    """x - 0  =>  x"""
    return x


@rule(m.subtract(x, x, name="out", where=is_integer))
def subtract_itself(b: RuleBuilder, x, out):
    """x - x  =>  0    integers"""
    return b.filled(0, out.shape)


@rule(m.multiply(x, constant(value=1)))
def multiply_one(b: RuleBuilder, x):
    """x * 1  =>  x"""
    return x


@rule(m.multiply(x, constant(value=0), name="out", where=is_exact))
def multiply_zero(b: RuleBuilder, x, out):
    """x * 0  =>  0    integers: a float may be NaN or infinite"""
    return b.filled(0, out.shape)


@rule(m.multiply(x, constant(value=-1), name="out"))
def multiply_minus_one(b: RuleBuilder, x, out):
    """x * -1  =>  -x"""
    if out.shape.dtype.is_unsigned_int or out.shape.dtype.is_pred:
        return None
    return b.negate(x)


@rule(m.divide(x, constant(value=1)))
def divide_one(b: RuleBuilder, x):
    """x / 1  =>  x"""
    return x


@rule(m.remainder(x, constant(value=1), name="out", where=is_integer))
def remainder_one(b: RuleBuilder, x, out):
    """x % 1  =>  0    integers"""
    return b.filled(0, out.shape)


@rule(m.negate(m.negate(x), where=is_signed))
def negate_twice(b: RuleBuilder, x):
    """-(-x)  =>  x"""
    return x


@rule(m.add(x, m.negate(y), where=is_signed))
def add_negated(b: RuleBuilder, x, y):
    """x + (-y)  =>  x - y"""
    return b.subtract(x, y)


@rule(m.subtract(x, m.negate(y), where=is_signed))
def subtract_negated(b: RuleBuilder, x, y):
    """x - (-y)  =>  x + y"""
    return b.add(x, y)


@rule(m.multiply(m.negate(x), m.negate(y), where=is_signed))
def multiply_negated(b: RuleBuilder, x, y):
    """(-x) * (-y)  =>  x * y"""
    return b.multiply(x, y)


@rule(m.add(m.add(x, constant("c"), name="inner"), constant("d"), where=is_integer))
def add_constants(b: RuleBuilder, x, c, d, inner):
    """(x + c) + d  =>  x + (c + d)    integers, c and d constants"""
    if len(inner.users) > 1:
        return Declined(f"{inner!r} is read elsewhere")
    if x.opcode == "constant":
        return Declined("three constants, which any order would turn round for ever")
    return b.add(x, b.add(c, d))


@rule(m.multiply(m.multiply(x, constant("c"), name="inner"), constant("d"), where=is_integer))
def multiply_constants(b: RuleBuilder, x, c, d, inner):
    """(x * c) * d  =>  x * (c * d)    integers, c and d constants"""
    if len(inner.users) > 1:
        return Declined(f"{inner!r} is read elsewhere")
    if x.opcode == "constant":
        return Declined("three constants, which any order would turn round for ever")
    return b.multiply(x, b.multiply(c, d))


@rule(m.power(x, constant(value=1)))
def power_one(b: RuleBuilder, x):
    """x ** 1  =>  x"""
    return x


@rule(m.power(x, constant(value=2)))
def power_two(b: RuleBuilder, x):
    """x ** 2  =>  x * x"""
    return b.multiply(x, x)


@rule(m.power(x, constant(value=0), name="out"))
def power_zero(b: RuleBuilder, x, out):
    """x ** 0  =>  1"""
    return b.filled(1, out.shape)


def _float(i: Instruction) -> bool:
    return i.shape.dtype.is_floating


@rule(m.power(x, constant(value=-1), name="out", where=_float))
def power_minus_one(b: RuleBuilder, x, out):
    """x ** -1  =>  1 / x    floats"""
    return b.divide(b.filled(1, out.shape), x)


def _wide_float(i: Instruction) -> bool:
    """Whether a product of two roundings is about as good as one of `power`, which errs by one
    digit: with fewer bits it computes with more."""
    return i.shape.dtype.is_floating and i.shape.dtype.bits >= 32


@rule(m.power(x, constant(value=3), where=_wide_float))
def power_three(b: RuleBuilder, x):
    """x ** 3  =>  x * x * x    f32, f64"""
    return b.multiply(b.multiply(x, x), x)


@rule(any_of(["abs"], any_of(["abs"], x, name="inner"), name="out"))
def abs_twice(b: RuleBuilder, inner, out):
    """abs(abs(x))  =>  abs(x)"""
    return inner if inner.shape is out.shape else None


@rule(any_of(["abs"], any_of(["negate"], x), name="out", where=is_signed))
def abs_of_negated(b: RuleBuilder, x, out):
    """abs(-x)  =>  abs(x)"""
    return b.abs(x)


RULES = (
    add_zero,
    subtract_zero,
    subtract_itself,
    multiply_one,
    multiply_zero,
    multiply_minus_one,
    divide_one,
    remainder_one,
    negate_twice,
    add_negated,
    subtract_negated,
    multiply_negated,
    add_constants,
    multiply_constants,
    power_one,
    power_two,
    power_zero,
    power_minus_one,
    power_three,
    abs_twice,
    abs_of_negated,
)
