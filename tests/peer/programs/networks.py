"""Small networks, forward and in training, in several types."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from tests.peer.programs.registry import add, normal, whole


def attention(q, k, v, mask=None):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]).astype(q.dtype)
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores, -1), v)


def layer_norm(x, g, b):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * g + b


def rotary(x):
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * 10000 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1).astype(x.dtype)


def block(w, x):
    batch, length, size = x.shape
    h = layer_norm(x, w["g1"], w["b1"])
    q, k, v = (t.reshape(batch, length, 4, size // 4) for t in jnp.split(h @ w["qkv"], 3, -1))
    mask = jnp.tril(jnp.ones((length, length), bool))
    x = x + attention(rotary(q), rotary(k), v, mask).reshape(x.shape) @ w["o"]
    h = layer_norm(x, w["g2"], w["b2"])
    return x + nn.gelu(h @ w["up"]) @ w["down"]


def block_weights(size=16, of="float32"):
    shapes = {"qkv": (size, 3 * size), "o": (size, size), "up": (size, 32), "down": (32, size)}
    w = {n: normal(*d, of=of, scale=0.2, seed=k) for k, (n, d) in enumerate(shapes.items())}
    return {**w, **{n: np.ones(size, w["o"].dtype) for n in ("g1", "b1", "g2", "b2")}}


def loss_of(w, tokens):
    x = w["table"][tokens]
    for layer in w["layers"]:
        x = block(layer, x)
    scores = nn.log_softmax(x @ w["table"].T)
    return -jnp.take_along_axis(scores[:, :-1], tokens[:, 1:, None], -1).mean()


def transformers() -> None:
    for of in ("float32", "bfloat16", "float16", "float64"):
        w, x = block_weights(of=of), normal(2, 8, 16, of=of)
        add(f"networks/block-{of}", block, w, x, slack=6)
        add(
            f"networks/block-grad-{of}",
            jax.grad(lambda w, x: block(w, x).sum().astype("float32")),
            w,
            x,
            slack=60,
        )
    model = {"table": normal(11, 16, scale=0.3), "layers": [block_weights(), block_weights()]}
    tokens = whole(2, 7, low=0, high=10)
    add("networks/language-model", loss_of, model, tokens, slack=6)
    add(
        "networks/language-model-step",
        lambda w, t: jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss_of)(w, t)),
        model,
        tokens,
        slack=20,
    )
    stacked = jax.tree.map(lambda a, b: np.stack([a, b]), block_weights(), block_weights())
    add(
        "networks/stacked-scan",
        lambda w, x: lax.scan(lambda h, p: (block(p, h), None), x, w)[0],
        stacked,
        normal(2, 8, 16),
        slack=6,
    )
    add(
        "networks/stacked-scan-grad",
        jax.grad(
            lambda w, x: lax.scan(jax.checkpoint(lambda h, p: (block(p, h), None)), x, w)[0].sum()
        ),
        stacked,
        normal(2, 8, 16),
        slack=60,
    )
    q, k = normal(2, 5, 4, 8), normal(2, 6, 2, 8)
    add(
        "networks/dot-product-attention",
        lambda q, k: nn.dot_product_attention(q, k, k),
        q,
        k,
        slack=4,
    )
    add(
        "networks/causal-window",
        lambda q: nn.dot_product_attention(q, q, q, is_causal=True, local_window_size=2),
        q,
        slack=4,
    )
    add(
        "networks/decode-step",
        lambda cache, x, at: lax.dynamic_update_slice(cache, x, (at * 0, at, at * 0)),
        normal(2, 8, 4),
        normal(2, 1, 4),
        np.int32(3),
    )
    add(
        "networks/mixture",
        lambda x, g, w: jnp.einsum(
            "te,teo->to",
            nn.softmax(jnp.where(g @ x.T > 0, 0.0, -9.0).T),
            jnp.einsum("ti,eio->teo", x, w),
        ),
        normal(5, 4),
        normal(3, 4),
        normal(3, 4, 6),
    )


def recurrent() -> None:
    def cell(w, carry, x):
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([x, h]) @ w, 4)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def run(w, xs):
        return lax.scan(lambda s, x: cell(w, s, x), (jnp.zeros(4), jnp.zeros(4)), xs)[1]

    w, xs = normal(7, 16, scale=0.4), normal(9, 3)
    add("networks/lstm", run, w, xs)
    add("networks/lstm-grad", jax.grad(lambda w, x: (run(w, x) ** 2).sum()), w, xs, slack=10)
    add("networks/lstm-batched", jax.vmap(run, (None, 0)), w, normal(3, 9, 3))
    add(
        "networks/state-space",
        lambda a, b, x: lax.associative_scan(
            lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (nn.sigmoid(a), b * x)
        )[1],
        normal(9, 4),
        normal(9, 4),
        normal(9, 4, seed=2),
    )


def convolutional() -> None:
    def pooled(x, kind):
        dims, steps = (1, 2, 2, 1), (1, 2, 2, 1)
        if kind == "max":
            return lax.reduce_window(x, -jnp.inf, lax.max, dims, steps, "SAME")
        return lax.reduce_window(x, 0.0, lax.add, dims, steps, "SAME") / 4

    def network(w, x, kind):
        for y in w["conv"]:
            x = lax.conv_general_dilated(
                x, y, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = pooled(nn.relu((x - x.mean((0, 1, 2))) / (x.std((0, 1, 2)) + 1e-3)), kind)
        return nn.softmax(x.reshape(len(x), -1) @ w["out"])

    w = {"conv": [normal(3, 3, 2, 4), normal(3, 3, 4, 4)], "out": normal(16, 5)}
    x = normal(3, 8, 6, 2)
    for kind in ("max", "mean"):
        add(f"networks/convolutional-{kind}", lambda w, x, k=kind: network(w, x, k), w, x, slack=8)
        add(
            f"networks/convolutional-grad-{kind}",
            jax.grad(lambda w, x, k=kind: jnp.sum(network(w, x, k)[:, 0])),
            w,
            x,
            slack=200,
        )


def optimisers() -> None:
    def clipped(g):
        size = jnp.sqrt(sum(jnp.sum(v**2) for v in jax.tree.leaves(g)))
        return jax.tree.map(lambda v: v * jnp.minimum(1, 1 / size), g)

    def adam(w, m, v, n, x, y):
        g = clipped(jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2))(w))
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b * b, v, g)
        step = jax.tree.map(
            lambda a, b: (a / (1 - 0.9**n)) / (jnp.sqrt(b / (1 - 0.99**n)) + 1e-6), m, v
        )
        return jax.tree.map(lambda p, s: p - 1e-2 * s, w, step), m, v, n + 1

    w = {"a": normal(3, 8), "b": normal(8, 2)}
    zero = jax.tree.map(np.zeros_like, w)
    one = jax.tree.map(np.ones_like, w)
    x, y = normal(6, 3), normal(6, 2)
    add("networks/adam", adam, w, zero, one, np.float32(1), x, y, slack=8)
    add(
        "networks/adam-steps",
        lambda w, x, y: lax.fori_loop(
            0, 5, lambda i, s: adam(*s, x, y), (w, zero, one, jnp.float32(1))
        )[0],
        w,
        x,
        y,
        slack=40,
    )
    add(
        "networks/sgd-momentum",
        lambda w, m, x: jax.tree.map(lambda p, q: p - 0.1 * (0.9 * q + p * x[0, 0]), w, m),
        w,
        one,
        x,
    )
    add(
        "networks/quantised",
        lambda x, w: (
            jnp.clip(jnp.round(x * 20), -127, 127).astype("int8"),
            lax.dot(
                jnp.clip(jnp.round(x * 20), -127, 127).astype("int8"),
                w,
                preferred_element_type=np.int32,
            )
            * 0.05,
        ),
        x,
        whole(3, 4, of="int8"),
    )
    add(
        "networks/losses",
        lambda x, k: (
            nn.log_softmax(x)[jnp.arange(6), k].mean(),
            nn.one_hot(k, 3) @ x.T,
            jnp.maximum(0, 1 - x).sum(),
            nn.standardize(x),
        ),
        x,
        whole(6, low=0, high=2),
        slack=4,
    )


transformers()
recurrent()
convolutional()
optimisers()
