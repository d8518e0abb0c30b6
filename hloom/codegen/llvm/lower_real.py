"""Arithmetic of real floats: exact operations here, functions in `math`.

Types narrower than f32 are computed in f32; each result is rounded to its type unless the kernel
allows excess precision, except results that cannot have more digits than the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from math import frexp

from hloom.codegen.llvm.convert import narrowed, widened
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.lower_state import KernelLowering, as_narrow, rounded_through
from hloom.codegen.llvm.math import MATH
from hloom.codegen.llvm.math.power import WITH_ROOT
from hloom.codegen.llvm.values import BITS, V
from hloom.types.dtype import DType

Function = Callable[..., V]

LARGEST_DIVISOR = {"f32": 2.0**125, "f64": 2.0**1021}
"""Up to here the reciprocal of a number is a normal one, and a quarter of twice as much has one."""


OFTEN = 8
"""Divisions of vectors that take more than a reciprocal and as many products (with 5 1.06 times as
long: rows of 5 of a softmax)."""


def _rounded(method: str) -> Function:
    """An Emit method, and rounding to the type."""

    def apply(low: KernelLowering, dtype: DType, *x: V) -> V:
        return low.rounded(getattr(low.e, method)(*x), dtype)

    return apply


def _flagged(method: str) -> Function:
    """As `_rounded`, with the fast-math flags of the kernel."""

    def apply(low: KernelLowering, dtype: DType, *x: V) -> V:
        e = low.e
        e.flags = low.freedom.flags
        result = getattr(e, method)(*x)
        e.flags = ""
        return low.rounded(result, dtype)

    return apply


def divide(low: KernelLowering, dtype: DType, x: V, y: V) -> V:
    """x / y; by the reciprocal if the kernel's fast-math flags allow it."""
    e, flags = low.e, low.freedom.flags
    if not flags:
        quotient = exact_by_reciprocal(e, x, y) if _is_divided_often(e, x, y) else e.fdiv(x, y)
        return low.rounded(quotient, dtype)
    text = f"fdiv {flags}{x.type} {x.name}, {y.name}"
    return low.rounded(e.pure(text, x.kind, x.lanes, max(x.depth, y.depth), x.type), dtype)


def _is_divided_often(e: Emit, x: V, y: V) -> bool:
    """Whether a loop divides vectors by what stays the same in it, and multiplying is faster: where
    it computes much else, eight divisions of f32 hide behind that, sixteen do not."""
    machine = e.machine
    if x.kind not in LARGEST_DIVISOR or x.lanes == 1 or not machine.is_x86 or not machine.has_fma:
        return False
    if y.value is not None:
        fraction, _ = frexp(y.value)
        is_normal = 1 / LARGEST_DIVISOR[y.kind] < abs(y.value) < LARGEST_DIVISOR[y.kind]
        return is_normal and abs(fraction) != 0.5  # by powers of two LLVM multiplies
    if not machine.has_avx512 and x.kind == "f32":
        return False
    own = -(-x.lanes // machine.lanes(BITS[x.kind]))
    return x.depth > y.depth and own * e.repeats(y.depth) >= OFTEN * e.repeats(x.depth)


def exact_by_reciprocal(e: Emit, x: V, y: V) -> V:
    """x / y, rounded as a division rounds: the product with 1 / y, and what that leaves of x
    divided in the same way (Markstein 1990). Infinite quotients have no such rest, and zeros would
    lose their sign by it.

    The reciprocal of a large y would count as zero: such y, and x, are made smaller before."""
    one, scaled, scale = e.like(y, 1.0), x, None
    if y.value is None:
        is_large = e.fcmp("oge", e.fabs(y), e.like(y, LARGEST_DIVISOR[y.kind]))
        scale = e.select(is_large, e.like(y, 0.25), one)
        scaled = e.fmul(x, scale)
    reciprocal = e.fdiv(one, y if scale is None else e.fmul(y, scale))
    quotient = e.fmul(scaled, reciprocal)
    rest = e.fma(e.fneg(quotient), y, x)
    own = reciprocal if scale is None else e.fmul(reciprocal, scale)
    exact = e.fma(rest, own, quotient)
    return e.select(e.fcmp("one", exact, e.like(x, 0.0)), exact, quotient)


def _chosen(method: str) -> Function:
    """An Emit method whose result is one of the operands."""

    def apply(low: KernelLowering, dtype: DType, *x: V) -> V:
        return as_narrow(low.e, getattr(low.e, method)(*x), dtype, x)

    return apply


def function(opcode: str) -> Function:
    """A function of `math`, rounded to the type: its code, or a call of it in long kernels."""
    compute = MATH[opcode]

    def apply(low: KernelLowering, dtype: DType, *x: V) -> V:
        is_short = opcode == "power" and x[1].value in WITH_ROOT
        if low.is_long and not is_short:
            return low.rounded(low.e.call_inner(opcode, compute, x), dtype)
        return low.rounded(low.written_here(compute, *x), dtype)

    return apply


def clamp(low: KernelLowering, dtype: DType, least: V, x: V, most: V) -> V:
    """min(max(x, least), most); NaN anywhere gives NaN."""
    e = low.e
    return as_narrow(e, e.fminimum(e.fmaximum(x, least), most), dtype, (least, x, most))


def is_finite(low: KernelLowering, dtype: DType, x: V) -> V:
    """Whether x is neither infinite nor NaN."""
    return MATH["is-finite"](low.e, x)


COMPARISONS = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}
_SIGNED = {"EQ": "eq", "NE": "ne", "LT": "slt", "LE": "sle", "GT": "sgt", "GE": "sge"}
_UNSIGNED = {"EQ": "eq", "NE": "ne", "LT": "ult", "LE": "ule", "GT": "ugt", "GE": "uge"}


