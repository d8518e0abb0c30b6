"""Functions of complex numbers on c128 arrays; c64 is computed in c128 and rounded once.

Most are the C library's (through numpy), which follow C99's annex G: branch cuts are on the real
or imaginary axis and continuous with the side that the sign of zero says. Here are those that
numpy lacks or computes with cancellation or overflow.
"""

from collections.abc import Callable

import numpy as np

from hloom.interp.elementwise_number import Array

LN2, LN2_REST = 0.6931471805599453, 2.3190468138462996e-17
"""log 2 as the sum of two f64."""
LOG2_E = 1.4426950408889634


def joined(real: Array, imaginary: Array) -> Array:
    """real + i*imaginary without arithmetic, so that infinities and signed zeros survive."""
    real, imaginary = np.broadcast_arrays(real, imaginary)
    result = np.empty(real.shape, np.complex64 if real.dtype == np.float32 else np.complex128)
    result.real, result.imag = real, imaginary
    return result


def _halves(x: Array) -> tuple[Array, Array]:
    shifted = x * 134217729.0  # 2**27 + 1 cuts the 53 bits in two halves
    high = shifted - (shifted - x)
    return high, x - high


def _exact_square(x: Array) -> tuple[Array, Array]:
    """x*x as an unevaluated sum of two f64 (Dekker's product)."""
    product = x * x
    high, low = _halves(x)
    return product, ((high * high - product) + 2 * high * low) + low * low


def _exact_product(x: Array, y: Array) -> tuple[Array, Array]:
    """x*y as an unevaluated sum of two f64 (Dekker's product)."""
    product = x * y
    (a, b), (c, d) = _halves(x), _halves(y)
    return product, (((a * c - product) + a * d) + b * c) + b * d


def _exact_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """x + y as an unevaluated sum of two f64 (Knuth's two-sum)."""
    total = x + y
    other = total - x
    return total, (x - (total - other)) + (y - other)


def power_of_two(z: Array) -> Array:
    """2**x turned by the angle y ln 2, which is kept in two words; 2**whole part comes last."""
    x, y = np.real(z), np.imag(z)
    usual = np.isfinite(y) & (y != 0) & ~np.isnan(x)
    a, b = np.clip(np.where(usual, x, 0.0), -5000, 5000), np.where(usual, y, 0.0)
    turn, rest = _exact_product(b, np.array(LN2))
    rest = np.where(np.abs(b) < 2.0**990, rest + b * LN2_REST, 0.0)
    level = np.cos(turn) * np.cos(rest) - np.sin(turn) * np.sin(rest)
    across = np.sin(turn) * np.cos(rest) + np.cos(turn) * np.sin(rest)
    whole = np.rint(a)
    size, steps = np.exp2(a - whole), whole.astype(np.int32)
    result = joined(np.ldexp(size * level, steps), np.ldexp(size * across, steps))
    # Elsewhere it is 2**x on the real axis, and the limits are those of e**z.
    limits, flat = np.exp(z), y == 0
    other = joined(np.where(flat, np.exp2(x), np.real(limits)), np.where(flat, y, np.imag(limits)))
    return np.where(usual, result, other)


def log2(z: Array) -> Array:
    """log z over log 2, each part by itself."""
    result = np.log(z)
    return joined(np.real(result) * LOG2_E, np.imag(result) * LOG2_E)


def log_plus_one(z: Array) -> Array:
    """log(1 + z), accurate in the real part wherever |1 + z| is close to 1.

    There log|1 + z| = log1p(2x + x*x + y*y) / 2, whose argument cancels near that circle: it is
    summed with the rounding errors of its products and sums.
    """
    x, y = np.real(z), np.imag(z)
    far = np.log(joined(x + 1, y))
    near = (np.abs(x) < 3) & (np.abs(y) < 3)
    a, b = np.where(near, x, 0.0), np.where(near, y, 0.0)
    xx, xx_rest = _exact_square(a)
    yy, yy_rest = _exact_square(b)
    total, rest1 = _exact_sum(2 * a, xx)
    total, rest2 = _exact_sum(total, yy)
    excess = total + (rest1 + rest2 + xx_rest + yy_rest)
    # 1 + excess rounds to exactly 0 only at z = -1, where the far form has -inf already.
    usable = near & (excess > -0.75)
    real = np.where(usable, 0.5 * np.log1p(np.where(usable, excess, 0.0)), np.real(far))
    # Adding a zero of excess keeps the sign of x where z itself is a zero.
    real = np.where((x == 0) & (y == 0), x, real)
    return joined(real, np.arctan2(y, 1 + x))


