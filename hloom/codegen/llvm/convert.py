"""Conversions between element types, with the meaning of HLO's `convert`.

A narrow float lies in memory as an integer of 8 or 16 bits and is computed with as f32. The way
there and back is integer arithmetic on the bits of the f32, the same for every format: shift the
mantissa, move the exponent, and let one float addition round what lies below the normal numbers.
LLVM's own conversions are used only where the machine has the instruction, since elsewhere they
call a library.
"""

from __future__ import annotations

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.four_bits import floats_of_codes
from hloom.codegen.llvm.values import BITS, V, float_bits
from hloom.types.dtype import DType

_INFINITY = 0x7F800000
_QUIET = 0x7FC00000
_HALF_EXPONENT_BITS, _HALF_MANTISSA_BITS, _HALF_BIAS = 5, 10, 15
_HALF_INFINITY, _HALF_QUIET = 0x7C00, 0x7E00


def storage_kind(dtype: DType) -> str:
    """The kind of the integers that hold a narrow float in memory: `i8` or `i16`."""
    return f"i{8 * dtype.size_bytes}"


def widened(e: Emit, bits: V, dtype: DType) -> V:
    """f32 of the same value as a narrow float of type `dtype` given as bits (i8 or i16)."""
    _check(dtype)
    if dtype.name == "f16" and e.machine.has_f16_convert:
        return e.fpext(e.bitcast(bits, "f16"), "f32")
    if (known := floats_of_codes(e, bits, dtype)) is not None:
        return known
    if _is_like_half(e, bits, dtype):
        return _widened_half(e, bits, dtype)
    code = e.zext(bits, "i32")
    if dtype.name == "bf16":
        return e.bitcast(e.shl(code, _word(e, code, 16)), "f32")
    if dtype.name == "f8e8m0fnu":
        return _widened_power(e, code)
    shift = 23 - dtype.mantissa_bits
    code = e.and_(code, _word(e, code, (1 << dtype.bits) - 1))
    top = 1 << (dtype.bits - 1)
    magnitude = e.and_(code, _word(e, code, top - 1))
    sign = e.shl(e.and_(code, _word(e, code, top)), _word(e, code, 32 - dtype.bits))
    # Below the normal numbers the hidden bit is missing: it is put there and taken off again.
    base = (127 - dtype.exponent_bias) << 23
    normal = e.add(e.shl(magnitude, _word(e, code, shift)), _word(e, code, base))
    raised = e.bitcast(e.add(normal, _word(e, code, 1 << 23)), "f32")
    smallest = 2.0 ** (1 - dtype.exponent_bias)
    low = e.bits(e.fsub(raised, e.like(raised, smallest)))
    is_low = e.icmp("ult", magnitude, _word(e, code, 1 << dtype.mantissa_bits))
    result = e.select(is_low, low, normal)
    if dtype.has_infinity:
        infinity = ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits
        endless = _word(e, code, _INFINITY)
        result = e.select(e.icmp("eq", magnitude, _word(e, code, infinity)), endless, result)
        is_nan = e.icmp("ugt", magnitude, _word(e, code, infinity))
    elif not dtype.has_nan:
        return e.bitcast(e.or_(result, sign), "f32")
    else:
        nan = top - 1 if dtype.has_negative_zero else top
        is_nan = e.icmp("eq", magnitude if dtype.has_negative_zero else code, _word(e, code, nan))
    result = e.select(is_nan, _word(e, code, _QUIET), result)
    return e.bitcast(e.or_(result, sign), "f32")


def _is_like_half(e: Emit, bits: V, dtype: DType) -> bool:
    """Whether f16 has all values of a type of a byte, but for a power of two, and the machine
    widens vectors of f16; the largest exponent of f16 is for what is not finite."""
    fits = dtype.exponent_bits < _HALF_EXPONENT_BITS or dtype.has_infinity
    return dtype.bits == 8 and fits and bits.lanes > 1 and e.machine.has_f16_convert


