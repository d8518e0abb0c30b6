"""Functions of complex numbers, over pairs (real, imaginary) of f64.

They follow hloom/interp/elementwise_complex.py and C99's annex G: branch cuts lie on an axis, and
the sign of a zero says on which side of one a number is. c64 is computed in f64 and rounded once,
which is what the interpreter does.
"""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math import angle, exponential, hyperbolic, logarithm, power, root
from hloom.codegen.llvm.math.complex_inverse import INVERSE
from hloom.codegen.llvm.math.complex_parts import (
    INFINITY,
    Pair,
    by_smith,
    choose,
    divide,
    excess_of_square,
    is_finite_part,
    is_infinite,
    is_zero,
    multiply,
    negative,
    normalised,
    number,
    reciprocal_root,
    size,
    square_root,
    times_i,
    times_minus_i,
)
from hloom.codegen.llvm.math.parts import clamped, integer_as_float, scaled
from hloom.codegen.llvm.math.trigonometric import cosine, sine, tan
from hloom.codegen.llvm.values import V

# e**x below is 0; 2**n of what is above is the most that `scaled` can put in.
_LEAST, _MOST = -1360.0, 1440.0
# From here on it is infinite, even times the smallest sine.
_ENDLESS = 1455.0
# By so many powers of two a factor is larger, so that it keeps its digits beside a denormal sine.
_LIFT = 60


def complex_exponential(e: Emit, z: Pair) -> Pair:
    """e**z: e**x (cos y, sin y), 2**n of it put in last, so that it overflows only if it must."""
    x, y = z
    p, n = _grown_parts(e, x)
    real = scaled(e, e.fmul(p, cosine(e, y)), n)
    imaginary = scaled(e, e.fmul(p, sine(e, y)), n)
    return exponential_limits(e, z, real, imaginary)


def _grown_parts(e: Emit, x: V) -> Pair:
    """p and n with e**x = p 2**n, that times the sine of the smallest angle is infinite, too."""
    p, n = exponential.exponential_parts(e, clamped(e, x, _LEAST, _MOST))
    return lifted(e, p, n, e.fcmp("ogt", x, number(e, x, _ENDLESS)))


def lifted(e: Emit, p: V, n: V, endless: V) -> Pair:
    """p 2**n as a product of a larger p; where it has no end, so large that nothing ends it."""
    by = e.select(endless, number(e, p, 2.0 ** (_LIFT + 200)), number(e, p, 2.0**_LIFT))
    return e.fmul(p, by), e.sub(n, e.const(n.kind, _LIFT, n.lanes))


def exponential_limits(e: Emit, z: Pair, real: V, imaginary: V) -> Pair:
    """Annex G where y is 0, and where x is infinite and y not finite."""
    x, y = z
    zero = number(e, x, 0.0)
    imaginary = e.select(e.fcmp("oeq", y, zero), y, imaginary)
    odd = e.not_(is_finite_part(e, y))
    vanished = e.and_(odd, e.fcmp("oeq", x, number(e, x, -INFINITY)))
    endless = e.and_(odd, e.fcmp("oeq", x, number(e, x, INFINITY)))
    real = e.select(endless, x, e.select(vanished, zero, real))
    return real, e.select(vanished, e.copysign(zero, y), imaginary)


def complex_exponential_minus_one(e: Emit, z: Pair) -> Pair:
    """e**z - 1: expm1(x) cos y - 2 sin(y/2)**2, accurate near 0."""
    x, y = z
    real_y = e.fcmp("oeq", y, number(e, y, 0.0))
    half = sine(e, e.fmul(y, number(e, y, 0.5)))
    large = complex_exponential(e, z)
    growth = exponential.exponential_minus_one(e, x)
    turn = e.fmul(e.fmul(half, half), number(e, y, 2.0))
    real = e.fsub(e.fmul(growth, cosine(e, y)), turn)
    real = e.select(e.fcmp("ogt", x, number(e, x, 700.0)), large[0], real)
    real = e.select(real_y, growth, real)
    lost = e.and_(e.fcmp("oeq", x, number(e, x, -INFINITY)), e.not_(is_finite_part(e, y)))
    imaginary = e.select(lost, number(e, x, math.nan), large[1])
    real = e.select(lost, number(e, x, math.nan), real)
    return real, e.select(real_y, y, imaginary)


