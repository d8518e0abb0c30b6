"""Steps that compute each element by itself."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as special
from jax import lax

from tests.fuzz.jax_programs.sketch import Sketch, add_table, kind_of_type, step

CHEAP = {
    name: getattr(jnp, name)
    for name in "abs sin cos tanh floor ceil round trunc sign square sinc arctan arcsinh cbrt "
    "rint fabs deg2rad nan_to_num negative positive signbit isfinite isnan".split()
} | {
    name: getattr(jax.nn, name)
    for name in "relu gelu silu elu selu celu softplus log_sigmoid sigmoid hard_tanh hard_sigmoid "
    "hard_silu mish relu6 leaky_relu soft_sign squareplus sparse_plus".split()
}
BOUNDED = {
    "exp": lambda x: jnp.exp(jnp.clip(x, -20, 8)),
    "exp2": lambda x: jnp.exp2(jnp.clip(x, -20, 8)),
    "expm1": lambda x: jnp.expm1(jnp.clip(x, -20, 8)),
    "log": lambda x: jnp.log(jnp.abs(x) + 0.1),
    "log2": lambda x: jnp.log2(jnp.abs(x) + 0.1),
    "log10": lambda x: jnp.log10(jnp.abs(x) + 0.1),
    "log1p": lambda x: jnp.log1p(jnp.abs(x)),
    "sqrt": lambda x: jnp.sqrt(jnp.abs(x)),
    "rsqrt": lambda x: lax.rsqrt(jnp.abs(x) + 0.1),
    "reciprocal": lambda x: 1 / (jnp.abs(x) + 0.5),
    "tan": lambda x: jnp.tan(jnp.tanh(x)),
    "arcsin": lambda x: jnp.arcsin(jnp.tanh(x)),
    "arccos": lambda x: jnp.arccos(jnp.tanh(x)),
    "arctanh": lambda x: jnp.arctanh(0.9 * jnp.tanh(x)),
    "arccosh": lambda x: jnp.arccosh(1.1 + jnp.abs(x)),
    "cosh": lambda x: jnp.cosh(jnp.clip(x, -6, 6)),
    "sinh": lambda x: jnp.sinh(jnp.clip(x, -6, 6)),
    "polynomial": lambda x: jnp.polyval(jnp.array([0.1, -0.3, 0.5, 1.0], x.dtype), jnp.tanh(x)),
    "power3": lambda x: x**3,
    "power_half": lambda x: (jnp.abs(x) + 0.2) ** 1.5,
    "nextafter": lambda x: jnp.nextafter(x, x + 1) if x.dtype.itemsize > 2 else x + 1,
    "frexp": lambda x: jnp.frexp(x)[0] if x.dtype.itemsize > 2 else x * 0.5,
    "modf": lambda x: jnp.modf(x)[0],
    "where": lambda x: jnp.where(x > 0.1, x * 2, jnp.where(x < -0.1, -x, x * x)),
    "clip": lambda x: jnp.clip(x, -0.7, 0.9),
    "heaviside": lambda x: jnp.heaviside(x, 0.5),
    "unwrap": lambda x: jnp.unwrap(x) if x.ndim else x,
    "stop": lambda x: lax.stop_gradient(x) * 0.5 + x,
    "barrier": lambda x: lax.optimization_barrier(x) + 1,
}
SPECIAL = {
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": lambda x: special.erfinv(0.95 * jnp.tanh(x)),
    "gammaln": lambda x: special.gammaln(jnp.abs(x) + 0.5),
    "digamma": lambda x: special.digamma(jnp.abs(x) + 0.5),
    "gamma": lambda x: special.gamma(jnp.tanh(x) + 2),
    "i0": special.i0e,
    "i1": special.i1e,
    "ndtr": special.ndtr,
    "ndtri": lambda x: special.ndtri(special.ndtr(jnp.clip(x, -3, 3))),
    "log_ndtr": special.log_ndtr,
    "entr": lambda x: special.entr(jnp.abs(x)),
    "xlogy": lambda x: special.xlogy(x, jnp.abs(x) + 1),
    "logit": lambda x: special.logit(jax.nn.sigmoid(jnp.clip(x, -5, 5))),
    "gammainc": lambda x: special.gammainc(1.5, jnp.abs(x) + 0.1),
    "betainc": lambda x: special.betainc(1.5, 2.5, jax.nn.sigmoid(x)),
    "zeta": lambda x: special.zeta(jnp.abs(x) + 1.5, 1.0),
    "spence": lambda x: special.spence(jnp.abs(x) + 0.1),
    "kl_div": lambda x: special.kl_div(jnp.abs(x) + 0.1, 0.5),
}
INTEGERS = {
    "abs": jnp.abs,
    "sign": jnp.sign,
    "invert": jnp.invert,
    "popcount": lax.population_count,
    "clz": lax.clz,
    "times3": lambda x: x * 3,
    "divide5": lambda x: x // 5,
    "modulo7": lambda x: x % 7,
    "shift_left": lambda x: x << 2,
    "shift_right": lambda x: x >> 1,
    "clip": lambda x: jnp.clip(x, 3, 90),
    "square": jnp.square,
    "float": lambda x: x.astype(jnp.float32) / 7,
    "is_odd": lambda x: (x & 1) == 1,
    "isqrt": lambda x: jnp.floor(jnp.sqrt(jnp.abs(x.astype(jnp.float32)))).astype(x.dtype),
    "power2": lambda x: x**2,
}
COMPLEX = {
    "conj": jnp.conj,
    "exp": lambda x: jnp.exp(x * 0.3),
    "sin": lambda x: jnp.sin(x * 0.3),
    "tanh": lambda x: jnp.tanh(x * 0.3),
    "sqrt": lambda x: jnp.sqrt(x + 3),
    "log": lambda x: jnp.log(x * x + 5),
    "square": jnp.square,
    "abs": jnp.abs,
    "real": jnp.real,
    "imag": jnp.imag,
    "angle": lambda x: jnp.angle(x + 5),
    "divide": lambda x: x / (x * jnp.conj(x) + 1),
}
BOOLEAN = {
    "not": jnp.logical_not,
    "float": lambda x: x.astype(jnp.float32) - 0.5,
    "int": lambda x: x.astype(jnp.int8) * 3,
    "bits": lambda x: x.astype(jnp.uint16) << 3,
}
add_table(CHEAP, "f", 0.14)
add_table(BOUNDED, "f", 0.18)
add_table(SPECIAL, "f", 0.12)
add_table(INTEGERS, "i", 0.6)
add_table(COMPLEX, "c", 1)
add_table(BOOLEAN, "b", 2)

FLOAT_PAIRS: dict[str, Any] = {
    "add": jnp.add,
    "subtract": jnp.subtract,
    "multiply": jnp.multiply,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "divide": lambda x, y: x / (jnp.abs(y) + 0.5),
    "arctan2": lambda x, y: jnp.arctan2(x, jnp.abs(y) + 0.1),
    "hypot": lambda x, y: jnp.hypot(x + 1, y),
    "logaddexp": jnp.logaddexp,
    "power": lambda x, y: (jnp.abs(x) + 0.3) ** jnp.tanh(y),
    "remainder": lambda x, y: jnp.remainder(x, 2.5),
    "fmod": lambda x, y: jnp.fmod(x, 1.75),
    "copysign": jnp.copysign,
    "greater": jnp.greater,
    "equal": jnp.equal,
    "fma": lambda x, y: x * y + x,
    "select": lambda x, y: jnp.where(x > y, x, y * 0.1),
    "clamp": lambda x, y: jnp.clip(x, -jnp.abs(y), jnp.abs(y)),
    "lerp": lambda x, y: x + 0.3 * (y - x),
    "huber": lambda x, y: jnp.where(jnp.abs(x - y) < 1, (x - y) ** 2, jnp.abs(x - y)),
    "isclose": lambda x, y: jnp.isclose(x, y, atol=0.5),
    "squared_difference": lambda x, y: (x - y) ** 2,
}
INTEGER_PAIRS: dict[str, Any] = {
    "add": jnp.add,
    "multiply": jnp.multiply,
    "subtract": jnp.subtract,
    "and": jnp.bitwise_and,
    "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor,
    "floor_divide": lambda x, y: x // (y | 1),
    "remainder": lambda x, y: x % (y | 1),
    "maximum": jnp.maximum,
    "less": jnp.less,
    "shift": lambda x, y: x << (y & 3),
    "shift_right": lambda x, y: lax.shift_right_logical(x, y & 3),
    "divmod": lambda x, y: jnp.divmod(x, (y | 1)),
    "gcd": lambda x, y: jnp.gcd(x % 50, y % 50),
}


@step("fic", 6, keeps_shape=True)
def pair(d: Sketch, x: Any) -> Any:
    kind = {"f": FLOAT_PAIRS, "i": INTEGER_PAIRS}.get(kind_of_type(x.dtype))
    table = kind or {k: FLOAT_PAIRS[k] for k in ("add", "multiply", "subtract", "equal", "fma")}
    f = table[d.pick(list(table))]
    k = d.arg(d.broadcastable(x.shape), x.dtype)
    if d.chance(0.3):
        return lambda env, x: f(jnp.broadcast_to(env[k], x.shape), x)
    return lambda env, x: f(x, env[k])


@step("b", 3, keeps_shape=True)
def logic(d: Sketch, x: Any) -> Any:
    f = d.pick((jnp.logical_and, jnp.logical_or, jnp.logical_xor, jnp.equal, jnp.less_equal))
    k = d.arg(d.broadcastable(x.shape), "bool")
    return lambda env, x: f(x, env[k])


@step("fibc", 2, keeps_shape=True)
def select(d: Sketch, x: Any) -> Any:
    k = d.arg(d.broadcastable(x.shape), "bool")
    other = d.arg(d.broadcastable(x.shape), x.dtype)
    return lambda env, x: jnp.where(env[k], x, env[other])


@step("fi", 2.5, keeps_shape=True)
def convert(d: Sketch, x: Any) -> Any:
    names = ["float32", "bfloat16", "float16", "int32", "int8", "int16", "uint8", "bool"]
    to = d.pick(names + (["float64", "int64"] if d.x64 else []))
    back = d.chance(0.3)
    d.has_bits = True

    def f(env: Any, x: Any) -> Any:
        y = (jnp.clip(x, -100, 100) if to not in ("bool",) else x > 0).astype(to)
        return y.astype(x.dtype) if back else y

    if to.startswith("u"):
        return lambda env, x: jnp.clip(jnp.abs(x), 0, 100).astype(to)
    return f


@step("f", 0.5, keeps_shape=True)
def reduce_precision(d: Sketch, x: Any) -> Any:
    exponent, mantissa = d.pick(((5, 10), (8, 7), (4, 3), (5, 2), (8, 3)))
    d.has_bits = True
    return lambda env, x: lax.reduce_precision(jnp.tanh(x), exponent, mantissa)


@step("fi", 0.5)
def bitcast(d: Sketch, x: Any) -> Any:
    bits = x.dtype.itemsize * 8
    other = d.pick([n for n in (8, 16, 32) if n <= bits] or [8])
    d.need(bits >= 8)
    d.has_bits = True
    return lambda env, x: lax.bitcast_convert_type(x, f"uint{other}") >> 1


@step("f", 0.8, keeps_shape=True)
def quantise(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)

    def f(env: Any, x: Any) -> Any:
        scale = jnp.max(jnp.abs(x), axis=axis, keepdims=True) / 127 + 1e-6
        return jnp.clip(jnp.round(x / scale), -127, 127).astype(jnp.int8).astype(x.dtype) * scale

    return f


@step("f", 0.8, keeps_shape=True)
def piecewise(d: Sketch, x: Any) -> Any:
    return lambda env, x: jnp.piecewise(x, [x < -1, x > 1], [lambda v: -1 - v, 2.0, jnp.sin])