def _widened_half(e: Emit, bits: V, dtype: DType) -> V:
    """By way of f16, whose conversion takes numbers below the normal ones, too: two instructions,
    where moving the parts of a number takes ten."""
    by, top = _HALF_MANTISSA_BITS - dtype.mantissa_bits, 0x7F
    code = e.sext(bits, "i16")
    half = e.shl(code, e.like(code, by))
    if by + 8 < 16:
        half = e.and_(half, e.like(code, 0x8000 | top << by))
    if not dtype.has_negative_zero:
        special = e.icmp("eq", bits, e.like(bits, 0x80))
    elif not dtype.has_infinity:
        special = e.icmp("eq", e.or_(bits, e.like(bits, 0x80)), e.like(bits, 0xFF))
    elif dtype.exponent_bits < _HALF_EXPONENT_BITS:
        infinity = ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits
        size = e.and_(bits, e.like(bits, top))
        special = e.icmp("uge", size, e.like(bits, infinity))
    else:
        special = None
    if special is not None:
        endless = _HALF_INFINITY if dtype.has_infinity else _HALF_QUIET
        half = e.select(special, e.or_(half, e.like(half, endless)), half)
    wide = e.fpext(e.bitcast(half, "f16"), "f32")
    scale = 2.0 ** (_HALF_BIAS - dtype.exponent_bias)
    return wide if scale == 1.0 else e.fmul(wide, e.like(wide, scale))


def _widened_power(e: Emit, code: V) -> V:
    """f8e8m0fnu: the exponent alone; 0 is 2**-127, which f32 has only without its hidden bit."""
    result = e.shl(code, _word(e, code, 23))
    result = e.select(e.icmp("eq", code, _word(e, code, 0)), _word(e, code, 1 << 22), result)
    nan = _word(e, code, _QUIET)
    return e.bitcast(e.select(e.icmp("eq", code, _word(e, code, 255)), nan, result), "f32")


def narrowed(e: Emit, x: V, dtype: DType) -> V:
    """The bits (i8 or i16) of x, f32 or f64, rounded to nearest even to a narrow float type.

    As ml_dtypes has it, f64 goes by way of f32, but for f16; NaN is quiet and keeps its sign
    where the type has one; overflow is infinite, or NaN where there is no infinity, or the
    largest number where there is neither.
    """
    _check(dtype)
    kind = storage_kind(dtype)
    if dtype.name == "f8e8m0fnu":
        return e.trunc(_narrowed_power(e, x), kind)
    if dtype.name == "bf16":
        return high_half(e, rounded_half(e, x))
    if x.kind == "f64":
        x = _rounded_to_odd(e, x) if dtype.name == "f16" else e.fptrunc(x, "f32")
    if dtype.name == "f16" and e.machine.has_f16_convert:
        return e.bitcast(e.fptrunc(x, "f16"), "i16")
    bits = e.bits(x)
    sign = e.and_(
        e.lshr(bits, _word(e, bits, 32 - dtype.bits)), _word(e, bits, 1 << (dtype.bits - 1))
    )
    size = e.fabs(x)
    code = _rounded_code(e, size, dtype)
    is_nan = e.fcmp("uno", x, x)
    if dtype.has_infinity:
        infinity = ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits
        nan = infinity | 1 << (dtype.mantissa_bits - 1)
        code = _at_most(e, code, infinity, infinity)
        result = e.or_(e.select(is_nan, _word(e, bits, nan), code), sign)
    elif not dtype.has_nan:
        largest = (1 << (dtype.bits - 1)) - 1
        result = e.or_(_at_most(e, code, largest, largest), sign)
        # ml_dtypes turns NaN into a zero of the other sign.
        zero = e.xor(sign, _word(e, bits, 1 << (dtype.bits - 1)))
        result = e.select(is_nan, zero, result)
    elif dtype.has_negative_zero:
        nan = (1 << (dtype.bits - 1)) - 1
        code = _at_most(e, code, nan - 1, nan)
        result = e.or_(e.select(is_nan, _word(e, bits, nan), code), sign)
    else:
        nan = 1 << (dtype.bits - 1)
        signed = e.or_(code, sign)
        zero = _word(e, bits, 0)
        signed = e.select(e.icmp("eq", code, zero), zero, signed)
        over = e.icmp("ugt", code, _word(e, bits, nan - 1))
        result = e.select(e.or_(over, is_nan), _word(e, bits, nan), signed)
    return e.trunc(result, kind)


