"""What JAX must be able to do on several devices of hloom; run by `child.py`, as jax_cases.py is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import serialize_executable
from jax_cases import BUILT_IN, HLOOM, VECTOR


def mesh(*sizes: int, names: str = "xy") -> Any:
    return jax.sharding.Mesh(np.array(HLOOM).reshape(sizes), tuple(names[: len(sizes)]))


def spread(array: np.ndarray, over: Any, *axes: Any) -> Any:
    return jax.device_put(
        array, jax.sharding.NamedSharding(over, jax.sharding.PartitionSpec(*axes))
    )


GRID = np.arange(64.0, dtype=np.float32).reshape(8, 8)


def case_several_devices_place():
    assert len(HLOOM) == 4
    x = jax.device_put(VECTOR, HLOOM[3])
    y = jax.jit(lambda a: a * 2)(x)
    assert y.devices() == {HLOOM[3]}
    z = jax.device_put(y, HLOOM[1])
    assert z.devices() == {HLOOM[1]} and z.unsafe_buffer_pointer() != y.unsafe_buffer_pointer()
    assert np.array_equal(np.asarray(z + 1), VECTOR * 2 + 1)
    with np.testing.assert_raises_regex(ValueError, "incompatible devices"):
        jax.jit(lambda a, b: a + b)(x, z)


def case_several_devices_sharded():
    over = mesh(2, 2)
    a, b = spread(GRID, over, "x", "y"), spread(GRID.T.copy(), over, "y")
    whole, doubled = jax.jit(lambda a, b: (a @ b, a * 2))(a, b)
    np.testing.assert_allclose(np.asarray(whole), GRID @ GRID.T, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(doubled), GRID * 2)
    assert doubled.sharding == a.sharding  # as propagation has it
    for shard in doubled.addressable_shards:
        assert shard.data.devices() == {shard.device}
        np.testing.assert_array_equal(np.asarray(shard.data), GRID[shard.index] * 2)


def case_several_devices_results_as_asked():
    over = mesh(2, 2)
    a = spread(GRID, over, "x", "y")
    wanted = [
        jax.sharding.NamedSharding(over, jax.sharding.PartitionSpec(*p))
        for p in ((), ("y", "x"), ("y",))
    ]
    total, turned, row = jax.jit(lambda a: (a.sum(), a.T, a[1]), out_shardings=tuple(wanted))(a)
    assert [total.sharding, turned.sharding, row.sharding] == wanted
    assert float(total) == GRID.sum()
    np.testing.assert_array_equal(np.asarray(turned), GRID.T)
    np.testing.assert_array_equal(np.asarray(row), GRID[1])


def case_several_devices_training_donates():
    over = mesh(4)

    def loss(w, x):
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    def train(w, x):
        step = jax.jit(lambda w, x: w - 0.1 * jax.grad(loss)(w, x), donate_argnums=0)
        for _ in range(5):
            old, w = w, step(w, x)
        assert old.is_deleted()
        return w

    ours = train(spread(GRID / 64, over), spread(GRID / 64, over, "x"))
    with jax.default_device(BUILT_IN):
        theirs = train(jax.device_put(GRID / 64, BUILT_IN), jax.device_put(GRID / 64, BUILT_IN))
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-5)


def case_several_devices_constraints_and_callbacks():
    over = mesh(2, 2)
    place = jax.sharding.NamedSharding(over, jax.sharding.PartitionSpec("y", "x"))
    a = spread(GRID, over, "x", "y")
    shape = jax.ShapeDtypeStruct(GRID.shape, GRID.dtype)

    @jax.jit
    def f(a):
        b = lax.with_sharding_constraint(a + 1, place)
        return jax.pure_callback(lambda v: np.asarray(v) * 2, shape, b)

    np.testing.assert_array_equal(np.asarray(f(a)), (GRID + 1) * 2)


def case_several_devices_serialized():
    over = mesh(2, 2)
    a = spread(GRID, over, "x", "y")
    compiled = jax.jit(lambda a: a @ a).lower(a).compile()
    again = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(compiled), execution_devices=list(over.devices.flat)
    )
    np.testing.assert_array_equal(np.asarray(again(a)), np.asarray(compiled(a)))
    assert again.output_shardings == compiled.output_shardings
