"""Loops along sequences: recurrent networks, filters, hidden states, decoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.kernels.families.draw import Draw


def _recurrent(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def lstm(w: Any, u: Any, b: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(x @ w + h @ u + b, 4, -1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((xs.shape[1], u.shape[0]), xs.dtype)
        return lax.scan(step, (zero, zero), xs)[1]

    def gru(w: Any, u: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            xr, xz, xn = jnp.split(x @ w, 3, -1)
            hr, hz, hn = jnp.split(h @ u, 3, -1)
            z = jax.nn.sigmoid(xz + hz)
            h = (1 - z) * jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn) + z * h
            return h, h

        zero = jnp.zeros((xs.shape[1], u.shape[0]), xs.dtype)
        return lax.scan(step, zero, xs)[1]

    def elman(w: Any, u: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return jnp.tanh(x @ w + h @ u), None

        return lax.scan(step, jnp.zeros((xs.shape[1], u.shape[0]), xs.dtype), xs)[0]

    def gradient(of: Any) -> Any:
        return lambda *x: jax.grad(lambda *y: (of(*(0.1 * z for z in y)) ** 2).mean(), (0, 1))(*x)

    for of, gates in ((lstm, 4), (gru, 3), (elman, 1)):
        batch, n = draw.one([1, 4, 17, 32]), draw.one([32, 64, 100, 128, 256])
        features, steps = draw.one([16, 40, 64]), draw.one([50, 100, 200])
        shapes = (f"f32[{features},{gates * n}]", f"f32[{n},{gates * n}]")
        bias = (f"f32[{gates * n}]",) if gates == 4 else ()
        xs = f"f32[{steps},{batch},{features}]"
        yield of.__name__, of, *shapes, *bias, xs
        yield f"{of.__name__} gradient", gradient(of), *shapes, *bias, xs

    def seconds(w: Any, u: Any, xs: Any) -> Any:
        return elman(u, u, jnp.tanh(lax.map(lambda x: x @ w, xs)))

    n = draw.one([48, 96])
    yield "mapped rows, then a network", seconds, f"f32[24,{n}]", f"f32[{n},{n}]", "f32[60,8,24]"


def _filtered(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def kalman(f: Any, h: Any, zs: Any) -> Any:
        n, m = f.shape[0], h.shape[0]
        f = jnp.eye(n) * 0.9 + 0.02 * f

        def step(carry: Any, z: Any) -> Any:
            x, p = carry
            x, p = f @ x, f @ p @ f.T + 0.1 * jnp.eye(n)
            s = h @ p @ h.T + jnp.eye(m)
            k = jnp.linalg.solve(s, h @ p).T
            return (x + k @ (z - h @ x), p - k @ h @ p), x

        return lax.scan(step, (jnp.zeros(n), jnp.eye(n)), zs)[1]

    for n, m in ((draw.one([2, 3, 4]), 1), (draw.one([6, 8]), draw.one([2, 3]))):
        shapes = f"f32[{n},{n}]", f"f32[{m},{n}]", f"f32[300,{m}]"
        yield f"kalman of {n} by {m}", kalman, *shapes

    def infinite(b: Any, a: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            y = b[0] * x + state[0]
            state = jnp.concatenate([state[1:], jnp.zeros_like(state[:1])])
            return state + b[1:] * x - 0.1 * a * y, y

        return lax.scan(step, jnp.zeros_like(a), xs)[1]

    order = draw.one([2, 4, 7])
    yield "iir", infinite, f"f32[{order + 1}]", f"f32[{order}]", "f32[20000]"
    many = jax.vmap(infinite, (None, None, 1), 1)
    yield "iir of channels", many, "f32[5]", "f32[4]", f"f32[4000,{draw.one([8, 30, 64])}]"

    def forward(a: Any, b: Any, seen: Any) -> Any:
        a, b = jax.nn.softmax(a, 1), jax.nn.softmax(b, 1)

        def step(p: Any, o: Any) -> Any:
            p = (p @ a) * b[:, o]
            total = p.sum()
            return p / total, jnp.log(total)

        n = a.shape[0]
        return lax.scan(step, jnp.ones(n) / n, seen)[1].sum()

    def logs(a: Any, b: Any, seen: Any) -> Any:
        def step(p: Any, o: Any) -> Any:
            return jax.nn.logsumexp(p[:, None] + a, 0) + b[:, o], None

        return lax.scan(step, jnp.zeros(a.shape[0]), seen)[0]

    n = draw.one([5, 16, 48, 100])
    shapes = f"f32[{n},{n}]", f"f32[{n},20]", "s32[400]<20"
    yield "hmm forward, scaled", forward, *shapes
    yield "hmm forward, logs", logs, *shapes
    yield "hmm gradient", jax.grad(logs_sum(logs), (0, 1)), *shapes
    several = jax.vmap(logs, (None, None, 0))
    yield "hmm of sequences", several, f"f32[{n},{n}]", f"f32[{n},20]", "s32[16,100]<20"


def logs_sum(of: Any) -> Any:
    """The sum of what a function returns."""
    return lambda *x: of(*x).sum()


def _carried(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def state_space(a: Any, b: Any, c: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jax.nn.sigmoid(a) * h + b * x[:, None]
            return h, (h * c).sum(-1)

        return lax.scan(step, jnp.zeros_like(a), xs)[1]

    d, n = draw.one([64, 256]), draw.one([4, 16])
    state = f"f32[{d},{n}]"
    yield "state space", state_space, state, state, state, f"f32[200,{d}]"

    def linear(a: Any, x: Any) -> Any:
        join = lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])  # noqa: E731
        return lax.associative_scan(join, (jax.nn.sigmoid(a), x))[1]

    shape = f"f32[{draw.one([1000, 1024])},{draw.one([32, 100])}]"
    yield "associative scan", linear, shape, shape

    def attention(q: Any, k: Any, v: Any, gate: Any) -> Any:
        def step(s: Any, qkvg: Any) -> Any:
            q, k, v, g = qkvg
            s = s * jax.nn.sigmoid(g)[:, None, None] + k[:, :, None] * v[:, None, :]
            return s, jnp.einsum("hk,hkv->hv", q, s)

        heads, width = q.shape[1:]
        return lax.scan(step, jnp.zeros((heads, width, width)), (q, k, v, gate))[1]

    heads, width = draw.one([2, 4]), draw.one([16, 32, 64])
    rows = f"f32[128,{heads},{width}]"
    yield "linear attention", attention, rows, rows, rows, f"f32[128,{heads}]"

    def online(xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            count, mean, spread, most = carry
            count = count + 1
            delta = x - mean
            mean = mean + delta / count
            spread = spread + delta * (x - mean)
            return (count, mean, spread, jnp.maximum(most, x)), mean

        first = jnp.zeros_like(xs[0])
        return lax.scan(step, (jnp.float32(0), first, first, first), xs)

    yield "online moments", online, f"f32[5000,{draw.one([1, 8, 100])}]"
    drawdown = lambda xs: lax.scan(  # noqa: E731
        lambda c, x: ((jnp.maximum(c[0], x), jnp.maximum(c[1], c[0] - x)), c[1]),
        (xs[0], xs[0] * 0),
        xs,
    )
    yield "running drawdown", drawdown, "f32[50000]"


def _decoding(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def decode(emb: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
        d = emb.shape[1]
        heads, steps = 4, 48

        def step(carry: Any, t: Any) -> Any:
            token, keys, values = carry
            x = emb[token]
            q, k, v = x @ wq * 0.1, x @ wk * 0.1, x @ wv * 0.1
            keys = lax.dynamic_update_slice(keys, k[None], (t, 0))
            values = lax.dynamic_update_slice(values, v[None], (t, 0))
            split = lambda y: y.reshape(*y.shape[:-1], heads, d // heads)  # noqa: E731
            scores = jnp.einsum("hd,thd->ht", split(q), split(keys))
            scores = jnp.where(jnp.arange(steps)[None] <= t, scores, -1e30)
            y = jnp.einsum("ht,thd->hd", jax.nn.softmax(scores), split(values)).reshape(d)
            token = jnp.argmax((x + y @ wo * 0.1) @ emb.T).astype(token.dtype)
            return (token, keys, values), token

        cache = jnp.zeros((steps, d))
        return lax.scan(step, (jnp.int32(1), cache, cache), jnp.arange(steps))[1]

    d = draw.one([32, 64, 128])
    square = f"f32[{d},{d}]"
    words = draw.one([100, 1000])
    yield "greedy decoding", decode, f"f32[{words},{d}]", square, square, square, square

    def viterbi(a: Any, b: Any, seen: Any) -> Any:
        def step(p: Any, o: Any) -> Any:
            each = p[:, None] + a
            return each.max(0) + b[:, o], each.argmax(0)

        last, back = lax.scan(step, b[:, 0], seen)
        trace = lambda s, row: (row[s], row[s])  # noqa: E731
        return lax.scan(trace, jnp.argmax(last), back, reverse=True)[1]

    n = draw.one([4, 20, 64])
    yield "viterbi with its path", viterbi, f"f32[{n},{n}]", f"f32[{n},20]", "s32[300]<20"

    def beams(w: Any, start: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            scores, states = carry
            states = jnp.tanh(states @ w)
            each = (scores[:, None] + jax.nn.log_softmax(states)).reshape(-1)
            best, at = lax.top_k(each, scores.shape[0])
            return (best, states[at // states.shape[1]]), at % states.shape[1]

        return lax.scan(step, (jnp.zeros(start.shape[0]), start), None, 40)[1]

    width = draw.one([50, 128])
    yield "beam search", beams, f"f32[{width},{width}]", f"f32[{draw.one([4, 8])},{width}]"


FAMILIES = (_recurrent, _filtered, _carried, _decoding)
