"""Loops, branches, scans and calls, nested and transformed."""

import functools

import jax
import jax.experimental.ode
import jax.numpy as jnp
import jax.scipy.optimize
import jax.scipy.sparse.linalg
import numpy as np
from jax import lax

from tests.peer.programs.registry import add, normal, whole


def loops() -> None:
    add(
        "control/while",
        lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2 + s[0]), (0, 1)),
        np.int64(9),
    )
    add(
        "control/while-float",
        lambda x: lax.while_loop(lambda v: jnp.abs(v * v - 2) > 1e-5, lambda v: (v + 2 / v) / 2, x),
        np.float32(5),
    )
    add(
        "control/never",
        lambda x: lax.while_loop(lambda v: v < 0, lambda v: v * 2, x),
        np.float32(5),
    )
    add(
        "control/fori", lambda x: lax.fori_loop(0, 7, lambda i, v: v.at[i % 3].add(i), x), normal(3)
    )
    add(
        "control/fori-dynamic",
        lambda n, x: lax.fori_loop(1, n, lambda i, v: v * i, x),
        np.int32(6),
        normal(2),
    )
    add(
        "control/nested",
        lambda x: lax.fori_loop(
            0, 3, lambda i, v: lax.fori_loop(0, i + 1, lambda j, w: w + j * w, v), x
        ),
        normal(4),
    )
    add(
        "control/batched-while",
        jax.vmap(
            lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + s[0]), (0, 0))
        ),
        np.array([3, 0, 7]),
    )
    add(
        "control/collatz",
        jax.vmap(
            lambda n: lax.while_loop(
                lambda s: s[0] != 1,
                lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
                (n, 0),
            )[1]
        ),
        np.arange(1, 12),
    )
    add(
        "control/gcd",
        jax.vmap(
            lambda a, b: lax.while_loop(lambda s: s[1] > 0, lambda s: (s[1], s[0] % s[1]), (a, b))[
                0
            ]
        ),
        whole(6, low=1, high=90),
        whole(6, low=1, high=90, seed=1),
    )
    add(
        "control/mandelbrot",
        lambda c: lax.fori_loop(
            0,
            12,
            lambda i, s: (
                jnp.where(jnp.abs(s[0]) < 4, s[0] ** 2 + c, s[0]),
                s[1] + (jnp.abs(s[0]) < 4),
            ),
            (c * 0, jnp.zeros(c.shape, "int32")),
        )[1],
        normal(6, 6, of="complex64"),
    )
    add(
        "control/bisection",
        lambda y: lax.fori_loop(
            0,
            30,
            lambda i, s: jnp.where(
                jnp.array([((s[0] + s[1]) / 2) ** 3 < y]),
                jnp.array([(s[0] + s[1]) / 2, s[1]]),
                jnp.array([s[0], (s[0] + s[1]) / 2]),
            ),
            jnp.array([0.0, 4.0]),
        ),
        np.float64(20),
    )
    add(
        "control/constants",
        lambda x: lax.fori_loop(
            0, 3, lambda i, v: v @ jnp.ones((4, 4), v.dtype) + jnp.arange(4, dtype=v.dtype), x
        ),
        normal(2, 4),
    )


def scans() -> None:
    x = normal(6, 3)
    add("control/scan", lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(3), x), x)
    add(
        "control/scan-reverse",
        lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.zeros(3), x, reverse=True),
        x,
    )
    for unroll in (2, 4, 6):
        add(
            f"control/scan-unroll-{unroll}",
            lambda x, u=unroll: lax.scan(
                lambda c, v: (jnp.sin(c) + v, c), jnp.zeros(3), x, unroll=u
            ),
            x,
        )
    add(
        "control/scan-tree",
        lambda x, k: lax.scan(
            lambda c, v: ({"a": c["a"] + v[0], "b": c["b"] * 2}, (v[1], c["b"])),
            {"a": x[0], "b": 1},
            (x, k),
        ),
        x,
        whole(6),
    )
    add("control/scan-none", lambda x: lax.scan(lambda c, _: (c * 2, None), x, None, length=5), x)
    add(
        "control/scan-empty",
        lambda x: lax.scan(lambda c, v: (c + v, c), jnp.zeros(3), x),
        normal(0, 3),
    )
    add(
        "control/scan-nested",
        lambda x: lax.scan(
            lambda c, v: (lax.scan(lambda d, w: (d + w, d), c, v)[0], c), np.float32(0), x
        ),
        x,
    )
    add("control/map", lambda x: lax.map(lambda r: jnp.sort(r) * r.sum(), x), x)
    add("control/map-batches", lambda x: lax.map(lambda r: r @ r, x, batch_size=4), x)
    add(
        "control/scan-batched",
        jax.vmap(lambda r: lax.scan(lambda c, v: (c * v, c + v), np.float32(1), r)),
        x,
    )
    add(
        "control/scan-ints",
        lambda x: lax.scan(lambda c, v: (c ^ v, c << 1), np.int32(5), x),
        whole(8),
    )