def log_of_size(e: Emit, z: Pair) -> V:
    """log |z|, accurate near |z| = 1 too; infinite for an infinite part even beside a NaN."""
    near, k = normalised(e, z)
    squares = e.fma(near[0], near[0], e.fmul(near[1], near[1]))
    half = number(e, squares, 0.5)
    whole = integer_as_float(e, k, "f64")
    far = e.fma(whole, number(e, half, math.log(2)), e.fmul(half, logarithm.log(e, squares)))
    excess = excess_of_square(e, z[0], z[1], shifted=False)
    usable = _near_circle(e, excess)
    close = e.fmul(half, logarithm.log_plus_one(e, e.select(usable, excess, number(e, far, 0.0))))
    result = e.select(usable, close, far)
    infinite = e.or_(is_infinite(e, z[0]), is_infinite(e, z[1]))
    return e.select(infinite, number(e, far, INFINITY), result)


def _near_circle(e: Emit, excess: V) -> V:
    above = e.fcmp("ogt", excess, number(e, excess, -0.5))
    return e.and_(above, e.fcmp("olt", excess, number(e, excess, 2.0)))


def complex_log(e: Emit, z: Pair) -> Pair:
    """log |z| and the angle of z."""
    return log_of_size(e, z), angle.atan2(e, z[1], z[0])


def complex_log_plus_one(e: Emit, z: Pair) -> Pair:
    """log(1 + z), accurate wherever |1 + z| is close to 1."""
    x, y = z
    moved = e.fadd(x, number(e, x, 1.0)), y
    far = log_of_size(e, moved)
    excess = excess_of_square(e, x, y, shifted=True)
    three = number(e, x, 3.0)
    inside = e.and_(e.fcmp("olt", e.fabs(x), three), e.fcmp("olt", e.fabs(y), three))
    usable = e.and_(inside, _near_circle(e, excess))
    bounded = e.select(usable, excess, number(e, x, 0.0))
    close = e.fmul(number(e, x, 0.5), logarithm.log_plus_one(e, bounded))
    real = e.select(usable, close, far)
    return e.select(is_zero(e, z), x, real), angle.atan2(e, y, moved[0])


def complex_logistic(e: Emit, z: Pair) -> Pair:
    """1 / (1 + e**-z), from whichever of e**z and e**-z is small."""
    x = z[0]
    left = e.fcmp("olt", x, number(e, x, 0.0))
    small = complex_exponential(e, choose(e, left, z, negative(e, z)))
    one = number(e, x, 1.0), number(e, x, 0.0)
    return by_smith(
        e, choose(e, left, small, one), (e.fadd(one[0], small[0]), e.fadd(one[1], small[1]))
    )


# Hyperbolic and circular functions


def complex_sinh(e: Emit, z: Pair) -> Pair:
    """(sinh x cos y, cosh x sin y)."""
    (s, c), large, (real, imaginary) = _grown(e, z)
    s_y, c_y = sine(e, z[1]), cosine(e, z[1])
    real = e.select(large, _signed(e, real, z[0]), e.fmul(s, c_y))
    imaginary = e.select(large, imaginary, e.fmul(c, s_y))
    return _hyperbolic_limits(e, z, real, imaginary, odd=True)


def complex_cosh(e: Emit, z: Pair) -> Pair:
    """(cosh x cos y, sinh x sin y)."""
    (s, c), large, (real, imaginary) = _grown(e, z)
    s_y, c_y = sine(e, z[1]), cosine(e, z[1])
    real = e.select(large, real, e.fmul(c, c_y))
    imaginary = e.select(large, _signed(e, imaginary, z[0]), e.fmul(s, s_y))
    return _hyperbolic_limits(e, z, real, imaginary, odd=False)


def _signed(e: Emit, value: V, by: V) -> V:
    """The value times the sign of another."""
    return e.fmul(value, e.copysign(number(e, by, 1.0), by))


def _grown(e: Emit, z: Pair) -> tuple[Pair, V, Pair]:
    """sinh and cosh of x where |x| < 20; whether it is not; there e**|x| / 2 times cis y."""
    x, y = z
    a = e.fabs(x)
    large = e.fcmp("oge", a, number(e, a, 20.0))
    bounded = clamped(e, x, -20.0, 20.0)
    p, n = _grown_parts(e, a)
    n = e.sub(n, e.const(n.kind, 1, n.lanes))
    real = scaled(e, e.fmul(p, cosine(e, y)), n)
    imaginary = scaled(e, e.fmul(p, sine(e, y)), n)
    small = hyperbolic.sinh(e, bounded), hyperbolic.cosh(e, bounded)
    return small, large, (real, imaginary)


