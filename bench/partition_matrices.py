"""More programs for `bench.partition`: transforms, batches of matrices, optimizers in two
precisions, regions that a program cuts by itself, sizes that do not divide, loops that write."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from bench.partition_families import add
from bench.partition_models import BOTH, ROWS, TALL, WIDE
from bench.partition_programs import NONE

# -- transforms, and matrices in batches

for _name, _x in (("rows", ROWS), ("columns", WIDE), ("both", BOTH)):
    add(
        f"convolution by transforms, {_name}",
        lambda x, w: jnp.fft.irfft(jnp.fft.rfft(x, axis=1) * jnp.fft.rfft(w, axis=1), 64, 1),
        ((32, 64), _x), ((32, 64), _x),
    )  # fmt: skip
add("transform of volumes", lambda x: jnp.abs(jnp.fft.fftn(x)), ((16, 16, 16), P("data", "model")))
BATCH = P(("data", "model"))
add("log determinants, batch", lambda a: jnp.linalg.slogdet(a)[1], ((16, 12, 12), BATCH))
add("least squares by qr, batch", lambda a: jnp.linalg.qr(a), ((16, 12, 6), BATCH))
add("inverse, batch over one axis", jnp.linalg.inv, ((8, 12, 12), P("data")))
add("power of matrices, batch", lambda a: jnp.linalg.matrix_power(a, 5), ((16, 12, 12), BATCH))
add(
    "newton-schulz, columns",
    lambda g: 1.5 * g - 0.5 * g @ g.T @ g,
    ((64, 256), WIDE), results=WIDE,
)  # fmt: skip
add("gram and trace, rows", lambda x: (x.T @ x, jnp.trace(x @ x.T)), ((64, 32), ROWS))
add("kronecker, rows", jnp.kron, ((8, 8), ROWS), ((8, 8), WIDE))

# -- optimizers in two precisions


def mixed_step(p: Any, m: Any, x: Any) -> Any:
    """A step in bf16 from weights and momenta of f32, the gradient clipped by its length."""

    def loss(q: Any) -> Any:
        y = jax.nn.relu(x.astype(jnp.bfloat16) @ q["w1"]) @ q["w2"]
        return jnp.mean(y.astype(jnp.float32) ** 2)

    grads = jax.grad(loss)(jax.tree.map(lambda a: a.astype(jnp.bfloat16), p))
    grads = jax.tree.map(lambda g: g.astype(jnp.float32), grads)
    length = jnp.sqrt(sum([jnp.sum(g**2) for g in jax.tree.leaves(grads)]))
    m = jax.tree.map(lambda a, g: 0.9 * a + g / jnp.maximum(length, 1.0), m, grads)
    return jax.tree.map(lambda a, b: a - 0.01 * b, p, m), m


for _name, _a, _b in (
    ("data", NONE, NONE),
    ("fsdp", ROWS, ROWS),
    ("tensor", WIDE, TALL),
    ("fsdp and tensor", BOTH, P("model", "data")),
):
    _ws = {"w1": ((128, 512), _a), "w2": ((512, 128), _b)}
    _at = {"w1": _a, "w2": _b}
    add(
        f"mixed precision step, {_name}",
        mixed_step,
        _ws,
        _ws,
        ((64, 128), P("data")),
        results=(_at, _at),
    )


def factored_moments(g: Any, r: Any, c: Any) -> Any:
    """Adafactor's second moments: means along rows and along columns."""
    r = 0.9 * r + 0.1 * (g**2).mean(1)
    c = 0.9 * c + 0.1 * (g**2).mean(0)
    return g / jnp.sqrt(r[:, None] * c[None] / r.mean()), r, c


for _name, _g in (("rows", ROWS), ("both", BOTH)):
    add(
        f"factored moments, {_name}", factored_moments, ((64, 128), _g), ((64,), P(*_g[:1])),
        ((128,), P(_g[1])), results=(_g, P(*_g[:1]), P(_g[1])),
    )  # fmt: skip

# -- regions that a program cuts by itself