def branches() -> None:
    x, choice = normal(4), [np.array(True), np.array(False)]
    for k, flag in enumerate(choice):
        add(f"control/cond-{k}", lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), flag, x)
        add(
            f"control/cond-tuple-{k}",
            lambda p, x: lax.cond(p, lambda v: (v, v.sum()), lambda v: (-v, v[0]), x),
            flag,
            x,
        )
        add(
            f"control/cond-captured-{k}",
            lambda p, x, y=x: lax.cond(p, lambda: x + 1, lambda: jnp.asarray(y) * 2),
            flag,
            x,
        )
    functions = [jnp.sin, jnp.cos, lambda v: v * 2, lambda v: v[::-1]]
    for k in (0, 2, 3, -4, 9):
        add(f"control/switch-{k}", lambda k, x: lax.switch(k, functions, x), np.int32(k), x)
    add(
        "control/cond-batched",
        jax.vmap(lambda p, v: lax.cond(p > 0, jnp.exp, jnp.negative, v)),
        x,
        normal(4, seed=3),
    )
    add(
        "control/switch-batched",
        jax.vmap(lambda k, v: lax.switch(k, [jnp.sin, jnp.cos, jnp.tanh], v)),
        np.array([0, 2, 1, 5], np.int32),
        x,
    )
    add(
        "control/cond-in-scan",
        lambda x: lax.scan(
            lambda c, v: (lax.cond(v > 0, lambda: c + v, lambda: c * 0.5), c), np.float32(0), x
        ),
        normal(9),
    )
    add(
        "control/while-in-cond",
        lambda n, x: lax.cond(n > 3, lambda: lax.fori_loop(0, n, lambda i, v: v + i, x), lambda: x),
        np.int32(6),
        x,
    )


def calls() -> None:
    @jax.jit
    def inner(a, b):
        return a * b + jnp.sum(a)

    @jax.custom_jvp
    def soft(x):
        return jnp.log1p(jnp.exp(x))

    soft.defjvp(lambda p, t: (soft(p[0]), jax.nn.sigmoid(p[0]) * t[0]))

    @jax.custom_vjp
    def clipped(x):
        return x * 2

    clipped.defvjp(lambda x: (x * 2, x), lambda x, g: (jnp.clip(g, -1, 1) * (x > 0),))
    x, y = normal(5), normal(5, seed=1)
    add("control/jit-shared", lambda a, b: (inner(a, b), inner(b, a), inner(a, a)), x, y)
    add("control/jit-inline", jax.jit(lambda a: inner(a, a), inline=True), x)
    add("control/custom-jvp", lambda a: (soft(a), jax.grad(lambda v: soft(v).sum())(a)), x)
    add("control/custom-vjp", lambda a: jax.grad(lambda v: jnp.sum(clipped(v) ** 3))(a), x)
    add(
        "control/checkpoint",
        jax.grad(lambda a: jnp.sum(jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(a))),
        x,
    )
    saved = jax.checkpoint_policies.dots_saveable
    add(
        "control/checkpoint-policy",
        jax.grad(
            lambda a: jnp.sum(jax.checkpoint(lambda v: jnp.tanh(v @ v.T) @ v, policy=saved)(a))
        ),
        normal(3, 3),
    )
    add(
        "control/remat-scan",
        jax.grad(
            lambda a: lax.scan(
                jax.checkpoint(lambda c, v: (jnp.sin(c * v), None)), np.float32(1), a
            )[0]
        ),
        x,
    )
    add("control/partial", functools.partial(inner, b=y), x)
    add("control/named", lambda a: jax.named_call(jnp.sin, name="wave")(a), x)
    add(
        "control/linear-solve",
        lambda a, b: lax.custom_linear_solve(
            lambda v: a @ v,
            b,
            lambda f, w: jax.scipy.sparse.linalg.cg(f, w, maxiter=8)[0],
            symmetric=True,
        ),
        normal(3, 3) @ normal(3, 3).T + 3 * np.eye(3, dtype="f4"),
        normal(3),
        slack=50,
    )
    add(
        "control/root",
        lambda b: lax.custom_root(
            lambda v: v**3 - b,
            b,
            lambda f, g: lax.fori_loop(0, 30, lambda i, v: v - f(v) / (3 * v * v), g),
            lambda g, w: w / g(1.0),
        ),
        np.float64(5),
    )
    add(
        "control/ode",
        lambda y: jax.experimental.ode.odeint(
            lambda v, t: -v + t, y, jnp.linspace(0.0, 1, 4, dtype=y.dtype)
        ),
        x[:2],
        slack=20,
    )
    add(
        "control/bfgs",
        lambda y: jax.scipy.optimize.minimize(lambda v: jnp.sum((v - 1) ** 2), y, method="BFGS").x,
        x[:2],
        slack=50,
    )


loops()
scans()
branches()
calls()
