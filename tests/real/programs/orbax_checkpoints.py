"""Orbax: what a training saves is what it restores and goes on with."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp


def run():
    optimizer = optax.adam(1e-2)
    weights = {
        "full": jax.random.normal(jax.random.key(0), (8, 4)),
        "half": jnp.ones(4, jnp.bfloat16),
        "count": jnp.int32(7),
    }
    state = optimizer.init(weights["full"])

    @jax.jit
    def step(full, state):
        value, gradient = jax.value_and_grad(lambda w: jnp.sum(jnp.tanh(w) ** 2))(full)
        change, state = optimizer.update(gradient, state)
        return full + change, state, value

    full, state, _ = step(weights["full"], state)
    saved = {"weights": {**weights, "full": full}, "state": state}
    like = jax.tree.map(ocp.utils.to_shape_dtype_struct, saved)
    with tempfile.TemporaryDirectory() as folder:
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(Path(folder) / "once", saved)
            checkpointer.wait_until_finished()
            restored = checkpointer.restore(Path(folder) / "once", like)
        options = ocp.CheckpointManagerOptions(max_to_keep=2)
        with ocp.CheckpointManager(Path(folder) / "many", options=options) as manager:
            for number in range(3):
                manager.save(number, args=ocp.args.StandardSave({"full": full + number}))
            manager.wait_until_finished()
            kept = jnp.array(manager.all_steps())
            last = manager.restore(2, args=ocp.args.StandardRestore({"full": full}))
    after, _, value = step(restored["weights"]["full"], restored["state"])
    return {"weights": restored["weights"], "kept": kept, "last": last, "after": (after, value)}
