"""Collectives that start and end, on four devices; each function runs in a child process."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def case_asynchronous_collectives_are_those_that_wait():
    from jax._src.lax import parallel

    if not hasattr(parallel, "psum_start"):
        return  # before JAX 0.10
    mesh = jax.make_mesh((4,), ("i",))
    ring = [(k, (k + 1) % 4) for k in range(4)]
    pairs = [
        (lambda x: jax.lax.psum(x, "i"), lambda x: parallel.psum_start(x, "i").done()),
        (
            lambda x: jax.lax.all_gather(x, "i", tiled=True),
            lambda x: parallel.all_gather_start(x, "i", tiled=True).done(),
        ),
        (
            lambda x: jax.lax.ppermute(x, "i", ring),
            lambda x: parallel.ppermute_start(x, "i", ring).done(),
        ),
        (
            lambda x: jax.lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
            lambda x: parallel.psum_scatter_start(x, "i", scatter_dimension=1, tiled=True).done(),
        ),
        (
            lambda x: jax.lax.all_to_all(x, "i", 1, 0, tiled=True),
            lambda x: parallel.all_to_all_start(x, "i", 1, 0, tiled=True).done(),
        ),
    ]
    spec = jax.sharding.PartitionSpec("i")
    x = jax.device_put(jnp.arange(16.0).reshape(4, 4), jax.NamedSharding(mesh, spec))
    if jax.__version_info__ >= (0, 11):
        del pairs[0]  # its start is no start there
    for waits, starts in pairs:
        made, wanted = (
            jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))(x)
            for f in (starts, waits)
        )
        np.testing.assert_array_equal(made, wanted)
