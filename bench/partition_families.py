"""More programs for `bench.partition`: families of operations cut along each of their dimensions,
and layers of models as people write them.

Most of the sizes are uneven somewhere, and many shardings leave an axis of the mesh unused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from bench.partition_programs import CASES, NONE, Case, conv, normalized, trained

WIDE, TALL = P(None, "model"), P("model", None)


def add(
    name: str, f: Callable[..., Any], *arguments: Any, results: Any = None, **more: Any
) -> None:
    """Keep a program."""
    assert name not in CASES, name
    CASES[name] = Case(f, arguments, results, **more)


def indexed(i: Any, n: int) -> Any:
    """Floats that the bench draws as places in `n`."""
    return jnp.abs(i * 7).astype(jnp.int32) % n


# -- gathers and scatters along every dimension of operand, indices and window

TABLE, PLACES = (96, 40), (24,)
SPECS = {
    "rows": P("data", None),
    "columns": WIDE,
    "both": P("data", "model"),
    "all rows": P(("data", "model"), None),
}
for _name, _s in SPECS.items():
    for _where, _i in (("whole", NONE), ("cut", P("data"))):
        add(
            f"take {_name}, indices {_where}",
            lambda t, i: t[indexed(i, 96)],
            (TABLE, _s),
            (PLACES, _i),
        )
        add(
            f"scatter add {_name}, indices {_where}",
            lambda t, i, u: t.at[indexed(i, 96)].add(u),
            (TABLE, _s), (PLACES, _i), ((24, 40), P(*_i, None)), results=_s,
        )  # fmt: skip
    add(f"take columns of {_name}", lambda t, i: t[:, indexed(i, 40)], (TABLE, _s), (PLACES, NONE))
    add(
        f"scatter max {_name}",
        lambda t, i, u: t.at[indexed(i, 96)].max(u),
        (TABLE, _s),
        (PLACES, NONE),
        ((24, 40), NONE),
        results=_s,
    )
    add(
        f"take along axis, {_name}",
        lambda t, i: jnp.take_along_axis(t, indexed(i, 40), 1),
        (TABLE, _s),
        ((96, 8), P(*_s[:1], None)),
    )
    add(
        f"segment sum, {_name}",
        lambda t, i: jax.ops.segment_sum(t, indexed(i, 12), 12),
        (TABLE, _s),
        ((96,), P(*_s[:1])),
    )
    add(
        f"dynamic slice, {_name}",
        lambda t, k: lax.dynamic_slice(t, (indexed(k, 50), 3), (10, 20)),
        (TABLE, _s),
        ((), NONE),
    )
    add(
        f"dynamic update, {_name}",
        lambda t, u, k: lax.dynamic_update_slice(t, u, (indexed(k, 50), 3)),
        (TABLE, _s),
        ((10, 20), NONE),
        ((), NONE),
        results=_s,
    )
    add(f"uneven slices, {_name}", lambda t: t[5:91:3, 1:38] * 2, (TABLE, _s))
    add(
        f"uneven pad and reverse, {_name}",
        lambda t: jnp.pad(t[::-1], ((3, 2), (0, 5))),
        (TABLE, _s),
    )
    add(
        f"uneven concatenate, {_name}",
        lambda t: jnp.concatenate([t[:37], t, t[80:]], 0),
        (TABLE, _s),
    )
    add(f"stack and unstack, {_name}", lambda t: jnp.stack([t, -t, t + 1], 1).sum(1), (TABLE, _s))
    add(
        f"moments, {_name}", lambda t: (t.mean(0), t.var(1), t.max(), jnp.argmin(t, 0)), (TABLE, _s)
    )
    add(f"cumulative, {_name}", lambda t: (jnp.cumsum(t, 0), lax.cummax(t, axis=1)), (TABLE, _s))
    add(f"median, {_name}", lambda t: (jnp.sort(t, 0)[48], lax.top_k(t, 5)[0]), (TABLE, _s))
    add(f"two transforms, {_name}", lambda t: jnp.abs(jnp.fft.fft2(t)), (TABLE, _s))
    add(f"one_hot, {_name}", lambda t: jax.nn.one_hot(indexed(t, 6), 6).sum(0), (TABLE, _s))
    add(
        f"dropout, {_name}",
        lambda t: t * jax.random.bernoulli(jax.random.key(1), 0.9, t.shape),
        (TABLE, _s),
    )
    add(f"distances, {_name}", lambda t: ((t[:, None] - t[None]) ** 2).sum(-1), (TABLE, _s))


# -- attention and experts

HEADS = (4, 48, 8, 16)
for _name, _s in (
    ("heads", P(None, None, "model")),
    ("batch and heads", P("data", None, "model")),
    ("sequence and heads", P(None, "data", "model")),
):

    def causal(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4.0
        mask = jnp.tril(jnp.ones((48, 48), bool))
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9), -1), v)

    add(f"causal attention, {_name}", causal, *[(HEADS, _s)] * 3, results=_s)
    add(
        f"causal attention gradient, {_name}",
        jax.grad(lambda *a: jnp.sum(causal(*a) ** 2), (0, 1, 2)),
        *[(HEADS, _s)] * 3,
        results=(_s,) * 3,
    )

    def decoding(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(jnp.einsum("bhd,bkhd->bhk", q, k), -1)
        return jnp.einsum("bhk,bkhd->bhd", weights, v)

    _q = P(_s[0], _s[2])
    add(f"decoding, {_name}", decoding, ((4, 8, 16), _q), (HEADS, _s), (HEADS, _s), results=_q)


def rotary(x: Any) -> Any:
    angle = jnp.arange(48)[:, None] / 100.0 ** (jnp.arange(8) / 8)
    a, b = x[..., :8], x[..., 8:]
    c, s = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    return jnp.concatenate([a * c - b * s, a * s + b * c], -1)


add("rotary, sequence", rotary, (HEADS, P("data", "model")), results=P("data", "model"))
add("rotary, features", rotary, (HEADS, P(None, None, None, "model")))


def dispatched(x: Any, gate: Any, w1: Any, w2: Any) -> Any:
    """Groups of tokens, each of which sends to all experts: an all-to-all there and back."""
    chosen = jax.nn.one_hot(jnp.argmax(jnp.einsum("gtd,de->gte", x, gate), -1), 8)
    place = (jnp.cumsum(chosen, 1) * chosen).astype(jnp.int32) - 1
    mask = jax.nn.one_hot(place, 8) * chosen[..., None]
    sent = jnp.einsum("gtec,gtd->egcd", mask, x)
    sent = lax.with_sharding_constraint(sent, P(("data", "model")))
    done = jnp.einsum("egcf,efd->egcd", jax.nn.relu(jnp.einsum("egcd,edf->egcf", sent, w1)), w2)
    return jnp.einsum("gtec,egcd->gtd", mask, done)


EIGHT = P(("data", "model"))
EXPERTS = (((8, 16, 32), EIGHT), ((32, 8), NONE), ((8, 32, 64), EIGHT), ((8, 64, 32), EIGHT))
add("experts by all-to-all", dispatched, *EXPERTS, results=EIGHT)
add(
    "experts by all-to-all, gradient",
    jax.grad(lambda *a: jnp.sum(dispatched(*a) ** 2), (1, 2, 3)),
    *EXPERTS,
    results=(NONE, EIGHT, EIGHT),
)


# -- convolution nets, diffusion, graphs


def depthwise(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", feature_group_count=8, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


IMAGES, KERNELS = (
    (8, 16, 16, 8),
    {"a": ((3, 3, 8, 16), NONE), "b": ((3, 3, 16, 16), NONE), "c": ((3, 3, 16, 8), NONE)},
)
for _name, _s in (
    ("batch", P("data")),
    ("batch and rows", P("data", "model")),
    ("rows and columns", P(None, "data", "model")),
):

    def unet(p: Any, x: Any) -> Any:
        a = jax.nn.silu(conv(x, p["a"]))
        b = jax.nn.silu(
            conv(lax.reduce_window(a, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), p["b"])
        )
        up = jnp.repeat(jnp.repeat(b, 2, 1), 2, 2)
        return conv(a + up, p["c"])

    add(f"u-net, {_name}", unet, KERNELS, (IMAGES, _s), results=_s)
    step = trained(lambda p, x: jnp.mean((unet(p, x) - x) ** 2))
    add(
        f"u-net step, {_name}",
        step,
        KERNELS,
        (IMAGES, _s),
        results=(NONE, dict.fromkeys("abc", NONE)),
    )
    add(
        f"group norm, {_name}",
        lambda x: normalized(x.reshape(8, 16, 16, 2, 4), 1.0).reshape(x.shape),
        (IMAGES, _s),
    )
    add(
        f"batch norm, {_name}",
        lambda x: (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5),
        (IMAGES, _s),
    )
    add(f"depthwise, {_name}", depthwise, (IMAGES, _s), ((5, 5, 1, 8), NONE))
    add(
        f"transposed convolution, {_name}",
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
        (IMAGES, _s),
        ((2, 2, 8, 4), NONE),
    )
    add(
        f"average pool, {_name}",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9,
        (IMAGES, _s),
    )
    add(f"resize, {_name}", lambda x: jax.image.resize(x, (8, 24, 24, 8), "bilinear"), (IMAGES, _s))
    add(
        f"patches, {_name}",
        lambda x: x.reshape(8, 4, 4, 4, 4, 8).transpose(0, 1, 3, 2, 4, 5).reshape(8, 16, 128),
        (IMAGES, _s),
    )


def graph(x: Any, src: Any, dst: Any, w: Any) -> Any:
    sent = (x @ w)[indexed(src, 64)]
    return jax.nn.relu(jax.ops.segment_sum(sent, indexed(dst, 64), 64))


for _name, _x, _e in (
    ("edges", NONE, EIGHT),
    ("nodes", P("data"), NONE),
    ("nodes and edges", P("data"), P("data")),
    ("features", WIDE, P("data")),
):
    add(
        f"graph network, {_name}",
        graph,
        ((64, 32), _x),
        ((256,), _e),
        ((256,), _e),
        ((32, 32), NONE),
    )
