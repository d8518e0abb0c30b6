"""Complex arithmetic on pairs of f64: quotients, magnitudes, square roots.

Where squares are summed, both parts are first divided by a power of two, so that nothing
overflows or vanishes in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.parts import (
    any_lane,
    mantissa_and_exponent,
    scaled,
    two_product,
    two_sum,
)
from hloom.codegen.llvm.values import V

Pair = tuple[V, V]
INFINITY = math.inf
# Between these, products of two parts and what they are divided by are normal numbers.
_USUAL = (("ogt", 2.0**-400), ("olt", 2.0**400))
# Sums of two squares of f32, of which what is smaller than normal numbers says nothing.
_USUAL_SQUARES = (("ogt", 2.0**-90), ("olt", 2.0**127))


def number(e: Emit, like: V, value: float) -> V:
    """A constant of the type of `like`."""
    return e.like(like, value)


def is_zero(e: Emit, z: Pair) -> V:
    """Whether both parts are zeros."""
    return e.and_(*[e.fcmp("oeq", v, e.like(v, 0.0)) for v in z])


def is_infinite(e: Emit, v: V) -> V:
    """Whether a part is infinite."""
    return e.fcmp("oeq", e.fabs(v), e.like(v, INFINITY))


def is_finite_part(e: Emit, v: V) -> V:
    """Whether a part is neither infinite nor NaN."""
    return e.fcmp("olt", e.fabs(v), e.like(v, INFINITY))


def choose(e: Emit, condition: V, a: Pair, b: Pair) -> Pair:
    """One of two numbers, lane by lane."""
    return e.select(condition, a[0], b[0]), e.select(condition, a[1], b[1])


def negative(e: Emit, z: Pair) -> Pair:
    """-z."""
    return e.fneg(z[0]), e.fneg(z[1])


def times_i(e: Emit, z: Pair) -> Pair:
    """i z."""
    return e.fneg(z[1]), z[0]


def times_minus_i(e: Emit, z: Pair) -> Pair:
    """-i z."""
    return z[1], e.fneg(z[0])


def normalised(e: Emit, z: Pair) -> tuple[Pair, V]:
    """z / 2**k and the even k that brings the larger part into [1, 4); 0 where there is none."""
    a, b = (e.fabs(v) for v in z)
    largest = e.fmax_raw(a, b)
    usual = e.and_(is_finite_part(e, largest), e.fcmp("ogt", largest, e.like(a, 0.0)))
    _, k = mantissa_and_exponent(e, largest, 1.0)
    zero = e.const(k.kind, 0, k.lanes)
    k = e.select(usual, e.and_(k, e.const(k.kind, -2, k.lanes)), zero)
    down = e.neg(k)
    return (scaled(e, z[0], down), scaled(e, z[1], down)), k


def size(e: Emit, z: Pair) -> V:
    """|z|; NaN if a part is, even beside an infinity."""
    (x, y), k = normalised(e, z)
    result = scaled(e, _plain_size(e, x, y), k)
    return e.select(e.fcmp("uno", z[0], z[1]), e.like(x, math.nan), result)


def size_single(e: Emit, z: Pair) -> V:
    """|z| of parts of f32, within 1.25 units of the last digit; where squares might overflow or
    vanish, or the number is 0 or not finite, a branch goes by f64, whose range is wide enough."""
    a, b = (e.fabs(v) for v in z)
    large, small = e.fmax_raw(a, b), e.fmin_raw(b, a)  # NaN if one of the two is
    squares = e.fma(large, large, e.fmul(small, small))
    result = e.fsqrt(squares)
    usual = e.and_(*[e.fcmp(word, squares, e.like(a, v)) for word, v in _USUAL_SQUARES])

    def wide() -> list[V]:
        exact = e.fptrunc(_plain_size(e, *[e.fpext(v, "f64") for v in z]), "f32")
        return [e.select(usual, result, exact)]

    return _where_any(e, e.not_(usual), [result], wide)[0]


def _plain_size(e: Emit, x: V, y: V) -> V:
    return e.fsqrt(e.fma(x, x, e.fmul(y, y)))


def multiply(e: Emit, x: Pair, y: Pair) -> Pair:
    """x * y from four products, each rounded."""
    (a, b), (c, d) = x, y
    return e.fsub(e.fmul(a, c), e.fmul(b, d)), e.fadd(e.fmul(a, d), e.fmul(b, c))


def divide_narrow(e: Emit, x: Pair, y: Pair) -> Pair:
    """x / y of parts that f32 can hold: in f64 neither their products, which are exact, nor the
    sum of two squares overflow or vanish. Where that leaves NaN or y is infinite, a branch asks
    `by_smith`."""
    squares, quotient = _by_reciprocal(e, x, y)
    endless = e.fcmp("oeq", squares, e.like(squares, INFINITY))
    return _mended(e, x, y, quotient, e.or_(e.fcmp("uno", *quotient), endless))


def divide(e: Emit, x: Pair, y: Pair) -> Pair:
    """x / y as C99 has it; a branch asks `by_smith` where one of the two is so large or small that
    products and squares might overflow or vanish."""
    _, quotient = _by_reciprocal(e, x, y)
    usual = []
    for a, b in (x, y):
        largest = e.fmax_raw(e.fabs(a), e.fabs(b))
        usual += [e.fcmp(word, largest, e.like(a, v)) for word, v in _USUAL]
        usual.append(e.fcmp("ord", a, b))
    unusual = e.not_(reduce(e.and_, usual))
    return _mended(e, x, y, quotient, unusual)


def _by_reciprocal(e: Emit, x: Pair, y: Pair) -> tuple[V, Pair]:
    """|y|**2, and x / y by one reciprocal of it; the signs of zeros are those of `by_smith`."""
    (a, b), (c, d) = x, y
    flat = e.fcmp("oge", e.fabs(c), e.fabs(d))
    (larger, smaller), (u, v) = choose(e, flat, (c, d), (d, c)), choose(e, flat, (a, b), (b, a))
    along, across = e.fabs(larger), e.fmul(smaller, e.copysign(e.like(c, 1.0), larger))
    squares = e.fma(c, c, e.fmul(d, d))
    factor = e.fdiv(e.like(c, 1.0), e.copysign(squares, larger))
    real = e.fmul(e.fadd(e.fmul(u, along), e.fmul(v, across)), factor)
    left, right = e.fmul(v, along), e.fmul(u, across)
    difference = e.select(flat, e.fsub(left, right), e.fsub(right, left))
    return squares, (real, e.fmul(difference, factor))


def _mended(e: Emit, x: Pair, y: Pair, quotient: Pair, unusual: V) -> Pair:
    """The quotient, of unusual lanes by Smith's method, which a branch takes if there are any."""
    slow = lambda: choose(e, unusual, by_smith(e, x, y), quotient)  # noqa: E731
    real, imaginary = _where_any(e, unusual, quotient, slow)
    return real, imaginary


