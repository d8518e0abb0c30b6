"""What JAX's libraries must be able to do on hloom (see jax_cases.py)."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax_cases import SQUARE, same

# -- linear algebra


def case_signs_of_decompositions_are_those_of_the_built_in_backend():
    symmetric = SQUARE + SQUARE.T
    for function, argument in (
        (jnp.linalg.eigh, symmetric),
        (jnp.linalg.svd, SQUARE),
        (functools.partial(jnp.linalg.svd, full_matrices=False), SQUARE[:, :4]),
        (jnp.linalg.eig, SQUARE),
        (lax.linalg.schur, SQUARE),
        (lax.linalg.hessenberg, SQUARE),
        (lax.linalg.tridiagonal, symmetric),
        (jnp.linalg.qr, SQUARE[:, :4]),
    ):
        same(function, argument, tolerance=2e-4)
        same(jax.vmap(function), np.stack([argument, 2 * argument]), tolerance=4e-4)


# -- kernels in interpret mode


def product(interpret: Any) -> Any:
    def kernel(a, b, out, sums):
        @pl.when(pl.program_id(2) == 0)
        def _():
            sums[...] = jnp.zeros_like(sums)

        sums[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            out[...] = sums[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 256), jnp.float32),
        grid=(2, 2, 2),
        in_specs=[
            pl.BlockSpec((8, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((8, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        interpret=interpret,
    )


def case_a_kernel_over_a_grid():
    random = np.random.default_rng(0)
    a = random.standard_normal((16, 256)).astype(np.float32)
    b = random.standard_normal((256, 256)).astype(np.float32)
    for interpret in (True, pltpu.InterpretParams()):
        found = np.asarray(jax.jit(product(interpret))(a, b))
        np.testing.assert_allclose(found, a @ b, 1e-4, 1e-4)
    pltpu.reset_tpu_interpret_mode_state()


# -- calls of Python


def case_calls_of_python_are_done_when_a_program_returns():
    done: list[float] = []

    def slow(x: Any) -> None:
        time.sleep(0.02)
        done.append(float(x))

    program = jax.jit(lambda x: io_callback(slow, None, x)).lower(1.0).compile()
    for k in range(4):  # a program that has been slow before is no exception
        program(float(k))
        assert done == [float(x) for x in range(k + 1)]
    # A call may wait for a thread that runs such a program.
    thread_map = jax.jit(lambda: io_callback(in_a_thread, None, ordered=True))

    def in_a_thread() -> None:
        thread = threading.Thread(target=program, args=(9.0,))
        thread.start()
        thread.join(60)

    thread_map()
    jax.effects_barrier()
    assert done[-1] == 9.0
