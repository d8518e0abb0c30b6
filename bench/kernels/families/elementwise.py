"""Functions of each element, conversions, random numbers, updates of optimizers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.kernels.families.draw import Draw


def _function(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    import jax.scipy.special as special

    plain: tuple[Any, ...] = (
        *(jax.nn.gelu, jax.nn.silu, jax.nn.softplus, jax.nn.sigmoid, jax.nn.elu, jax.nn.relu6),
        *(special.erf, special.erfc, jnp.tanh, jnp.exp, jnp.expm1, jnp.sin, jnp.cos, jnp.arctan),
        *(jnp.sinh, jnp.cbrt, jnp.round, jnp.sign, special.erfinv),
    )
    for function in plain:
        yield function.__name__, function, f"{draw.kind()}[{draw.elements()}]"
    exact = lambda x: jax.nn.gelu(x, approximate=False)  # noqa: E731
    yield "exact gelu", exact, f"f32[{draw.elements()}]"
    n = draw.elements()
    back = lambda x, g: jax.vjp(jax.nn.gelu, x)[1](g)[0]  # noqa: E731
    yield "gelu gradient", back, f"f32[{n}]", f"f32[{n}]"
    positive: tuple[Any, ...] = (
        jnp.log,
        jnp.log1p,
        jnp.log2,
        jnp.sqrt,
        jax.lax.rsqrt,
        special.gammaln,
    )
    for function in (*positive, special.digamma, special.i0e, special.i1e):
        yield function.__name__, function, f"{draw.kind()}[{draw.elements()}]<9"
    n = min(draw.elements(), 300_000)
    for function in (special.gammainc, special.zeta):
        yield function.__name__, function, f"f32[{n}]<9", f"f32[{n}]<9"
    both: tuple[Any, ...] = (jnp.power, jnp.arctan2, jnp.hypot, jnp.logaddexp, jnp.fmod)
    for function in both:
        n, kind = draw.elements(), draw.kind()
        yield function.__name__, function, f"{kind}[{n}]<9", f"{kind}[{n}]<9"
    for function in (jnp.abs, jnp.conj, jnp.exp, jnp.angle):
        yield f"complex {function.__name__}", function, f"c64[{draw.elements()}]"
    n = draw.elements()
    yield "complex multiply", jnp.multiply, f"c64[{n}]", f"c64[{n}]"


def _choice(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp

    n = draw.elements()
    yield "where", jnp.where, f"pred[{n}]", f"f32[{n}]", f"f32[{n}]"
    yield "clip", lambda x: jnp.clip(x, -1, 1), f"{draw.kind()}[{draw.elements()}]"
    rows, columns = draw.matrix().split(",")
    masked = lambda m, x: jnp.where(m[:, None], x, -1e9)  # noqa: E731
    yield "mask of rows", masked, f"pred[{rows}]", f"f32[{rows},{columns}]"
    causal = lambda x: jnp.tril(x)  # noqa: E731
    yield "lower triangle", causal, f"f32[{draw.matrix()}]"
    n = draw.elements()
    yield "compare", lambda x, y: x < y, f"f32[{n}]", f"f32[{n}]"
    yield "between", lambda x: (x > 3) & (x < 100), f"s32[{draw.elements()}]<200"
    n = draw.elements()
    yield "xor and shift", lambda x, y: (x ^ y) >> 3, f"u32[{n}]", f"u32[{n}]"
    yield "population count", lambda x: jnp.bitwise_count(x), f"u32[{draw.elements()}]"
    yield "remainder", lambda x: x % 7, f"s32[{draw.elements()}]"
    n = draw.elements()
    yield "floor divide", lambda x, y: x // (y + 1), f"s32[{n}]<1000", f"s32[{n}]<9"
    side = int(draw.elements() ** 0.5)
    outer = lambda x, y: x[:, None] + y[None, :]  # noqa: E731
    yield "outer sum", outer, f"f32[{side}]", f"f32[{side}]"
    yield "mesh", lambda x, y: jnp.meshgrid(x, y), f"f32[{side}]", f"f32[{side}]"


def _convert(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp

    pairs = [("f32", "bfloat16"), ("bf16", "float32"), ("u8", "float32"), ("f32", "uint8")]
    pairs += [("f32", "float16"), ("s32", "float32"), ("f32", "int32"), ("f8", "float32")]
    pairs += [("f32", "float8_e4m3fn"), ("pred", "float32"), ("f16", "bfloat16"), ("s8", "int32")]
    for kind, to in pairs:
        bound = "<100" if kind == "f32" and "int" in to else ""
        yield (
            f"to {to}",
            lambda x, to=to: x.astype(getattr(jnp, to)),
            (f"{kind}[{draw.elements()}]{bound}"),
        )
    matrix = draw.matrix()
    rows, columns = matrix.split(",")
    scaled = lambda x, s: x.astype(jnp.float32) * s[:, None]  # noqa: E731
    yield "dequantise", scaled, f"s8[{matrix}]", f"f32[{rows}]"

    def quantised(x: Any) -> Any:
        scale = jnp.max(jnp.abs(x), 1, keepdims=True) / 127
        return jnp.round(x / scale).astype(jnp.int8), scale

    yield "quantise rows", quantised, f"f32[{rows},{columns}]"


def _random(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax

    shape = (draw.elements(),)
    from_key = (jax.random.uniform, jax.random.normal, jax.random.bits, jax.random.exponential)
    for function in from_key:
        sampled = lambda key, f=function, s=shape: f(key, s)  # noqa: E731
        yield f"{function.__name__} {shape[0]}", sampled, "u32[2]"
    yield (
        "bernoulli",
        lambda key, p: jax.random.bernoulli(key, p),
        "u32[2]",
        (f"f32[{draw.elements()}]<1"),
    )
    dropped = lambda key, x: jax.numpy.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)  # noqa: E731
    yield "dropout", dropped, "u32[2]", f"f32[{draw.matrix()}]"
    yield "categorical", jax.random.categorical, "u32[2]", f"f32[{draw.matrix(100)}]"
    yield "permutation", lambda key: jax.random.permutation(key, 200_000), "u32[2]"
    yield "randint", lambda key: jax.random.randint(key, shape, 0, 1000), "u32[2]"


def _update(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp

    def adam(w: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v

    def momentum(w: Any, g: Any, m: Any) -> Any:
        m = 0.9 * m + g
        return w - 0.1 * m, m

    def lion(w: Any, g: Any, m: Any) -> Any:
        return w - 1e-4 * (jnp.sign(0.9 * m + 0.1 * g) + 0.1 * w), 0.99 * m + 0.01 * g

    def clipped(g: Any, h: Any) -> Any:
        norm = jnp.sqrt((g * g).sum() + (h * h).sum())
        return g * jnp.minimum(1, 1 / norm), h * jnp.minimum(1, 1 / norm)

    for update, count in ((adam, 4), (momentum, 3), (lion, 3)):
        shape = f"f32[{draw.matrix()}]"
        yield (
            update.__name__,
            update,
            *[shape] * (count - (update is adam)),
            *([shape + "<1"] if update is adam else []),
        )
    yield "clip by norm", clipped, f"f32[{draw.matrix()}]", f"f32[{draw.elements()}]"
    shape = f"f32[{draw.elements()}]"
    yield "moving average", lambda x, y: 0.999 * x + 0.001 * y, shape, shape


FAMILIES = (_function, _choice, _convert, _random, _update)
