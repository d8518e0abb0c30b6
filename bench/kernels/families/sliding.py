"""Pooling, forwards and its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.kernels.families.draw import Draw


def _pool(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def most(x: Any, window: Any, strides: Any, padding: str) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding)

    def mean(x: Any, window: Any, strides: Any, padding: str) -> Any:
        return lax.reduce_window(x, 0.0, lax.add, window, strides, padding) * 0.1

    for side, stride, padding in ((2, 2, "VALID"), (3, 2, "SAME"), (draw.one([3, 5]), 1, "SAME")):
        for last in (True, False):
            around = (lambda n: (1, n, n, 1)) if last else (lambda n: (1, 1, n, n))
            where = "NHWC" if last else "NCHW"
            window, strides = around(side), around(stride)
            for pool in (most, mean):
                of = lambda x, f=pool, w=window, s=strides, p=padding: f(x, w, s, p)  # noqa: E731
                name = f"{pool.__name__} {side}x{side} by {stride} {padding} {where}"
                shape = f"f32[{draw.image(last)}]"
                yield name, of, shape
                back = lambda x, f=of: jax.grad(lambda y: (f(y) ** 2).sum())(x)  # noqa: E731
                yield f"{name} gradient", back, shape
    yield "global mean NHWC", lambda x: x.mean((1, 2)), f"f32[{draw.image(True)}]"
    yield "global mean NCHW", lambda x: x.mean((2, 3)), f"f32[{draw.image(False)}]"


FAMILIES = (_pool,)
