"""Arrays that a caller gives up; each function runs in a child process (`child.py`)."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def fresh() -> jax.Array:
    return jnp.arange(8.0).reshape(4, 2) + 1


def error_of(call) -> str:
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return str(error)
    raise AssertionError("nothing was refused")


def case_only_what_a_result_can_be_is_given_up():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        x, y, z = fresh(), fresh(), fresh()
        f = jax.jit(lambda a, b, c: (a.T, b[:1] + c[:1]), donate_argnums=(0, 1, 2))
        turned, cut = f(x, y, z)
        assert (x.is_deleted(), y.is_deleted(), z.is_deleted()) == (True, False, False)
        assert np.array_equal(turned, np.asarray(y).T)
        assert np.array_equal(cut, np.asarray(y)[:1] * 2)
        narrow = jax.jit(lambda a: a.astype(jnp.int8), donate_argnums=0)(z)
        assert not z.is_deleted()
        assert np.array_equal(narrow, np.asarray(y).astype(np.int8))
    assert any("donated buffers were not usable" in str(w.message) for w in told)


def case_calls_that_fail_give_back():
    both = jax.jit(lambda a, b: (a + b, a - b), donate_argnums=(0, 1))
    first = jax.jit(lambda a, b: a + b, donate_argnums=0)
    second = jax.jit(lambda a, b: a + b, donate_argnums=1)
    x = fresh()
    assert "donate the same buffer twice in Execute()" in error_of(lambda: both(x, x))
    assert "previously donated in the same call to Execute()" in error_of(lambda: first(x, x))
    assert "also used by the same call to Execute()" in error_of(lambda: second(x, x))
    assert not x.is_deleted()
    assert np.array_equal(x, np.arange(8.0).reshape(4, 2) + 1)
    gone = fresh()
    gone.delete()
    assert "deleted" in error_of(lambda: first(x, gone))
    assert not x.is_deleted()


def case_parts_of_devices_are_compared():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    cut, whole = NamedSharding(mesh, P("i")), NamedSharding(mesh, P())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = jax.device_put(fresh(), cut)
        turned = jax.jit(
            lambda a: a.T, donate_argnums=0, out_shardings=NamedSharding(mesh, P(None, "i"))
        )
        assert np.array_equal(turned(x), fresh().T)
        assert x.is_deleted()
        y = jax.device_put(fresh(), cut)
        spread = jax.jit(lambda a: a + 1, donate_argnums=0, out_shardings=whole)
        assert np.array_equal(spread(y), fresh() + 1)
        assert not y.is_deleted()
