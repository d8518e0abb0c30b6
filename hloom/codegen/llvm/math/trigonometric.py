"""Sine, cosine and tangent of any angle.

x = q pi/2 + r with |r| <= pi/4. Angles of usual size lose q times pi/2 word by word (Cody and
Waite). For huge ones a branch is taken, and there each lane multiplies the digits of 2/pi that
matter (192 of 1168 in f64, found by a shift) with its mantissa as integers (Payne and Hanek).
"""

from __future__ import annotations

from typing import NamedTuple

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.coefficients import TURN_DIGITS, TWO_OVER_PI, WORDS
from hloom.codegen.llvm.math.parts import (
    any_lane,
    fast_two_sum,
    format_of,
    nearest_integer,
    polynomial,
    two_product,
    two_sum,
    words,
)
from hloom.codegen.llvm.values import V

TWO_OVER_PI_F = 0.6366197723675814
# Up to here the words of pi/2 give r to its last digit.
_USUAL_FMA = {"f32": 1.0e5, "f64": 5.0e7}
_USUAL = {"f32": 1.0e5, "f64": 5.0e5}
_DIGITS = {"f32": (256, 128), "f64": (TURN_DIGITS, 192)}
"""How many digits of 2/pi count at all, and how many of x * 2/pi are computed, 2 of them before
the point."""


class Reduced(NamedTuple):
    """x = q pi/2 + (r + rest), q modulo 4 in its low bits."""

    r: V
    rest: V
    q: V


def sine(e: Emit, x: V) -> V:
    """sin x; NaN at infinity."""
    reduction = shared_reduction(e, x)
    turned = _odd(e, reduction.q)
    value = e.select(turned, _cosine(e, reduction), _sine(e, reduction))
    return e.select(_zero(e, x), x, _negated(e, value, reduction.q))


def cosine(e: Emit, x: V) -> V:
    """cos x; NaN at infinity."""
    reduction = shared_reduction(e, x)
    turned = _odd(e, reduction.q)
    value = e.select(turned, _sine(e, reduction), _cosine(e, reduction))
    return _negated(e, value, e.add(reduction.q, e.const(reduction.q.kind, 1, reduction.q.lanes)))


def tan(e: Emit, x: V) -> V:
    """tan x; NaN at infinity."""
    reduction = shared_reduction(e, x)
    s, c = _sine(e, reduction), _cosine(e, reduction)
    turned = _odd(e, reduction.q)
    quotient = e.fdiv(e.select(turned, e.fneg(c), s), e.select(turned, s, c))
    return e.select(_zero(e, x), x, quotient)


def _zero(e: Emit, x: V) -> V:
    return e.fcmp("oeq", x, e.like(x, 0.0))


def _odd(e: Emit, q: V) -> V:
    one = e.const(q.kind, 1, q.lanes)
    return e.icmp("ne", e.and_(q, one), e.const(q.kind, 0, q.lanes))


def _negated(e: Emit, value: V, q: V) -> V:
    """The value, or minus it where bit 1 of q is set."""
    form = format_of(value)
    bit = e.and_(q, e.const(q.kind, 2, q.lanes))
    sign = e.shl(bit, e.const(q.kind, form.width - 2, q.lanes))
    return e.bitcast(e.xor(e.bits(value), sign), value.kind)


def _sine(e: Emit, a: Reduced) -> V:
    """sin(r + rest)."""
    z = e.fmul(a.r, a.r)
    small = e.fmul(e.fmul(z, a.r), polynomial(e, "SIN", z))
    # The cosine, by which rest counts, is 1 - z/2 to the digits that matter.
    tail = e.fma(e.fmul(z, e.like(z, -0.5)), a.rest, a.rest)
    return e.fadd(a.r, e.fadd(small, tail))


def _cosine(e: Emit, a: Reduced) -> V:
    """cos(r + rest): 1 - z/2 with what that rounds away, and the rest."""
    one = e.like(a.r, 1.0)
    z = e.fmul(a.r, a.r)
    half = e.fmul(z, e.like(z, 0.5))
    most = e.fsub(one, half)
    lost = e.fsub(e.fsub(one, most), half)
    tail = e.fsub(lost, e.fmul(a.r, a.rest))
    return e.fadd(most, e.fma(e.fmul(z, z), polynomial(e, "COS", z), tail))