def _hyperbolic_limits(e: Emit, z: Pair, real: V, imaginary: V, odd: bool) -> Pair:
    """Annex G where x is infinite or 0 and y is not finite, or y is 0 and x no number."""
    x, y = z
    wild = e.not_(is_finite_part(e, y))
    endless = e.and_(wild, is_infinite(e, x))
    flat = e.and_(wild, e.fcmp("oeq", x, number(e, x, 0.0)))
    on_axis = e.fcmp("oeq", y, number(e, y, 0.0))
    no_x = e.and_(on_axis, e.fcmp("uno", x, x))
    real = e.select(endless, e.fabs(x), real)
    if odd:
        return e.select(flat, x, real), e.select(no_x, y, imaginary)
    return real, e.select(flat, number(e, x, 0.0), e.select(no_x, y, imaginary))


def complex_tanh(e: Emit, z: Pair) -> Pair:
    """Kahan's: with t = tan y, s = sinh x: (1 + t*t) s cosh x, and t, over 1 + (1 + t*t) s*s."""
    x, y = z
    one = number(e, x, 1.0)
    bounded = clamped(e, x, -22.0, 22.0)
    t, s = tan(e, y), hyperbolic.sinh(e, bounded)
    grown = e.fma(t, t, one)
    below = e.fma(e.fmul(grown, s), s, one)
    real = e.fdiv(e.fmul(e.fmul(grown, e.fsqrt(e.fma(s, s, one))), s), below)
    imaginary = e.fdiv(t, below)
    far = e.fcmp("ogt", e.fabs(x), number(e, x, 22.0))
    decay = exponential.exponential(e, e.fmul(e.fabs(x), number(e, x, -2.0)))
    turn = e.fmul(e.fmul(sine(e, y), cosine(e, y)), number(e, y, 4.0))
    far_imaginary = e.fmul(turn, decay)
    # At infinity the sign is that of sin 2y, and no y is too wild.
    wild = e.not_(is_finite_part(e, y))
    endless = e.and_(is_infinite(e, x), wild)
    far_imaginary = e.select(endless, e.copysign(number(e, x, 0.0), y), far_imaginary)
    lost = e.and_(wild, e.not_(endless))
    far_real = e.select(lost, number(e, x, math.nan), e.copysign(one, x))
    result = choose(e, far, (far_real, far_imaginary), (real, imaginary))
    zero = number(e, x, 0.0)
    on_axis = e.fcmp("oeq", y, zero)
    flat = e.and_(wild, e.fcmp("oeq", x, zero))
    return e.select(flat, x, result[0]), e.select(on_axis, y, result[1])


def complex_sine(e: Emit, z: Pair) -> Pair:
    """-i sinh iz."""
    real, imaginary = times_minus_i(e, complex_sinh(e, times_i(e, z)))
    # The C library gives infinity without a sign here.
    wild = e.and_(is_infinite(e, z[1]), e.not_(is_finite_part(e, z[0])))
    return real, e.select(wild, number(e, real, INFINITY), imaginary)


def complex_cosine(e: Emit, z: Pair) -> Pair:
    """cosh iz."""
    return complex_cosh(e, times_i(e, z))


def complex_tan(e: Emit, z: Pair) -> Pair:
    """-i tanh iz."""
    return times_minus_i(e, complex_tanh(e, times_i(e, z)))


# Roots and powers


def complex_sign(e: Emit, z: Pair) -> Pair:
    """z / |z|; 0 for 0."""
    (x, y), _ = normalised(e, z)
    length = size(e, (x, y))
    length = e.select(e.fcmp("oeq", length, number(e, x, 0.0)), number(e, x, 1.0), length)
    return e.fdiv(x, length), e.fdiv(y, length)


