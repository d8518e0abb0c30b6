"""Partitioning a step of a model of 405 billion parameters for 512 devices: time and memory.

`python -m bench.partition_large [--loop] [--mesh data=64,model=8]` lowers it with JAX for no device
at all (126 layers written out, checkpointed; Adam with f32 moments, bf16 weights; every weight is
cut by all devices, batches along `data`, heads and features along `model`), and partitions it in a
process of its own: wall clock, processor time, the most memory, and what a device holds and
receives. `--loop` scans the layers.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LAYERS, D, HEADS, GROUPS, DEPTH, WIDE, WORDS = 126, 16384, 128, 8, 128, 53248, 128256
BATCH, LENGTH = 128, 4096
GIB = 1 << 30


def weights() -> dict[str, tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Shapes of a layer's weights, and how they are cut."""
    across, back = ("data", "model"), ("model", "data")
    return {
        "q": ((D, HEADS * DEPTH), across), "k": ((D, GROUPS * DEPTH), across),
        "v": ((D, GROUPS * DEPTH), across), "o": ((HEADS * DEPTH, D), back),
        "gate": ((D, WIDE), across), "up": ((D, WIDE), across), "down": ((WIDE, D), back),
        "before": ((D,), (across,)), "between": ((D,), (across,)),
    }  # fmt: skip


def layer(w: Any, x: Any, cut: Any) -> Any:
    import jax
    import jax.numpy as jnp

    b, n, _ = x.shape

    def rms(x: Any, gain: Any) -> Any:
        y = x.astype(jnp.float32)
        return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * gain

    h = rms(x, w["before"])
    q = cut((h @ w["q"]).reshape(b, n, GROUPS, HEADS // GROUPS, DEPTH), "data", None, "model")
    k, v = [cut((h @ w[c]).reshape(b, n, GROUPS, DEPTH), "data", None, "model") for c in "kv"]
    s = jnp.einsum("bqghd,bkgd->bghqk", q, k).astype(jnp.float32) / DEPTH**0.5
    s = jax.nn.softmax(jnp.where(jnp.tri(n, dtype=bool), s, -1e9)).astype(x.dtype)
    y = jnp.einsum("bghqk,bkgd->bqghd", s, v).reshape(b, n, HEADS * DEPTH)
    x = cut(x + y @ w["o"], "data")
    h = rms(x, w["between"])
    return cut(x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"], "data")


def lowered(mesh: dict[str, int], is_loop: bool) -> str:
    """The step as StableHLO."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import AbstractMesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    axes = AbstractMesh(tuple(mesh.values()), tuple(mesh))

    def cut(x: Any, *spec: Any) -> Any:
        return jax.lax.with_sharding_constraint(x, NamedSharding(axes, P(*spec)))

    def struct(shape: Any, spec: Any, dtype: Any) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(axes, P(*spec)))

    def state(dtype: Any) -> Any:
        of = {
            name: struct((LAYERS, *n), (None, *s), dtype)
            if is_loop
            else [struct(n, s, dtype)] * LAYERS
            for name, (n, s) in weights().items()
        }
        return {**of, "table": struct((WORDS, D), ("model", "data"), dtype)}

    def loss(w: Any, tokens: Any) -> Any:
        x = cut(w["table"][tokens[:, :-1]], "data")
        step = jax.checkpoint(lambda x, own: layer(own, x, cut))
        own = {name: w[name] for name in weights()}
        if is_loop:
            x, _ = jax.lax.scan(lambda x, own: (step(x, own), None), x, own)
        else:
            for k in range(LAYERS):
                x = step(x, {name: each[k] for name, each in own.items()})
        p = jax.nn.log_softmax((x @ w["table"].T).astype(jnp.float32))
        return -jnp.take_along_axis(p, tokens[:, 1:, None], -1).mean()

    def step(w: Any, m: Any, v: Any, tokens: Any) -> Any:
        value, g = jax.value_and_grad(loss)(w, tokens)
        every = jax.tree.map
        m = every(lambda m, g: 0.9 * m + 0.1 * g.astype(jnp.float32), m, g)
        v = every(lambda v, g: 0.95 * v + 0.05 * jnp.square(g.astype(jnp.float32)), v, g)
        move = lambda w, m, v: (w - 1e-4 * m / (jnp.sqrt(v) + 1e-8)).astype(w.dtype)  # noqa: E731
        return every(move, w, m, v), m, v, value

    half, whole = state(jnp.bfloat16), state(jnp.float32)
    tokens = struct((BATCH, LENGTH + 1), ("data",), jnp.int32)
    out = jax.tree.map(lambda x: x.sharding, (half, whole, whole))
    jitted = jax.jit(step, out_shardings=(*out, None), donate_argnums=(0, 1, 2))
    return jitted.trace(half, whole, whole, tokens).lower(lowering_platforms=("cpu",)).as_text()


def measure(path: Path) -> None:
    """Partition the program of a file, and say what it took."""
    import hloom
    from hloom.analysis.communication import communications, summed
    from hloom.passes.partition.whole_program import partitioned
    from hloom.types.sizes import size_bytes

    begin, worked = time.perf_counter(), time.process_time()
    module = hloom.load(path)
    read = time.perf_counter() - begin
    before = sum([len(c.instructions) for c in module.computations])
    part = partitioned(module)
    wall, used = time.perf_counter() - begin, time.process_time() - worked
    held = sum([size_bytes(p.shape) for p in part.entry.parameters])
    received = sum([t.bytes for t in summed(communications(part), lambda r: r.kind)])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{before:,} instructions, {part.num_partitions} partitions")
    print(
        f"{wall:.1f} s wall clock (reading {read:.1f}), {used:.1f} s of processor, {peak:.0f} MiB"
    )
    print(f"a device holds {held / 1e9:.2f} GB and receives {received / 1e9:.0f} GB in a step")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", action="store_true")
    parser.add_argument("--mesh", default="data=64,model=8")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return 0
    mesh = {name: int(n) for name, n in [part.split("=") for part in options.mesh.split(",")]}
    os.environ["JAX_PLATFORMS"] = "cpu"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.mlir"
        path.write_text(lowered(mesh, options.loop))
        words = ["-m", "bench.partition_large", "--measure", str(path)]
        return subprocess.run([sys.executable, *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