def ring_attention(q: Any, k: Any, v: Any) -> Any:
    """Attention of a shard of queries over all keys, which go round the ring."""
    n = lax.axis_size("data")
    ring = [(j, (j + 1) % n) for j in range(n)]

    def step(state: Any, _: Any) -> Any:
        top, total, out, k, v = state
        s = jnp.einsum("qhd,khd->hqk", q, k)
        new = jnp.maximum(top, s.max(-1))
        e, old = jnp.exp(s - new[..., None]), jnp.exp(top - new)
        total = total * old + e.sum(-1)
        out = out * old[..., None] + jnp.einsum("hqk,khd->hqd", e, v)
        k, v = (lax.ppermute(x, "data", ring) for x in (k, v))
        return (new, total, out, k, v), None

    h, d = q.shape[1:]
    start = [
        jnp.full((h, q.shape[0]), -1e30),
        jnp.zeros((h, q.shape[0])),
        jnp.zeros((h, q.shape[0], d)),
    ]
    start = [lax.pcast(x, "data", to="varying") for x in start]
    (_, total, out, _, _), _ = lax.scan(step, (*start, k, v), None, n)
    return (out / total[..., None]).transpose(1, 0, 2)


def by_region(f: Any, names: set[str], specs: Any, out: Any) -> Any:
    return lambda *x: jax.shard_map(f, axis_names=names, in_specs=specs, out_specs=out)(*x)


QKV = ((64, 4, 16), P("data", "model"))
add(
    "ring attention in a region", by_region(ring_attention, {"data"}, (P("data"),) * 3, P("data")),
    QKV, QKV, QKV, results=P("data", "model"),
)  # fmt: skip
own_sums = by_region(
    lambda y: lax.psum_scatter(y @ y.T, "data", tiled=True), {"data"}, P(None, "data"), P("data")
)
add(
    "sums in a region, layers outside",
    lambda x, w: jax.nn.relu(own_sums(x @ w)),
    ((32, 64), P(None, "data")), ((64, 64), WIDE),
)  # fmt: skip

# -- sizes that do not divide, and dimensions moved about

for _n in (1, 7, 13):
    add(f"softmax of {_n} rows", lambda x: jax.nn.softmax(x @ x.T), ((_n, 64), WIDE))
add(
    "sorted keys and values, rows",
    lambda k, v: lax.sort((k, v), dimension=0, num_keys=1),
    ((64, 8), ROWS),
    ((64, 8), ROWS),
)
add("ranks along columns", lambda x: jnp.argsort(jnp.argsort(x, 1), 1), ((32, 64), WIDE))
add("best of both, columns", lambda x: lax.top_k(jnp.abs(x), 4), ((32, 64), BOTH))
add("quantile, rows", lambda x: jnp.quantile(x, 0.3, axis=0), ((64, 24), ROWS))
add(
    "merge and split heads",
    lambda x: x.transpose(0, 2, 1, 3).reshape(8, 32, 64) * 2,
    ((8, 4, 32, 16), P("data", "model")),
)
add("swap two cut dimensions", lambda x: jnp.swapaxes(x, 0, 1) + 1, ((64, 64), BOTH), results=BOTH)
add("flatten cut in the middle", lambda x: x.reshape(-1), ((8, 16, 4), P(None, "data")))
add(
    "outer product, rows and columns",
    lambda x, y: x[:, None] * y[None],
    ((64,), P("data")),
    ((64,), P("model")),
    results=BOTH,
)
add("triangle, rows", lambda x: jnp.tril(x) + jnp.triu(x, 3), ((64, 64), ROWS), results=ROWS)
add("diagonal and its matrix", lambda x: jnp.diag(jnp.diagonal(x)), ((64, 64), BOTH), results=BOTH)
add(
    "rows where a mask says, row by row",
    lambda x, m: jnp.where(m[:, None] > 0, x, x[::-1]),
    ((64, 32), ROWS),
    ((64,), P("data")),
    results=ROWS,
)


def updated_in_a_loop(buffer: Any, x: Any) -> Any:
    def step(k: Any, state: Any) -> Any:
        row = lax.dynamic_slice(state, (k, 0), (1, state.shape[1])) + x
        return lax.dynamic_update_slice(state, row, (k, 0))

    return lax.fori_loop(0, 16, step, buffer)


for _name, _b in (("rows", ROWS), ("columns", WIDE)):
    add(
        f"updates in a loop, {_name}",
        updated_in_a_loop,
        ((32, 64), _b),
        ((1, 64), P(None, _b[1])),
        results=_b,
    )
