"""One token of a decoder of 1.1 thousand million weights: `python -m bench.decoder [bf16 s8 s4]`.

Sixteen layers of 2,048 numbers with 32 heads, 8 of them for keys and values, 8,192 in between,
32,000 words, 512 places of cache, of random weights: in bf16, or of 8 or 4 bits with a scale in f16
for each 32 neighbours along what is contracted. The caches are donated, so they change in place.

Beside it llama.cpp with the same sizes (`pip install llama-cpp-python gguf`, which builds it): its
formats `BF16`, `Q8_0` and `Q4_0` have as many bits. It rounds what multiplies weights of 8 and 4
bits to 8 bits; hloom multiplies in f32. `--plain` keeps llama.cpp from laying weights out for the
processor's instructions, which ends the process where AMX is shown but may not be used.

A line for each: least and median of 20 tokens, and the bytes read in a second at the least.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
from rich.console import Console
from rich.table import Table

import hloom
from hloom.runtime.buffer import Buffer
from hloom.runtime.processors import granted_threads

LAYERS, WIDTH, HEADS, KEY_HEADS, HIDDEN, WORDS, PLACES, GROUP = (
    16,
    2048,
    32,
    8,
    8192,
    32000,
    512,
    32,
)
HEAD = WIDTH // HEADS
PROMPT, TOKENS = 64, 20
FORMATS = {"bf16": "BF16", "s8": "Q8_0", "s4": "Q4_0"}
MATRICES = {
    "q": (WIDTH, WIDTH), "k": (KEY_HEADS * HEAD, WIDTH), "v": (KEY_HEADS * HEAD, WIDTH),
    "o": (WIDTH, WIDTH), "gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN),
}  # fmt: skip


def decoder(kind: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A step, and the shapes of what it takes: word, place, table of words, caches, weights."""
    import jax
    import jax.numpy as jnp

    f32 = jnp.float32
    shape = jax.ShapeDtypeStruct

    def times(x: Any, w: Any) -> Any:
        if kind == "bf16":
            x = x.astype(jnp.bfloat16)
            return jnp.einsum("bk,nk->bn", x, w, preferred_element_type=f32)
        codes, scales = w
        n, k = codes.shape
        groups = codes.reshape(n, k // GROUP, GROUP).astype(f32)
        return jnp.einsum("bk,nk->bn", x, (groups * scales[:, :, None].astype(f32)).reshape(n, k))

    def normed(x: Any, gain: Any) -> Any:
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gain

    def turned(x: Any, place: Any) -> Any:
        angle = place * 10000.0 ** (-jnp.arange(HEAD // 2) / (HEAD // 2))
        a, b = jnp.split(x, 2, -1)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def kept(cache: Any, x: Any, place: Any) -> Any:
        return jax.lax.dynamic_update_slice(cache, x[:, None].astype(cache.dtype), (0, place, 0))

    def step(word: Any, place: Any, table: Any, caches: Any, layers: Any, end: Any) -> Any:
        x, new = table[word].astype(f32)[None], []
        for (keys, values), w in zip(caches, layers, strict=True):
            y = normed(x, w["before"])
            q = turned(times(y, w["q"]).reshape(HEADS, HEAD), place)
            k = turned(times(y, w["k"]).reshape(KEY_HEADS, HEAD), place)
            v = times(y, w["v"]).reshape(KEY_HEADS, HEAD)
            keys, values = kept(keys, k, place), kept(values, v, place)
            new.append((keys, values))
            q = q.reshape(KEY_HEADS, HEADS // KEY_HEADS, HEAD)
            scores = jnp.einsum("gqd,gsd->gqs", q, keys.astype(f32)) / HEAD**0.5
            scores = jnp.where(jnp.arange(PLACES) <= place, scores, -1e30)
            out = jnp.einsum("gqs,gsd->gqd", jax.nn.softmax(scores, -1), values.astype(f32))
            x = x + times(out.reshape(1, WIDTH), w["o"])
            y = normed(x, w["behind"])
            x = x + times(jax.nn.silu(times(y, w["gate"])) * times(y, w["up"]), w["down"])
        return times(normed(x, end["gain"]), end["words"]), new

    def matrix(n: int, k: int) -> Any:
        if kind == "bf16":
            return shape((n, k), jnp.bfloat16)
        of = {"s8": jnp.int8, "s4": jnp.int4}[kind]
        return shape((n, k), of), shape((n, k // GROUP), jnp.float16)

    gain, number = shape((WIDTH,), f32), shape((), jnp.int32)
    cache = shape((KEY_HEADS, PLACES, HEAD), jnp.float16)
    layer = {"before": gain, "behind": gain, **{n: matrix(*s) for n, s in MATRICES.items()}}
    table = shape((WORDS, WIDTH), jnp.bfloat16)
    end = {"gain": gain, "words": matrix(WORDS, WIDTH)}
    return step, (number, number, table, [(cache, cache)] * LAYERS, [layer] * LAYERS, end)


def filled(shape: Any, rng: np.random.Generator) -> Buffer:
    """Random weights in a buffer; a few, again and again: what they are does not matter."""
    size = int(np.prod(shape.dims))
    if shape.dtype.is_floating:
        some = (rng.standard_normal(1 << 16) * 0.02).astype(np.float32)
    else:
        some = rng.integers(-7, 8, 1 << 16).astype(np.int8)
    return Buffer.of(np.resize(some, size).astype(shape.dtype.numpy).reshape(shape.dims), shape)


def hloom_tokens(kind: str, threads: int) -> Iterator[float]:
    """Seconds of one token after another."""
    import jax

    step, shapes = decoder(kind)
    lowered = jax.jit(step, donate_argnums=3).lower(*shapes).compiler_ir("hlo")
    assert lowered is not None
    module = hloom.parse(lowered.as_hlo_text())
    run = hloom.compile(module, threads=threads)
    rng = np.random.default_rng(0)
    given: list[Any] = [filled(x, rng) for x in run.program.argument_shapes[2:]]
    for place in range(PROMPT, PROMPT + TOKENS):
        numbers = [np.int32(place % WORDS), np.int32(place)]
        started = time.perf_counter()
        _, *caches = run(*numbers, *given)
        yield time.perf_counter() - started
        given[1 : 1 + 2 * LAYERS] = caches


def written(kind: str, path: Path) -> None:
    """The same decoder as a file of llama.cpp's."""
    gguf: Any = import_module("gguf")
    of = gguf.GGMLQuantizationType[FORMATS[kind]]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(PLACES)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD)
    writer.add_vocab_size(WORDS)
    writer.add_string("tokenizer.ggml.model", "no_vocab")
    some = (np.random.default_rng(0).standard_normal(1 << 16) * 0.02).astype(np.float32)

    def matrix(name: str, n: int, k: int) -> None:
        packed = gguf.quants.quantize(np.resize(some, n * k).reshape(n, k), of)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=of)

    def gain(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))

    matrix("token_embd", WORDS, WIDTH)
    matrix("output", WORDS, WIDTH)
    gain("output_norm")
    names = {"o": "attn_output", **{n: f"attn_{n}" for n in "qkv"}}
    for layer in range(LAYERS):
        gain(f"blk.{layer}.attn_norm")
        gain(f"blk.{layer}.ffn_norm")
        for name, sizes in MATRICES.items():
            matrix(f"blk.{layer}.{names.get(name, f'ffn_{name}')}", *sizes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_tokens(path: Path, threads: int, is_plain: bool) -> Iterator[float]:
    """Seconds of one token after another, after a prompt."""
    api: Any = import_module("llama_cpp")
    silent = api.llama_log_callback(lambda *_: None)
    api.llama_log_set(silent, None)
    options = api.llama_model_default_params()
    options.use_extra_bufts = not is_plain
    model = api.llama_model_load_from_file(str(path).encode(), options)
    settings = api.llama_context_default_params()
    settings.n_ctx, settings.n_batch = PLACES, PROMPT
    settings.n_threads = settings.n_threads_batch = threads
    context = api.llama_init_from_model(model, settings)
    batch = api.llama_batch_init(PROMPT, 0, 1)

    def decode(first: int, count: int) -> None:
        batch.n_tokens = count
        for k in range(count):
            batch.token[k], batch.pos[k], batch.n_seq_id[k] = (first + k) % WORDS, first + k, 1
            batch.seq_id[k][0], batch.logits[k] = 0, k == count - 1
        if api.llama_decode(context, batch):
            raise RuntimeError("llama.cpp does not decode")

    decode(0, PROMPT)
    for place in range(PROMPT, PROMPT + TOKENS):
        started = time.perf_counter()
        decode(place, 1)
        yield time.perf_counter() - started
    api.llama_batch_free(batch)
    api.llama_free(context)
    api.llama_model_free(model)


def weight_bytes(kind: str) -> float:
    """What a token reads of weights."""
    count = LAYERS * sum(n * k for n, k in MATRICES.values()) + WORDS * WIDTH
    return count * {"bf16": 2.0, "s8": 1 + 2 / GROUP, "s4": 0.5 + 2 / GROUP}[kind]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="One token of a decoder, beside llama.cpp")
    parser.add_argument("kinds", nargs="*", choices=[*FORMATS, []], help="of weights: all")
    parser.add_argument("--threads", type=int, default=granted_threads())
    parser.add_argument("--plain", action="store_true", help="no layouts of llama.cpp's own")
    given = parser.parse_args()
    table = Table("weights", "who", "least, ms", "median, ms", "GB/s", title="one token")
    for kind in given.kinds or FORMATS:
        runs = {"hloom": list(hloom_tokens(kind, given.threads))}
        if find_spec("llama_cpp") and find_spec("gguf"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "decoder.gguf"
                written(kind, path)
                runs["llama.cpp"] = list(llama_tokens(path, given.threads, given.plain))
        for who, seconds in runs.items():
            least = min(seconds[1:])
            figures = [1e3 * least, 1e3 * statistics.median(seconds[1:])]
            rate = weight_bytes(kind) / least / 1e9
            table.add_row(kind, who, *[f"{x:.1f}" for x in (*figures, rate)])
    Console().print(table)


if __name__ == "__main__":
    main()
