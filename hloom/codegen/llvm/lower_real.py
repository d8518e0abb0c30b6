"""Arithmetic of real floats: exact operations here, functions in `math`.

Types narrower than f32 are computed in f32; each result is rounded to its type unless the kernel
allows excess precision, except results that cannot have more digits than the operands.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.codegen.llvm.convert import narrow, widen
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.lower_state import Lowering
from hloom.codegen.llvm.math import MATH
from hloom.codegen.llvm.values import BITS, V
from hloom.types.dtype import DType

Function = Callable[..., V]


def _rounded(method: str) -> Function:
    """An Emit method, and rounding to the type."""

    def apply(low: Lowering, dtype: DType, *x: V) -> V:
        return low.rounded(getattr(low.e, method)(*x), dtype)

    return apply


def _flagged(method: str) -> Function:
    """As `_rounded`, with the fast-math flags of the kernel."""

    def apply(low: Lowering, dtype: DType, *x: V) -> V:
        e = low.e
        e.flags = low.freedom.flags
        made = getattr(e, method)(*x)
        e.flags = ""
        return low.rounded(made, dtype)

    return apply


def divide(low: Lowering, dtype: DType, x: V, y: V) -> V:
    """x / y; by the reciprocal if the kernel's fast-math flags allow it."""
    e, flags = low.e, low.freedom.flags
    if not flags:
        return low.rounded(e.fdiv(x, y), dtype)
    text = f"fdiv {flags}{x.type} {x.name}, {y.name}"
    return low.rounded(e.pure(text, x.kind, x.lanes, max(x.depth, y.depth), x.type), dtype)


def _chosen(method: str) -> Function:
    """An Emit method whose result is one of the operands."""

    def apply(low: Lowering, dtype: DType, *x: V) -> V:
        return getattr(low.e, method)(*x)

    return apply


def function(opcode: str) -> Function:
    """A function of `math`, rounded to the type."""
    compute = MATH[opcode]

    def apply(low: Lowering, dtype: DType, *x: V) -> V:
        return low.rounded(compute(low.e, *x), dtype)

    return apply


def round_half_away(low: Lowering, dtype: DType, x: V) -> V:
    """The nearest integer, halves away from zero, keeping -0; 0.49999997 gives 0."""
    e = low.e
    whole = e.ftrunc(x)
    half = e.fcmp("oge", e.fabs(e.fsub(x, whole)), e.like(x, 0.5))
    away = e.select(half, e.like(x, 1.0), e.like(x, 0.0))
    return low.rounded(e.copysign(e.fadd(e.fabs(whole), away), x), dtype)


def sign(low: Lowering, dtype: DType, x: V) -> V:
    """-1, x itself for zeros and NaN, or 1."""
    e = low.e
    ordered = e.fcmp("one", x, e.like(x, 0.0))
    return low.rounded(e.select(ordered, e.copysign(e.like(x, 1.0), x), x), dtype)


def clamp(low: Lowering, dtype: DType, least: V, x: V, most: V) -> V:
    """min(max(x, least), most); NaN anywhere gives NaN."""
    e = low.e
    return e.fminimum(e.fmaximum(x, least), most)


def is_finite(low: Lowering, dtype: DType, x: V) -> V:
    """Whether x is neither infinite nor NaN."""
    e = low.e
    return e.fcmp("olt", e.fabs(x), e.like(x, float("inf")))


def remainder(low: Lowering, dtype: DType, x: V, y: V) -> V:
    """C's fmod, exactly: the sign of x; NaN for an infinite x or a zero y."""
    e = low.e
    size, by = e.fabs(x), e.fabs(y)
    infinite, zero = e.like(x, float("inf")), e.like(x, 0.0)
    valid = e.and_(e.fcmp("olt", size, infinite), e.fcmp("ogt", by, zero))
    big = e.and_(valid, e.fcmp("oge", size, by))
    top, least = e.select(big, size, zero), e.select(big, by, e.like(y, 1.0))
    rest = _rest_of_doubles(e, top, least) if x.kind == "f64" else _rest_of_singles(e, top, least)
    made = e.copysign(e.select(big, rest, size), x)
    return low.rounded(e.select(valid, made, e.like(x, float("nan"))), dtype)


def _rest_of_singles(e: Emit, x: V, y: V) -> V:
    """x mod y for positive finite numbers of 24 bits, in f64, where no f32 is denormal.

    Each step takes off a multiple q < 2^28 of y times a power of two; the products have at most
    52 bits and the differences 24, so all are exact. A quotient rounded up is put right.
    """
    r, d = e.fpext(x, "f64"), e.fpext(y, "f64")
    by = e.const("i64", 52, x.lanes)
    least = e.lshr(e.bits(d), by)
    zero = e.const("i64", 0, x.lanes)
    steps = e.reduce("smax", e.sub(e.lshr(e.bits(r), by), least))
    steps = e.add(e.sdiv(e.smax(steps, e.const("i64", 0)), e.const("i64", 26)), e.const("i64", 2))
    begin, one = e.const("i64", 0), e.const("i64", 1)
    with e.loop(begin, steps, one, [r], nonempty=True) as loop:
        (r,) = loop.carried
        apart = e.sub(e.lshr(e.bits(r), by), least)
        shift = e.smax(e.sub(apart, e.like(apart, 27)), zero)
        power = e.bitcast(e.shl(e.add(shift, e.like(shift, 1023)), by), "f64")
        unit = e.fmul(d, power)
        rest = e.fsub(r, e.fmul(e.ftrunc(e.fdiv(r, unit)), unit))
        negative = e.fcmp("olt", rest, e.like(rest, 0.0))
        loop.next([e.select(negative, e.fadd(rest, unit), rest)])
    return e.fptrunc(loop.results[0], "f32")