def exponential_minus_one(z: Array) -> Array:
    """e**z - 1, accurate near every zero of the real part's two terms."""
    x, y = np.real(z), np.imag(z)
    real_y = y == 0
    half = np.sin(y / 2)
    large = np.exp(z)
    growth = np.expm1(x)
    cosine = np.where(real_y, 1.0, np.cos(y))
    real = growth * cosine - 2 * half * half
    # Where e**x overflows the 1 no longer counts; e**z has been computed without overflowing.
    real = np.where(x > 700, np.real(large), np.where(real_y, growth, real))
    imaginary = np.where(np.isneginf(x) & ~np.isfinite(y), np.nan, np.imag(large))
    return joined(real, np.where(real_y, y, imaginary))


def multiply(x: Array, y: Array) -> Array:
    """x * y from four products of the parts, each rounded to their type."""
    a, b, c, d = np.real(x), np.imag(x), np.real(y), np.imag(y)
    return joined(a * c - b * d, a * d + b * c)


def magnitude(z: Array) -> Array:
    """|z| without overflow in between; NaN when a part is, even beside an infinity."""
    x, y = np.real(z), np.imag(z)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.hypot(x, y))


def divide(x: Array, y: Array) -> Array:
    """x / y as C99 has it: infinite for a zero y, 0 for an infinite y and a finite x."""
    x, y = np.broadcast_arrays(x, y)
    quotient = _scaled_quotient(x, y)
    a, b, c, d = np.real(x), np.imag(x), np.real(y), np.imag(y)
    by_zero = (c == 0) & (d == 0)
    lost = by_zero | (np.isnan(np.real(quotient)) & np.isnan(np.imag(quotient)))
    if not np.any(lost):
        return quotient
    real, imaginary = np.real(quotient).copy(), np.imag(quotient).copy()

    def put(where: Array, re: Array, im: Array, factor: Array | float) -> None:
        real[...] = np.where(where, factor * re, real)
        imaginary[...] = np.where(where, factor * im, imaginary)

    put(by_zero, a, b, np.copysign(np.inf, c))
    finite_x, finite_y = np.isfinite(a) & np.isfinite(b), np.isfinite(c) & np.isfinite(d)
    p, q = _boxed(a), _boxed(b)
    put(lost & ~by_zero & np.isinf(x) & finite_y, p * c + q * d, q * c - p * d, np.inf)
    p, q = _boxed(c), _boxed(d)
    put(lost & finite_x & np.isinf(y), a * p + b * q, b * p - a * q, 0.0)
    return joined(real, imaginary)


def _scaled_quotient(x: Array, y: Array) -> Array:
    """Smith's quotient, of powers of two so that nothing overflows or vanishes in between."""
    if x.dtype != np.complex128:
        return np.divide(x, y)
    up, down = np.minimum(_exponent(x), 2), _exponent(y) & -2
    a, b = (np.ldexp(part, -up) for part in (np.real(x), np.imag(x)))
    c, d = (np.ldexp(part, -down) for part in (np.real(y), np.imag(y)))
    flat = np.abs(c) >= np.abs(d)
    larger, smaller = np.where(flat, c, d), np.where(flat, d, c)
    u, v = np.where(flat, a, b), np.where(flat, b, a)
    ratio = smaller / larger
    divisor = larger + smaller * ratio
    difference = np.where(flat, v - u * ratio, u * ratio - v)
    shift = up - down
    return joined(np.ldexp((u + v * ratio) / divisor, shift), np.ldexp(difference / divisor, shift))


def _exponent(z: Array) -> Array:
    """k where the larger part is between 2**k and twice that; 0 of zeros and what is not finite."""
    largest = np.maximum(np.abs(np.real(z)), np.abs(np.imag(z)))
    usual = np.isfinite(largest) & (largest > 0)
    return np.frexp(np.where(usual, largest, 1.0))[1] - 1


def _boxed(part: Array) -> Array:
    """Infinities as 1, all else as 0, each with its sign."""
    return np.copysign(np.isinf(part) * 1.0, part)


def logistic(z: Array) -> Array:
    """1 / (1 + e**-z), from whichever of e**z and e**-z is small."""
    negative = np.real(z) < 0
    small = np.exp(np.where(negative, z, -z))
    return divide(np.where(negative, small, 1.0), 1 + small)