def compare(low: KernelLowering, dtype: DType, direction: str, order: str, x: V, y: V) -> V:
    """x DIRECTION y, as IEEE has it or, where `order` is 'total', by the total order."""
    e = low.e
    if dtype.is_floating:
        if order.lower().startswith("total"):
            signed = _SIGNED if dtype.is_signed else _UNSIGNED
            return e.icmp(signed[direction], total_key(e, x, dtype), total_key(e, y, dtype))
        return e.fcmp(COMPARISONS[direction], x, y)
    return e.icmp((_SIGNED if dtype.is_signed_int else _UNSIGNED)[direction], x, y)


def total_key(e: Emit, x: V, dtype: DType) -> V:
    """Integers in the total order of floats: -NaN < -inf < -0 < 0 < inf < NaN.

    Sign and magnitude become two's complement. The one NaN of a type without -0 sits where -0
    would be and is above everything; a type without a sign is its own key.
    """
    bits = narrowed(e, x, dtype) if dtype.bits < 32 else e.bits(x)
    if not dtype.is_signed:
        return bits
    width, lone = dtype.bits, dtype.has_nan and not dtype.has_negative_zero
    if lone or width < BITS[bits.kind]:
        bits = e.zext(bits, "i16")
    sign = 1 << (width - 1)
    magnitude = e.and_(bits, e.like(bits, sign - 1))
    negative = e.icmp("ne", e.and_(bits, e.like(bits, sign)), e.like(bits, 0))
    key = e.select(negative, e.not_(magnitude), magnitude)
    if lone:
        key = e.select(e.icmp("eq", bits, e.like(bits, sign)), e.like(bits, sign), key)
    return key


def reduce_precision(low: KernelLowering, dtype: DType, exponents: int, mantissas: int, x: V) -> V:
    """x rounded to fewer bits: too large becomes infinite, below the smallest normal a zero."""
    e = low.e
    own, digits = (11, 52) if x.kind == "f64" else (8, 23)
    narrowly = dtype.bits == 16
    if narrowly:
        own, digits = dtype.exponent_bits, dtype.mantissa_bits
        if exponents >= own and mantissas >= digits:
            return rounded_through(e, x, dtype)
    bits = narrowed(e, x, dtype) if narrowly else e.bits(x)
    width = BITS[bits.kind]
    like = e.like
    infinity = like(bits, ((1 << own) - 1) << digits)
    sign = like(bits, 1 << (width - 1))
    magnitude = e.and_(bits, e.not_(sign))
    dropped, rounded = digits - mantissas, magnitude
    if dropped > 0:
        odd = e.and_(e.lshr(magnitude, like(bits, dropped)), like(bits, 1))
        rounded = e.add(e.add(magnitude, like(bits, (1 << (dropped - 1)) - 1)), odd)
        rounded = e.and_(rounded, like(bits, ~((1 << dropped) - 1)))
    if exponents < own:
        bias, other = (1 << (own - 1)) - 1, (1 << (exponents - 1)) - 1
        exponent = e.lshr(rounded, like(bits, digits))
        rounded = e.select(e.icmp("ugt", exponent, like(bits, bias + other)), infinity, rounded)
        small = e.icmp("ule", exponent, like(bits, bias - other))
        rounded = e.select(small, like(bits, 0), rounded)
    kept_bits = e.or_(rounded, e.and_(bits, sign))
    rounded = e.select(e.icmp("ugt", magnitude, infinity), bits, kept_bits)
    rounded = widened(e, rounded, dtype) if narrowly else e.bitcast(rounded, x.kind)
    return rounded if narrowly else low.rounded(rounded, dtype)


def negate(low: KernelLowering, dtype: DType, x: V) -> V:
    """The other sign, of NaN and zero too; rounded where a type has no such number."""
    result = as_narrow(low.e, low.e.fneg(x), dtype, (x,))
    return result if dtype.has_negative_zero else low.rounded(result, dtype)


_EXACT: dict[str, Function] = {
    "abs": _chosen("fabs"),
    "add": _flagged("fadd"),
    "ceil": _rounded("fceil"),
    "clamp": clamp,
    "divide": divide,
    "floor": _rounded("ffloor"),
    "fma": _rounded("fma"),
    "is-finite": is_finite,
    "maximum": _chosen("fmaximum"),
    "minimum": _chosen("fminimum"),
    "multiply": _flagged("fmul"),
    "negate": negate,
    "round-nearest-even": _rounded("fround_even"),
    "sqrt": _rounded("fsqrt"),
    "subtract": _flagged("fsub"),
}
CHOOSING = frozenset("abs clamp maximum minimum negate".split())
"""Those whose result is one of the operands, but for its sign."""
REAL: dict[str, Function] = {name: function(name) for name in MATH} | _EXACT