def _rest_of_doubles(e: Emit, x: V, y: V) -> V:
    """x mod y for positive finite f64, on their integer significands, 11 bits a step."""
    like, by = e.like, e.const("i64", 52, x.lanes)
    a, b = e.bits(x), e.bits(y)
    one = like(a, 1)
    hidden, fraction = like(a, 1 << 52), like(a, (1 << 52) - 1)

    def significand(bits: V) -> tuple[V, V]:
        field = e.lshr(bits, by)
        low, denormal = e.and_(bits, fraction), e.icmp("eq", field, like(bits, 0))
        return e.select(denormal, low, e.or_(low, hidden)), e.umax(field, one)

    m, m_exponent = significand(a)
    d, exponent = significand(b)
    apart = e.smax(e.sub(m_exponent, exponent), like(a, 0))
    steps = e.udiv(e.reduce("smax", apart), e.const("i64", 11))
    steps = e.add(steps, e.const("i64", 2))
    begin, step = e.const("i64", 0), e.const("i64", 1)
    with e.loop(begin, steps, step, [e.urem(m, d), apart], nonempty=True) as loop:
        m, left = loop.carried
        shift = e.umin(left, like(left, 11))
        loop.next([e.urem(e.shl(m, shift), d), e.sub(left, shift)])
    rest = e.fmul(e.uitofp(loop.results[0], "f64"), e.const("f64", 2.0**-52, x.lanes))
    return e.fmul(rest, e.bitcast(e.shl(exponent, by), "f64"))


COMPARISONS = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}
_SIGNED = {"EQ": "eq", "NE": "ne", "LT": "slt", "LE": "sle", "GT": "sgt", "GE": "sge"}
_UNSIGNED = {"EQ": "eq", "NE": "ne", "LT": "ult", "LE": "ule", "GT": "ugt", "GE": "uge"}


def compare(low: Lowering, dtype: DType, direction: str, order: str, x: V, y: V) -> V:
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
    bits = narrow(e, x, dtype) if dtype.bits < 32 else e.bits(x)
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


def reduce_precision(low: Lowering, dtype: DType, exponents: int, mantissas: int, x: V) -> V:
    """x rounded to fewer bits: too large becomes infinite, below the smallest normal a zero."""
    e = low.e
    own, digits = (11, 52) if x.kind == "f64" else (8, 23)
    narrowly = dtype.bits == 16
    if narrowly:
        own, digits = dtype.exponent_bits, dtype.mantissa_bits
    bits = narrow(e, x, dtype) if narrowly else e.bits(x)
    width = BITS[bits.kind]
    like = e.like
    infinity = like(bits, ((1 << own) - 1) << digits)
    sign = like(bits, 1 << (width - 1))
    magnitude = e.and_(bits, e.not_(sign))
    dropped, made = digits - mantissas, magnitude
    if dropped > 0:
        odd = e.and_(e.lshr(magnitude, like(bits, dropped)), like(bits, 1))
        made = e.add(e.add(magnitude, like(bits, (1 << (dropped - 1)) - 1)), odd)
        made = e.and_(made, like(bits, ~((1 << dropped) - 1)))
    if exponents < own:
        bias, other = (1 << (own - 1)) - 1, (1 << (exponents - 1)) - 1
        exponent = e.lshr(made, like(bits, digits))
        made = e.select(e.icmp("ugt", exponent, like(bits, bias + other)), infinity, made)
        small = e.icmp("ule", exponent, like(bits, bias - other))
        made = e.select(small, like(bits, 0), made)
    kept = e.or_(made, e.and_(bits, sign))
    made = e.select(e.icmp("ugt", magnitude, infinity), bits, kept)
    return widen(e, made, dtype) if narrowly else e.bitcast(made, x.kind)


def negate(low: Lowering, dtype: DType, x: V) -> V:
    """The other sign, of NaN and zero too; rounded where a type has no such number."""
    made = low.e.fneg(x)
    return made if dtype.has_negative_zero else low.rounded(made, dtype)


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
    "remainder": remainder,
    "round-nearest-afz": round_half_away,
    "round-nearest-even": _rounded("fround_even"),
    "sign": sign,
    "sqrt": _rounded("fsqrt"),
    "subtract": _flagged("fsub"),
}
_FUNCTIONS = frozenset(
    """acos acosh asin asinh atan2 atanh cbrt cosh cosine erf exponential exponential-minus-one log
    log-plus-one logistic power rsqrt sine sinh tan tanh""".split()
)
REAL: dict[str, Function] = _EXACT | {name: function(name) for name in _FUNCTIONS if name in MATH}
