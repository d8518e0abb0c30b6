"""One of several processes that jax.distributed joins: `distributed_child.py rank size port what`.

Says `done` when all was right; then process 1 is `killed` or runs an `other` program, and the rest
say what becomes of theirs. `train` compares what is computed together with one device of its own.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

RANK, SIZE, PORT, WHAT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
jax.distributed.initialize(f"localhost:{PORT}", SIZE, RANK)
COUNT, LOCAL = jax.device_count(), jax.local_device_count()
MESH = Mesh(np.array(jax.devices()).reshape(COUNT // 2, 2), ("data", "model"))


def sharded(*names: object) -> NamedSharding:
    return NamedSharding(MESH, P(*names))


def put(whole: np.ndarray, *names: object) -> jax.Array:
    return jax.make_array_from_callback(whole.shape, sharded(*names), lambda at: whole[at])


def whole(array: jax.Array) -> np.ndarray:
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def topology() -> None:
    assert (jax.process_index(), jax.process_count()) == (RANK, SIZE)
    assert [d.process_index for d in jax.devices()] == [k // LOCAL for k in range(COUNT)]
    assert [d.id for d in jax.local_devices()] == [RANK * LOCAL + k for k in range(LOCAL)]
    assert [d.local_hardware_id for d in jax.local_devices()] == list(range(LOCAL))


def arrays() -> None:
    x = np.arange(2 * COUNT * 6, dtype=np.float32).reshape(2 * COUNT, 6)
    a = put(x, "data", "model")
    assert not a.is_fully_addressable
    assert {s.device.process_index for s in a.addressable_shards} == {RANK}
    np.testing.assert_array_equal(whole(a), x)
    own = np.full((LOCAL, 3), RANK, np.float32)
    b = jax.make_array_from_process_local_data(sharded(("data", "model")), own)
    np.testing.assert_array_equal(whole(b), np.repeat(np.arange(SIZE), LOCAL)[:, None] + 0 * b[0])
    np.testing.assert_array_equal(
        multihost_utils.process_allgather(np.array([RANK, 7])), [[k, 7] for k in range(SIZE)]
    )
    assert multihost_utils.broadcast_one_to_all(np.array([RANK + 5])) == [5]
    multihost_utils.sync_global_devices("arrays")
    multihost_utils.assert_equal(x, "the same everywhere")
    # Programs of this process alone are between the others'.
    assert float(jax.jit(jnp.sum)(jnp.full(3, RANK + 1.0))) == 3 * (RANK + 1)


def collectives() -> None:
    x = np.random.RandomState(0).randn(COUNT * 2, 6).astype(np.float32)
    half, rows = COUNT // 2, x.reshape(COUNT // 2, 4, 2, 3)

    def local(v: jax.Array):
        turned = [(k, (k + 1) % half) for k in range(half)]
        return (
            lax.psum(v, ("data", "model")),
            lax.all_gather(v, "model"),
            lax.ppermute(v, "data", turned),
            lax.psum_scatter(v, "model", tiled=True),
            lax.pmax(v, "data"),
        )

    both = P("data", "model")
    out = (P(), P(None, "data", "model"), both, P(("data", "model")), P(None, "model"))
    f = jax.shard_map(local, mesh=MESH, in_specs=both, out_specs=out, check_vma=False)
    total, gathered, turned, _, most = jax.jit(f)(put(x, "data", "model"))
    np.testing.assert_allclose(np.asarray(total), rows.sum((0, 2)), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(whole(gathered)[1, :, :3], x[:, 3:])
    np.testing.assert_array_equal(whole(turned), np.roll(x, 4, 0))
    np.testing.assert_array_equal(whole(most), rows.max(0).reshape(4, 6))
    y = jax.jit(lambda a: a.T @ a, out_shardings=sharded())(put(x, "data", "model"))
    np.testing.assert_allclose(np.asarray(y), x.T @ x, rtol=1e-4, atol=1e-4)
    key = jax.random.key(3)
    drawn = jax.jit(lambda k: jax.random.normal(k, (COUNT, 4)), out_shardings=sharded("data"))
    np.testing.assert_array_equal(whole(drawn(key)), np.asarray(jax.random.normal(key, (COUNT, 4))))


def loss(w: dict, x: jax.Array) -> jax.Array:
    h = jnp.tanh(x @ w["up"])
    return jnp.mean((h @ w["down"] - jnp.sin(x)) ** 2)


def step(w: dict, x: jax.Array):
    value, slopes = jax.value_and_grad(loss)(w, x)
    return jax.tree.map(lambda a, g: a - 0.3 * g, w, slopes), value


def train() -> None:
    draw = np.random.RandomState(1)
    w = {n: draw.randn(*s).astype(np.float32) / 3 for n, s in (("up", (6, 16)), ("down", (16, 6)))}
    x = draw.randn(4 * COUNT, 6).astype(np.float32)
    spread = {"up": put(w["up"], None, "model"), "down": put(w["down"], "model")}
    own = jax.tree.map(jnp.asarray, w)
    xs, results = put(x, "data"), {k: a.sharding for k, a in spread.items()}
    together = jax.jit(step, out_shardings=(results, sharded()), donate_argnums=0)
    alone, text = jax.jit(step), together.lower(spread, xs).compile().as_text()
    assert text is not None and "all-reduce" in text
    for _ in range(20):
        spread, a = together(spread, xs)
        own, b = alone(own, jnp.asarray(x))
        np.testing.assert_allclose(float(a), float(b), rtol=1e-5)
    np.testing.assert_allclose(whole(spread["up"]), np.asarray(own["up"]), rtol=1e-4, atol=1e-5)


def fail() -> None:
    """Process 1 leaves the others, or does something else than they: they say so at once."""
    f = jax.jit(lambda a: a.sum(), out_shardings=sharded())
    x = put(np.ones((COUNT, 2), np.float32), "data", "model")
    f(x).block_until_ready()
    multihost_utils.sync_global_devices("before")
    if RANK == 1:
        if WHAT == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        f = jax.jit(lambda a: jnp.sort(a.sum(0)), out_shardings=sharded())
    begin = time.monotonic()
    try:
        f(x).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        print(f"{time.monotonic() - begin < 60}: {error}", flush=True)


for case in (topology, arrays, collectives, train):
    case()
print("done", flush=True)
fail()
os._exit(0)  # JAX's coordinator would wait for one that is gone