def _where_any(
    e: Emit, unusual: V, values: Sequence[V], slow: Callable[[], Sequence[V]]
) -> list[V]:
    """The values, or what a branch makes of them that is taken if any lane is unusual."""
    slow_label, join, before = e.fresh("unusual"), e.fresh("join"), e.label
    e.cond_br(any_lane(e, unusual), slow_label, join)
    e.open_scope()
    e.block(slow_label)
    others = slow()
    after = e.label
    e.br(join)
    e.close_scope()
    e.block(join, dominated=True)
    return [e.phi([(f, before), (s, after)]) for f, s in zip(values, others)]


def by_smith(e: Emit, x: Pair, y: Pair) -> Pair:
    """x / y as C99 has it: infinite for a zero y, 0 for an infinite y and a finite x.

    Smith's: both are divided by the larger part of y, which keeps the signs of zeros right.
    """
    (a, b), k = _raised(e, x)
    (c, d), below = normalised(e, y)
    up = e.sub(k, below)
    # Powers of two outside the range of `scaled` are beyond every float anyway.
    up = e.smin(e.smax(up, e.const("i64", -2040, up.lanes)), e.const("i64", 2040, up.lanes))
    flat = e.fcmp("oge", e.fabs(c), e.fabs(d))
    (larger, smaller), (u, v) = choose(e, flat, (c, d), (d, c)), choose(e, flat, (a, b), (b, a))
    ratio = e.fdiv(smaller, larger)
    divisor = e.fadd(larger, e.fmul(smaller, ratio))
    real = scaled(e, e.fdiv(e.fadd(u, e.fmul(v, ratio)), divisor), up)
    turned_part = e.fmul(u, ratio)
    difference = e.select(flat, e.fsub(v, turned_part), e.fsub(turned_part, v))
    imaginary = scaled(e, e.fdiv(difference, divisor), up)
    by_zero = is_zero(e, y)
    lost = e.and_(e.fcmp("uno", real, real), e.fcmp("uno", imaginary, imaginary))
    endless = e.copysign(e.like(c, INFINITY), y[0])
    result = choose(e, by_zero, (e.fmul(x[0], endless), e.fmul(x[1], endless)), (real, imaginary))
    lost = e.and_(lost, e.not_(by_zero))
    x_infinite, x_finite = _kinds(e, x)
    y_infinite, y_finite = _kinds(e, y)
    turned = _turned(e, (_boxed(e, x[0]), _boxed(e, x[1])), y, INFINITY)
    result = choose(e, e.and_(lost, e.and_(x_infinite, y_finite)), turned, result)
    turned = _turned(e, x, (_boxed(e, y[0]), _boxed(e, y[1])), 0.0)
    return choose(e, e.and_(lost, e.and_(x_finite, y_infinite)), turned, result)


def _raised(e: Emit, z: Pair) -> tuple[Pair, V]:
    """z / 2**k with the larger part from 1 on, so far below infinity that sums stay finite; what
    is small beside it keeps all its digits."""
    largest = e.fmax_raw(e.fabs(z[0]), e.fabs(z[1]))
    _, k = mantissa_and_exponent(e, largest, 1.0)
    usual = e.and_(is_finite_part(e, largest), e.fcmp("ogt", largest, e.like(largest, 0.0)))
    k = e.select(usual, e.smin(k, e.const(k.kind, 2, k.lanes)), e.const(k.kind, 0, k.lanes))
    down = e.neg(k)
    return (scaled(e, z[0], down), scaled(e, z[1], down)), k


