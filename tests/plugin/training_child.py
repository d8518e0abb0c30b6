"""Steps of training in parallel beside one device: `training_child.py [rank size port what]`.

A transformer with data, tensor, sequence, FSDP (with and without accumulation of gradients) and
pipeline parallelism, and experts that tokens reach by ragged all-to-alls: losses are those of one
device, every device holds as much of the weights and of Adam's moments as it should, and what all
devices compute together is little more than what one computes. In several processes it is told
its rank, and the first one compares. `what`: names of cases (`fsdp,experts`; all without any); with
`:folder` their programs and arguments are left there for processes that MPI joins
(training_mpi_child.py). Says `done`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

RANK, SIZE, PORT, WHAT, *_ = *sys.argv[1:5], *("0", "1", "", "")[len(sys.argv) - 1 :]
CHOSEN, _, LEFT = WHAT.partition(":")
FOLDER = Path(LEFT) if LEFT else None
if int(SIZE) > 1:
    jax.distributed.initialize(f"localhost:{PORT}", int(SIZE), int(RANK))
STEPS, LAYERS, D, HEADS, BATCH, LENGTH, WORDS = 20, 4, 32, 4, 16, 16, 64
EIGHT = np.array(jax.devices())
assert EIGHT.size == 8, EIGHT
keep = lax.with_sharding_constraint
every = jax.tree.map
Weights = dict[str, Any]


def drawn_weights() -> Weights:
    draw = np.random.RandomState(0)
    sizes = {
        "table": (WORDS, D), "qkv": (LAYERS, D, 3 * D), "out": (LAYERS, D, D),
        "up": (LAYERS, D, 4 * D), "down": (LAYERS, 4 * D, D),
    }  # fmt: skip
    return {k: draw.randn(*n).astype(np.float32) / n[-2] ** 0.5 for k, n in sizes.items()}


def layer(w: Weights, x: Any, spec: P | None) -> Any:
    """Attention and two products; the tokens stand as `spec` says."""
    b, n, _ = x.shape
    h = x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    q, k, v = jnp.split((h @ w["qkv"]).reshape(b, n, 3 * HEADS, D // HEADS), 3, 2)
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (D // HEADS) ** 0.5
    s = jax.nn.softmax(jnp.where(jnp.tri(n, dtype=bool), s, -1e9))
    x = x + jnp.einsum("bhqk,bkhd->bqhd", s, v).reshape(b, n, D) @ w["out"]
    x = x if spec is None else keep(x, spec)
    return x + jax.nn.gelu(x @ w["up"]) @ w["down"]


def loss(w: Weights, tokens: Any, spec: P | None = None) -> Any:
    x = w["table"][tokens[:, :-1]]
    x = x if spec is None else keep(x, spec)
    own = {k: w[k] for k in ("qkv", "out", "up", "down")}
    x, _ = lax.scan(lambda x, w: (layer(w, x, spec), None), x, own)
    p = jax.nn.log_softmax(x @ w["table"].T)
    return -jnp.take_along_axis(p, tokens[:, 1:, None], -1).mean()


def adam(of: Callable[..., Any]) -> Callable[..., Any]:
    """A step: weights and moments to new ones, and the loss."""

    def step(state: Any, *batch: Any) -> Any:
        w, m, v = state
        value, g = jax.value_and_grad(of)(w, *batch)
        m = every(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = every(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
        w = every(lambda w, m, v: w - 0.01 * m / (jnp.sqrt(v) + 1e-6), w, m, v)
        return (w, m, v), value

    return step


def accumulated(w: Weights, tokens: Any, spec: P) -> Any:
    """The mean of four microbatches, whose gradients a loop adds up."""
    parts = keep(tokens.reshape(4, -1, LENGTH), P(None, *spec[:1]))
    losses = lax.map(lambda t: loss(w, t, spec), parts)
    return losses.mean()


def put(mesh: Mesh, tree: Any, specs: Any) -> Any:
    def one(x: Any, s: P) -> jax.Array:
        return jax.make_array_from_callback(x.shape, NamedSharding(mesh, s), lambda at: x[at])

    return every(one, tree, specs)


LOSSES: dict[tuple[Any, bytes], list[float]] = {}
"""Of each program of one device, on each batch."""
WORK: dict[tuple[Any, bytes], float] = {}


def trained_alone(alone: Any, w: Any, batch: Any) -> tuple[list[float], float]:
    """The losses of all steps on one device, and the operations of one step."""
    key = alone, b"".join([x.tobytes() for x in batch])
    if key not in LOSSES:
        zeros = every(np.zeros_like, w)
        state = every(jnp.asarray, (w, zeros, zeros))
        whole = jax.jit(adam(alone)).lower(state, *batch).compile()
        LOSSES[key], WORK[key] = [], (whole.cost_analysis() or {})["flops"]
        for _ in range(STEPS):
            state, value = whole(state, *batch)
            LOSSES[key].append(float(value))
    return LOSSES[key], WORK[key]


def compared(
    name: str, mesh: Mesh, specs: Any, of: Any, alone: Any, w: Any, batch: Any, at: Any,
    most_memory: float = 1.0, same: Any = None,
) -> None:  # fmt: skip
    """Train both ways, and compare. `most_memory`: the part of weights and moments that a device
    may hold; `same`: what one device would compute that does all that the program asks of eight."""
    if CHOSEN and name not in CHOSEN.split(","):
        return
    zeros = every(np.zeros_like, w)
    state = tuple(put(mesh, x, specs) for x in (w, zeros, zeros))
    out = every(lambda s: NamedSharding(mesh, s), specs)
    data = put(mesh, batch, at)
    with jax.set_mesh(mesh):
        jitted = jax.jit(adam(of), out_shardings=((out,) * 3, NamedSharding(mesh, P())))
        lowered = jitted.lower(state, *data)
    if FOLDER:
        leave(FOLDER / name, lowered.as_text(), (state, *data), alone, w, batch)
    together = lowered.compile()
    losses: list[float] = []
    for _ in range(STEPS):
        state, value = together(state, *data)
        losses.append(float(value))
    leaves = jax.tree.leaves(state)
    held = sum(x.addressable_shards[0].data.nbytes for x in leaves) / sum(x.nbytes for x in leaves)
    assert held <= most_memory, (name, held)
    if RANK != "0":
        return
    wanted, flops = trained_alone(alone, w, batch)
    np.testing.assert_allclose(losses, wanted, rtol=3e-4, err_msg=name)
    work = 8 * (together.cost_analysis() or {})["flops"]
    said = f"{name}: loss {losses[-1]:.4f}, memory {held:.3f}, work {work / flops:.3f}"
    if same:
        value = float(jax.jit(same)(w, *batch))
        np.testing.assert_allclose(value, wanted[0], rtol=1e-5, err_msg=name)
        flops = (jax.jit(adam(same)).lower((w,) * 3, *batch).compile().cost_analysis() or {})[
            "flops"
        ]
        said += f", {work / flops:.3f} of the same schedule on one device"
    print(said, flush=True)
    assert work <= 1.15 * flops, said


def leave(path: Path, text: str, arguments: Any, alone: Any, w: Any, batch: Any) -> None:
    """Write a program, what each device is given, and the losses of one device."""
    path.with_suffix(".mlir").write_text(text)
    parts = {
        f"{k:03}@{shard.device.id}": np.asarray(shard.data)
        for k, x in enumerate(jax.tree.leaves(arguments))
        for shard in x.addressable_shards
    }
    np.savez(path.with_suffix(".npz"), losses=trained_alone(alone, w, batch)[0], **parts)


def transformers() -> None:
    w = drawn_weights()
    tokens = np.random.RandomState(1).randint(0, WORDS, (BATCH, LENGTH)).astype(np.int32)
    whole = every(lambda _: P(), w)
    columns = {
        "table": P("model"), "qkv": P(None, None, "model"), "out": P(None, "model"),
        "up": P(None, None, "model"), "down": P(None, "model"),
    }  # fmt: skip
    rows = {k: P(*(None,) * (x.ndim - 2), "x") for k, x in w.items()}
    line, grid = Mesh(EIGHT, ("x",)), Mesh(EIGHT.reshape(2, 4), ("data", "model"))
    of_line, of_grid = P("x"), P("data")

    def with_spec(spec: P, of: Any = loss) -> Any:
        return lambda w, t: of(w, t, spec)

    compared("data", line, whole, with_spec(of_line), loss, w, (tokens,), (of_line,))
    compared("tensor", grid, columns, with_spec(of_grid), loss, w, (tokens,), (of_grid,), 0.26)
    # A token more than the sequence's parts: what is predicted is one less than what is read.
    more = np.random.RandomState(2).randint(0, WORDS, (BATCH, LENGTH + 1)).astype(np.int32)
    compared(
        "sequence", grid, columns, with_spec(P("data", "model")), loss, w, (more,), (of_grid,),
        0.26,
    )  # fmt: skip
    compared("fsdp", line, rows, with_spec(of_line), loss, w, (tokens,), (of_line,), 0.2)
    many = np.random.RandomState(3).randint(0, WORDS, (4 * BATCH, LENGTH)).astype(np.int32)
    compared(
        "fsdp with accumulation",
        line,
        rows,
        with_spec(of_line, accumulated),
        loss,
        w,
        (many,),
        (of_line,),
        0.2,
    )


def pipeline() -> None:
    """Four stages of a layer each, two ways of data; microbatches go from one to the next."""
    w = {"stages": np.random.RandomState(4).randn(4, D, D).astype(np.float32) / D**0.5}
    x = np.random.RandomState(5).randn(8, 4, D).astype(np.float32)
    mesh = Mesh(EIGHT.reshape(4, 2), ("stage", "data"))

    def alone(w: Weights, x: Any) -> Any:
        for k in range(4):
            x = jnp.tanh(x @ w["stages"][k])
        return jnp.mean((x - 0.1) ** 2)

    def local(w: Any, x: Any, is_cut: bool = True) -> Any:
        stage, count = lax.axis_index("stage"), x.shape[0]
        turned = [(k, (k + 1) % 4) for k in range(4)]

        def tick(state: Any, t: Any) -> Any:
            x_now = jnp.where(stage == 0, x[jnp.minimum(t, count - 1)], state)
            y = jnp.tanh(x_now @ w[0])
            return lax.ppermute(y, "stage", turned), y

        start = jnp.zeros_like(x[0])
        start = lax.pcast(start, "stage", to="varying") if is_cut else start
        _, ys = lax.scan(tick, start, jnp.arange(count + 3))
        error = jnp.where(stage == 3, jnp.mean((ys[3:] - 0.1) ** 2), 0)
        return lax.pmean(lax.psum(error, "stage"), "data")

    specs = P("stage"), P(None, "data")
    of = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P())

    def all_stages(w: Weights, x: Any) -> Any:
        """Eleven ticks of all stages: they work while nothing has reached them yet."""
        of_data = jax.vmap(partial(local, is_cut=False), (None, 0), axis_name="data")
        of_stages = jax.vmap(of_data, (0, None), axis_name="stage")
        return of_stages(w["stages"][:, None], x.reshape(8, 2, 2, D).swapaxes(0, 1))[0, 0]

    compared(
        "pipeline", mesh, {"stages": P("stage")}, lambda w, x: of(w["stages"], x), alone, w, (x,),
        (P(None, "data"),), 0.26, all_stages,
    )  # fmt: skip


def experts() -> None:
    """Eight experts; each token is sent to that of its largest score, and comes back."""
    draw = np.random.RandomState(6)
    sizes = {"gate": (D, 8), "up": (8, D, D), "down": (8, D, D)}
    w = {k: draw.randn(*n).astype(np.float32) / D**0.5 for k, n in sizes.items()}
    x = draw.randn(64, D).astype(np.float32)
    mesh = Mesh(EIGHT, ("x",))

    def scored(w: Weights, x: Any) -> Any:
        p = jax.nn.softmax(x @ w["gate"])
        return jnp.argmax(p, -1), p.max(-1)

    def alone(w: Weights, x: Any) -> Any:
        at, p = scored(w, x)
        y = jnp.einsum("td,tdf->tf", x, w["up"][at])
        y = jnp.einsum("tf,tfd->td", jax.nn.relu(y), w["down"][at])
        return jnp.mean((x + p[:, None] * y) ** 2)

    def exchanged(x: Any, out: Any, sizes: Any, back: Any, starts: Any, at: Any) -> Any:
        return lax.ragged_all_to_all(x, out, starts, sizes, at, back, axis_name="x")

    def local(w: Weights, x: Any) -> Any:
        at, p = scored(w, x)
        order = jnp.argsort(at)
        n, me = x.shape[0], lax.axis_index("x")
        counts = lax.all_gather(jnp.bincount(at, length=8), "x")  # [from, to]
        sent, came = counts[me], counts[:, me]
        before = jnp.cumsum(counts, 0) - counts  # where at its expert a device's tokens begin
        first = jnp.cumsum(counts, 1) - counts  # and where they begin at that device
        room = jnp.zeros((8 * n, x.shape[1]), x.dtype)
        there = exchanged(x[order], room, sent, came, first[me], before[me])
        y = jax.nn.relu(there @ w["up"][0]) @ w["down"][0]
        own = exchanged(y, jnp.zeros_like(x), came, sent, before[:, me], first[:, me])
        y = own[jnp.argsort(order)]
        return lax.pmean(jnp.mean((x + p[:, None] * y) ** 2), "x")

    specs = {"gate": P(), "up": P("x"), "down": P("x")}
    of = jax.shard_map(local, mesh=mesh, in_specs=(specs, P("x")), out_specs=P(), check_vma=False)

    def all_rows(w: Weights, x: Any) -> Any:
        """Every expert has room for all tokens, and what is empty is multiplied, too."""
        at, p = scored(w, x)
        there = jnp.where((at == jnp.arange(8)[:, None])[..., None], x, 0)
        y = jnp.einsum("etd,edf->etf", there, w["up"])
        y = jnp.einsum("etf,efd->etd", jax.nn.relu(y), w["down"])
        return jnp.mean((x + p[:, None] * y.sum(0)) ** 2)

    compared("experts", mesh, specs, of, alone, w, (x,), (P("x"),), 0.2, all_rows)


for case in (transformers, pipeline, experts):
    case()
print("done", flush=True)
if int(SIZE) > 1:
    jax.distributed.shutdown()  # the first one may not end before the others
os._exit(0)
