"""Integer and pred arithmetic as HLO defines it: it wraps, nothing traps and nothing is undefined.

Division is the expensive one. Vector units have none, so quotients of up to 16 bits are taken in
f32 and those of 32 bits in f64: for |x|, |y| < 2^n the distance of x / y to the next integer is at
least 1/y, and the rounding error of a float with more than n + 1 bits is less, so truncating the
rounded quotient is exact. By constants LLVM multiplies and shifts. 64-bit lanes divide one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.lower_state import KernelLowering, raw, wrapped
from hloom.codegen.llvm.values import BITS, V
from hloom.types.dtype import DType

Function = Callable[..., V]


def _plain(method: str) -> Function:
    """An Emit method whose result may need to wrap."""

    def apply(low: KernelLowering, dtype: DType, *x: V) -> V:
        e = low.e
        return wrapped(e, getattr(e, method)(*x), dtype)

    return apply


def _bitwise(method: str) -> Function:
    """An Emit method that keeps values in their range."""

    def apply(low: KernelLowering, dtype: DType, *x: V) -> V:
        return getattr(low.e, method)(*x)

    return apply


def _ordered(signed: str, unsigned: str) -> Function:
    def apply(low: KernelLowering, dtype: DType, x: V, y: V) -> V:
        return getattr(low.e, signed if dtype.is_signed_int else unsigned)(x, y)

    return apply


def absolute(low: KernelLowering, dtype: DType, x: V) -> V:
    """|x|; the smallest integer stays itself."""
    if not dtype.is_signed_int:
        return x
    e = low.e
    return wrapped(e, e.smax(x, e.neg(x)), dtype)


def sign(low: KernelLowering, dtype: DType, x: V) -> V:
    """-1, 0 or 1."""
    e = low.e
    above = e.zext(e.icmp("ne", x, e.like(x, 0)), x.kind)
    if not dtype.is_signed_int:
        return above
    result = e.or_(e.ashr(x, e.like(x, BITS[x.kind] - 1)), above)
    return wrapped(e, result, dtype)


def count_leading_zeros(low: KernelLowering, dtype: DType, x: V) -> V:
    """Zero bits above the highest one; the width for 0."""
    e = low.e
    count = e.clz(raw(e, x, dtype))
    if dtype.is_sub_byte:
        count = e.sub(count, e.like(x, 8 - dtype.bits))
    return wrapped(e, count, dtype)


def population_count(low: KernelLowering, dtype: DType, x: V) -> V:
    """How many bits are one."""
    return wrapped(low.e, low.e.popcnt(raw(low.e, x, dtype)), dtype)


def divide(low: KernelLowering, dtype: DType, x: V, y: V) -> V:
    """Truncated quotient; x / 0 is all ones, MIN / -1 is MIN."""
    e, signed = low.e, dtype.is_signed_int
    if y.value is not None and y.value not in (0, -1):
        return e.sdiv(x, y) if signed else e.udiv(x, y)
    zero = e.icmp("eq", y, e.like(y, 0))
    ones = wrapped(e, e.like(y, -1), dtype)
    if not signed:
        quotient = _quotient(e, x, e.select(zero, e.like(y, 1), y), signed)
        return e.select(zero, ones, quotient)
    minus = e.icmp("eq", y, e.like(y, -1))
    divisor = e.select(e.or_(zero, minus), e.like(y, 1), y)
    quotient = e.select(minus, wrapped(e, e.neg(x), dtype), _quotient(e, x, divisor, signed))
    return e.select(zero, ones, quotient)


def remainder(low: KernelLowering, dtype: DType, x: V, y: V) -> V:
    """What truncated division leaves; x for x % 0, 0 for x % -1."""
    e, signed = low.e, dtype.is_signed_int
    if y.value is not None and y.value not in (0, -1):
        return e.srem(x, y) if signed else e.urem(x, y)
    zero = e.icmp("eq", y, e.like(y, 0))
    unsafe = e.or_(zero, e.icmp("eq", y, e.like(y, -1))) if signed else zero
    divisor = e.select(unsafe, e.like(y, 1), y)
    rest = e.sub(x, e.mul(_quotient(e, x, divisor, signed), divisor))
    return e.select(zero, x, rest)


def _quotient(e: Emit, x: V, y: V, signed: bool) -> V:
    """x / y truncated, for a y that is neither 0 nor, if signed, -1."""
    bits = BITS[x.kind]
    if x.lanes == 1 or bits == 64:
        return e.sdiv(x, y) if signed else e.udiv(x, y)
    if bits == 32:
        kind, whole = "f64", "i32"
    else:
        kind, whole = "f32", "i32"
        x, y = (e.sext(v, whole) if signed else e.zext(v, whole) for v in (x, y))
        signed = True  # 16 bits and a sign: conversions of signed words are cheaper
    if signed:
        quotient = e.fptosi(e.fdiv(e.sitofp(x, kind), e.sitofp(y, kind)), whole)
    else:
        quotient = e.fptoui(e.fdiv(e.uitofp(x, kind), e.uitofp(y, kind)), whole)
    return e.trunc(quotient, f"i{bits}")


def multiply_high(low: KernelLowering, dtype: DType, x: V, y: V) -> V:
    """The high half of the product of twice the width."""
    e, bits = low.e, dtype.bits
    if bits == 64 and x.lanes > 1:
        return _high_of_words(e, x, y, dtype.is_signed_int)
    wide = f"i{max(16, BITS[x.kind] * 2)}"
    extend = e.sext if dtype.is_signed_int else e.zext
    product = e.mul(extend(x, wide), extend(y, wide))
    return wrapped(e, e.trunc(e.lshr(product, e.like(product, bits)), x.kind), dtype)


def _high_of_words(e: Emit, x: V, y: V, signed: bool) -> V:
    """`multiply_high` of 64-bit lanes from four products of 32-bit halves."""
    mask, by = e.like(x, 0xFFFFFFFF), e.like(x, 32)
    a, b, c, d = e.and_(x, mask), e.lshr(x, by), e.and_(y, mask), e.lshr(y, by)
    middle = e.add(e.mul(b, c), e.lshr(e.mul(a, c), by))
    other = e.add(e.mul(a, d), e.and_(middle, mask))
    high = e.add(e.add(e.mul(b, d), e.lshr(middle, by)), e.lshr(other, by))
    if signed:
        top, zero = e.like(x, 63), e.like(x, 0)
        high = e.sub(high, e.select(e.icmp("ne", e.ashr(x, top), zero), y, zero))
        high = e.sub(high, e.select(e.icmp("ne", e.ashr(y, top), zero), x, zero))
    return high


def _fits(low: KernelLowering, dtype: DType, y: V) -> V:
    """Where an amount, read as unsigned, is below the width."""
    return low.e.icmp("ult", raw(low.e, y, dtype), low.e.like(y, dtype.bits))


def shift_left(low: KernelLowering, dtype: DType, x: V, y: V) -> V:
    """x << y; 0 when y, read as unsigned, is not below the width."""
    e = low.e
    if y.value is not None and 0 <= y.value < dtype.bits:
        return wrapped(e, e.shl(x, y), dtype)
    return wrapped(e, e.select(_fits(low, dtype, y), e.shl(x, y), e.like(x, 0)), dtype)


def shift_right_logical(low: KernelLowering, dtype: DType, x: V, y: V) -> V:
    """x >> y filled with zeros; 0 when y is not below the width."""
    e = low.e
    word = raw(e, x, dtype)
    if y.value is not None and 0 <= y.value < dtype.bits:
        return wrapped(e, e.lshr(word, y), dtype)
    return wrapped(e, e.select(_fits(low, dtype, y), e.lshr(word, y), e.like(x, 0)), dtype)


def shift_right_arithmetic(low: KernelLowering, dtype: DType, x: V, y: V) -> V:
    """x >> y filled with the top bit (also of unsigned types), however large y is."""
    e = low.e
    amount = e.umin(raw(e, y, dtype), e.like(y, dtype.bits - 1)) if y.value is None else None
    if amount is None:
        known = int(y.value or 0) & ((1 << dtype.bits) - 1)
        amount = e.like(y, min(known, dtype.bits - 1))
    if dtype.is_sub_byte:
        by = e.like(x, 8 - dtype.bits)
        x = e.ashr(e.shl(x, by), by)
    return wrapped(e, e.ashr(x, amount), dtype)


def power(low: KernelLowering, dtype: DType, x: V, y: V) -> V:
    """x ** y, wrapping; a negative y gives 1 or -1 for those bases and 0 for all others."""
    e = low.e
    one, zero = e.like(x, 1), e.like(x, 0)
    if y.value is not None and 0 <= y.value < 64:
        return wrapped(e, _known_power(e, x, int(y.value)), dtype)
    begin, end, step = (e.const("i32", n) for n in (0, dtype.bits, 1))
    with e.loop(begin, end, step, [one, x, raw(e, y, dtype)], nonempty=True) as loop:
        result, base, rest = loop.carried
        odd = e.icmp("ne", e.and_(rest, one), zero)
        result = e.select(odd, e.mul(result, base), result)
        loop.next([result, e.mul(base, base), e.lshr(rest, one)])
    power_ = wrapped(e, loop.results[0], dtype)
    if not dtype.is_signed_int:
        return power_
    minus = wrapped(e, e.like(x, -1), dtype)
    odd = e.icmp("ne", e.and_(y, one), zero)
    turned = e.select(e.icmp("eq", x, minus), e.select(odd, minus, wrapped(e, one, dtype)), zero)
    inverse = e.select(e.icmp("eq", x, one), one, turned)
    return e.select(e.icmp("slt", y, zero), inverse, power_)


def _known_power(e: Emit, x: V, exponent: int) -> V:
    product: V | None = None
    while exponent:
        if exponent & 1:
            product = x if product is None else e.mul(product, x)
        exponent >>= 1
        if exponent:
            x = e.mul(x, x)
    return e.like(x, 1) if product is None else product


def fused(low: KernelLowering, dtype: DType, a: V, b: V, c: V) -> V:
    """a * b + c."""
    return wrapped(low.e, low.e.add(low.e.mul(a, b), c), dtype)


def inverted(low: KernelLowering, dtype: DType, x: V) -> V:
    """Every bit turned."""
    return wrapped(low.e, low.e.not_(x), dtype)


INTEGER: dict[str, Function] = {
    "abs": absolute,
    "add": _plain("add"),
    "and": _bitwise("and_"),
    "count-leading-zeros": count_leading_zeros,
    "divide": divide,
    "fma": fused,
    "maximum": _ordered("smax", "umax"),
    "minimum": _ordered("smin", "umin"),
    "mulhi": multiply_high,
    "multiply": _plain("mul"),
    "negate": _plain("neg"),
    "not": inverted,
    "or": _bitwise("or_"),
    "popcnt": population_count,
    "power": power,
    "remainder": remainder,
    "shift-left": shift_left,
    "shift-right-arithmetic": shift_right_arithmetic,
    "shift-right-logical": shift_right_logical,
    "sign": sign,
    "subtract": _plain("sub"),
    "xor": _bitwise("xor"),
}

PRED_FUNCTIONS: dict[str, Function] = {
    "add": _bitwise("or_"),
    "and": _bitwise("and_"),
    "maximum": _bitwise("or_"),
    "minimum": _bitwise("and_"),
    "multiply": _bitwise("and_"),
    "not": _bitwise("not_"),
    "or": _bitwise("or_"),
    "subtract": _bitwise("xor"),
    "xor": _bitwise("xor"),
}
