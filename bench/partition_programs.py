"""Programs whose arguments are sharded, as people write them in JAX: what `bench.partition` counts.

Each is a function, its arguments as shapes with partition specs on a mesh `data=4, model=2` (or all
eight devices as `x`), and how its result stands (None: the compiler says).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

Shaped = tuple[tuple[int, ...], Any]
"""Sizes, and how they are cut."""
DATA, MODEL, ALL, NONE = P("data"), P("model"), P(("data", "model")), P()


@dataclass(frozen=True)
class Case:
    """One program."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    """Trees of shapes with specs."""
    results: Any = None
    mesh: Mapping[str, int] = field(default_factory=lambda: {"data": 4, "model": 2})
    """Axes, and how many devices there are along each."""


CASES: dict[str, Case] = {}


def case(name: str, *arguments: Any, results: Any = None) -> Callable[..., Any]:
    """Keep a function as a program."""

    def kept(f: Callable[..., Any]) -> Callable[..., Any]:
        CASES[name] = Case(f, arguments, results)
        return f

    return kept


def mlp_weights(first: Any, second: Any, width: int = 256) -> dict[str, Shaped]:
    return {"w1": ((width, 4 * width), first), "w2": ((4 * width, width), second)}


def mlp(p: Any, x: Any) -> Any:
    return jax.nn.gelu(x @ p["w1"]) @ p["w2"]


def trained(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A step of gradient descent."""

    def step(p: Any, *rest: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, *rest)
        return value, jax.tree.map(lambda a, g: a - 0.01 * g, p, grads)

    return step


def mlp_loss(p: Any, x: Any, y: Any) -> Any:
    return jnp.mean((mlp(p, x) - y) ** 2)


