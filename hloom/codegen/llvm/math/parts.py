"""What the functions are made of: floats taken apart and put together, sums of two words,
polynomials.

A float is split by integer arithmetic on its bits, which costs one or two instructions on every
machine; conversions between i64 and f64 do not, so small integers become floats by adding a large
constant whose low digits they then are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.coefficients import POLYNOMIALS, WORDS
from hloom.codegen.llvm.values import V, float_bits


@dataclass(frozen=True)
class Format:
    """A float format: `mantissa` stored digits, exponent `bias`."""

    kind: str
    word: str
    """The integer kind of the same width."""
    mantissa: int
    bias: int

    @property
    def width(self) -> int:
        """Bits of a value."""
        return 32 if self.kind == "f32" else 64

    @property
    def magic(self) -> float:
        """1.5 * 2**mantissa: adding it rounds to an integer, which its low bits then are."""
        return 1.5 * 2.0**self.mantissa

    @property
    def smallest_normal(self) -> float:
        """The least float with all digits."""
        return 2.0 ** (1 - self.bias)


FORMATS = {"f32": Format("f32", "i32", 23, 127), "f64": Format("f64", "i64", 52, 1023)}


def format_of(x: V) -> Format:
    """The format of a value; other kinds than f32 and f64 are an error."""
    format_ = FORMATS.get(x.kind)
    if format_ is None:
        raise HloError(
            f"functions are computed in f32 and f64, not {x.kind}",
            rule="llvm-math",
            hint="convert narrow floats to f32 first",
        )
    return format_


def words(name: str, x: V) -> tuple[float, ...]:
    """A number as a sum of floats of x's format, largest first (see bench/minimax.py)."""
    return WORDS[name, x.kind]


def polynomial(e: Emit, name: str, x: V) -> V:
    """The minimax polynomial of that name at x."""
    return horner(e, POLYNOMIALS[name, x.kind], x)


def horner(e: Emit, coefficients: Sequence[float], x: V) -> V:
    """The polynomial with these coefficients, lowest first; long ones as even and odd halves,
    which run side by side."""
    if len(coefficients) > 6:
        square = e.fmul(x, x)
        even = horner(e, coefficients[::2], square)
        return e.fma(horner(e, coefficients[1::2], square), x, even)
    result = e.like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = e.fma(result, x, e.like(x, c))
    return result


# Sums of two words


def two_sum(e: Emit, a: V, b: V) -> tuple[V, V]:
    """a + b rounded, and what was rounded away (Knuth)."""
    total = e.fadd(a, b)
    other = e.fsub(total, a)
    return total, e.fadd(e.fsub(a, e.fsub(total, other)), e.fsub(b, other))


def fast_two_sum(e: Emit, a: V, b: V) -> tuple[V, V]:
    """As `two_sum`, where |a| >= |b| or a is 0 (Dekker)."""
    total = e.fadd(a, b)
    return total, e.fsub(b, e.fsub(total, a))


def two_product(e: Emit, a: V, b: V) -> tuple[V, V]:
    """a * b rounded, and what was rounded away; without fma a and b are cut in halves."""
    product = e.fmul(a, b)
    if e.machine.has_fma:
        return product, e.fma(a, b, e.fneg(product))
    a_high, a_low = _halves(e, a)
    b_high, b_low = _halves(e, b)
    rest = e.fsub(e.fmul(a_high, b_high), product)
    rest = e.fadd(e.fadd(rest, e.fmul(a_high, b_low)), e.fmul(a_low, b_high))
    return product, e.fadd(rest, e.fmul(a_low, b_low))


def _halves(e: Emit, a: V) -> tuple[V, V]:
    # Rounded as an integer, to half the digits; the rest, which has a sign, fits in the others.
    form = format_of(a)
    low = (form.mantissa + 2) // 2
    mask = e.const(form.word, -(1 << low), a.lanes)
    half = e.const(form.word, 1 << (low - 1), a.lanes)
    high = e.bitcast(e.and_(e.add(e.bits(a), half), mask), a.kind)
    return high, e.fsub(a, high)


# Exponents


def nearest_integer(e: Emit, x: V, scale: float) -> tuple[V, V]:
    """The integer next to x * scale, as a float and as an integer; below 2**(mantissa - 2)."""
    form = format_of(x)
    shifted = e.fma(x, e.like(x, scale), e.like(x, form.magic))
    whole = e.fsub(shifted, e.like(x, form.magic))
    base = float_bits(x.kind, form.magic)
    return whole, e.sub(e.bits(shifted), e.const(form.word, base, x.lanes))


