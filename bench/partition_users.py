"""Programs for `bench.partition` as users of jax.sharding, flax and maxtext write them: constraints
in the middle, scanned and rematerialised layers, meshes of three axes, context-parallel attention,
microbatches, adapters, optimizers whose moments are cut."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from bench.partition_families import add, indexed
from bench.partition_programs import NONE, trained
from bench.partition_steps import adam

D, HEADS, LENGTH, BATCH = 128, 8, 64, 8
DEPTH = D // HEADS
THREE = {"data": 2, "fsdp": 2, "tensor": 2}
CONTEXT = {"data": 2, "context": 2, "tensor": 2}
keep = lax.with_sharding_constraint
every = jax.tree.map


def mean_square(y: Any) -> Any:
    return jnp.mean(y**2)


# -- attention with its sequence cut (context parallel): keys gathered, or queries exchanged


def scores_of(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / DEPTH**0.5
    if is_causal:
        n = jnp.arange(q.shape[1])
        s = jnp.where(n[:, None] >= n[None], s, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, -1), v)


def gathered_keys(w: Any, x: Any, is_causal: bool = True) -> Any:
    """Queries stay where they are, keys and values are whole on every device."""
    whole = P("data", None, "tensor")
    b, n, _ = x.shape
    q, k, v = [(x @ w[name]).reshape(b, n, HEADS, DEPTH) for name in "qkv"]
    q = keep(q, P("data", "context", "tensor"))
    k, v = keep(k, whole), keep(v, whole)
    y = keep(scores_of(q, k, v, is_causal), P("data", "context", "tensor"))
    return x + keep(y.reshape(b, n, D) @ w["o"], P("data", "context"))


def exchanged_heads(w: Any, x: Any) -> Any:
    """Heads are cut in place of the sequence while tokens look at each other (Ulysses)."""
    b, n, _ = x.shape
    heads = P("data", None, ("context", "tensor"))
    q, k, v = [keep((x @ w[name]).reshape(b, n, HEADS, DEPTH), heads) for name in "qkv"]
    y = keep(scores_of(q, k, v, True), heads)
    y = keep(y, P("data", "context", "tensor"))
    return x + keep(y.reshape(b, n, D) @ w["o"], P("data", "context"))


def unsaid(w: Any, x: Any) -> Any:
    """Nothing is said but how the tokens stand."""
    b, n, _ = x.shape
    q, k, v = [(x @ w[name]).reshape(b, n, HEADS, DEPTH) for name in "qkv"]
    return x + scores_of(q, k, v, True).reshape(b, n, D) @ w["o"]


def of_blocks(w: Any, x: Any) -> Any:
    """Blocks of keys one after another in a loop, as flash attention goes over them."""
    b, n, _ = x.shape
    q, k, v = [(x @ w[name]).reshape(b, n, HEADS, DEPTH) for name in "qkv"]
    blocks = [y.reshape(b, 4, n // 4, HEADS, DEPTH).swapaxes(0, 1) for y in (k, v)]

    def step(state: Any, kv: Any) -> Any:
        top, total, out = state
        s = jnp.einsum("bqhd,bkhd->bhqk", q, kv[0]) / DEPTH**0.5
        new = jnp.maximum(top, s.max(-1))
        e, old = jnp.exp(s - new[..., None]), jnp.exp(top - new)
        out = out * old[..., None] + jnp.einsum("bhqk,bkhd->bhqd", e, kv[1])
        return (new, total * old + e.sum(-1), out), None

    start = jnp.full((b, HEADS, n), -1e30), jnp.zeros((b, HEADS, n))
    out = jnp.zeros((b, HEADS, n, DEPTH))
    (_, total, out), _ = lax.scan(step, (*start, out), tuple(blocks))
    y = (out / total[..., None]).swapaxes(1, 2)
    return x + y.reshape(b, n, D) @ w["o"]


ATTENTION = {**dict.fromkeys("qkv", ((D, D), P(None, "tensor"))), "o": ((D, D), P("tensor"))}
TOKENS, SEQUENCE = (BATCH, LENGTH, D), P("data", "context")
for _name, _f in (
    ("keys gathered", gathered_keys),
    ("heads exchanged", exchanged_heads),
    ("nothing said", unsaid),
    ("blocks of keys", of_blocks),
):
    add(
        f"context parallel, {_name}", _f, ATTENTION, (TOKENS, SEQUENCE), results=SEQUENCE,
        mesh=CONTEXT,
    )  # fmt: skip
    add(
        f"context parallel step, {_name}",
        trained(lambda w, x, f=_f: mean_square(f(w, x))),
        ATTENTION, (TOKENS, SEQUENCE),
        results=(NONE, {k: s for k, (_, s) in ATTENTION.items()}), mesh=CONTEXT,
    )  # fmt: skip

# -- a decoder as maxtext has it: fsdp and tensor, scanned layers, some rematerialised

LAYER = {
    "norm": ((D,), NONE), "qkv": ((D, 3, HEADS, DEPTH), P("fsdp", None, "tensor")),
    "out": ((HEADS, DEPTH, D), P("tensor", None, "fsdp")),
    "gate": ((D, 2 * D), P("fsdp", "tensor")), "up": ((D, 2 * D), P("fsdp", "tensor")),
    "down": ((2 * D, D), P("tensor", "fsdp")),
}  # fmt: skip
ACTIVE = P(("data", "fsdp"))


def rms(x: Any, gain: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * (1 + gain)


def decoder_layer(w: Any, x: Any) -> Any:
    h = keep(rms(x, w["norm"]), ACTIVE)
    q, k, v = jnp.moveaxis(jnp.einsum("bsd,dchk->bschk", h, w["qkv"]), 2, 0)
    y = keep(scores_of(q, k, v, True), P(("data", "fsdp"), None, "tensor"))
    x = keep(x + jnp.einsum("bshk,hkd->bsd", y, w["out"]), ACTIVE)
    h = rms(x, w["norm"])
    h = keep(jax.nn.silu(h @ w["gate"]) * (h @ w["up"]), P(("data", "fsdp"), None, "tensor"))
    return keep(x + h @ w["down"], ACTIVE)


def stacked(layer: dict[str, Any], count: int = 4) -> dict[str, Any]:
    return {k: ((count, *n), P(None, *s)) for k, (n, s) in layer.items()}


def decoder(w: Any, tokens: Any, layer: Any = decoder_layer) -> Any:
    at = indexed(tokens, 96)
    x = keep(w["table"][at], ACTIVE)
    x, _ = lax.scan(lambda x, w: (layer(w, x), None), x, w["layers"])
    return keep(x @ w["table"].T, P(("data", "fsdp"), None, "tensor")), at


def next_token_loss(w: Any, tokens: Any, layer: Any = decoder_layer) -> Any:
    logits, at = decoder(w, tokens, layer)
    logits = jax.nn.log_softmax(logits[:, :-1])
    return -jnp.mean(jnp.take_along_axis(logits, at[:, 1:, None], -1))


DECODER = {"table": ((96, D), P("tensor", "fsdp")), "layers": stacked(LAYER)}
SAYS = {"table": P("tensor", "fsdp"), "layers": {k: P(None, *s) for k, (_, s) in LAYER.items()}}
IDS = ((BATCH, 32), ACTIVE)
add("decoder logits", lambda w, t: decoder(w, t)[0], DECODER, IDS, mesh=THREE)
for _name, _layer in (
    ("kept", decoder_layer),
    ("rematerialised", jax.checkpoint(decoder_layer)),
    (
        "products kept",
        jax.checkpoint(decoder_layer, policy=jax.checkpoint_policies.dots_saveable),
    ),
):
    add(
        f"decoder step, {_name}",
        trained(lambda w, t, layer=_layer: next_token_loss(w, t, layer)),
        DECODER, IDS, results=(NONE, SAYS), mesh=THREE,
    )  # fmt: skip


def adam_step(w: Any, m: Any, v: Any, tokens: Any) -> Any:
    loss, g = jax.value_and_grad(next_token_loss)(w, tokens)
    norm = jnp.sqrt(sum(jnp.sum(y * y) for y in jax.tree.leaves(g)))
    g = every(lambda y: y / jnp.maximum(norm, 1), g)
    done = every(adam, w, m, v, g)
    w, m, v = [every(lambda _, y, k=k: y[k], w, done) for k in range(3)]
    return loss, w, m, v


add(
    "decoder step, adam and clipping", adam_step, DECODER, DECODER, DECODER, IDS,
    results=(NONE, SAYS, SAYS, SAYS), mesh=THREE,
)  # fmt: skip


def accumulated(w: Any, tokens: Any) -> Any:
    """Four microbatches in a loop, gradients added up."""

    def step(total: Any, t: Any) -> Any:
        loss, g = jax.value_and_grad(next_token_loss)(w, t)
        return every(jnp.add, total, g), loss

    g, losses = lax.scan(step, every(jnp.zeros_like, w), tokens)
    return losses.mean(), every(lambda a, b: a - 0.01 * b, w, g)


add(
    "decoder step, microbatches", accumulated, DECODER, ((4, BATCH, 32), P(None, *ACTIVE)),
    results=(NONE, SAYS), mesh=THREE,
)  # fmt: skip

# -- adapters: frozen weights, small factors trained


def adapted(a: Any, w: Any, x: Any) -> Any:
    for k in range(2):
        x = jax.nn.gelu(x @ w[k] + (x @ a["a"][k]) @ a["b"][k])
    return mean_square(x)


add(
    "adapters step, weights over fsdp and tensor", trained(adapted),
    {"a": ((2, D, 8), NONE), "b": ((2, 8, D), P(None, None, "tensor"))},
    ((2, D, D), P(None, "fsdp", "tensor")), ((64, D), ACTIVE),
    results=(NONE, {"a": NONE, "b": P(None, None, "tensor")}), mesh=THREE,
)  # fmt: skip

# -- flax's usual: dense layers with biases, dropout, batch statistics, a table of positions


def dense(w: Any, x: Any, seed: Any) -> Any:
    key = jax.random.key(indexed(seed, 100))
    h = jax.nn.relu(x @ w["k1"] + w["b1"])
    h = jnp.where(jax.random.bernoulli(key, 0.9, h.shape), h / 0.9, 0)
    mean, variance = h.mean(0), h.var(0)
    h = (h - mean) * lax.rsqrt(variance + 1e-5) * w["scale"]
    return mean_square(h @ w["k2"] + w["b2"])


for _name, _k1, _k2, _b1 in (
    ("data", NONE, NONE, NONE),
    ("tensor", P(None, "model"), P("model"), P("model")),
    ("zero", P("data"), P("data"), NONE),
):
    _w = {
        "k1": ((D, 4 * D), _k1), "b1": ((4 * D,), _b1), "scale": ((4 * D,), _b1),
        "k2": ((4 * D, D), _k2), "b2": ((D,), NONE),
    }  # fmt: skip
    add(
        f"dense layers with dropout and batch statistics, {_name}", trained(dense), _w,
        ((64, D), P("data")), ((), NONE), results=(NONE, {k: s for k, (_, s) in _w.items()}),
    )  # fmt: skip


def vision(w: Any, x: Any) -> Any:
    """A small vision transformer: patches, positions, one block, a mean."""
    b = x.shape[0]
    x = x.reshape(b, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(b, 64, 48)
    x = keep(x @ w["patch"] + w["at"], P("data", None, "model"))
    q, k, v = [(x @ w[n]).reshape(b, 64, HEADS, DEPTH) for n in "qkv"]
    x = x + scores_of(q, k, v, False).reshape(b, 64, D) @ w["o"]
    return mean_square(x.mean(1) @ w["head"])


_w = {
    "patch": ((48, D), P(None, "model")), "at": ((64, D), P(None, "model")),
    **dict.fromkeys("qkv", ((D, D), P("data", "model"))), "o": ((D, D), P("model", "data")),
    "head": ((D, 16), P("model")),
}  # fmt: skip
add(
    "vision transformer step", trained(vision), _w, ((16, 32, 32, 3), P("data")),
    results=(NONE, {k: s for k, (_, s) in _w.items()}),
)  # fmt: skip