XY = (((64, 256), DATA), ((64, 256), DATA))
for _name, _first, _second in (
    ("data", NONE, NONE),
    ("tensor", P(None, "model"), P("model", None)),
    ("fsdp", P("data", None), P("data", None)),
    ("fsdp and tensor", P("data", "model"), P("model", "data")),
):
    _p = mlp_weights(_first, _second)
    CASES[f"mlp step, {_name}"] = Case(
        trained(mlp_loss), (_p, *XY), (NONE, {k: s for k, (_, s) in _p.items()})
    )
    CASES[f"mlp, {_name}"] = Case(mlp, (_p, XY[0]), DATA)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8.0
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def normalized(x: Any, gain: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * gain


def block(p: Any, x: Any) -> Any:
    b, s, d = x.shape
    h = normalized(x, p["g1"])
    q, k, v = [(h @ p[n]).reshape(b, s, 8, d // 8) for n in ("q", "k", "v")]
    x = x + attention(q, k, v).reshape(b, s, d) @ p["o"]
    return x + jax.nn.gelu(normalized(x, p["g2"]) @ p["w1"]) @ p["w2"]


def block_weights(col: Any, row: Any, layers: int = 0, d: int = 256) -> dict[str, Shaped]:
    shapes: dict[str, Shaped] = {
        **dict.fromkeys("qkv", ((d, d), col)), "o": ((d, d), row), "w1": ((d, 4 * d), col),
        "w2": ((4 * d, d), row), "g1": ((d,), NONE), "g2": ((d,), NONE),
    }  # fmt: skip
    if not layers:
        return shapes
    return {n: ((layers, *s), P(None, *t)) for n, (s, t) in shapes.items()}


def block_loss(p: Any, x: Any) -> Any:
    return jnp.mean(block(p, x) ** 2)


def layers_loss(p: Any, x: Any) -> Any:
    y, _ = lax.scan(lambda x, w: (block(w, x), None), x, p)
    return jnp.mean(y**2)


TENSOR = (P(None, "model"), P("model", None))
FSDP = (P("data", None), P("data", None))
BOTH = (P("data", "model"), P("model", "data"))
TOKENS = {"batch": P("data", None, None), "sequence": P("data", "model", None)}
for _name, _w, _x in (
    ("tensor", TENSOR, "batch"),
    ("fsdp", FSDP, "batch"),
    ("fsdp and tensor", BOTH, "batch"),
    ("sequence and tensor", TENSOR, "sequence"),
):
    for _layers, _loss in ((0, block_loss), (4, layers_loss)):
        _p = block_weights(*_w, layers=_layers)
        _kind = "layers by scan" if _layers else "block"
        CASES[f"{_kind} step, {_name}"] = Case(
            trained(_loss),
            (_p, ((8, 64, 256), TOKENS[_x])),
            (NONE, {k: s for k, (_, s) in _p.items()}),
        )
for _name, _s in TOKENS.items():
    CASES[f"block, {_name} and tensor"] = Case(
        block, (block_weights(*TENSOR), ((8, 64, 256), _s)), _s
    )

QKV = (8, 64, 8, 32)
for _name, _s in (
    ("heads", P("data", None, "model")),
    ("sequence", P("data", "model")),
    ("sequence over all", P(None, ("data", "model"))),
):
    CASES[f"attention, {_name}"] = Case(attention, ((QKV, _s),) * 3, _s)


@case("experts", ((64, 128), DATA), ((128, 8), NONE), ((8, 128, 256), DATA), ((8, 256, 128), DATA),
      results=DATA)  # fmt: skip
def experts(x: Any, gate: Any, w1: Any, w2: Any) -> Any:
    scores = jax.nn.softmax(x @ gate)
    chosen = jax.nn.one_hot(jnp.argmax(scores, -1), 8)
    place = jnp.cumsum(chosen, 0) * chosen - 1
    there = jax.nn.one_hot(place.astype(jnp.int32), 16) * chosen[..., None]
    sent = jnp.einsum("tec,td->ecd", there, x)
    done = jnp.einsum("ecf,efd->ecd", jax.nn.relu(jnp.einsum("ecd,edf->ecf", sent, w1)), w2)
    return jnp.einsum("tec,ecd->td", there, done)


def conv(x: Any, w: Any, stride: int = 1, dilation: int = 1) -> Any:
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", rhs_dilation=(dilation,) * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip


IMAGE, KERNEL = (8, 32, 32, 16), ((3, 3, 16, 32), NONE)
SPATIAL = P(None, "data", "model")
for _name, _s in (
    ("batch", DATA),
    ("spatial", SPATIAL),
    ("features", P(None, None, None, "model")),
):
    CASES[f"convolution, {_name}"] = Case(conv, ((IMAGE, _s), KERNEL))
    CASES[f"convolution gradients, {_name}"] = Case(
        jax.grad(lambda w, x: jnp.sum(conv(x, w) ** 2)), (KERNEL, (IMAGE, _s)), NONE
    )
    CASES[f"strided convolution, {_name}"] = Case(
        lambda x, w: conv(x, w, 2), ((IMAGE, _s), KERNEL), None if _name == "features" else _s
    )
CASES["dilated convolution, spatial"] = Case(
    lambda x, w: conv(x, w, 1, 2), ((IMAGE, SPATIAL), KERNEL), SPATIAL
)


@case("pooling, spatial", (IMAGE, SPATIAL), results=SPATIAL)
def pooling(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


@case("pooling gradient, spatial", (IMAGE, SPATIAL), results=SPATIAL)
def pooling_gradient(x: Any) -> Any:
    return jax.grad(lambda x: jnp.sum(pooling(x) ** 2))(x)


for _name, _s in (
    ("vocabulary", P("model", None)),
    ("features", P(None, "model")),
    ("whole", NONE),
):
    CASES[f"embedding, {_name}"] = Case(
        lambda t, i: t[i.astype(jnp.int32)],
        (((1024, 64), _s), ((64, 16), DATA)),
        P("data", None, None),
    )
    CASES[f"embedding gradient, {_name}"] = Case(
        jax.grad(lambda t, i: jnp.sum(t[i.astype(jnp.int32)] ** 2)),
        (((1024, 64), _s), ((64, 16), DATA)),
        _s,
    )

CUT = ((64, 1024), P(None, ("data", "model")))
BATCH = ((64, 1024), P("data", None))
for _name, _a in (("along", CUT), ("batch", BATCH)):
    for _what, _f in {
        "sort": lambda x: jnp.sort(x, -1),
        "argsort": lambda x: jnp.argsort(x, -1),
        "top-k": lambda x: lax.top_k(x, 8),
        "cumsum": lambda x: jnp.cumsum(x, -1),
        "fft": lambda x: jnp.abs(jnp.fft.fft(x)),
        "softmax": lambda x: jax.nn.softmax(x, -1),
        "logsumexp": lambda x: jax.nn.logsumexp(x, -1),
        "argmax": lambda x: jnp.argmax(x, -1),
        "roll": lambda x: jnp.roll(x, 3, -1),
        "diff": lambda x: jnp.diff(x, axis=-1),
        "roll and diff": lambda x: jnp.diff(jnp.roll(x, 5, -1), axis=-1),
        "pad": lambda x: jnp.pad(x, ((0, 0), (3, 3))),
        "concatenate": lambda x: jnp.concatenate([x, 2 * x], -1),
        "reverse": lambda x: x[:, ::-1],
        "split": lambda x: x.reshape(64, 32, 32).sum(-1),
        "merge": lambda x: jnp.tanh(x.reshape(-1)),
        "transpose": lambda x: jnp.tanh(x.T),
        "halves": lambda x: x[:, :512] * x[:, 512:],
        "every second": lambda x: x[:, ::2],
        "random": lambda x: x + jax.random.normal(jax.random.key(0), x.shape),
        "scatter": lambda x: x.at[:, jnp.arange(0, 1024, 7)].add(1.0),
        "gather": lambda x: x[:, jnp.asarray(np.arange(0, 1024, 7))],
        "gram": lambda x: x @ x.T,
        "outer": lambda x: x.T @ x,
    }.items():  # fmt: skip
        CASES[f"{_what}, {_name}"] = Case(_f, (_a,))


MODEL_COLUMNS = P(None, "model")


@case("cross entropy, vocabulary", ((64, 256), DATA), ((256, 4096), MODEL_COLUMNS), ((64,), DATA))
def cross_entropy(x: Any, w: Any, label: Any) -> Any:
    logits = x @ w
    chosen = jnp.take_along_axis(logits, label.astype(jnp.int32)[:, None], -1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)


CASES["cross entropy gradient, vocabulary"] = Case(
    jax.grad(cross_entropy, argnums=1),
    (((64, 256), DATA), ((256, 4096), MODEL_COLUMNS), ((64,), DATA)),
    MODEL_COLUMNS,
)


@case("cholesky and solve, batch", ((8, 32, 32), ALL), ((8, 32, 4), ALL))
def factored(a: Any, b: Any) -> Any:
    spd = a @ a.swapaxes(-1, -2) + 32 * jnp.eye(32)
    lower = jnp.linalg.cholesky(spd)
    return lax.linalg.triangular_solve(lower, b, left_side=True, lower=True)


@case("slices in a loop", ((64, 256), P(None, "model")), results=P(None, "model"))
def slices_in_a_loop(x: Any) -> Any:
    def body(k: Any, x: Any) -> Any:
        row = lax.dynamic_slice_in_dim(x, k, 1, 0)
        return lax.dynamic_update_slice_in_dim(x, jnp.tanh(row), k, 0)

    return lax.fori_loop(0, 64, body, x)


@case("cache update, sequence", ((8, 256, 64), P("data", "model")), ((8, 1, 64), DATA), ((), NONE),
      results=P("data", "model"))  # fmt: skip
def cache_update(cache: Any, new: Any, at: Any) -> Any:
    return lax.dynamic_update_slice_in_dim(cache, new, at.astype(jnp.int32), 1)


@case("recurrent scan", ((32, 16, 128), P(None, "data")), ((128, 128), P(None, "model")))
def recurrent(xs: Any, w: Any) -> Any:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = jnp.tanh(h @ w + x)
        return h, h

    return lax.scan(step, jnp.zeros((16, 128)), xs)[1]


@case("layer norm, features", ((64, 1024), P("data", "model")), ((1024,), MODEL),
      results=P("data", "model"))  # fmt: skip
def layer_norm(x: Any, gain: Any) -> Any:
    return normalized(x, gain)


@case("layer norm gradient, features", ((64, 1024), P("data", "model")), ((1024,), MODEL))
def layer_norm_gradient(x: Any, gain: Any) -> Any:
    return jax.grad(lambda x, g: jnp.sum(normalized(x, g) ** 2), (0, 1))(x, gain)
