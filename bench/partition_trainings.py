"""Programs for `bench.partition`: steps of 25 kinds of models as their users write them.

Each has four usual shardings: data parallel, FSDP, tensor parallel, FSDP and tensor parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from bench.partition_families import add, indexed
from bench.partition_programs import NONE, trained

D, HEADS, BATCH, LENGTH = 64, 4, 16, 24
every = jax.tree.map
ALL = ("data", "model")
LAYOUTS = {
    "data": {"columns": NONE, "rows": NONE, "batch": P(ALL)},
    "fsdp": {"columns": P(ALL), "rows": P(ALL), "batch": P(ALL)},
    "tensor": {"columns": P(None, "model"), "rows": P("model"), "batch": P("data")},
    "fsdp and tensor": {
        "columns": P("data", "model"), "rows": P("model", "data"), "batch": P("data"),
    },
}  # fmt: skip
COLUMNS, ROWS, WHOLE = "columns", "rows", ""
Weights = dict[str, tuple[tuple[int, ...], str]]
UP = {"up": ((D, 4 * D), COLUMNS), "down": ((4 * D, D), ROWS)}
ATTENTION: Weights = {**dict.fromkeys("qkv", ((D, D), COLUMNS)), "o": ((D, D), ROWS)}


def model(
    name: str, weights: Weights, *batch: tuple[int, ...], step: Any = None
) -> Callable[[Any], Any]:
    """Keep the step of a loss under each layout; `batch`: shapes whose first dimension is cut."""

    def kept(loss: Any) -> Any:
        for layout, specs in LAYOUTS.items():
            w = {k: (n, specs.get(kind, NONE)) for k, (n, kind) in weights.items()}
            out = NONE, {k: s for k, (_, s) in w.items()}
            add(
                f"trained {name}, {layout}",
                (step or trained)(loss), w, *[(n, specs["batch"]) for n in batch], results=out,
            )  # fmt: skip
        return loss

    return kept


def mlp(w: Any, x: Any) -> Any:
    return jax.nn.gelu(x @ w["up"]) @ w["down"]


def norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def attended(w: Any, x: Any, y: Any, bias: Any = 0.0, heads: int = HEADS) -> Any:
    """Attention of x over y; with fewer heads of keys where their weights say so."""
    b, n, _ = x.shape
    q = (x @ w["q"]).reshape(b, n, heads, -1)
    k, v = [(y @ w[c]).reshape(b, y.shape[1], -1, q.shape[-1]) for c in "kv"]
    k, v = [jnp.repeat(z, heads // z.shape[2], 2) for z in (k, v)]
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5 + bias
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v).reshape(b, n, -1) @ w["o"]


def cross_entropy(logits: Any, at: Any) -> Any:
    p = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(p, at[..., None], -1).mean()


def square(x: Any) -> Any:
    return jnp.mean(x * x)


@model("contrastive towers", {"a": ((D, D), COLUMNS), "b": ((D, D), COLUMNS)}, (32, D), (32, D))
def towers(w: Any, x: Any, y: Any) -> Any:
    x, y = x @ w["a"], y @ w["b"]
    x, y = [z * lax.rsqrt((z * z).sum(-1, keepdims=True) + 1e-6) for z in (x, y)]
    s, at = 10 * x @ y.T, jnp.arange(32)
    return cross_entropy(s, at) + cross_entropy(s.T, at)


@model(
    "encoder and decoder", {**ATTENTION, **UP}, (BATCH, LENGTH, D), (BATCH, 12, D),
)  # fmt: skip
def encoder_decoder(w: Any, x: Any, y: Any) -> Any:
    x = x + attended(w, norm(x), norm(x))
    x = x + mlp(w, norm(x))
    causal = jnp.where(jnp.tri(12, dtype=bool), 0.0, -1e9)
    y = y + attended(w, norm(y), norm(y), causal)
    return square(y + attended(w, norm(y), x))


@model("mixer", {**UP, "a": ((LENGTH, 48), WHOLE), "b": ((48, LENGTH), WHOLE)}, (BATCH, LENGTH, D))
def mixer(w: Any, x: Any) -> Any:
    x = x + (jax.nn.gelu(norm(x).swapaxes(1, 2) @ w["a"]) @ w["b"]).swapaxes(1, 2)
    return square(x + mlp(w, norm(x)))


@model(
    "state space layer",
    {"in": ((D, 2 * D), COLUMNS), "rate": ((2 * D,), WHOLE), "out": ((2 * D, D), ROWS)},
    (BATCH, 32, D),
)
def state_space(w: Any, x: Any) -> Any:
    h = x @ w["in"]
    a = jnp.broadcast_to(jax.nn.sigmoid(w["rate"]), h.shape)

    def joined(l: Any, r: Any) -> Any:  # noqa: E741
        return l[0] * r[0], r[0] * l[1] + r[1]

    _, h = lax.associative_scan(joined, (a, h), axis=1)
    return square(x + jax.nn.silu(h) @ w["out"])


@model("linear attention", ATTENTION, (BATCH, LENGTH, D))
def linear_attention(w: Any, x: Any) -> Any:
    q, k, v = [(x @ w[c]).reshape(BATCH, LENGTH, HEADS, -1) for c in "qkv"]

    def step(s: Any, t: Any) -> Any:
        q, k, v = t
        s = 0.9 * s + k[..., :, None] * v[..., None, :]
        return s, jnp.einsum("bhd,bhde->bhe", q, s)

    first = jnp.zeros((BATCH, HEADS, D // HEADS, D // HEADS))
    _, y = lax.scan(step, first, tuple([z.swapaxes(0, 1) for z in (jax.nn.elu(q), k, v)]))
    return square(x + y.swapaxes(0, 1).reshape(x.shape) @ w["o"])


@model(
    "experts of two choices",
    {"gate": ((D, 8), WHOLE), "up": ((8, D, D), COLUMNS), "down": ((8, D, D), ROWS)}, (128, D),
)  # fmt: skip
def experts(w: Any, x: Any) -> Any:
    p = jax.nn.softmax(x @ w["gate"])
    top, at = lax.top_k(p, 2)
    chosen = jax.nn.one_hot(at, 8)
    place = jnp.cumsum(chosen.reshape(-1, 8), 0).reshape(chosen.shape) * chosen - 1
    sent = jax.nn.one_hot(place.max(-1).astype(jnp.int32), 40) * (place.max(-1) < 40)[..., None]
    send = jnp.einsum("tke,tkc->tec", chosen, sent)
    there = jnp.einsum("tec,td->ecd", send, x)
    y = jnp.einsum(
        "ecf,efd->ecd", jax.nn.relu(jnp.einsum("ecd,edf->ecf", there, w["up"])), w["down"]
    )
    back = jnp.einsum("tke,tkc,tk->tec", chosen, sent, top)
    return square(x + jnp.einsum("tec,ecd->td", back, y)) + 8 * (p.mean(0) ** 2).sum()


@model("distillation", {**UP, "student": ((D, D), COLUMNS)}, (64, D))
def distilled(w: Any, x: Any) -> Any:
    teacher = lax.stop_gradient(jax.nn.softmax(mlp(w, x) / 2))
    return -(teacher * jax.nn.log_softmax(x @ w["student"] / 2)).sum(-1).mean()


def conv(x: Any, w: Any, stride: int = 1) -> Any:
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@model(
    "denoiser",
    {"a": ((3, 3, 4, 16), WHOLE), "b": ((3, 3, 16, 32), WHOLE), "c": ((3, 3, 48, 4), WHOLE),
     "time": ((D, 32), COLUMNS)}, (BATCH, 16, 16, 4), (BATCH, D),
)  # fmt: skip
def denoiser(w: Any, x: Any, t: Any) -> Any:
    a = jax.nn.silu(conv(x, w["a"]))
    b = jax.nn.silu(conv(a, w["b"], 2) + (t @ w["time"])[:, None, None])
    b = jax.image.resize(b, (BATCH, 16, 16, 32), "nearest")
    return square(conv(jnp.concatenate([a, b], -1), w["c"]) - x)


@model(
    "residual block", {"a": ((3, 3, 16, 16), WHOLE), "head": ((16, D), COLUMNS)}, (BATCH, 8, 8, 16)
)
def residual(w: Any, x: Any) -> Any:
    h = conv(x, w["a"])
    h = (h - h.mean((0, 1, 2))) * lax.rsqrt(h.var((0, 1, 2)) + 1e-5)
    return square(jax.nn.relu(x + h).mean((1, 2)) @ w["head"])


@model("graph layer", {"a": ((D, D), COLUMNS), "b": ((D, D), ROWS)}, (64, D), (256,), (256,))
def graph(w: Any, x: Any, source: Any, target: Any) -> Any:
    source, target = indexed(source, 64), indexed(target, 64)
    sums = jax.ops.segment_sum((x @ w["a"])[source], target, 64)
    count = jax.ops.segment_sum(jnp.ones(256), target, 64)
    return square(x + jax.nn.relu(sums / jnp.maximum(count, 1)[:, None]) @ w["b"])


@model("policy with advantages", {**UP, "value": ((D, 1), WHOLE)}, (BATCH, 20, D), (BATCH, 20))
def policy(w: Any, x: Any, reward: Any) -> Any:
    h = mlp(w, x)
    value = (h @ w["value"])[..., 0]
    delta = reward[:, :-1] + 0.9 * value[:, 1:] - value[:, :-1]
    step = lambda a, d: ((a := 0.8 * a + d), a)  # noqa: E731
    _, gains = lax.scan(step, jnp.zeros(BATCH), delta.T, reverse=True)
    gains = lax.stop_gradient((gains - gains.mean()) / (gains.std() + 1e-6)).T
    return -(jax.nn.log_softmax(h)[:, :-1, 0] * gains).mean() + square(delta)


@model("gated recurrence", {"x": ((D, 3 * D), COLUMNS), "h": ((D, 3 * D), COLUMNS)}, (BATCH, 12, D))
def recurrence(w: Any, x: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        r, z, n = jnp.split(x @ w["x"], 3, -1)
        a, b, c = jnp.split(h @ w["h"], 3, -1)
        z = jax.nn.sigmoid(z + b)
        h = (1 - z) * jnp.tanh(n + jax.nn.sigmoid(r + a) * c) + z * h
        return h, h.mean(-1)

    return lax.scan(step, jnp.zeros((BATCH, D)), x.swapaxes(0, 1))[1].var()


@model("smoothed words", {"table": ((192, D), ROWS), **UP}, (BATCH, LENGTH))
def words(w: Any, tokens: Any) -> Any:
    at = indexed(tokens, 192)
    x = w["table"][at]
    x = x + mlp(w, norm(x))
    logits = x[:, :-1] @ w["table"].T
    total = jax.nn.logsumexp(logits, -1)
    exact = jnp.take_along_axis(logits, at[:, 1:, None], -1)[..., 0]
    return (total - 0.9 * exact - 0.1 * logits.mean(-1) + 1e-4 * total**2).mean()


@model("packed sequences", {**ATTENTION, **UP}, (BATCH, LENGTH, D), (BATCH, LENGTH))
def packed(w: Any, x: Any, parts: Any) -> Any:
    part = jnp.cumsum(indexed(parts, 5) == 0, -1)
    same = (part[:, :, None] == part[:, None]) & jnp.tri(LENGTH, dtype=bool)
    x = x + attended(w, norm(x), norm(x), jnp.where(same, 0.0, -1e9)[:, None])
    first = jnp.diff(part, axis=1, prepend=0) > 0
    return jnp.sum(jnp.where(first[..., None], 0, (x + mlp(w, x)) ** 2)) / (~first).sum()


def orthogonal_step(loss: Any) -> Any:
    """Gradients made orthogonal by five steps of a polynomial (Muon)."""

    def of(g: Any) -> Any:
        x = g / (jnp.sqrt((g * g).sum()) + 1e-6)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return x

    def step(w: Any, *batch: Any) -> Any:
        value, g = jax.value_and_grad(loss)(w, *batch)
        return value, every(lambda w, g: w - 0.01 * of(g), w, g)

    return step


model("orthogonal updates", UP, (64, D), step=orthogonal_step)(lambda w, x: square(mlp(w, x) - x))


@model("autoencoder that draws", {"in": ((D, 32), COLUMNS), "out": ((16, D), COLUMNS)}, (64, D))
def autoencoder(w: Any, x: Any) -> Any:
    mean, scale = jnp.split(x @ w["in"], 2, -1)
    z = mean + jnp.exp(scale / 2) * jax.random.normal(jax.random.key(0), mean.shape)
    apart = 0.5 * (jnp.exp(scale) + mean**2 - 1 - scale).sum(-1)
    return square(z @ w["out"] - x) + apart.mean()


@model("recommendation", {"table": ((8, 64, 16), COLUMNS), "top": ((36, D), WHOLE)}, (64, 8))
def recommended(w: Any, clicks: Any) -> Any:
    at = indexed(clicks, 64)
    x = jax.vmap(lambda t, i: t[i], (0, 1), 1)(w["table"], at)
    pairs = jnp.einsum("bfd,bgd->bfg", x, x)
    rows, columns = jnp.triu_indices(8)
    return square(jax.nn.relu(pairs[:, rows, columns] @ w["top"]))


def sharpness_step(loss: Any) -> Any:
    """The gradient where the loss is largest nearby (SAM)."""

    def step(w: Any, *batch: Any) -> Any:
        value, g = jax.value_and_grad(loss)(w, *batch)
        size = jnp.sqrt(sum([(x * x).sum() for x in jax.tree.leaves(g)]))
        g = jax.grad(loss)(every(lambda w, g: w + 0.05 * g / (size + 1e-6), w, g), *batch)
        return value, every(lambda w, g: w - 0.01 * g, w, g)

    return step


model("sharpness", UP, (64, D), step=sharpness_step)(lambda w, x: square(mlp(w, norm(x))))


@model("inner steps", UP, (8, 16, D))
def inner_steps(w: Any, x: Any) -> Any:
    def of(x: Any) -> Any:
        own = every(lambda w, g: w - 0.1 * g, w, jax.grad(lambda w: square(mlp(w, x[:8])))(w))
        return square(mlp(own, x[8:]))

    return jax.vmap(of)(x).mean()


ONE_KEY: Weights = {**ATTENTION, "k": ((D, 16), WHOLE), "v": ((D, 16), WHOLE)}


@model("one head of keys and biases by distance", ONE_KEY, (BATCH, LENGTH, D))
def distances(w: Any, x: Any) -> Any:
    n = jnp.arange(LENGTH)
    slope = 2.0 ** -jnp.arange(1, HEADS + 1)
    bias = jnp.where(n[:, None] >= n, slope[:, None, None] * (n - n[:, None]), -1e9)
    return square(x + attended(w, norm(x), norm(x), bias))


@model("contrast with a queue", {"a": ((D, D), COLUMNS), "queue": ((128, D), ROWS)}, (32, D))
def queued(w: Any, x: Any) -> Any:
    y = x @ w["a"]
    queue = lax.dynamic_update_slice(w["queue"], lax.stop_gradient(y), (32, 0))
    return cross_entropy(y @ queue.T, 32 + jnp.arange(32))


@model("rays", {"in": ((36, D), WHOLE), "out": ((D, 4), ROWS)}, (64, 16, 3))
def rays(w: Any, x: Any) -> Any:
    waves = (x[..., None] * 2.0 ** jnp.arange(6)).reshape(64, 16, 18)
    y = jax.nn.relu(jnp.concatenate([jnp.sin(waves), jnp.cos(waves)], -1) @ w["in"]) @ w["out"]
    alpha = 1 - jnp.exp(-jax.nn.softplus(y[..., 0]))
    through = jnp.cumprod(jnp.concatenate([jnp.ones((64, 1)), 1 - alpha[:, :-1]], 1), 1)
    return square(((alpha * through)[..., None] * y[..., 1:]).sum(1))


@model("attention in windows", {**ATTENTION, **UP}, (BATCH, 32, D))
def windowed(w: Any, x: Any) -> Any:
    own = norm(x).reshape(BATCH, 4, 8, D)
    before = jnp.pad(own, ((0, 0), (1, 0), (0, 0), (0, 0)))[:, :-1]
    both = jnp.concatenate([before, own], 2).reshape(-1, 16, D)
    y = attended(w, own.reshape(-1, 8, D), both).reshape(x.shape)
    return square(x + y + mlp(w, y))


@model(
    "dilated convolutions of a wave",
    {"a": ((3, D, 2 * D), WHOLE), "b": ((D, D), ROWS)},
    (BATCH, 32, D),
)
def wave(w: Any, x: Any) -> Any:
    for k in (1, 2, 4):
        h = lax.conv_general_dilated(
            x,
            w["a"],
            (1,),
            [(2 * k, 0)],
            rhs_dilation=(k,),
            dimension_numbers=("NWC", "WIO", "NWC"),
        )
        a, b = jnp.split(h, 2, -1)
        x = x + (jnp.tanh(a) * jax.nn.sigmoid(b)) @ w["b"]
    return square(x)


def decayed_step(loss: Any) -> Any:
    """Clipped gradients, weights that decay, one bound for all."""

    def step(w: Any, *batch: Any) -> Any:
        value, g = jax.value_and_grad(loss)(w, *batch)
        size = jnp.sqrt(sum([(x * x).sum() for x in jax.tree.leaves(g)]))
        g = every(lambda g: jnp.sign(g * jnp.minimum(1, 1 / size)), g)
        return value, every(lambda w, g: 0.999 * w - 0.001 * g, w, g)

    return step


model("signs of gradients", {**ATTENTION, **UP}, (BATCH, LENGTH, D), step=decayed_step)(
    lambda w, x: square(x + mlp(w, attended(w, norm(x), norm(x))))
)