def _rounded_code(e: Emit, size: V, dtype: DType) -> V:
    """Exponent and mantissa of |x| in the format, beyond its largest number where x is."""
    bits = e.bits(size)
    shift = 23 - dtype.mantissa_bits
    smallest = 2.0 ** (1 - dtype.exponent_bias)
    odd = e.and_(e.lshr(bits, _word(e, bits, shift)), _word(e, bits, 1))
    half = (1 << (shift - 1)) - 1 - ((127 - dtype.exponent_bias) << 23)
    normal = e.lshr(e.add(e.add(bits, odd), _word(e, bits, half)), _word(e, bits, shift))
    # Adding a power of two whose last digit is the format's last one rounds there.
    last = 2.0 ** (1 - dtype.exponent_bias + shift)
    raised = e.bits(e.fadd(size, e.like(size, last)))
    low = e.sub(raised, _word(e, bits, float_bits("f32", last)))
    return e.select(e.fcmp("olt", size, e.like(size, smallest)), low, normal)


def _at_most(e: Emit, code: V, largest: int, beyond: int) -> V:
    over = e.icmp("ugt", code, _word(e, code, largest))
    return e.select(over, _word(e, code, beyond), code)


def computed_half(e: Emit, x: V) -> V:
    """The bits of bf16 (i16) of a result of arithmetic in f32 or f64: by the instruction for it,
    where there is one. It takes subnormal numbers for zero, of which there are none in results, and
    leaves of NaN's digits what bf16 has of them."""
    if not e.machine.has_bf16 or x.value is not None:
        return high_half(e, rounded_half(e, x))
    return e.bitcast(e.fptrunc(e.fptrunc(x, "f32"), "bf16"), "i16")


def rounded_half(e: Emit, x: V) -> V:
    """The bits of the f32 (i32) that f32 or f64 is when it is rounded to bf16, subnormal numbers
    too: those of bf16, then zeros."""
    if x.kind == "f64":
        x = e.fptrunc(x, "f32")
    bits = e.bits(x)
    odd = e.and_(e.lshr(bits, _word(e, bits, 16)), _word(e, bits, 1))
    raised = e.add(e.add(bits, odd), _word(e, bits, 0x7FFF))
    result = e.and_(raised, _word(e, bits, 0xFFFF0000))
    sign = e.and_(bits, _word(e, bits, 1 << 31))
    return e.select(e.fcmp("uno", x, x), e.or_(sign, _word(e, bits, _QUIET)), result)


def high_half(e: Emit, bits: V) -> V:
    """The bits of bf16 (i16) in those of an f32 that is one."""
    return e.trunc(e.lshr(bits, _word(e, bits, 16)), "i16")


def _narrowed_power(e: Emit, x: V) -> V:
    """f8e8m0fnu: the exponent, halves up; NaN for what is not above 0."""
    bits = e.bits(x)
    # By its bits: programs take subnormal numbers for 0.
    positive = e.icmp("sgt", bits, e.const(bits.kind, 0, bits.lanes))
    above_least = None
    if x.kind == "f64":
        # f32 has those below 2**-126 as subnormal numbers; this one is halfway to 2**-127 there.
        above_least = e.fcmp("ogt", x, e.like(x, 2.0**-127 + 2.0**-150))
        x = e.fptrunc(x, "f32")
    bits = e.bits(x)
    # 2**-127 has no hidden bit in f32: it alone is no half to be rounded up.
    exact = e.icmp("eq", bits, _word(e, bits, 1 << 22))
    zero = _word(e, bits, 0)
    half = e.select(exact, zero, _word(e, bits, 1 << 22))
    code = e.lshr(e.add(bits, half), _word(e, bits, 23))
    if above_least is not None:
        code = e.or_(code, e.zext(e.and_(above_least, e.icmp("eq", code, zero)), "i32"))
    finite = e.icmp("ult", code, _word(e, bits, 255))
    return e.select(e.and_(positive, finite), code, _word(e, bits, 255))


