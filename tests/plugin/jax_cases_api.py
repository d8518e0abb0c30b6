"""The corners of JAX's API on hloom; each function runs in a child process (`child.py`)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def error_of(function, *arguments) -> str:
    """What the JAX error says that this call raises."""
    try:
        function(*arguments)
    except jax.errors.JaxRuntimeError as error:
        return str(error)
    raise AssertionError("no error")


def case_an_array_is_donated_once():
    def fresh():
        return jnp.ones(4) + 1

    def double(a, b):
        return a * 2, b * 2

    x = fresh()
    told = error_of(jax.jit(double, donate_argnums=(0, 1)), x, x)
    assert "Attempt to donate the same buffer twice in Execute()" in told
    x = fresh()
    told = error_of(jax.jit(double, donate_argnums=0), x, x)
    assert "Attempt to use a buffer that was previously donated" in told
    x = fresh()
    told = error_of(jax.jit(double, donate_argnums=1), x, x)
    assert "Attempt to donate a buffer which is also used by the same call" in told


def case_an_array_that_is_viewed_is_not_donated():
    x = jnp.ones(1000) + 1
    view = np.asarray(x)
    y = jax.jit(lambda a: a * 2, donate_argnums=0)(x)
    assert (view == 2).all() and (np.asarray(y) == 4).all()
    assert not x.is_deleted()


def case_numpy_arguments_may_change_after_the_call():
    for size in (3, 1000, 50_000):
        # The first run of a program is not in the caller's thread.
        f = jax.jit(lambda a: a + 1)
        given = np.zeros(size, np.float32)
        y = f(given)
        given[:] = 7
        assert (np.asarray(y) == 1).all()
        given = np.zeros(size, np.float32)
        y = jnp.array(given)
        given[:] = 7
        assert (np.asarray(y) == 0).all()


def case_no_machine_has_so_much_memory():
    told = error_of(lambda: jnp.ones((1 << 25, 1 << 25)))
    assert told.startswith("RESOURCE_EXHAUSTED: Out of memory allocating")


def case_options_of_xla():
    def compiled(**options):
        return jax.jit(lambda x: x + 1).lower(jnp.ones(3)).compile(compiler_options=options)

    options = {"xla_embed_ir_in_executable": True, "xla_dump_max_hlo_modules": 200}
    assert (np.asarray(compiled(**options)(jnp.ones(3))) == 2).all()
    assert "No such compile option: 'invalid_key'" in error_of(lambda: compiled(invalid_key=True))
    told = error_of(lambda: compiled(xla_embed_ir_in_executable="maybe"))
    assert "xla_embed_ir_in_executable, 'maybe' is not a valid bool value" in told
