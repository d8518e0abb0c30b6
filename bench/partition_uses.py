"""More programs for `bench.partition` as users write them: losses over a global batch, serving,
experts by sorting, science, and regions whose collectives the program says itself."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from bench.partition_families import add, indexed
from bench.partition_programs import NONE, normalized, trained
from bench.partition_users import BATCH, DEPTH, HEADS, D, mean_square

# -- contrastive and other losses over a global batch


def contrastive(w: Any, x: Any, y: Any) -> Any:
    a, b = x @ w["x"], y @ w["y"]
    a, b = [z / jnp.linalg.norm(z, axis=-1, keepdims=True) for z in (a, b)]
    s = 10 * a @ b.T
    return -jnp.mean(jnp.diagonal(jax.nn.log_softmax(s, 0) + jax.nn.log_softmax(s, 1)))


for _name, _s in (("data", P("data")), ("all devices", P(("data", "model")))):
    add(
        f"contrastive step, {_name}", trained(contrastive),
        {"x": ((D, 64), NONE), "y": ((D, 64), NONE)}, ((64, D), _s), ((64, D), _s),
        results=(NONE, {"x": NONE, "y": NONE}),
    )  # fmt: skip


def distilled(w: Any, teacher: Any, x: Any) -> Any:
    p = jax.nn.softmax(lax.stop_gradient(x @ teacher) / 2)
    return -jnp.mean(jnp.sum(p * jax.nn.log_softmax(x @ w / 2), -1))


add(
    "distillation step, classes cut", trained(distilled), ((D, 96), P(None, "model")),
    ((D, 96), P(None, "model")), ((64, D), P("data")), results=(NONE, P(None, "model")),
)  # fmt: skip

# -- serving


def beams(scores: Any, logits: Any, cache: Any) -> Any:
    """The best four of all continuations of four beams, and their caches."""
    b, k, n = logits.shape
    total = (scores[..., None] + jax.nn.log_softmax(logits)).reshape(b, k * n)
    best, at = lax.top_k(total, k)
    source = at // n
    return best, at % n, jnp.take_along_axis(cache, source[..., None, None], 1)


add(
    "beam search, batch and heads", beams, ((BATCH, 4), P("data")),
    ((BATCH, 4, 96), P("data", None, "model")),
    ((BATCH, 4, 32, 16), P("data", None, None, "model")),
)  # fmt: skip


def nucleus(x: Any, w: Any, noise: Any) -> Any:
    p = jax.nn.softmax(x @ w)
    s = -jnp.sort(-p, -1)
    least = jnp.min(jnp.where(jnp.cumsum(s, -1) - s < 0.9, s, 1), -1, keepdims=True)
    return jnp.argmax(jnp.where(p >= least, jnp.log(p), -1e9) + noise, -1)


add(
    "nucleus sampling, vocabulary", nucleus, ((BATCH, D), P("data")), ((D, 96), P(None, "model")),
    ((BATCH, 96), P("data", "model")),
)  # fmt: skip


def paged(q: Any, pages: Any, table: Any) -> Any:
    """Attention over pages of a cache that a table names."""
    kv = pages[indexed(table, pages.shape[0])]
    kv = kv.reshape(q.shape[0], -1, *pages.shape[2:])
    s = jax.nn.softmax(jnp.einsum("bhd,blhd->bhl", q, kv))
    return jnp.einsum("bhl,blhd->bhd", s, kv)


for _name, _s in (("heads", P(None, None, "model")), ("pages and heads", P("data", None, "model"))):
    add(
        f"pages of a cache, {_name}", paged, ((BATCH, HEADS, DEPTH), P("data", "model")),
        ((32, 8, HEADS, DEPTH), _s), ((BATCH, 4), P("data")),
    )  # fmt: skip

# -- experts by sorting, as dropless layers do


def sorted_experts(w: Any, x: Any) -> Any:
    place = jnp.argmax(x @ w["gate"], -1)
    order = jnp.argsort(place)
    y, chosen = x[order], jax.nn.one_hot(place[order], 8)
    y = jnp.einsum("te,td,edf->tf", chosen, y, w["w1"])
    y = jnp.einsum("te,tf,efd->td", chosen, jax.nn.relu(y), w["w2"])
    return x + y[jnp.argsort(order)]


_w = {"gate": ((D, 8), NONE), "w1": ((8, D, 64), P("data")), "w2": ((8, 64, D), P("data"))}
add("experts by sorting", sorted_experts, _w, ((64, D), P("data")), results=P("data"))
add(
    "experts by sorting, step", trained(lambda w, x: mean_square(sorted_experts(w, x))), _w,
    ((64, D), P("data")), results=(NONE, {k: s for k, (_, s) in _w.items()}),
)  # fmt: skip

# -- science: ensembles, particles, grids, kernels


def ensemble(w: Any, x: Any) -> Any:
    def one(p: Any) -> Any:
        return jnp.tanh(x @ p["a"]) @ p["b"]

    y = jax.vmap(one)(w)
    return y.mean(0), y.std(0)


add(
    "ensemble of models", ensemble, {"a": ((8, D, 32), P("data")), "b": ((8, 32, 4), P("data"))},
    ((64, D), P("model")),
)  # fmt: skip


def particles(x: Any, v: Any) -> Any:
    def force(x: Any) -> Any:
        d = x[:, None] - x[None]
        return -(d / (jnp.sum(d * d, -1, keepdims=True) + 0.1) ** 1.5).sum(1)

    def step(s: Any, _: Any) -> Any:
        x, v = s
        v = v + 0.01 * force(x)
        return (x + 0.01 * v, v), jnp.sum(v * v)

    return lax.scan(step, (x, v), None, 5)


add("particles, five steps", particles, ((64, 3), P("data")), ((64, 3), P("data")),
    results=((P("data"), P("data")), NONE))  # fmt: skip


def waves(u: Any, before: Any) -> Any:
    def step(s: Any, _: Any) -> Any:
        u, before = s
        p = jnp.pad(u, 1)
        around = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u
        return (2 * u - before + 0.1 * around, u), jnp.max(jnp.abs(u))

    return lax.scan(step, (u, before), None, 4)


BOTH = P("data", "model")
add("waves on a grid, four steps", waves, ((64, 48), BOTH), ((64, 48), BOTH),
    results=((BOTH, BOTH), NONE))  # fmt: skip


def gaussian_process(x: Any, y: Any) -> Any:
    d = jnp.sum((x[:, None] - x[None]) ** 2, -1)
    k = jnp.exp(-d) + 0.1 * jnp.eye(x.shape[0])
    return jnp.sum(y * jnp.linalg.solve(k, y))


add("gaussian process, rows", gaussian_process, ((48, 4), P("data")), ((48,), P("data")))


def filtered(x: Any) -> Any:
    f = jnp.fft.rfft2(x)
    return jnp.fft.irfft2(f * jnp.exp(-jnp.arange(f.shape[-1]) / 8.0)) + x


add("filter in frequencies, images", filtered, ((BATCH, 32, 32), P("data", "model")),
    results=P("data", "model"))  # fmt: skip


def weighted_sums(values: Any, weights: Any, group: Any) -> Any:
    """Weighted means of groups of events, and how far each event is from its own."""
    at = indexed(group, 16)
    total = jax.ops.segment_sum(weights[:, None] * values, at, 16)
    mean = total / (jax.ops.segment_sum(weights, at, 16)[:, None] + 1e-6)
    return mean, jnp.sum((values - mean[at]) ** 2, -1)


add(
    "weighted means of groups, events cut", weighted_sums, ((96, 8), P(("data", "model"))),
    ((96,), P(("data", "model"))), ((96,), P(("data", "model"))),
)  # fmt: skip
add(
    "linear recurrence of pairs, time and channels",
    lambda a, x: lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, x))[1],
    ((64, 32), BOTH), ((64, 32), BOTH),
)  # fmt: skip


def of_normalized_weights(w: Any, x: Any) -> Any:
    return mean_square(jnp.tanh(normalized(x, 1.0) @ (w / jnp.linalg.norm(w, axis=0))))


add(
    "layers with normalized weights, zero", trained(of_normalized_weights),
    ((D, D), P("data", "model")), ((64, D), P("data")), results=(NONE, P("data", "model")),
)  # fmt: skip


def orthogonal(w: Any, m: Any, x: Any) -> Any:
    """A step whose update is made orthogonal by five products of matrices (Muon)."""
    g = jax.grad(lambda w: mean_square(jnp.tanh(x @ w)))(w)
    m = 0.9 * m + g
    u = m / (jnp.linalg.norm(m) + 1e-6)
    for _ in range(5):
        a = u @ u.T
        u = 3.4 * u + (-4.8 * a + 2.0 * a @ a) @ u
    return w - 0.02 * u, m


add("orthogonal updates, weights over both", orthogonal, ((D, D), BOTH), ((D, D), BOTH),
    ((64, D), P("data")), results=(BOTH, BOTH))  # fmt: skip

# -- regions: collectives as the program says them, layers around them left to the compiler


def own_fsdp(w: Any, x: Any) -> Any:
    """Weights gathered, and their gradients scattered, by the program itself."""

    def loss(w: Any, x: Any) -> Any:
        def local(w: Any, x: Any) -> Any:
            y = jnp.tanh(x @ lax.all_gather(w, "data", tiled=True))
            return lax.pmean(mean_square(y), "data")

        specs = P("data"), P("data")
        return jax.shard_map(local, axis_names={"data"}, in_specs=specs, out_specs=P())(w, x)

    return trained(loss)(w, x)


add("fsdp in a region, step", own_fsdp, ((D, D), BOTH), ((64, D), P("data")), results=(NONE, BOTH))


def exchanged_experts(w: Any, x: Any) -> Any:
    """Tokens go to the expert of their place by all-to-alls of a region."""

    def local(w: Any, x: Any) -> Any:
        x = x.reshape(4, -1, x.shape[-1])
        y = lax.all_to_all(x, "data", 0, 0)
        y = jax.nn.relu(jnp.einsum("std,df->stf", y, w[0]))
        return lax.all_to_all(y, "data", 0, 0).reshape(-1, y.shape[-1])

    specs = P("data"), P("data")
    y = jax.shard_map(local, axis_names={"data"}, in_specs=specs, out_specs=P("data"))(w, x)
    return mean_square(y)


add("experts in a region, step", trained(exchanged_experts),
    ((4, D, 64), P("data", None, "model")), ((64, D), P("data")),
    results=(NONE, P("data", None, "model")))  # fmt: skip


def passed_on(w: Any, x: Any) -> Any:
    """A pipeline in a region: what a stage has done goes to the next one by a permute."""

    def local(w: Any, x: Any) -> Any:
        stage, n = lax.axis_index("data"), lax.axis_size("data")
        state = lax.pcast(jnp.zeros_like(x[0]), "data", to="varying")
        done = []
        for t in range(x.shape[0] + n - 1):
            state = jnp.where(stage == 0, x[min(t, x.shape[0] - 1)], state)
            state = jnp.tanh(state @ w[0])
            done.append(lax.psum(jnp.where(stage == n - 1, state, 0), "data"))
            state = lax.ppermute(state, "data", [(k, (k + 1) % n) for k in range(n)])
        return jnp.stack(done[n - 1 :])

    specs = P("data"), P()
    y = jax.shard_map(local, axis_names={"data"}, in_specs=specs, out_specs=P())(w, x)
    return mean_square(y)


add("pipeline in a region, step", trained(passed_on), ((4, 32, 32), P("data")),
    ((6, 16, 32), P(None, "model")), results=(NONE, P("data")))  # fmt: skip