def nearest_power(e: Emit, x: V, scale: float) -> tuple[V, V]:
    """The integer n next to x * scale as a float, and what to add to the bits of a number to
    multiply it by 2**n, where all stays normal."""
    form = format_of(x)
    shifted = e.fma(x, e.like(x, scale), e.like(x, form.magic))
    # The bits of the magic number are all shifted out.
    place = e.const(form.word, form.mantissa, x.lanes)
    return e.fsub(shifted, e.like(x, form.magic)), e.shl(e.bits(shifted), place)


def integer_as_float(e: Emit, n: V, kind: str) -> V:
    """A small integer (|n| < 2**(mantissa - 2)) of the format's word as a float."""
    form = FORMATS[kind]
    base = e.const(n.kind, float_bits(kind, form.magic), n.lanes)
    return e.fsub(e.bitcast(e.add(n, base), kind), e.const(kind, form.magic, n.lanes))


def power_of_two(e: Emit, n: V, kind: str) -> V:
    """2**n for n between the smallest and the largest normal exponent."""
    form = FORMATS[kind]
    biased = e.add(n, e.const(n.kind, form.bias, n.lanes))
    return e.bitcast(e.shl(biased, e.const(n.kind, form.mantissa, n.lanes)), kind)


def scaled(e: Emit, x: V, n: V) -> V:
    """x * 2**n, |n| below twice the bias - 2; rounded once, where the result is not normal."""
    form = format_of(x)
    if e.machine.has_scale:
        power = e.trunc(n, "i32")
        kinds = (x.kind, "i32") if x.lanes == 1 else (f"v{x.lanes}{x.kind}", f"v{x.lanes}i32")
        text = f"call {x.type} @llvm.ldexp.{kinds[0]}.{kinds[1]}({x.typed}, {power.typed})"
        return e.pure(text, x.kind, x.lanes, max(x.depth, n.depth), x.type)
    # Half of n + 2 bias is the first exponent field; the other one is what is left of the sum.
    lifted = e.add(n, e.const(n.kind, 2 * form.bias, n.lanes))
    place = e.const(n.kind, form.mantissa, n.lanes)
    first = e.shl(e.lshr(lifted, e.const(n.kind, 1, n.lanes)), place)
    second = e.sub(e.shl(lifted, place), first)
    return e.fmul(e.fmul(x, e.bitcast(first, x.kind)), e.bitcast(second, x.kind))


def mantissa_and_exponent(e: Emit, x: V, low: float, denormals: bool = True) -> tuple[V, V]:
    """m in [low, 2 low) and the integer k with x = m * 2**k, for finite x > 0; any m for others.

    Without `denormals` x is known to be normal.
    """
    form = format_of(x)
    raised = form.mantissa + 2
    lift = None
    if denormals:
        tiny = e.fcmp("olt", x, e.like(x, form.smallest_normal))
        x = e.select(tiny, e.fmul(x, e.like(x, 2.0**raised)), x)
        lift = e.select(tiny, e.const(form.word, raised, x.lanes), e.const(form.word, 0, x.lanes))

    def word(value: int) -> V:
        return e.const(form.word, value, x.lanes)

    # Adding 1 - low to the bits carries into the exponent exactly where the mantissa is >= low.
    start = float_bits(x.kind, low)
    one = float_bits(x.kind, 1.0)
    moved = e.add(e.bits(x), word(one - start))
    k = e.sub(e.lshr(moved, word(form.mantissa)), word(form.bias))
    m = e.add(e.and_(moved, word((1 << form.mantissa) - 1)), word(start))
    return e.bitcast(m, x.kind), k if lift is None else e.sub(k, lift)


# Special values


def is_negative(e: Emit, x: V) -> V:
    """Whether the sign bit is set, of zero and NaN too."""
    form = format_of(x)
    return e.icmp("slt", e.bits(x), e.const(form.word, 0, x.lanes))


def clamped(e: Emit, x: V, low: float, high: float) -> V:
    """x within bounds; NaN stays NaN."""
    return e.fmax_raw(e.like(x, low), e.fmin_raw(e.like(x, high), x))


def is_nan(e: Emit, x: V) -> V:
    """Whether it is no number."""
    return e.fcmp("uno", x, x)


def any_lane(e: Emit, condition: V) -> V:
    """Whether it holds in one lane at least, as an i1 scalar."""
    return e.reduce("or", condition)
