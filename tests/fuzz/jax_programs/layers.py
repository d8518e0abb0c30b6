"""What networks are made of."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.fuzz.jax_programs.products import ACTIVATIONS, dense
from tests.fuzz.jax_programs.sketch import Sketch, step


@step("f", 3, keeps_shape=True)
def layer_norm(d: Sketch, x: Any) -> Any:
    d.need(x.ndim and x.shape[-1] > 1)
    axis = -1 if d.chance(0.8) else d.axis(x)
    d.need(x.shape[axis] > 1)
    shape = [x.shape[axis] if k == axis % x.ndim else 1 for k in range(x.ndim)]
    g, b = d.arg(shape, x.dtype), d.arg(shape, x.dtype)
    kind = d.pick(("layer", "layer", "rms", "l2"))

    def f(env: Any, x: Any) -> Any:
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        if kind == "rms":
            y = wide * lax.rsqrt(jnp.mean(wide * wide, axis, keepdims=True) + 1e-6)
        elif kind == "l2":
            y = wide / (jnp.sqrt(jnp.sum(wide * wide, axis, keepdims=True)) + 1e-3)
        else:
            mean = jnp.mean(wide, axis, keepdims=True)
            y = (wide - mean) * lax.rsqrt(jnp.var(wide, axis, keepdims=True) + 1e-5)
        return y.astype(x.dtype) * env[g] + env[b]

    return f


@step("f", 2, keeps_shape=True)
def batch_norm(d: Sketch, x: Any) -> Any:
    d.need(x.ndim >= 2 and x.size // x.shape[-1] > 1)
    axes = tuple(range(x.ndim - 1))
    if d.chance(0.3):
        axes = tuple(k for k in range(x.ndim) if k != 1)
    d.need(all(x.shape[k] for k in axes))
    shape = [1 if k in axes else n for k, n in enumerate(x.shape)]
    g, b, old = d.arg(shape, x.dtype), d.arg(shape, x.dtype), d.arg(shape, x.dtype)

    def f(env: Any, x: Any) -> Any:
        mean, var = jnp.mean(x, axes, keepdims=True), jnp.var(x, axes, keepdims=True)
        y = (x - mean) * lax.rsqrt(var + 1e-3) * env[g] + env[b]
        return y, 0.9 * env[old] + 0.1 * mean

    return f


@step("f", 2)
def group_norm(d: Sketch, x: Any) -> Any:
    d.need(x.ndim >= 2)
    groups = d.pick([n for n in (1, 2, 4, 8, 3) if x.shape[-1] % n == 0])
    d.need(x.size > 8 * groups)

    def f(env: Any, x: Any) -> Any:
        y = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
        y = y - jnp.mean(y, (1, 3), keepdims=True)
        y = y * lax.rsqrt(jnp.mean(y * y, (1, 3), keepdims=True) + 1e-3)
        return y.reshape(x.shape)

    return f


@step("f", 6, fresh=True)
def attention(d: Sketch, x: Any) -> Any:
    b, h = d.pick((1, 1, 2, 4)), d.pick((1, 2, 3, 8, 12))
    t, s = d.size(300), d.size(300)
    size = d.pick((8, 16, 32, 33, 64, 80, 128))
    d.need(b * h * t * s <= 1 << 20)
    causal = d.chance(0.4)
    s = t if causal else s
    kv = h if d.chance(0.7) else 1
    q, k, v = d.arg((b, t, h, size)), d.arg((b, s, kv, size)), d.arg((b, s, kv, size))
    mask = d.arg((b, 1, 1, s), "bool") if d.chance(0.4) else None
    if d.chance(0.4) and mask is None and not d.x64:  # f32 inside
        return lambda env, _: jax.nn.dot_product_attention(env[q], env[k], env[v], is_causal=causal)

    def f(env: Any, _: Any) -> Any:
        keys = jnp.repeat(env[k], h // kv, axis=2)
        scores = jnp.einsum("bthd,bshd->bhts", env[q], keys) * size**-0.5
        if causal:
            scores = jnp.where(jnp.tril(jnp.ones((t, s), bool)), scores, -jnp.inf)
        if mask is not None:
            scores = jnp.where(env[mask], scores, jnp.asarray(-1e4, scores.dtype))
        wide = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
        weights = jax.nn.softmax(wide, -1).astype(scores.dtype)
        return jnp.einsum("bhts,bshd->bthd", weights, jnp.repeat(env[v], h // kv, axis=2))

    return f


@step("f", 4, fresh=True)
def transformer_layer(d: Sketch, x: Any) -> Any:
    b, t, h = d.pick((1, 1, 2)), d.size(160), d.pick((1, 2, 4))
    width = h * d.pick((8, 16, 32, 48))
    inner = d.pick((2, 4)) * width + d.pick((0, 0, 1))
    a = d.arg((b, t, width))
    qkv, out = dense(d, width, 3 * width), dense(d, width, width)
    up, down = dense(d, width, inner), dense(d, inner, width)
    act, first = d.pick(ACTIVATIONS), d.chance(0.5)
    norm = lambda x: jax.nn.standardize(x, -1)  # noqa: E731

    def f(env: Any, _: Any) -> Any:
        x = env[a]
        y = norm(x) if first else x
        q, k, v = jnp.split(qkv(env, y).reshape(b, t, h, -1), 3, -1)
        scores = jnp.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
        y = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, -1), v).reshape(b, t, width)
        x = x + out(env, y)
        x = x if first else norm(x)
        return x + down(env, act(up(env, norm(x))))

    return f


@step("f", 5, fresh=True)
def conv_network(d: Sketch, x: Any) -> Any:
    """Convolution, batch norm, activation and pool, once or twice, then a classifier."""
    b, n, ins = d.pick((1, 2, 5, 8)), d.between(6, 48), d.pick((1, 3, 4))
    a = d.arg((b, n, n, ins))
    layers = []
    for _ in range(d.between(1, 2)):
        outs = d.pick((4, 8, 17, 32))
        w, g = d.arg((3, 3, ins, outs)), d.arg((outs,))
        layers.append((w, g, (9 * ins) ** -0.5, d.pick((1, 1, 2))))
        ins = outs
    pool, act = d.pick(("max", "mean")), d.pick(ACTIVATIONS)
    classes = dense(d, ins, d.pick((2, 10, 37)))

    def f(env: Any, _: Any) -> Any:
        x = env[a]
        for w, g, scale, stride in layers:
            numbers = ("NHWC", "HWIO", "NHWC")
            x = lax.conv_general_dilated(
                x, env[w] * scale, (stride, stride), "SAME", dimension_numbers=numbers
            )
            mean = jnp.mean(x, (0, 1, 2))
            x = act((x - mean) * lax.rsqrt(jnp.var(x, (0, 1, 2)) + 1e-2) * env[g])
            first, fold = (-jnp.inf, lax.max) if pool == "max" else (0.0, lax.add)
            first = jnp.array(first, x.dtype)
            x = lax.reduce_window(x, first, fold, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
        return jax.nn.log_softmax(classes(env, jnp.mean(x, (1, 2))))

    return f


@step("f", 4, fresh=True)
def classifier(d: Sketch, x: Any) -> Any:
    """A multilayer perceptron and its cross entropy."""
    b, ins, inner, outs = d.size(300), d.size(800), d.size(300), d.size(500)
    a, labels = d.arg((b, ins)), d.index((b,), outs)
    one, two, act = dense(d, ins, inner), dense(d, inner, outs), d.pick(ACTIVATIONS)

    def f(env: Any, _: Any) -> Any:
        logits = two(env, act(one(env, env[a])))
        picked = jnp.take_along_axis(
            jax.nn.log_softmax(logits), env[labels].astype(jnp.int32)[:, None], 1
        )
        return -jnp.mean(picked), logits

    return f


@step("f", 3, fresh=True)
def embedding(d: Sketch, x: Any) -> Any:
    rows, width, b, t = d.size(5000), d.size(256), d.pick((1, 2, 3, 16)), d.size(128)
    table, ids, where = d.arg((rows, width)), d.index((b, t), rows), d.arg((t, width))
    tied = d.chance(0.4) and rows * b * t <= 1 << 20

    def f(env: Any, _: Any) -> Any:
        x = env[table][env[ids]] + env[where]
        if tied:
            return jax.nn.logsumexp(x @ env[table].T * width**-0.5, -1)
        return x

    return f


@step("f", 3, fresh=True)
def recurrent(d: Sketch, x: Any) -> Any:
    """An RNN, LSTM or GRU over time."""
    t, b, ins, size = d.size(40), d.pick((1, 1, 2, 7, 16)), d.size(64), d.size(64)
    kind = d.pick(("rnn", "lstm", "gru"))
    xs = d.arg((t, b, ins))
    gates = dense(d, ins + size, {"rnn": 1, "lstm": 4, "gru": 3}[kind] * size)

    def cell(env: Any, state: Any, x: Any) -> Any:
        h, c = state
        y = gates(env, jnp.concatenate([x, h], -1))
        if kind == "rnn":
            h = jnp.tanh(y)
        elif kind == "lstm":
            i, f, g, o = jnp.split(y, 4, -1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
        else:
            r, z, n = jnp.split(y, 3, -1)
            z = jax.nn.sigmoid(z)
            h = z * h + (1 - z) * jnp.tanh(n * jax.nn.sigmoid(r))
        return (h, c), h

    back = d.chance(0.3)

    def f(env: Any, _: Any) -> Any:
        zero = jnp.zeros((b, size), env[xs].dtype)
        return lax.scan(lambda s, x: cell(env, s, x), (zero, zero), env[xs], reverse=back)[1]

    return f


@step("f", 3, fresh=True)
def optimiser(d: Sketch, x: Any) -> Any:
    """A step of Adam or momentum on several parameters at once."""
    shapes = [d.shape(d.between(0, 3), min(d.budget, 1 << 20)) for _ in range(d.between(1, 6))]
    ks = [(d.arg(s), d.arg(s), d.arg(s), d.arg(s, None, "positive")) for s in shapes]
    clip, adam = d.chance(0.5), d.chance(0.6)

    def f(env: Any, _: Any) -> Any:
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(env[g])) for _, g, _, _ in ks))
        scale = jnp.minimum(1, 1 / norm) if clip else 1.0
        out = []
        for p, g, m, v in ks:
            grad = env[g] * scale
            mean = 0.9 * env[m] + 0.1 * grad
            if adam:
                square = 0.999 * env[v] + 0.001 * grad * grad
                out += [env[p] - 0.01 * mean / (jnp.sqrt(square) + 1e-6), mean, square]
            else:
                out += [env[p] - 0.1 * mean - 1e-3 * env[p], mean]
        return tuple(out)

    return f


@step("f", 2, fresh=True)
def experts(d: Sketch, x: Any) -> Any:
    """Rows go to the experts that a router picks."""
    rows, width, count, inner = d.size(200), d.pick((8, 16, 33)), d.between(2, 8), d.pick((8, 40))
    a, router = d.arg((rows, width)), d.arg((width, count))
    up, down = d.arg((count, width, inner)), d.arg((count, inner, width))
    k = d.between(1, 2)

    def f(env: Any, _: Any) -> Any:
        gates, which = lax.top_k(jax.nn.softmax(env[a] @ env[router]), k)
        hot = jax.nn.one_hot(which, count, dtype=env[a].dtype) * gates[..., None]
        inner = jnp.einsum("rw,ewi->rei", env[a], env[up])
        out = jnp.einsum("rei,eiw->rew", jax.nn.relu(inner), env[down])
        return jnp.einsum("rke,rew->rw", hot, out)

    return f


@step("f", 2)
def rotary(d: Sketch, x: Any) -> Any:
    d.need(x.ndim >= 2 and x.shape[-1] % 2 == 0)
    half = x.shape[-1] // 2

    def f(env: Any, x: Any) -> Any:
        times = jnp.arange(x.shape[-2], dtype=jnp.float32)[:, None]
        angles = times * 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
        sin, cos = jnp.sin(angles).astype(x.dtype), jnp.cos(angles).astype(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    d.need(x.shape[-2] <= 4000)
    return f


@step("f", 2, fresh=True)
def cache_update(d: Sketch, x: Any) -> Any:
    """One token of decoding: keys and values go into a cache, of which a part is read."""
    b, t, h, size = d.pick((1, 1, 2, 4)), d.size(500), d.pick((1, 2, 4)), d.pick((8, 32, 64))
    keys, values = d.arg((b, t, h, size)), d.arg((b, t, h, size))
    q, k, v, now = (*(d.arg((b, 1, h, size)) for _ in range(3)), d.index((), t))

    def f(env: Any, _: Any) -> Any:
        at = env[now].astype(jnp.int32)
        ks = lax.dynamic_update_slice(env[keys], env[k], (0, at, 0, 0))
        vs = lax.dynamic_update_slice(env[values], env[v], (0, at, 0, 0))
        scores = jnp.einsum("bqhd,bthd->bhqt", env[q], ks) * size**-0.5
        scores = jnp.where(jnp.arange(t) <= at, scores, -jnp.inf)
        return jnp.einsum("bhqt,bthd->bqhd", jax.nn.softmax(scores), vs), ks, vs

    return f


@step("f", 1.5, keeps_shape=True)
def dropout(d: Sketch, x: Any) -> Any:
    d.args.append(d.rng.integers(0, 1 << 32, 2, dtype="uint32"))
    key = len(d.args) - 1
    d.has_bits = True
    return lambda env, x: jnp.where(jax.random.bernoulli(env[key], 0.8, x.shape), x / 0.8, 0)
