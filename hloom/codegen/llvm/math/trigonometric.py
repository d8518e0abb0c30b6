"""Sine, cosine and tangent of any angle.

x = q pi/2 + r with |r| <= pi/4. Angles of usual size lose q times pi/2 word by word (Cody and
Waite). For huge ones a branch is taken, and there each lane multiplies the digits of 2/pi that
matter (192 of 1168 in f64, found by a shift) with its mantissa as integers (Payne and Hanek).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.coefficients import TURN_DIGITS, TWO_OVER_PI, WORDS
from hloom.codegen.llvm.math.parts import (
    FORMATS,
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
_WORD = (1 << 64) - 1


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
    fast, huge = _usual(e, x), _is_huge(e, x)
    slow_label, join = e.fresh("huge"), e.fresh("join")
    before = e.label
    e.cond_br(any_lane(e, huge), slow_label, join)
    e.open_scope()
    e.block(slow_label)
    slow = _by_digits(e, x, fast)
    after = e.label
    e.br(join)
    e.close_scope()
    e.block(join, dominated=True)
    return Reduced(*(e.phi([(f, before), (s, after)]) for f, s in zip(fast, slow)))


def _is_huge(e: Emit, x: V) -> V:
    """Where the words of pi/2 do not give r to its last digit."""
    limit = (_USUAL_FMA if e.machine.has_fma else _USUAL)[x.kind]
    return e.fcmp("uge", e.fabs(x), e.like(x, limit))


def _usual(e: Emit, x: V) -> Reduced:
    """The reduction by words of pi/2."""
    if e.machine.has_fma:
        whole, q = nearest_integer(e, x, TWO_OVER_PI_F)
        first, second, third = (e.like(x, -w) for w in words("HALF_PI", x))
        a = e.fma(whole, first, x)  # exact
        # The two may cancel each other nearly whole, so every rounding error is kept.
        product, lost = two_product(e, whole, second)
        r, rest = two_sum(e, a, product)
        rest = e.fma(whole, third, e.fadd(rest, lost))
        return _renewed(e, r, rest, q)
    if x.kind == "f32":
        return _narrowed(e, _usual(e, e.fpext(x, "f64")))
    whole, q = nearest_integer(e, x, TWO_OVER_PI_F)
    first, second, third, fourth = (e.like(x, w) for w in WORDS["HALF_PI_SHORT", x.kind])
    a = e.fsub(x, e.fmul(whole, first))  # exact, as are the products
    b, rest = two_sum(e, a, e.fneg(e.fmul(whole, second)))
    rest = e.fsub(rest, e.fmul(whole, third))
    rest = e.fsub(rest, e.fmul(whole, fourth))
    return _renewed(e, b, rest, q)


def _renewed(e: Emit, r: V, rest: V, q: V) -> Reduced:
    r, rest = fast_two_sum(e, r, rest)
    return Reduced(r, rest, q)


def _narrowed(e: Emit, a: Reduced) -> Reduced:
    """The f64 reduction as one of f32."""
    r = e.fptrunc(a.r, "f32")
    rest = e.fptrunc(e.fsub(a.r, e.fpext(r, "f64")), "f32")
    return Reduced(r, rest, e.trunc(a.q, "i32"))


def _by_digits(e: Emit, x: V, fast: Reduced) -> Reduced:
    """The reduction of each huge lane as integers; the other lanes stay.

    Few programs ever come here, and the code is long: it stands in one function of the program,
    which gets the lanes in memory, side by side.
    """
    values = [x, *fast]
    size = x.lanes * format_of(x).width // 8
    memory = e.lent(size * len(values))
    places = [e.gep(memory, size * k) for k in range(len(values))]
    for value, place in zip(values, places):
        e.store(value, place)
    name = f"angles_by_digits_{x.kind}"
    e.call_common(name, _reduce_huge, [memory, e.const("i64", x.lanes)], x.kind)
    return Reduced(*(e.load(p, v.kind, v.lanes) for v, p in zip(fast, places[1:])))


def _reduce_huge(e: Emit, kind: str) -> None:
    """The body of that function: (x, r, rest, q) of each lane where x is huge."""
    memory, lanes = e.args
    digits = _digit_table(e, kind)
    size = FORMATS[kind].width // 8
    one, zero = e.const("i64", 1), e.const("i64", 0)
    stride = e.mul(lanes, e.const("i64", size))
    with e.loop(zero, lanes, one, nonempty=True) as loop:
        places = [e.gep(memory, e.mul(loop.index, e.const("i64", size)))]
        for _ in range(3):
            places.append(e.gep(places[-1], stride))
        x = e.load(places[0], kind)
        slow, join = e.fresh("slow"), e.fresh("next")
        e.cond_br(_is_huge(e, x), slow, join)
        e.open_scope()
        e.block(slow)
        for value, place in zip(_scalar_by_digits(e, x, digits), places[1:]):
            e.store(value, place)
        e.br(join)
        e.close_scope()
        e.block(join, dominated=True)
    e.ret()


def _digit_table(e: Emit, kind: str) -> V:
    """The address of the digits of 2/pi that count, as bytes, the last first."""
    known = _DIGITS[kind][0]
    words_count = known // 64 + 2  # so that reading may begin anywhere
    number = TWO_OVER_PI >> (TURN_DIGITS - known)
    table = [number >> (64 * k) & _WORD for k in range(words_count)]
    return e.table(table)


def _scalar_by_digits(e: Emit, x: V, table: V) -> Reduced:
    """The reduction of one scalar of 2**16 and more; NaN for infinity and NaN."""
    wide = e.fpext(x, "f64")

    def whole(value: int) -> V:
        return e.const("i64", value)

    bits = e.bits(wide)
    exponent = e.and_(e.lshr(bits, whole(52)), whole(0x7FF))
    # |x| = mantissa * 2**(exponent - 1075): the digits of 2/pi above the window are whole turns.
    mantissa = e.or_(e.and_(bits, whole((1 << 52) - 1)), whole(1 << 52))
    known, window_digits = _DIGITS[x.kind]
    largest = 1023 + (127 if x.kind == "f32" else 1023)
    exponent = e.umin(exponent, whole(largest))  # of infinity and NaN, whose digits are not used
    shift = e.sub(whole(known + 1075 + 2 - window_digits), exponent)
    first = e.gep(table, e.lshr(shift, whole(3)))
    count = window_digits // 64
    read = [e.load(e.gep(first, 8 * k), "i64", align=1) for k in range(count + 1)]
    within = e.and_(shift, whole(7))
    window = [_funnel(e, "fshr", high, low, within) for low, high in pairwise(read)]
    turns = _low_product(e, window, mantissa)
    # The two digits before the point, rounded by the one after it.
    q = e.lshr(e.add(turns[-1], whole(1 << 61)), whole(62))
    two = whole(2)
    below = [e.shl(turns[0], two)]
    below += [_funnel(e, "fshl", high, low, two) for low, high in pairwise(turns)]
    return _from_fraction(e, x, wide, q, below)


def _funnel(e: Emit, direction: str, high: V, low: V, count: V) -> V:
    """One word of two side by side, moved by less than a word."""
    text = f"call i64 @llvm.{direction}.i64({high.typed}, {low.typed}, {count.typed})"
    return e.effect(text, "i64")


def _low_product(e: Emit, words: list[V], factor: V) -> list[V]:
    """As many words as there are, of their product with one more; the lowest first."""
    wide, carried = e.zext(factor, "i128"), e.const("i128", 0)
    product: list[V] = []
    for word in words[:-1]:
        total = e.add(e.mul(e.zext(word, "i128"), wide), carried)
        product.append(e.trunc(total, "i64"))
        carried = e.lshr(total, e.const("i128", 64))
    return [*product, e.add(e.mul(words[-1], factor), e.trunc(carried, "i64"))]


def _from_fraction(e: Emit, x: V, wide: V, q: V, fraction: list[V]) -> Reduced:
    """r = pi/2 times a signed fraction, given as words, the lowest first, with the sign of x."""
    zero = e.const("i64", 0)
    below = e.icmp("slt", fraction[-1], zero)
    words, is_zero = [], e.const("i1", 1)
    for word in fraction:  # of its opposite, whose carry goes as far as words are zero
        opposite = e.add(e.xor(word, e.const("i64", _WORD)), e.zext(is_zero, "i64"))
        is_zero = e.and_(is_zero, e.icmp("eq", word, zero))
        words.append(e.select(below, opposite, word))
    # No float is so near to a multiple of pi/2 that a word of zeros would be in front.
    leading = e.effect(f"call i64 @llvm.ctlz.i64({words[-1].typed}, i1 false)", "i64")
    leading = e.umin(leading, e.const("i64", 63))
    low = e.const("i64", 0) if len(words) < 3 else words[-3]
    top = _funnel(e, "fshl", words[-1], words[-2], leading)
    next_word = _funnel(e, "fshl", words[-2], low, leading)

    def part(digits: V, below_point: int) -> V:
        value = e.and_(digits, e.const("i64", (1 << 53) - 1))
        return e.fmul(e.sitofp(value, "f64"), e.const("f64", 2.0**-below_point))

    scale = e.shl(e.sub(e.const("i64", 1023), leading), e.const("i64", 52))
    scale = e.bitcast(scale, "f64")
    second = _funnel(e, "fshl", top, next_word, e.const("i64", 42))
    high = e.fmul(part(e.lshr(top, e.const("i64", 11)), 53), scale)
    low = e.fmul(part(second, 106), scale)
    half_pi = [e.const("f64", w) for w in WORDS["HALF_PI", "f64"]]
    r, rest = two_product(e, high, half_pi[0])
    rest = e.fadd(rest, e.fadd(e.fmul(high, half_pi[1]), e.fmul(low, half_pi[0])))
    r, rest = fast_two_sum(e, r, rest)
    negative = e.icmp("slt", e.bits(wide), zero)
    flip = e.xor(negative, below)
    infinite = e.fcmp("uge", e.fabs(wide), e.const("f64", float("inf")))
    r = e.select(infinite, e.const("f64", float("nan")), e.select(flip, e.fneg(r), r))
    rest = e.select(flip, e.fneg(rest), rest)
    reduced = Reduced(r, rest, e.select(negative, e.neg(q), q))
    return _narrowed(e, reduced) if x.kind == "f32" else reduced