def reciprocal_root(z: Array) -> Array:
    """1 / sqrt(z) = conj(sqrt z) / |z|; 0 at infinity, (infinity, NaN) at 0."""
    largest = np.maximum(np.abs(np.real(z)), np.abs(np.imag(z)))
    # A power of 4 keeps |z| a normal finite number; its root comes off the result again.
    shift = np.where(largest > 2.0**1000, -100, np.where(largest < 2.0**-900, 200, 0))
    scaled = joined(np.ldexp(np.real(z), shift), np.ldexp(np.imag(z), shift))
    root, size = np.sqrt(scaled), np.abs(scaled)
    real = np.ldexp(np.real(root) / size, shift // 2)
    imaginary = np.ldexp(-np.imag(root) / size, shift // 2)
    infinite = np.isinf(np.real(z)) | np.isinf(np.imag(z))
    real = np.where(infinite, np.copysign(0.0, np.real(z)), np.where(z == 0, np.inf, real))
    imaginary = np.where(infinite, np.copysign(0.0, -np.imag(z)), imaginary)
    return joined(real, imaginary)


def sign(z: Array) -> Array:
    """z / |z|; 0 for 0. Scaled first, so that neither tiny nor huge magnitudes are lost."""
    down = -(_exponent(z) & -2)
    real, imaginary = np.ldexp(np.real(z), down), np.ldexp(np.imag(z), down)
    size = np.hypot(real, imaginary)
    size = np.where(size == 0, 1.0, size)
    return joined(real / size, imaginary / size)


def power(x: Array, y: Array) -> Array:
    """x ** y = |x| ** c * e**(-d*angle) turned by c*angle + d*log|x|, for y = c + id.

    1 for x ** 0 and for 1 ** y; 0 ** c is 0, and infinity ** c infinite, for a real c above 0.
    """
    x, y = np.broadcast_arrays(x, y)
    c, d = np.real(y), np.imag(y)
    size, angle = np.hypot(np.real(x), np.imag(x)), np.arctan2(np.imag(x), np.real(x))
    scale = np.power(size, c) * np.exp(-d * angle)
    turn = c * angle + d * np.log(size)
    result = joined(scale * np.cos(turn), scale * np.sin(turn))
    by_real = (d == 0) & (np.imag(x) == 0)
    result = np.where(by_real & (x == 0) & (c > 0), 0j, result)
    infinite = by_real & np.isposinf(np.real(x))
    result = np.where(
        infinite & (c > 0), complex(np.inf, 0), np.where(infinite & (c < 0), 0j, result)
    )
    return np.where((y == 0) | (x == 1), 1.0 + 0j, result)


def cube_root(z: Array) -> Array:
    """The principal cube root: the one whose angle is a third of z's."""
    angle, size = np.angle(z) / 3, np.cbrt(np.abs(z))
    return np.where(z == 0, z, joined(size * np.cos(angle), size * np.sin(angle)))


def angle_of(y: Array, x: Array) -> Array:
    """atan2 of complex numbers: -i log((x + iy) / sqrt(x*x + y*y)), both brought near 1 first."""
    real = (np.imag(x) == 0) & (np.imag(y) == 0)
    angles = np.arctan2(np.real(y), np.real(x))
    largest = np.maximum(np.abs(np.real(x)), np.abs(np.imag(x)))
    largest = np.maximum(largest, np.maximum(np.abs(np.real(y)), np.abs(np.imag(y))))
    by = np.where(largest < 2.0**-480, 2.0**560, np.where(largest > 2.0**480, 2.0**-560, 1.0))
    x, y = joined(np.real(x) * by, np.imag(x) * by), joined(np.real(y) * by, np.imag(y) * by)
    top = joined(np.real(x) - np.imag(y), np.imag(x) + np.real(y))
    squares = multiply(x, x), multiply(y, y)
    turned = np.log(divide(top, np.sqrt(squares[0] + squares[1])))
    result = joined(np.imag(turned), -np.real(turned))
    return np.where(real, joined(angles, np.zeros(real.shape)), result)


COMPLEX_UNARY: dict[str, Callable[[Array], Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cbrt": cube_root,
    "cosh": np.cosh,
    "cosine": np.cos,
    "exp2": power_of_two,
    "exponential": np.exp,
    "exponential-minus-one": exponential_minus_one,
    "log": np.log,
    "log-plus-one": log_plus_one,
    "log2": log2,
    "logistic": logistic,
    "negate": np.negative,
    "rsqrt": reciprocal_root,
    "sign": sign,
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}


def in_order(direction: str, x: Array, y: Array) -> Array:
    """x DIRECTION y for GT, GE, LT and LE: by the real parts, and where they are equal by the
    imaginary ones, as StableHLO orders complex numbers."""
    strict, last = _ORDERS[direction]
    a, c = np.real(x), np.real(y)
    return strict(a, c) | ((a == c) & last(np.imag(x), np.imag(y)))


_ORDERS: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "GT": (np.greater, np.greater),
    "GE": (np.greater, np.greater_equal),
    "LT": (np.less, np.less),
    "LE": (np.less, np.less_equal),
}


def maximum(x: Array, y: Array) -> Array:
    """The later in that order; y where a NaN is in the way."""
    return np.where(in_order("GT", x, y), x, y)


def minimum(x: Array, y: Array) -> Array:
    """The earlier in that order; y where a NaN is in the way."""
    return np.where(in_order("LT", x, y), x, y)


COMPLEX_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "atan2": angle_of,
    "divide": divide,
    "maximum": maximum,
    "minimum": minimum,
    "multiply": multiply,
    "power": power,
    "subtract": np.subtract,
}
