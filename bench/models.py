"""Parts of real models through JAX, hloom against XLA:CPU: `python -m bench.models [words]`.

Layers, blocks and steps as people write them, at the sizes at which they run, with random weights.
Both backends compile the same function in one process and take turns on the same arguments; the
table shows medians, their ratio (below 1: hloom is faster), what compiling took, and the largest
difference, relative to the largest number. `XLA_FLAGS=--xla_cpu_max_isa=AVX2` holds both to AVX2.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "hloom,cpu")
os.environ["HLOOM_CACHE"] = (
    "0"  # what an earlier run compiled would be read, and timed as compiling
)

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

Case = Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
RNG = np.random.default_rng(0)
F32, BF16 = "float32", "bfloat16"


def drawn(*dims: int, of: str = F32, scale: float = 1.0) -> Any:
    """Normal numbers."""
    return jnp.asarray((RNG.standard_normal(dims) * scale).astype(np.float32)).astype(of)


def indices(most: int, *dims: int) -> Any:
    return jnp.asarray(RNG.integers(0, most, dims).astype(np.int32))


def normalized(x: Any, gain: Any, bias: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain + bias


# -- transformers


def weights(of: str = F32, width: int = 768, hidden: int = 3072) -> dict[str, Any]:
    shapes = {
        "g1": (width,), "b1": (width,), "g2": (width,), "b2": (width,), "c1": (hidden,),
        "c2": (width,), "qkv": (width, 3 * width), "bq": (3 * width,), "o": (width, width),
        "w1": (width, hidden), "w2": (hidden, width),
    }  # fmt: skip
    return {k: drawn(*s, of=of, scale=0.03 if len(s) == 2 else 1.0) for k, s in shapes.items()}


def layer(p: dict[str, Any], x: Any, causal: bool) -> Any:
    """A layer of a transformer with 12 heads."""
    n, width = x.shape[-2:]
    y = normalized(x, p["g1"], p["b1"]) @ p["qkv"] + p["bq"]
    heads = [z.reshape(*z.shape[:-1], 12, width // 12) for z in jnp.split(y, 3, -1)]
    q, k, v = [z.swapaxes(-2, -3) for z in heads]
    scores = (q @ k.swapaxes(-1, -2)) / np.sqrt(width // 12).astype(x.dtype)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((n, n), bool)), scores, jnp.asarray(-1e9, x.dtype))
    out = jax.nn.softmax(scores, -1) @ v
    x = x + out.swapaxes(-2, -3).reshape(x.shape) @ p["o"]
    y = normalized(x, p["g2"], p["b2"]) @ p["w1"] + p["c1"]
    # Decoders like GPT-2 take the one by tanh, encoders like BERT and ViT the exact one.
    return x + jax.nn.gelu(y, approximate=causal) @ p["w2"] + p["c2"]


def layers(ps: Any, x: Any, causal: bool) -> Any:
    for p in ps:
        x = layer(p, x, causal)
    return x


def transformer(count: int, *dims: int, causal: bool = True, of: str = F32) -> Any:
    run = partial(layers, causal=causal)
    return run, ([weights(of) for _ in range(count)], drawn(*dims, of=of))


def training_step() -> Any:
    def step(ps: Any, x: Any) -> Any:
        slopes = jax.grad(lambda ps: (layers(ps, x, True) ** 2).mean())(ps)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, ps, slopes)

    return step, ([weights() for _ in range(4)], drawn(1, 256, 768))


def gated(of: str) -> Any:
    def run(x: Any, a: Any, g: Any, b: Any) -> Any:
        return (jax.nn.silu(x @ g) * (x @ a)) @ b

    up = partial(drawn, 1024, 2816, of=of, scale=0.03)
    return run, (drawn(256, 1024, of=of), up(), up(), drawn(2816, 1024, of=of, scale=0.03))


def decoder_token(of: str) -> Any:
    """Grouped attention of one token over a cache, with its projections."""

    def run(x: Any, keys: Any, values: Any, at: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
        q, k, v = [(x @ w).reshape(1, -1, 128) for w in (wq, wk, wv)]
        start = (0, 0, at, 0)
        keys = jax.lax.dynamic_update_slice(keys, k[None].swapaxes(1, 2), start)
        values = jax.lax.dynamic_update_slice(values, v[None].swapaxes(1, 2), start)
        scores = jnp.einsum("gqd,gtd->gqt", q.reshape(4, 4, 128), keys[0]) / 11.3
        scores = jnp.where(jnp.arange(1024) <= at, scores, -1e30)
        out = jnp.einsum("gqt,gtd->gqd", jax.nn.softmax(scores, -1), values[0])
        return out.reshape(1, 2048).astype(x.dtype) @ wo, keys, values

    draw = partial(drawn, of=of)
    cache = draw(1, 4, 1024, 128), draw(1, 4, 1024, 128), jnp.int32(700)
    shapes = (2048, 2048), (2048, 512), (2048, 512), (2048, 2048)
    return run, (draw(1, 2048), *cache, *[draw(*s, scale=0.02) for s in shapes])


def attention(grad: bool) -> Any:
    run = partial(jax.nn.dot_product_attention, is_causal=not grad)
    arrays = tuple([drawn(2, 512 if grad else 1024, 8, 64) for _ in range(3)])
    if not grad:
        return run, arrays
    return jax.grad(lambda q, k, v: (run(q, k, v) ** 2).sum(), (0, 1, 2)), arrays


def language_loss() -> Any:
    def loss(w: Any, x: Any, y: Any) -> Any:
        found = jax.nn.log_softmax(x @ w, -1)
        return -jnp.take_along_axis(found, y[:, None], 1).mean()

    given = drawn(768, 8192, scale=0.02), drawn(256, 768), indices(8192, 256)
    return jax.value_and_grad(loss), given


# -- convolutions


def conv(x: Any, w: Any, groups: int = 1, stride: int = 1) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC") if x.ndim == 4 else ("NWC", "WIO", "NWC")
    return jax.lax.conv_general_dilated(
        x, w, (stride,) * (x.ndim - 2), "SAME", dimension_numbers=numbers,
        feature_group_count=groups,
    )  # fmt: skip


def convnext_block() -> Any:
    def run(x: Any, w: Any, g: Any, b: Any, up: Any, down: Any) -> Any:
        return x + jax.nn.gelu(normalized(conv(x, w, 96), g, b) @ up, approximate=False) @ down

    up, down = drawn(96, 384, scale=0.1), drawn(384, 96, scale=0.1)
    return run, (drawn(1, 56, 56, 96), drawn(7, 7, 1, 96), drawn(96), drawn(96), up, down)


def efficientnet_block() -> Any:
    def run(x: Any, up: Any, w: Any, s1: Any, s2: Any, down: Any) -> Any:
        y = jax.nn.silu(conv(jax.nn.silu(conv(x, up)), w, 96))
        z = conv(jax.nn.silu(conv(y.mean((1, 2), keepdims=True), s1)), s2)
        return x + conv(y * jax.nn.sigmoid(z), down)

    shapes = (1, 1, 16, 96), (3, 3, 1, 96), (1, 1, 96, 4), (1, 1, 4, 96), (1, 1, 96, 16)
    return run, (drawn(1, 56, 56, 16), *[drawn(*s) for s in shapes])


def residual_step() -> Any:
    def step(ps: Any, x: Any, y: Any) -> Any:
        def loss(ps: Any) -> Any:
            w, g, b, v = ps
            h = conv(x, w)
            mean, variance = h.mean((0, 1, 2)), h.var((0, 1, 2))
            h = jax.nn.relu((h - mean) * jax.lax.rsqrt(variance + 1e-5) * g + b)
            return ((conv(h, v) - y) ** 2).mean()

        return jax.tree.map(lambda p, g: p - 0.1 * g, ps, jax.grad(loss)(ps))

    ps = drawn(3, 3, 64, 64), drawn(64), drawn(64), drawn(3, 3, 64, 64)
    return step, (ps, drawn(8, 28, 28, 64), drawn(8, 28, 28, 64))


def unet_block() -> Any:
    def group(x: Any, g: Any, b: Any) -> Any:
        y = x.reshape(1, x.shape[1], x.shape[2], 32, -1)
        mean, variance = y.mean((1, 2, 4), keepdims=True), y.var((1, 2, 4), keepdims=True)
        return ((y - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * g + b

    def run(x: Any, g: Any, b: Any, w: Any, v: Any, skip: Any, up: Any) -> Any:
        h = conv(jax.nn.silu(group(x, g, b)), w)
        h = x + conv(jax.nn.silu(group(h, g, b)), v)
        large = jax.image.resize(h, (1, 64, 64, 128), "nearest")
        return conv(jnp.concatenate([large, skip], -1), up)

    shapes = (128,), (128,), (3, 3, 128, 128), (3, 3, 128, 128), (1, 64, 64, 64), (3, 3, 192, 64)
    return run, (drawn(1, 32, 32, 128), *[drawn(*s) for s in shapes])


def filtered() -> Any:
    return partial(jnp.convolve, mode="same"), (drawn(2_000_000), drawn(31))


def audio() -> Any:
    return partial(conv, stride=2), (drawn(1, 3000, 384), drawn(3, 384, 384))


def spectrum() -> Any:
    def run(x: Any) -> Any:
        at = jnp.arange(0, x.shape[0] - 400, 160)[:, None] + jnp.arange(400)[None]
        return jnp.abs(jnp.fft.rfft(x[at] * jnp.hanning(400))) ** 2

    return run, (drawn(480_000),)


# -- others


def graph_network() -> Any:
    def run(x: Any, edges: Any, w: Any) -> Any:
        return jax.nn.relu(jax.ops.segment_sum(x[edges[0]] @ w, edges[1], 10_000))

    return run, (drawn(10_000, 64), indices(10_000, 2, 80_000), drawn(64, 64))


def recommender() -> Any:
    def run(table: Any, at: Any, dense: Any, w1: Any, w2: Any, w3: Any) -> Any:
        below = jax.nn.relu(dense @ w1)
        z = jnp.concatenate([below[:, None], jnp.take(table, at, axis=0)], 1)
        pairs = jnp.einsum("bid,bjd->bij", z, z)[:, *np.triu_indices(27, 1)]
        return jax.nn.relu(jnp.concatenate([below, pairs], 1) @ w2) @ w3

    ws = drawn(13, 64), drawn(64 + 351, 512), drawn(512, 1)
    return run, (drawn(100_000, 64), indices(100_000, 512, 26), drawn(512, 13), *ws)


def recurrent() -> Any:
    def run(w: Any, u: Any, b: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(h @ w + x @ u + b, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((32, 256))
        return jax.lax.scan(step, (zero, zero), xs)[1]

    w, u = drawn(256, 1024, scale=0.05), drawn(256, 1024, scale=0.05)
    return run, (w, u, drawn(1024), drawn(100, 32, 256))


def adam() -> Any:
    def update(ps: Any, gs: Any, ms: Any, vs: Any) -> Any:
        found = []
        for p, g, m, v in zip(ps, gs, ms, vs):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            found.append((p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v))
        return found

    shapes = [(768, 768), (768,), (3072, 768), (3072,), (768, 3072), (768,)] * 4
    return update, tuple([[jnp.abs(drawn(*s)) for s in shapes] for _ in range(4)])


CASES: dict[str, Case] = {
    "GPT-2, 12 layers, 256 tokens": partial(transformer, 12, 1, 256, 768),
    "the same, bf16": partial(transformer, 12, 1, 256, 768, of=BF16),
    "GPT-2, 4 layers, training step": training_step,
    "BERT, 4 layers, 8 x 128 tokens": partial(transformer, 4, 8, 128, 768, causal=False),
    "ViT, 4 layers, 197 patches": partial(transformer, 4, 1, 197, 768, causal=False),
    "gated MLP, 256 tokens": partial(gated, F32),
    "gated MLP, bf16": partial(gated, BF16),
    "decoder, one token": partial(decoder_token, F32),
    "decoder, one token, bf16": partial(decoder_token, BF16),
    "attention, causal, 1024": partial(attention, False),
    "attention, gradients, 512": partial(attention, True),
    "loss over 8192 words, gradient": language_loss,
    "ConvNeXt block": convnext_block,
    "EfficientNet block": efficientnet_block,
    "residual block, training step": residual_step,
    "U-Net block": unet_block,
    "filter of 31 taps, 2 M samples": filtered,
    "audio convolution": audio,
    "spectrogram": spectrum,
    "graph network layer": graph_network,
    "recommender": recommender,
    "LSTM, 100 steps": recurrent,
    "Adam, 24 arrays": adam,
}


def measured(case: Case, rounds: int, budget_s: float) -> dict[str, float]:
    """Medians, compile times and the difference of one case."""
    function, arguments = case()
    runs: dict[str, Any] = {}
    row: dict[str, float] = {}
    results: dict[str, list[Any]] = {}
    for name in ("hloom", "cpu"):
        held = jax.device_put(arguments, jax.devices(name)[0])
        start = time.perf_counter()
        compiled = jax.jit(function).lower(*held).compile()
        row[f"{name} compile"] = time.perf_counter() - start
        runs[name] = partial(compiled, *held)
        results[name] = [np.asarray(x, np.float64) for x in jax.tree.leaves(runs[name]())]
    times: dict[str, list[float]] = {name: [] for name in runs}
    start = time.perf_counter()
    while len(times["cpu"]) < rounds and time.perf_counter() - start < budget_s:
        for name, run in runs.items():
            begin = time.perf_counter()
            jax.block_until_ready(run())
            times[name].append(time.perf_counter() - begin)
    row |= {name: statistics.median(found) for name, found in times.items()}
    pairs = list(zip(results["hloom"], results["cpu"]))
    row["difference"] = max(np.abs(x - y).max() / (np.abs(y).max() + 1e-30) for x, y in pairs)
    return row


def main() -> None:
    """Measure and print, the worst first."""
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument("words", nargs="*", help="cases whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=30, help="runs of each backend")
    parser.add_argument("--budget", type=float, default=6.0, help="seconds of runs for a case")
    options = parser.parse_args()
    words = [w.lower() for w in options.words]
    chosen = [n for n in CASES if not words or any(w in n.lower() for w in words)]
    console = Console()
    rows = {}
    with console.status("measuring") as status:
        for name in chosen:
            status.update(f"measuring {name}")
            rows[name] = measured(CASES[name], options.rounds, options.budget)
    table = Table(title="hloom / XLA:CPU, ms (below 1 is better)")
    for head in ("case", "hloom", "XLA", "ratio", "compile", "XLA", "ratio", "difference"):
        table.add_column(head, justify="left" if head == "case" else "right")
    ratios, compiled = [], []
    for name, row in sorted(rows.items(), key=lambda r: -r[1]["hloom"] / r[1]["cpu"]):
        ratios.append(row["hloom"] / row["cpu"])
        compiled.append(row["hloom compile"] / row["cpu compile"])
        cells = [f"{row['hloom'] * 1e3:.2f}", f"{row['cpu'] * 1e3:.2f}", f"{ratios[-1]:.2f}"]
        cells += [f"{row[f'{n} compile'] * 1e3:.0f}" for n in ("hloom", "cpu")]
        table.add_row(name, *cells, f"{compiled[-1]:.2f}", f"{row['difference']:.0e}")
    if rows:
        means = [math.exp(statistics.fmean(map(math.log, x))) for x in (ratios, compiled)]
        table.add_row("geometric mean", "", "", f"{means[0]:.2f}", "", "", f"{means[1]:.2f}", "")
    console.print(table)


if __name__ == "__main__":
    main()