# Reduction


def shared_reduction(e: Emit, x: V) -> Reduced:
    """`reduced`, once for the sine and the cosine of the same angle."""
    return e.shared(f"quadrants of {x.typed}", lambda: reduced(e, x))


def reduced(e: Emit, x: V) -> Reduced:
    """x without its multiples of pi/2."""
    fast, limit = _usual(e, x)
    huge = e.fcmp("uge", e.fabs(x), e.like(x, limit))
    slow_label, join = e.fresh("huge"), e.fresh("join")
    before = e.label
    e.cond_br(any_lane(e, huge), slow_label, join)
    e.open_scope()
    e.block(slow_label)
    slow = _by_digits(e, x, fast, huge)
    after = e.label
    e.br(join)
    e.close_scope()
    e.block(join, dominated=True)
    return Reduced(*(e.phi([(f, before), (s, after)]) for f, s in zip(fast, slow)))


def _usual(e: Emit, x: V) -> tuple[Reduced, float]:
    """The reduction by words of pi/2, and up to which |x| it holds."""
    if e.machine.has_fma:
        whole, q = nearest_integer(e, x, TWO_OVER_PI_F)
        first, second, third = (e.like(x, -w) for w in words("HALF_PI", x))
        a = e.fma(whole, first, x)  # exact
        # The two may cancel each other nearly whole, so every rounding error is kept.
        product, lost = two_product(e, whole, second)
        r, rest = two_sum(e, a, product)
        rest = e.fma(whole, third, e.fadd(rest, lost))
        return _renewed(e, r, rest, q), _USUAL_FMA[x.kind]
    if x.kind == "f32":
        reduced, _ = _usual(e, e.fpext(x, "f64"))
        return _narrowed(e, reduced), _USUAL["f32"]
    whole, q = nearest_integer(e, x, TWO_OVER_PI_F)
    first, second, third, fourth = (e.like(x, w) for w in WORDS["HALF_PI_SHORT", x.kind])
    a = e.fsub(x, e.fmul(whole, first))  # exact, as are the products
    b, rest = two_sum(e, a, e.fneg(e.fmul(whole, second)))
    rest = e.fsub(rest, e.fmul(whole, third))
    rest = e.fsub(rest, e.fmul(whole, fourth))
    return _renewed(e, b, rest, q), _USUAL["f64"]


def _renewed(e: Emit, r: V, rest: V, q: V) -> Reduced:
    r, rest = fast_two_sum(e, r, rest)
    return Reduced(r, rest, q)


def _narrowed(e: Emit, a: Reduced) -> Reduced:
    """The f64 reduction as one of f32."""
    r = e.fptrunc(a.r, "f32")
    rest = e.fptrunc(e.fsub(a.r, e.fpext(r, "f64")), "f32")
    return Reduced(r, rest, e.trunc(a.q, "i32"))


def _by_digits(e: Emit, x: V, fast: Reduced, huge: V) -> Reduced:
    """The reduction of each huge lane as integers; the other lanes stay."""
    if x.lanes == 1:
        slow = _scalar_by_digits(e, x)
        return Reduced(*(e.select(huge, s, f) for s, f in zip(slow, fast)))
    one = e.const("i64", 1)
    begin, end = e.const("i64", 0), e.const("i64", x.lanes)
    with e.loop(begin, end, one, list(fast), nonempty=True) as loop:
        lane = loop.index
        slow = _scalar_by_digits(e, e.extract(x, lane))
        loop.next([e.insert(v, s, lane) for v, s in zip(loop.carried, slow)])
    # Lanes that are not huge were computed by digits too, which is right for them only if they
    # are not small.
    return Reduced(*(e.select(huge, s, f) for s, f in zip(loop.results, fast)))