def _kinds(e: Emit, z: Pair) -> Pair:
    infinite = e.or_(is_infinite(e, z[0]), is_infinite(e, z[1]))
    return infinite, e.and_(is_finite_part(e, z[0]), is_finite_part(e, z[1]))


def _boxed(e: Emit, v: V) -> V:
    one, zero = e.like(v, 1.0), e.like(v, 0.0)
    return e.copysign(e.select(is_infinite(e, v), one, zero), v)


def _turned(e: Emit, x: Pair, y: Pair, factor: float) -> Pair:
    (a, b), (c, d) = x, y
    by = e.like(a, factor)
    real = e.fadd(e.fmul(a, c), e.fmul(b, d))
    return e.fmul(by, real), e.fmul(by, e.fsub(e.fmul(b, c), e.fmul(a, d)))


def root_of_normalised(e: Emit, z: Pair) -> tuple[Pair, V]:
    """The square root of a finite number near 1 (or zero), and its size."""
    x, y = z
    length = _plain_size(e, x, y)
    t, double = _larger_root(e, z)
    other = e.fdiv(y, double)
    left = e.fcmp("olt", x, e.like(x, 0.0))
    return choose(e, left, (e.fabs(other), e.copysign(t, y)), (t, other)), length


def _larger_root(e: Emit, z: Pair) -> Pair:
    """The larger part of the root in size, and twice that, or 1 for 0."""
    x, y = z
    t = e.fsqrt(e.fmul(e.like(x, 0.5), e.fadd(e.fabs(x), _plain_size(e, x, y))))
    empty = e.fcmp("oeq", t, e.like(t, 0.0))
    return t, e.select(empty, e.like(t, 1.0), e.fadd(t, t))


def square_root(e: Emit, z: Pair) -> Pair:
    """The root with a real part >= 0, its imaginary part signed as z's."""
    x, y = z
    near, k = normalised(e, z)
    half = _half(e, k)
    root, double = _larger_root(e, near)
    # By the root of its scale only: beside a large real part it would vanish.
    other = e.fdiv(scaled(e, y, e.neg(half)), double)
    root = scaled(e, root, half)
    left = e.fcmp("olt", x, e.like(x, 0.0))
    result = choose(e, left, (e.fabs(other), e.copysign(root, y)), (root, other))
    zero, endless = e.like(x, 0.0), e.like(x, INFINITY)
    # An infinite real part, beside a finite or NaN imaginary one.
    up = e.select(e.fcmp("uno", y, y), y, e.copysign(zero, y))
    result = choose(e, e.fcmp("oeq", x, endless), (x, up), result)
    side = e.select(e.fcmp("uno", y, y), y, zero)
    result = choose(
        e, e.fcmp("oeq", x, e.like(x, -INFINITY)), (side, e.copysign(endless, y)), result
    )
    return choose(e, is_infinite(e, y), (endless, y), result)


def _half(e: Emit, k: V) -> V:
    """k / 2 for an even k, by an unsigned shift."""
    lifted = e.add(k, e.const(k.kind, 4096, k.lanes))
    half = e.lshr(lifted, e.const(k.kind, 1, k.lanes))
    return e.sub(half, e.const(k.kind, 2048, k.lanes))


def reciprocal_root(e: Emit, z: Pair) -> Pair:
    """1 / sqrt z: conj(sqrt z) / |z|; 0 at infinity, (infinity, NaN) at 0."""
    x, y = z
    near, k = normalised(e, z)
    (real, imaginary), length = root_of_normalised(e, near)
    down = e.neg(_half(e, k))
    real = scaled(e, e.fdiv(real, length), down)
    imaginary = scaled(e, e.fdiv(e.fneg(imaginary), length), down)
    zero = e.like(x, 0.0)
    infinite = e.or_(is_infinite(e, x), is_infinite(e, y))
    at_infinity = e.copysign(zero, x), e.copysign(zero, e.fneg(y))
    result = choose(e, infinite, at_infinity, (real, imaginary))
    return e.select(is_zero(e, z), e.like(x, INFINITY), result[0]), result[1]


def excess_of_square(e: Emit, x: V, y: V, shifted: bool) -> V:
    """|z|**2 - 1 with the rounding errors of its terms: x*x + y*y - 1, or with x + 1 for x."""
    xx, xx_rest = two_product(e, x, x)
    yy, yy_rest = two_product(e, y, y)
    first = e.fadd(x, x) if shifted else e.like(x, -1.0)
    large, small = (xx, yy)
    total, rest = two_sum(e, first, large)
    total, again = two_sum(e, total, small)
    return e.fadd(total, e.fadd(e.fadd(rest, again), e.fadd(xx_rest, yy_rest)))
