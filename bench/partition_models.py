"""Programs for `bench.partition` as people serve and train models: caches, experts, tables, graphs,
scans, images cut in two dimensions, transforms, batches of matrices, rings of attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from bench.partition_families import add, indexed
from bench.partition_programs import NONE, conv, normalized, trained

WIDE, TALL, ROWS = P(None, "model"), P("model", None), P("data", None)
BOTH = P("data", "model")

# -- inference: one token with a cache, and the tokens of a prompt

HEADS, DEPTH, LENGTH = 8, 32, 128


def rotated(x: Any, at: Any) -> Any:
    """Rotary positions of [..., length, heads, depth]."""
    half = x.shape[-1] // 2
    angle = at[:, None] / 10000.0 ** (jnp.arange(half) / half)
    c, s = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * c - b * s, a * s + b * c], -1)


def one_token(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, k: Any, v: Any, at: Any) -> Any:
    """Attention of one token of each sequence over caches [batch, length, heads, depth]."""
    n = indexed(at, LENGTH)
    split = (x.shape[0], 1, -1, DEPTH)
    q, new_k, new_v = (jnp.reshape(x @ w, split) for w in (wq, wk, wv))
    q, new_k = rotated(q, n[None]), rotated(new_k, n[None])
    k = lax.dynamic_update_slice(k, new_k, (0, n, 0, 0))
    v = lax.dynamic_update_slice(v, new_v, (0, n, 0, 0))
    groups = q.shape[2] // k.shape[2]
    q = q.reshape(x.shape[0], k.shape[2], groups, DEPTH)
    scores = jnp.einsum("bhgd,blhd->bhgl", q, k) / DEPTH**0.5
    scores = jnp.where(jnp.arange(LENGTH) <= n, scores, -1e9)
    out = jnp.einsum("bhgl,blhd->bhgd", jax.nn.softmax(scores), v)
    return out.reshape(x.shape[0], -1) @ wo, k, v


def token_case(name: str, heads: int, cache: Any) -> None:
    size, kv = ((16, LENGTH, heads, DEPTH), cache), ((256, heads * DEPTH), WIDE)
    add(
        f"decode, {name}", one_token, ((16, 256), ROWS), ((256, 256), WIDE), kv, kv,
        ((256, 256), TALL), size, size, ((), NONE), results=(ROWS, cache, cache),
    )  # fmt: skip


token_case("heads and batch", HEADS, P("data", None, "model"))
token_case("two heads of keys", 2, P("data", None, "model"))
token_case("cache along its length", HEADS, P(None, "data", "model"))
token_case("one head of keys, whole", 1, P("data"))


def prompt(x: Any, wqkv: Any, wo: Any, gain: Any) -> Any:
    b, n, _ = x.shape
    q, k, v = jnp.split((normalized(x, gain) @ wqkv).reshape(b, n, HEADS, 3 * DEPTH), 3, -1)
    q, k = (rotated(y, jnp.arange(n)) for y in (q, k))
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / DEPTH**0.5
    s = jnp.where(jnp.tri(n, dtype=bool), s, -1e9)
    return x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v).reshape(b, n, -1) @ wo


for _name, _x in (("batch", P("data")), ("sequence", P(None, "data")), ("both", BOTH)):
    add(
        f"prefill, {_name}", prompt, ((4, 64, 256), _x), ((256, 768), WIDE), ((256, 256), TALL),
        ((256,), NONE), results=_x,
    )  # fmt: skip


def sampled(x: Any, w: Any) -> Any:
    """The best tokens and their probabilities, of a vocabulary that is cut."""
    logits = x @ w
    best, where = lax.top_k(logits, 8)
    return jax.nn.softmax(best), where, jnp.argmax(logits, -1)


add("next token, vocabulary", sampled, ((16, 256), ROWS), ((256, 4096), WIDE))
add(
    "next token, vocabulary over all",
    sampled,
    ((16, 256), NONE),
    ((256, 4096), P(None, ("data", "model"))),
)

# -- experts


def routed(x: Any, gate: Any, w1: Any, w2: Any, k: int, capacity: int) -> Any:
    """Tokens to their k best experts, by dispatch and combine."""
    e = gate.shape[1]
    probability = jax.nn.softmax(x @ gate)
    weight, chosen = lax.top_k(probability, k)
    hot = jax.nn.one_hot(chosen, e)
    place = (jnp.cumsum(hot.reshape(-1, e), 0) - 1).reshape(hot.shape)
    slot = jax.nn.one_hot(jnp.where(hot > 0, place, -1).astype(jnp.int32), capacity)
    combine = jnp.einsum("tk,tkec->tec", weight, slot * hot[..., None])
    sent = jnp.einsum("td,tec->ecd", x, (combine > 0).astype(x.dtype))
    y = jnp.einsum("ecf,efd->ecd", jax.nn.silu(jnp.einsum("ecd,edf->ecf", sent, w1)), w2)
    return jnp.einsum("ecd,tec->td", y, combine)


EXPERT = P("data", None, "model")
for _k in (1, 2, 4):
    add(
        f"experts, best {_k}", partial(routed, k=_k, capacity=16), ((64, 128), ROWS),
        ((128, 8), NONE),
        ((8, 128, 256), EXPERT), ((8, 256, 128), P("data", "model", None)), results=ROWS,
    )  # fmt: skip
add(
    "experts, shared and best 2",
    lambda x, g, w1, w2, s1, s2: routed(x, g, w1, w2, 2, 16) + jax.nn.silu(x @ s1) @ s2,
    ((64, 128), ROWS), ((128, 8), NONE), ((8, 128, 256), EXPERT),
    ((8, 256, 128), P("data", "model", None)), ((128, 512), WIDE), ((512, 128), TALL), results=ROWS,
)  # fmt: skip

# -- images


def patches(x: Any, w: Any, position: Any) -> Any:
    """Embedded patches of 4 by 4 pixels."""
    b, h, _, c = x.shape
    y = x.reshape(b, h // 4, 4, h // 4, 4, c).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(b, (h // 4) ** 2, 16 * c) @ w + position


IMAGES = (8, 32, 32, 3)
for _name, _x, _p in (
    ("batch", P("data"), NONE),
    ("rows", P(None, "data"), P("data", None)),
    ("rows and columns", P(None, "data", "model"), NONE),
):
    add(f"patches of images, {_name}", patches, (IMAGES, _x), ((48, 128), NONE), ((64, 128), _p))


def down_and_up(w: Any, x: Any) -> Any:
    """A U-Net of two levels."""
    first = jax.nn.relu(conv(x, w["in"]))
    inner = jax.nn.relu(conv(first, w["down"], 2))
    inner = jax.nn.relu(conv(inner, w["inner"]))
    up = jax.image.resize(inner, (*first.shape[:3], inner.shape[3]), "nearest")
    return conv(jnp.concatenate([first, up], -1), w["out"])


UNET = {
    "in": ((3, 3, 4, 16), NONE),
    "down": ((3, 3, 16, 32), NONE),
    "inner": ((3, 3, 32, 32), NONE),
    "out": ((3, 3, 48, 4), NONE),
}
SQUARE = P(None, "data", "model")
add("two levels, rows and columns", down_and_up, UNET, ((4, 32, 32, 4), SQUARE), results=SQUARE)
add(
    "two levels step, rows and columns",
    trained(lambda w, x: jnp.mean(down_and_up(w, x) ** 2)),
    UNET,
    ((4, 32, 32, 4), SQUARE),
)
add(
    "standardized groups, rows and columns",
    lambda x: jax.nn.standardize(x.reshape(4, 32, 32, 4, 8), axis=(1, 2, 4)).reshape(x.shape),
    ((4, 32, 32, 32), SQUARE),
    results=SQUARE,
)
add(
    "blur by a separable filter, rows and columns",
    lambda x, w: conv(conv(x, w[:, None]), w[None]),
    ((4, 32, 32, 8), SQUARE), ((5, 8, 8), NONE), results=SQUARE,
)  # fmt: skip
add(
    "image gradients, rows and columns",
    lambda x: (x[:, 1:] - x[:, :-1], x[:, :, 1:] - x[:, :, :-1]),
    ((4, 32, 32, 8), SQUARE),
)
add(
    "laplacian with wrapping, rows and columns",
    lambda x: sum([jnp.roll(x, s, a) for a in (1, 2) for s in (1, -1)]) - 4 * x,
    ((4, 32, 32, 8), SQUARE), results=SQUARE,
)  # fmt: skip
add(
    "pixel shuffle, rows",
    lambda x: x.reshape(4, 16, 16, 2, 2, 8).transpose(0, 1, 3, 2, 4, 5).reshape(4, 32, 32, 8),
    ((4, 16, 16, 32), P(None, "data")), results=P(None, "data"),
)  # fmt: skip

# -- tables of recommendation


def recommended(tables: Any, i: Any, x: Any, w: Any) -> Any:
    """Sums of looked-up rows of each table, their products with one another, and a layer."""
    rows = jnp.stack([t[indexed(i[:, k], t.shape[0])].sum(1) for k, t in enumerate(tables)], 1)
    all_rows = jnp.concatenate([x[:, None], rows], 1)
    return jnp.einsum("bid,bjd->bij", all_rows, all_rows).reshape(x.shape[0], -1) @ w


for _name, _t in (
    ("rows", P(("data", "model"), None)),
    ("columns", P(None, ("data", "model"))),
    ("rows over one axis", TALL),
    ("both ways", P("model", "data")),
):
    add(
        f"tables by {_name}",
        recommended,
        [((512, 32), _t)] * 3, ((64, 3, 5), P(("data", "model"))), ((64, 32), P(("data", "model"))),
        ((16, 32), NONE), results=P(("data", "model")),
    )  # fmt: skip
add(
    "tables by rows, step",
    trained(lambda t, i, x, w: jnp.mean(recommended(t, i, x, w) ** 2)),
    [((512, 32), P(("data", "model"), None))] * 3, ((64, 3, 5), P(("data", "model"))),
    ((64, 32), P(("data", "model"))), ((16, 32), NONE),
)  # fmt: skip
add(
    "tables stacked, one a device",
    lambda t, i: jax.vmap(lambda u, j: u[j])(t, indexed(i, 64)),
    ((8, 64, 32), P(("data", "model"))), ((8, 40), P(("data", "model"))),
)  # fmt: skip

# -- graphs


def graph_layer(x: Any, source: Any, target: Any, w: Any) -> Any:
    n = x.shape[0]
    message = (x @ w)[indexed(source, n)]
    return jax.nn.relu(jax.ops.segment_sum(message, indexed(target, n), n)) + x


def graph_attention(x: Any, source: Any, target: Any, w: Any) -> Any:
    n = x.shape[0]
    s, t, y = indexed(source, n), indexed(target, n), x @ w
    score = (y[s] * y[t]).sum(-1)
    score = jnp.exp(score - jax.ops.segment_max(score, t, n)[t])
    weight = score / jax.ops.segment_sum(score, t, n)[t]
    return jax.ops.segment_sum(weight[:, None] * y[s], t, n)


for _name, _f in (("sum", graph_layer), ("attention", graph_attention)):
    for _where, _x, _e in (
        ("edges", NONE, P("data")),
        ("features", WIDE, NONE),
        ("edges and features", WIDE, P("data")),
        ("nodes", ROWS, P("data")),
    ):
        add(
            f"graph {_name}, {_where}",
            _f,
            ((96, 64), _x),
            ((384,), _e),
            ((384,), _e),
            ((64, 64), NONE),
            results=_x,
        )

# -- recurrences


def lstm(w: Any, xs: Any) -> Any:
    def cell(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ w["x"] + h @ w["h"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], 64), xs.dtype)
    return lax.scan(cell, (zero, zero), xs)[1]


def state_space(a: Any, x: Any, b: Any, c: Any) -> Any:
    """h = a h + b x, y = c h, for every channel, step by step."""

    def step(h: Any, now: Any) -> Any:
        xt, bt, ct = now
        h = jnp.exp(-jnp.abs(a)) * h + xt[..., None] * bt[:, None]
        return h, (h * ct[:, None]).sum(-1)

    start = jnp.zeros((x.shape[1], x.shape[2], a.shape[1]), x.dtype)
    return lax.scan(step, start, (x, b, c))[1]


for _name, _x, _h, _w in (
    ("batch", P(None, "data"), NONE, NONE),
    ("batch and features", P(None, "data"), WIDE, WIDE),
):
    _ws = {"x": ((32, 256), _w), "h": ((64, 256), _h)}
    add(f"lstm, {_name}", lstm, _ws, ((24, 16, 32), _x))
    add(
        f"lstm step, {_name}",
        trained(lambda w, x: jnp.mean(lstm(w, x) ** 2)),
        _ws,
        ((24, 16, 32), _x),
    )
for _name, _x, _a in (
    ("channels", P(None, "data", "model"), P("model", None)),
    ("batch", P(None, "data"), NONE),
):
    add(
        f"state space, {_name}", state_space, ((64, 16), _a), ((32, 8, 64), _x),
        ((32, 8, 16), P(None, "data")), ((32, 8, 16), P(None, "data")),
    )  # fmt: skip
add(
    "linear recurrence, time",
    lambda a, x: lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, x)),
    ((64, 32), ROWS), ((64, 32), ROWS),
)  # fmt: skip
add("sums up to each, time", lambda x: jnp.cumsum(x, 0), ((128, 32), P(("data", "model"))))
add("log of sums up to each, time", lambda x: lax.cumlogsumexp(x, axis=0), ((128, 32), ROWS))