def _rounded_to_odd(e: Emit, x: V) -> V:
    """f64 as f32 whose last bit is set where it is inexact: a second rounding is then right."""
    near = e.fptrunc(x, "f32")
    back = e.fpext(near, "f64")
    bits = e.bits(near)
    one, zero = _word(e, bits, 1), _word(e, bits, 0)
    over = e.fcmp("ogt", e.fabs(back), e.fabs(x))
    cut = e.sub(bits, e.select(over, one, zero))
    inexact = e.fcmp("one", back, x)
    return e.bitcast(e.or_(cut, e.select(inexact, one, zero)), "f32")


def float_to_integer(e: Emit, x: V, dtype: DType) -> V:
    """x (f32 or f64) truncated to an integer type, saturated, 0 for NaN; of the kind that holds
    the type in memory (i8 for the narrow ones)."""
    if not dtype.is_integral:
        raise HloError(f"{dtype.name} is no integer type", rule="llvm-convert")
    kind = f"i{8 * dtype.size_bytes}"
    wide = kind if dtype.bits >= 32 else "i32"
    signed = dtype.is_signed_int
    if dtype.bits < 32:
        # Narrow ranges are exact floats: bounds first, then the plain instruction.
        low = -(1 << (dtype.bits - 1)) if signed else 0
        high = (1 << (dtype.bits - int(signed))) - 1
        number = e.select(e.fcmp("uno", x, x), e.like(x, 0.0), x)
        bounded = e.fmax_raw(e.fmin_raw(number, e.like(x, high)), e.like(x, low))
        return e.trunc(e.fptosi(bounded, wide), kind)
    if x.lanes > 1:
        return _to_wide_integers(e, x, wide, signed)
    name = "fptosi" if signed else "fptoui"
    text = f"call {wide} @llvm.{name}.sat.{wide}.{x.kind}({x.typed})"
    return e.pure(text, wide, 1, x.depth, wide)


def _to_wide_integers(e: Emit, x: V, kind: str, signed: bool) -> V:
    """The same of a vector, for which LLVM takes its saturating instruction lane by lane. The
    least integer is an exact float; the first that is too large is, and is looked for."""
    bits = BITS[kind]
    end = 1 << (bits - int(signed))
    is_over = e.fcmp("oge", x, e.like(x, end))
    is_kept = e.and_(e.fcmp("ord", x, x), e.not_(is_over))
    inside = e.fmax_raw(e.select(is_kept, x, e.like(x, 0.0)), e.like(x, -end if signed else 0.0))
    number = e.fptosi(inside, kind) if signed else e.fptoui(inside, kind)
    return e.select(is_over, e.const(kind, end - 1, x.lanes), number)


def is_nonzero(e: Emit, x: V) -> V:
    """i1: what converts to `pred` as true; NaN too."""
    if BITS[x.kind] > 1 and x.kind.startswith("i"):
        return e.icmp("ne", x, e.const(x.kind, 0, x.lanes))
    return e.fcmp("une", x, e.like(x, 0.0))


def _word(e: Emit, like: V, value: int) -> V:
    return e.const("i32", value, like.lanes)


def _check(dtype: DType) -> None:
    if not dtype.is_floating or dtype.bits >= 32:
        raise HloError(f"{dtype.name} is no float narrower than f32", rule="llvm-convert")


__all__ = ["float_to_integer", "is_nonzero", "narrowed", "storage_kind", "widened"]
