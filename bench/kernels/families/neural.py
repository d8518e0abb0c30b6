"""Norms and losses with their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.kernels.families.draw import Draw


def _norm(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    def rms(x: Any, w: Any) -> Any:
        wide = x.astype(jnp.float32)
        scale = jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
        return (wide * scale).astype(x.dtype) * w

    def layer(x: Any, w: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w + 1

    def batch(x: Any, w: Any) -> Any:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w

    def group(x: Any, w: Any) -> Any:
        n, h, v, c = x.shape
        y = x.reshape(n, h, v, 8, c // 8)
        mean, variance = y.mean((1, 2, 4), keepdims=True), y.var((1, 2, 4), keepdims=True)
        return ((y - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * w

    def inference(x: Any, w: Any) -> Any:
        return jax.nn.relu(x * w[None, None, None, :] + w)

    def gradient(f: Any) -> Any:
        return lambda x, w, g: jax.vjp(f, x, w)[1](g)

    for columns in (draw.one([64, 100]), draw.one([768, 1000]), 4096):
        for f in (rms, layer):
            kind = draw.one(["f32", "f32", "bf16"])
            shape = f"[{draw.matrix(columns)}]"
            yield f.__name__, f, f"{kind}{shape}", f"{kind}[{columns}]"
            yield (
                f"{f.__name__} gradient",
                gradient(f),
                (f"f32{shape}"),
                f"f32[{columns}]",
                f"f32{shape}",
            )
    for f in (batch, group, inference):
        channels = draw.one([32, 64])
        shape = f"f32[{draw.image(True, channels)}]"
        yield f.__name__, f, shape, f"f32[{channels}]"
        yield f"{f.__name__} gradient", gradient(f), shape, f"f32[{channels}]", shape
    unit = lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True)  # noqa: E731
    yield "unit rows", unit, f"f32[{draw.matrix(draw.one([3, 64, 128]))}]"
    standard = lambda x: (x - x.mean(0)) / x.std(0)  # noqa: E731
    yield "standardise columns", standard, f"f32[{draw.matrix(draw.one([8, 30, 500]))}]"


def _loss(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    def square(x: Any, y: Any) -> Any:
        return ((x - y) ** 2).mean()

    def huber(x: Any, y: Any) -> Any:
        d = jnp.abs(x - y)
        return jnp.where(d < 1, 0.5 * d * d, d - 0.5).mean()

    def binary(x: Any, y: Any) -> Any:
        return (jax.nn.softplus(x) - x * y).mean()

    def divergence(x: Any, y: Any) -> Any:
        p = jax.nn.softmax(x)
        return (p * (jnp.log(p + 1e-9) - jax.nn.log_softmax(y))).sum(-1).mean()

    def cosine(x: Any, y: Any) -> Any:
        norms = jnp.linalg.norm(x, axis=-1) * jnp.linalg.norm(y, axis=-1)
        return ((x * y).sum(-1) / norms).mean()

    for f in (square, huber, binary, divergence, cosine):
        shape = f"f32[{draw.matrix(draw.one([10, 64, 300]))}]"
        yield f.__name__, f, shape, shape
        yield f"{f.__name__} gradient", jax.grad(f), shape, shape


FAMILIES = (_norm, _loss)
