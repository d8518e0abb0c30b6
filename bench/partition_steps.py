"""More programs for `bench.partition`: optimizers, loops, pipelines of stages; products and
resharding on a mesh of three axes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from bench.partition_families import EIGHT, TALL, add
from bench.partition_programs import NONE

CUBE = {"x": 2, "y": 2, "z": 2}
"""A mesh of three axes."""


# -- optimizers


def adam(p: Any, m: Any, v: Any, g: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 0.01 * m / (jnp.sqrt(v) + 1e-8), m, v


def adafactor(p: Any, r: Any, c: Any, g: Any) -> Any:
    r, c = 0.9 * r + 0.1 * (g * g).mean(1), 0.9 * c + 0.1 * (g * g).mean(0)
    return p - 0.01 * g * lax.rsqrt(r[:, None] * c[None] / r.mean() + 1e-8), r, c


def shampoo(p: Any, left: Any, g: Any) -> Any:
    left = left + g @ g.T
    return p - 0.01 * jnp.linalg.solve(left + 8 * jnp.eye(p.shape[0]), g), left


def clipped(p: Any, g: Any) -> Any:
    norm = jnp.sqrt(jnp.sum(g * g))
    return p - g * jnp.minimum(1.0, 1.0 / norm)


W = (64, 96)
for _name, _s in (("rows", P("data", None)), ("both", P("data", "model")), ("all", EIGHT)):
    _r, _c = P(*_s[:1]), P(*_s[1:2])
    add(f"adam, {_name}", adam, *[(W, _s)] * 4, results=(_s,) * 3)
    add(f"adam of whole gradients, {_name}", adam, *[(W, _s)] * 3, (W, NONE), results=(_s,) * 3)
    add(
        f"adafactor, {_name}",
        adafactor,
        (W, _s),
        ((64,), _r),
        ((96,), _c),
        (W, _s),
        results=(_s, _r, _c),
    )
    add(f"shampoo, {_name}", shampoo, (W, _s), ((64, 64), _s), (W, _s), results=(_s, _s))
    add(f"clipped, {_name}", clipped, (W, _s), (W, _s), results=_s)


# -- control flow, linear algebra, stages

add(
    "scan, carry cut",
    lambda h, xs: lax.scan(lambda h, x: (0.9 * h + x, h.sum(1)), h, xs),
    ((32, 40), P("data", "model")),
    ((6, 32, 40), P(None, "data", "model")),
)
add(
    "scan, sequence cut",
    lambda xs: lax.scan(lambda h, x: (h + x, h * x), jnp.zeros(40), xs)[1],
    ((48, 40), P("data", "model")),
)
add(
    "associative scan",
    lambda x: lax.associative_scan(jnp.multiply, x, axis=0),
    ((32, 40), P("data", "model")),
)
add(
    "conditional",
    lambda p, x, y: lax.cond(p > 0, lambda: x @ y, lambda: x * 2),
    ((), NONE),
    ((32, 32), P("data", "model")),
    ((32, 32), TALL),
)
add(
    "power iteration",
    lambda a, v: lax.fori_loop(0, 5, lambda _, v: (a @ v) / jnp.linalg.norm(a @ v), v),
    ((64, 64), P("data", "model")),
    ((64,), NONE),
)
add(
    "newton inverse",
    lambda a: lax.fori_loop(0, 3, lambda _, x: x @ (2 * jnp.eye(64) - a @ x), a.T / 64),
    ((64, 64), P("data", "model")),
    results=P("data", "model"),
)
add(
    "while until small",
    lambda x: lax.while_loop(lambda x: jnp.max(x) > 0.5, lambda x: x / 2, x),
    ((64, 24), P("data", "model")),
    results=P("data", "model"),
)
add("qr, batch", lambda a: jnp.linalg.qr(a)[1], ((16, 12, 8), P("data")))
add(
    "eigenvalues, batch", lambda a: jnp.linalg.eigvalsh(a + a.swapaxes(1, 2)), ((16, 12, 12), EIGHT)
)
add(
    "determinants, batch",
    lambda a: jnp.linalg.slogdet(a + 9 * jnp.eye(12))[1],
    ((16, 12, 12), P("data")),
)


def stages(w: Any, x: Any) -> Any:
    """A pipeline by shifting: each stage works on what the one before it had."""

    def step(state: Any, x: Any) -> Any:
        state = jnp.roll(state, 1, 0).at[0].set(x)
        state = lax.with_sharding_constraint(
            jnp.tanh(jnp.einsum("sbd,sde->sbe", state, w)), P("data")
        )
        return state, state[-1]

    return lax.scan(step, jnp.zeros((4, 16, 32)), x)[1]


add("pipeline of stages", stages, ((4, 32, 32), P("data")), ((6, 16, 32), P(None, "model")))
add(
    "pipeline of stages, gradient",
    jax.grad(lambda *a: jnp.sum(stages(*a) ** 2)),
    ((4, 32, 32), P("data")),
    ((6, 16, 32), P(None, "model")),
    results=P("data"),
)

for _name, _a, _b in (
    ("one axis left", P("x", None), P(None, "y")),
    ("depth by two", P("x", ("y", "z")), P(("y", "z"), None)),
    ("turned", P("x", "y"), P("x", "z")),
    ("depth against columns", P(None, "x"), P(None, "x")),
    ("all three", P(("x", "y"), "z"), P("z", ("x", "y"))),
):  # fmt: skip
    add(
        f"product on a cube, {_name}", lambda a, b: a @ b, ((64, 96), _a), ((96, 80), _b), mesh=CUBE
    )
    add(
        f"product on a cube, {_name}, gradient",
        jax.grad(lambda a, b: jnp.sum(jnp.tanh(a @ b)), (0, 1)),
        ((64, 96), _a),
        ((96, 80), _b),
        results=(_a, _b),
        mesh=CUBE,
    )
for _name, _from, _to in (
    ("transposed", P("x", "y", "z"), P("z", "y", "x")),
    ("axes joined", P("x", "y", "z"), P(("x", "y", "z"))),
    ("split", P(("z", "x"), "y"), P("x", "y", "z")),
    ("moved on", P("x", "y"), P(None, "x", "y")),
    ("half whole", P(("x", "y"), "z"), P("y", None, "x")),
    ("other order", P(("x", "y", "z")), P(("z", "y", "x"))),
):
    add(f"resharding, {_name}", lambda x: jnp.tanh(x), ((16, 24, 8), _from), results=_to, mesh=CUBE)
