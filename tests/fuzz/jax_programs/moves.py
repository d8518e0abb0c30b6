"""Steps that move elements."""

from __future__ import annotations

from math import prod
from typing import Any

import jax.numpy as jnp
from jax import lax

from tests.fuzz.jax_programs.sketch import Sketch, step

ALL = "fibc"


@step(ALL, 3)
def reshape(d: Sketch, x: Any) -> Any:
    d.need(x.ndim)
    dims, total = [], x.size
    for _ in range(d.between(0, 3)):
        part = d.pick([n for n in (1, 2, 3, 4, 5, 7, 8, 16, 64, 128, 257) if total % n == 0])
        dims, total = [*dims, part], total // part
    dims.insert(d.between(0, len(dims)), total)
    return lambda env, x: x.reshape(dims)


@step(ALL, 3)
def transpose(d: Sketch, x: Any) -> Any:
    d.need(x.ndim > 1)
    order = [int(k) for k in d.rng.permutation(x.ndim)]
    return lambda env, x: x.transpose(order)


@step(ALL, 2, keeps_shape=True)
def flip(d: Sketch, x: Any) -> Any:
    axes = d.axes(x)
    return lambda env, x: jnp.flip(x, axes)


@step(ALL, 2, keeps_shape=True)
def roll(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    by = d.between(-x.shape[axis], x.shape[axis])
    if d.chance(0.3):
        k = d.index((), x.shape[axis])
        return lambda env, x: jnp.roll(x, env[k], axis)
    return lambda env, x: jnp.roll(x, by, axis)


@step(ALL, 3)
def pad(d: Sketch, x: Any) -> Any:
    d.need(x.ndim)
    widths = [(d.between(0, 3), d.between(0, 5)) if d.chance(0.7) else (0, 0) for _ in x.shape]
    mode = d.pick(("constant", "constant", "edge", "reflect", "symmetric", "wrap"))
    if mode in ("reflect", "symmetric", "wrap"):
        d.need(min(x.shape) > 5)
    d.need(prod(n + a + b for n, (a, b) in zip(x.shape, widths)) <= 4 * d.budget + 4096)
    return lambda env, x: jnp.pad(x, widths, mode)


@step(ALL, 2)
def pad_inside(d: Sketch, x: Any) -> Any:
    d.need(x.ndim)
    config = [
        (d.between(-min(2, n // 3), 4), d.between(-min(2, n // 3), 4), d.pick((0, 0, 1, 2)))
        for n in x.shape
    ]
    d.need(x.size * prod(c + 1 for *_, c in config) <= 1 << 22)
    return lambda env, x: lax.pad(x, jnp.array(1, x.dtype), config)


@step(ALL, 3)
def concatenate(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    d.need(x.size <= 1 << 22)
    other = tuple(d.size(max(2, n)) if k == axis else n for k, n in enumerate(x.shape))
    a, b = d.arg(other, x.dtype), d.arg(x.shape, x.dtype)
    parts = d.pick((("x", a), (a, "x"), ("x", a, b), (b, "x", "x")))
    return lambda env, x: jnp.concatenate([x if p == "x" else env[p] for p in parts], axis)


@step(ALL, 2)
def stack(d: Sketch, x: Any) -> Any:
    d.need(x.size <= 1 << 22 and x.ndim < 5)
    axis, k = d.between(0, x.ndim), d.arg(x.shape, x.dtype)
    if d.chance(0.4):
        d.need(x.ndim)  # interleaved
        shape = (*x.shape[:-1], 2 * x.shape[-1])
        return lambda env, x: jnp.stack([x, env[k]], axis=-1).reshape(shape)
    return lambda env, x: jnp.stack([x, env[k], x], axis)


@step(ALL, 4)
def slice_(d: Sketch, x: Any) -> Any:
    d.need(x.ndim)
    starts, limits, strides = [], [], []
    for n in x.shape:
        start = d.between(0, min(5, n - 1)) if d.chance(0.5) else 0
        starts.append(start)
        limits.append(n - d.between(0, min(5, n - 1 - start)) if d.chance(0.7) else n)
        strides.append(d.pick((1, 1, 1, 2, 3)))
    return lambda env, x: lax.slice(x, starts, limits, strides)


@step(ALL, 3)
def dynamic_slice(d: Sketch, x: Any) -> Any:
    d.need(x.ndim)
    sizes = [d.between(1, n) if d.chance(0.5) else n for n in x.shape]
    ks = [d.index((), n, wild=True) for n in x.shape]
    return lambda env, x: lax.dynamic_slice(x, [env[k] for k in ks], sizes)


@step(ALL, 3, keeps_shape=True)
def dynamic_update_slice(d: Sketch, x: Any) -> Any:
    d.need(x.ndim)
    sizes = [d.between(1, n) if d.chance(0.5) else n for n in x.shape]
    ks = [d.index((), n, wild=True) for n in x.shape]
    part = d.arg(sizes, x.dtype)
    return lambda env, x: lax.dynamic_update_slice(x, env[part], [env[k] for k in ks])


@step(ALL, 1.5)
def tile(d: Sketch, x: Any) -> Any:
    d.need(x.ndim and x.size <= 1 << 20)
    counts = [d.pick((1, 1, 2, 3)) for _ in x.shape]
    if d.chance(0.5):
        axis = d.axis(x)
        return lambda env, x: jnp.repeat(x, 3, axis)
    return lambda env, x: jnp.tile(x, counts)


@step(ALL, 1.5)
def broadcast(d: Sketch, x: Any) -> Any:
    d.need(x.ndim < 5)
    extra = d.size(max(1, min(64, (1 << 21) // max(1, x.size))))
    axis = d.between(0, x.ndim)
    return lambda env, x: jnp.broadcast_to(
        jnp.expand_dims(x, axis), (*x.shape[:axis], extra, *x.shape[axis:])
    )


@step("fi", 1.5)
def difference(d: Sketch, x: Any) -> Any:
    axis, n = d.axis(x), d.pick((1, 1, 2))
    d.need(x.shape[axis] > 2)
    return lambda env, x: jnp.diff(x, n, axis)


@step("f", 1, keeps_shape=True)
def gradient(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    d.need(x.shape[axis] > 2)
    return lambda env, x: jnp.gradient(x, axis=axis)


@step(ALL, 1.5, keeps_shape=True)
def triangle(d: Sketch, x: Any) -> Any:
    d.need(x.ndim >= 2)
    f, k = d.pick((jnp.tril, jnp.triu)), d.between(-3, 3)
    return lambda env, x: f(x, k)


@step(ALL, 1)
def diagonal(d: Sketch, x: Any) -> Any:
    d.need(x.ndim)
    k = d.between(-2, 2)
    if x.ndim == 1:
        d.need(x.size <= 1500)
        return lambda env, x: jnp.diag(x, k)
    d.need(min(x.shape[:2]) > 3)
    return lambda env, x: jnp.diagonal(x, k)


@step(ALL, 1.5)
def split(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    parts = d.pick([n for n in (1, 2, 3, 4, 5, 8) if x.shape[axis] % n == 0])
    return lambda env, x: tuple(jnp.split(x, parts, axis)[::-1])


@step(ALL, 1)
def rotate(d: Sketch, x: Any) -> Any:
    d.need(x.ndim >= 2)
    times = d.between(1, 3)
    return lambda env, x: jnp.rot90(x, times)


@step("f", 1)
def stencil(d: Sketch, x: Any) -> Any:
    """A difference scheme by shifted slices."""
    axis = d.axis(x)
    d.need(x.shape[axis] > 4)
    n = x.shape[axis]

    def f(env: Any, x: Any) -> Any:
        a, b, c = (lax.slice_in_dim(x, k, n - 2 + k, axis=axis) for k in range(3))
        return b + 0.1 * (a - 2 * b + c)

    return f


@step("f", 0.7)
def pixel_shuffle(d: Sketch, x: Any) -> Any:
    d.need(x.ndim >= 3 and x.shape[-1] % 2 == 0 and x.shape[-2] % 2 == 0)
    *rest, h, w = x.shape

    def f(env: Any, x: Any) -> Any:
        y = x.reshape(*rest, h // 2, 2, w // 2, 2)
        n = len(rest)
        return y.transpose(*range(n), n + 1, n + 3, n, n + 2).reshape(*rest, 4, -1)

    return f


@step(ALL, 1)
def squeeze(d: Sketch, x: Any) -> Any:
    if d.chance(0.5):
        return lambda env, x: x.squeeze()
    axis = d.between(0, x.ndim)
    return lambda env, x: jnp.expand_dims(x, axis)


@step("bi", 0.8)
def pack_bits(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    if x.dtype == jnp.uint8 and d.chance(0.5):
        d.need(x.size <= 1 << 20)
        return lambda env, x: jnp.unpackbits(x, axis=axis)
    return lambda env, x: jnp.packbits(x != 0, axis=axis)