def _scalar_by_digits(e: Emit, x: V) -> Reduced:
    """The reduction of one scalar of 2**16 and more; NaN for infinity and NaN."""
    wide = e.fpext(x, "f64")

    def whole(value: int, kind: str = "i64") -> V:
        return e.const(kind, value)

    bits = e.bits(wide)
    exponent = e.and_(e.lshr(bits, whole(52)), whole(0x7FF))
    # |x| = mantissa * 2**(exponent - 1075): the digits of 2/pi above the window are whole turns.
    mantissa = e.or_(e.and_(bits, whole((1 << 52) - 1)), whole(1 << 52))
    known, window_digits = _DIGITS[x.kind]
    largest = 1023 + (127 if x.kind == "f32" else 1023)
    exponent = e.umin(e.umax(exponent, whole(1023)), whole(largest))
    shift = e.sub(whole(known + 1075 + 2 - window_digits), exponent)
    size = -(-known // 64) * 64
    constant = TWO_OVER_PI >> (TURN_DIGITS - known)
    amount = e.effect(f"zext i64 {shift.name} to i{size}", "i64")
    digits = e.effect(f"lshr i{size} {constant}, {amount.name}", "i64")
    window = e.effect(f"trunc i{size} {digits.name} to i{window_digits}", "i64")
    wider = e.effect(f"zext i64 {mantissa.name} to i{window_digits}", "i64")
    turns = e.effect(f"mul i{window_digits} {window.name}, {wider.name}", "i64")
    # The two digits before the point, rounded by the one after it.
    top = e.effect(f"lshr i{window_digits} {turns.name}, {window_digits - 64}", "i64")
    first = e.effect(f"trunc i{window_digits} {top.name} to i64", "i64")
    q = e.lshr(e.add(first, whole(1 << 61)), whole(62))
    fraction = e.effect(f"shl i{window_digits} {turns.name}, 2", "i64")
    return _from_fraction(e, x, wide, q, fraction)


def _from_fraction(e: Emit, x: V, wide: V, q: V, fraction: V) -> Reduced:
    """r = pi/2 times a signed fraction as an integer of all computed digits, signed as x."""
    window_digits = _DIGITS[x.kind][1]
    size = f"i{window_digits}"
    below = e.effect(f"icmp slt {size} {fraction.name}, 0", "i1")
    opposite = e.effect(f"sub {size} 0, {fraction.name}", "i64")
    magnitude = e.effect(
        f"select i1 {below.name}, {size} {opposite.name}, {size} {fraction.name}", "i64"
    )
    zeros = e.effect(f"call {size} @llvm.ctlz.{size}({size} {magnitude.name}, i1 false)", "i64")
    leading = e.effect(f"trunc {size} {zeros.name} to i64", "i64")
    leading = e.umin(leading, e.const("i64", window_digits - 1))
    amount = e.effect(f"zext i64 {leading.name} to {size}", "i64")
    normal = e.effect(f"shl {size} {magnitude.name}, {amount.name}", "i64")

    def digits(skip: int, digits_count: int = 53) -> V:
        cut = e.effect(f"lshr {size} {normal.name}, {window_digits - skip - digits_count}", "i64")
        low = e.effect(f"trunc {size} {cut.name} to i64", "i64")
        low = e.and_(low, e.const("i64", (1 << digits_count) - 1))
        scale = e.const("f64", 2.0 ** -(skip + digits_count))
        return e.fmul(e.sitofp(low, "f64"), scale)

    scale = e.shl(e.sub(e.const("i64", 1023), leading), e.const("i64", 52))
    scale = e.bitcast(scale, "f64")
    high, low = e.fmul(digits(0), scale), e.fmul(digits(53), scale)
    half_pi = [e.const("f64", w) for w in WORDS["HALF_PI", "f64"]]
    r, rest = two_product(e, high, half_pi[0])
    rest = e.fadd(rest, e.fadd(e.fmul(high, half_pi[1]), e.fmul(low, half_pi[0])))
    r, rest = fast_two_sum(e, r, rest)
    negative = e.icmp("slt", e.bits(wide), e.const("i64", 0))
    flip = e.xor(negative, below)
    infinite = e.fcmp("uge", e.fabs(wide), e.const("f64", float("inf")))
    r = e.select(infinite, e.const("f64", float("nan")), e.select(flip, e.fneg(r), r))
    rest = e.select(flip, e.fneg(rest), rest)
    reduced = Reduced(r, rest, e.select(negative, e.neg(q), q))
    return _narrowed(e, reduced) if x.kind == "f32" else reduced
