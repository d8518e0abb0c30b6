"""Loops that compute something."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.fuzz.jax_programs.sketch import Sketch, step


@step("f", 2, keeps_shape=True)
def newton(d: Sketch, x: Any) -> Any:
    """Cube roots, as often as told by the data."""
    rounds = d.between(1, 12)

    def f(env: Any, x: Any) -> Any:
        target = jnp.abs(x) + 1

        def body(state: Any) -> Any:
            k, y = state
            return k + 1, y - (y * y * y - target) / (3 * y * y)

        return lax.while_loop(lambda s: s[0] < rounds, body, (0, target))[1]

    return f


@step("i", 2)
def collatz(d: Sketch, x: Any) -> Any:
    """A while whose rounds differ between the elements of a batch."""
    d.need(x.size <= 1 << 14)

    def one(n: Any) -> Any:
        def body(s: Any) -> Any:
            n, k = s
            return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), k + 1

        return lax.while_loop(lambda s: (s[0] != 1) & (s[1] < 60), body, (n, 0))[1]

    return lambda env, x: jax.vmap(one)((jnp.abs(x.astype(jnp.int32)) % 97 + 1).ravel())


@step("f", 2, keeps_shape=True)
def fori(d: Sketch, x: Any) -> Any:
    rounds, k = d.between(1, 20), d.arg(d.broadcastable(x.shape), x.dtype)
    d.need(x.size * rounds <= 1 << 23)
    return lambda env, x: lax.fori_loop(
        0, rounds, lambda i, y: jnp.tanh(y * 0.9 + env[k] * (i % 3)).astype(y.dtype), x
    )


@step("fi", 2)
def scan_rows(d: Sketch, x: Any) -> Any:
    d.need(x.ndim and 1 <= x.shape[0] <= 300 and x.size <= 1 << 20)
    back, unroll = d.chance(0.3), d.pick((1, 1, 2, 3))

    def body(c: Any, row: Any) -> Any:
        c = jnp.maximum(c // 2 if c.dtype.kind in "iu" else c * 0.5, row)
        return c, (c, c > row)

    return lambda env, x: lax.scan(
        body, jnp.zeros(x.shape[1:], x.dtype), x, reverse=back, unroll=unroll
    )


@step("f", 2)
def fill_buffer(d: Sketch, x: Any) -> Any:
    """A loop that writes a row of a buffer at a time, and reads the one before."""
    d.need(x.ndim == 2 and x.size <= 1 << 19)
    n = min(x.shape[0], 100)

    def f(env: Any, x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            row = lax.dynamic_index_in_dim(y, i - 1, keepdims=False)
            return y.at[i].set(0.5 * row + 0.5 * y[i])

        return lax.fori_loop(1, n, body, x)

    return f


@step("f", 2, keeps_shape=True)
def branch(d: Sketch, x: Any) -> Any:
    k = d.arg((), "bool")
    if d.chance(0.4):
        which = d.index((), 3, wild=True)
        return lambda env, x: lax.switch(
            env[which], [jnp.sin, lambda x: x * 2, lambda x: jnp.flip(x) - x], x
        )
    return lambda env, x: lax.cond(env[k], lambda x: x - jnp.mean(x), lambda x: jnp.cos(x) * 2, x)


@step("f", 2, fresh=True)
def ode(d: Sketch, x: Any) -> Any:
    """Runge and Kutta's steps of a pendulum, or of Lorenz's equations, many at a time."""
    n, steps = d.size(min(d.budget, 1 << 14)), d.between(1, 25)
    a = d.arg((3, n))

    def slope(y: Any) -> Any:
        u, v, w = y
        return jnp.stack([3 * (v - u), u * (2.8 - w) - v, u * v - 0.5 * w])

    def body(y: Any, _: Any) -> Any:
        h = jnp.asarray(0.02, y.dtype)
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3))
        return y, jnp.mean(y, 1)

    return lambda env, _: lax.scan(body, jnp.tanh(env[a]), None, length=steps)


@step("", 1.5, fresh=True)
def mandelbrot(d: Sketch, x: Any) -> Any:
    n, rounds = d.size(200), d.between(1, 20)
    a = d.arg((n, n), "complex64")

    def f(env: Any, _: Any) -> Any:
        c = env[a] * 0.5

        def body(k: Any, s: Any) -> Any:
            z, count = s
            near = jnp.abs(z) < 2
            return jnp.where(near, z * z + c, z), count + near

        return lax.fori_loop(0, rounds, body, (c, jnp.zeros((n, n), jnp.int32)))[1]

    return f


@step("", 1.5, fresh=True)
def game_of_life(d: Sketch, x: Any) -> Any:
    h, w, rounds = d.size(200), d.size(200), d.between(1, 10)
    a = d.arg((h, w), "bool")

    def body(_: Any, x: Any) -> Any:
        y = x.astype(jnp.int8)
        around = sum(
            jnp.roll(y, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
        )
        return (around == 3) | (x & (around == 2))

    return lambda env, _: lax.fori_loop(0, rounds, body, env[a])


@step("f", 1.5, fresh=True)
def viterbi(d: Sketch, x: Any) -> Any:
    t, n = d.size(80), d.size(64)
    a, b = d.arg((n, n)), d.arg((t, n))

    def f(env: Any, _: Any) -> Any:
        def body(s: Any, e: Any) -> Any:
            all_ = s[:, None] + env[a]
            return jnp.max(all_, 0) + e, jnp.argmax(all_, 0)

        last, back = lax.scan(body, env[b][0], env[b])
        path = lax.scan(lambda k, row: (row[k], row[k]), jnp.argmax(last), back, reverse=True)[1]
        return last, path

    return f


@step("f", 1.5, fresh=True)
def k_means(d: Sketch, x: Any) -> Any:
    n, width, k = d.size(1000), d.size(32), d.between(2, 12)
    a = d.arg((n, width))
    d.need(n >= k)

    def f(env: Any, _: Any) -> Any:
        x = env[a]

        def body(_: Any, c: Any) -> Any:
            far = jnp.sum((x[:, None] - c) ** 2, -1)
            near = jax.nn.softmax(-far * 0.1, axis=-1)
            return near.T @ x / jnp.sum(near, 0)[:, None]

        return lax.fori_loop(0, 4, body, x[:k])

    return f


@step("f", 1.5, fresh=True)
def state_space(d: Sketch, x: Any) -> Any:
    """A linear recurrence over time by an associative scan, as in Mamba."""
    t, n, s = d.size(600), d.size(32), d.pick((1, 4, 16))
    d.need(t * n * s <= 1 << 19)
    a, b, c = d.arg((t, n, s)), d.arg((t, n, s)), d.arg((t, s))

    def f(env: Any, _: Any) -> Any:
        def both(one: Any, two: Any) -> Any:
            return one[0] * two[0], two[0] * one[1] + two[1]

        _, h = lax.associative_scan(both, (jax.nn.sigmoid(env[a]), env[b]))
        return jnp.einsum("tns,ts->tn", h, env[c])

    return f


@step("", 1, fresh=True)
def shortest_paths(d: Sketch, x: Any) -> Any:
    n = d.size(90)
    a = d.arg((n, n), "float32", "positive")

    def body(k: Any, x: Any) -> Any:
        return jnp.minimum(x, x[:, k][:, None] + x[k][None])

    return lambda env, _: lax.fori_loop(0, n, body, env[a])


@step("", 1, fresh=True)
def map_rows(d: Sketch, x: Any) -> Any:
    n, m = d.size(60), d.size(400)
    a, batch = d.arg((n, m), "float32"), d.pick((None, 8))
    return lambda env, _: lax.map(
        lambda r: (jnp.cumsum(r), jnp.argmax(r)), env[a], batch_size=batch
    )