def complex_cbrt(e: Emit, z: Pair) -> Pair:
    """The principal cube root: the one whose angle is a third of z's."""
    third = e.fdiv(angle.atan2(e, z[1], z[0]), number(e, z[0], 3.0))
    length = root.cbrt(e, size(e, z))
    result = e.fmul(length, cosine(e, third)), e.fmul(length, sine(e, third))
    return choose(e, is_zero(e, z), z, result)


def complex_power(e: Emit, x: Pair, y: Pair) -> Pair:
    """x ** y = |x| ** c e**(-d angle), turned by c angle + d log |x|, for y = c + id.

    1 for x ** 0 and for 1 ** y; 0 ** c is 0, and infinity ** c infinite, for a real c above 0.
    """
    c, d = y
    zero, one = number(e, c, 0.0), number(e, c, 1.0)
    length, turned = size(e, x), angle.atan2(e, x[1], x[0])
    grown = power.power(e, length, c)
    scale = e.fmul(grown, exponential.exponential(e, e.fneg(e.fmul(d, turned))))
    turn = e.fadd(e.fmul(c, turned), e.fmul(d, logarithm.log(e, length)))
    result = e.fmul(scale, cosine(e, turn)), e.fmul(scale, sine(e, turn))
    nothing = zero, zero
    by_real = e.and_(e.fcmp("oeq", d, zero), e.fcmp("oeq", x[1], zero))
    above, below = e.fcmp("ogt", c, zero), e.fcmp("olt", c, zero)
    empty = e.and_(by_real, e.and_(is_zero(e, x), above))
    endless = e.and_(by_real, e.fcmp("oeq", x[0], number(e, c, INFINITY)))
    result = choose(e, empty, nothing, result)
    result = choose(e, e.and_(endless, above), (number(e, c, INFINITY), zero), result)
    result = choose(e, e.and_(endless, below), nothing, result)
    unit = e.and_(e.fcmp("oeq", x[0], one), e.fcmp("oeq", x[1], zero))
    return choose(e, e.or_(is_zero(e, y), unit), (one, zero), result)


def complex_atan2(e: Emit, y: Pair, x: Pair) -> Pair:
    """-i log((x + iy) / sqrt(x*x + y*y)); the angle itself of real numbers."""
    angles = angle.atan2(e, y[0], x[0])
    zero = number(e, x[0], 0.0)
    real = e.and_(e.fcmp("oeq", x[1], zero), e.fcmp("oeq", y[1], zero))
    y, x = _levelled(e, y, x)
    top = e.fsub(x[0], y[1]), e.fadd(x[1], y[0])
    xx, yy = multiply(e, x, x), multiply(e, y, y)
    below = square_root(e, (e.fadd(xx[0], yy[0]), e.fadd(xx[1], yy[1])))
    result = times_minus_i(e, complex_log(e, by_smith(e, top, below)))
    return choose(e, real, (angles, zero), result)


def _levelled(e: Emit, y: Pair, x: Pair) -> tuple[Pair, Pair]:
    """Both by one power of two that keeps their squares from overflowing or vanishing."""
    largest = e.fmax_raw(
        e.fmax_raw(e.fabs(x[0]), e.fabs(x[1])), e.fmax_raw(e.fabs(y[0]), e.fabs(y[1]))
    )
    huge = e.fcmp("ogt", largest, number(e, largest, 2.0**480))
    tiny = e.fcmp("olt", largest, number(e, largest, 2.0**-480))
    one = number(e, largest, 1.0)
    by = e.select(tiny, number(e, largest, 2.0**560), one)
    by = e.select(huge, number(e, largest, 2.0**-560), by)
    return (e.fmul(y[0], by), e.fmul(y[1], by)), (e.fmul(x[0], by), e.fmul(x[1], by))


COMPLEX = {
    **INVERSE,
    "atan2": complex_atan2,
    "cbrt": complex_cbrt,
    "cosh": complex_cosh,
    "cosine": complex_cosine,
    "divide": divide,
    "exponential": complex_exponential,
    "exponential-minus-one": complex_exponential_minus_one,
    "log": complex_log,
    "log-plus-one": complex_log_plus_one,
    "logistic": complex_logistic,
    "power": complex_power,
    "rsqrt": reciprocal_root,
    "sign": complex_sign,
    "sine": complex_sine,
    "sinh": complex_sinh,
    "sqrt": square_root,
    "tan": complex_tan,
    "tanh": complex_tanh,
}
"""From HLO opcode to the function over pairs of f64."""
