"""hloom.jax: functions of JAX compiled by hloom, which is no backend then."""

import subprocess
import sys

import numpy as np
import pytest

import hloom

jax = pytest.importorskip("jax", reason="JAX is not installed (make setup)")
import jax.numpy as jnp  # noqa: E402

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_pytrees_and_kinds_of_arguments():
    f = hloom.jax.jit(lambda p, x: {"y": jnp.tanh(x @ p["w"]), "n": (x.sum(), None)})
    p = {"w": np.ones((3, 2), np.float32)}
    found = f(p, X)
    assert type(found["y"]) is np.ndarray and found["n"][1] is None
    np.testing.assert_allclose(found["y"], np.tanh(X @ p["w"]), 1e-6)
    assert isinstance(f(p, jnp.asarray(X))["y"], jax.Array)
    assert f.compiled_count == 1
    f(p, X[:1])
    assert f.compiled_count == 2


@pytest.mark.parametrize("settings", [{"static_argnums": 1}, {"static_argnames": "n"}])
def test_static_arguments(settings):
    f = hloom.jax.jit(lambda x, n: x**n if n > 1 else x, **settings)
    np.testing.assert_allclose(f(X, 2), X**2)
    np.testing.assert_allclose(f(X, n=3), X**3, 1e-6)
    np.testing.assert_allclose(f(X, 1), X)
    assert f.compiled_count == 3


@pytest.mark.parametrize("wide", [False, True])
def test_numbers_are_what_jax_takes_them_for(wide):
    with jax.enable_x64(wide):  # which other tests of the same process may have left otherwise
        check_numbers(*(np.float64, np.int64) if wide else (np.float32, np.int32))


def check_numbers(real, integer):
    f = hloom.jax.jit(lambda x, n: (x * n, n))
    product, n = f(X, 2)
    assert product.dtype == np.float32 and n.dtype == integer and n == 2
    assert f(np.arange(3), 2.5)[0].dtype == real


def test_donated_arrays_are_gone():
    f = hloom.jax.jit(lambda s, x: s + x, donate_argnums=0)
    s, x = jnp.ones(4), jnp.ones(4)
    np.testing.assert_array_equal(f(s, x), np.full(4, 2.0))
    assert s.is_deleted() and not x.is_deleted()
    plain = np.ones(4, np.float32)
    f(plain, plain)
    assert plain.sum() == 4


def test_keys_go_in_and_out():
    key = jax.random.key(3)
    new, drawn = hloom.jax.jit(lambda k: (jax.random.split(k)[0], jax.random.normal(k, (5,))))(key)
    np.testing.assert_allclose(drawn, jax.random.normal(key, (5,)), 1e-5)
    assert new == jax.random.split(key)[0]


def test_gradients_inside():
    f = hloom.jax.jit(jax.vmap(jax.grad(lambda x: jnp.sin(x) * x)))
    np.testing.assert_allclose(f(X[1]), np.sin(X[1]) + X[1] * np.cos(X[1]), 1e-5)


def test_lower_keeps_parameters_that_nobody_reads():
    module = hloom.jax.lower(lambda x, y: x + 1, X, jax.ShapeDtypeStruct((3,), jnp.int8))
    assert [p.shape.text_without_layout for p in module.entry.parameters] == ["f32[2,3]", "s8[3]"]
    np.testing.assert_array_equal(hloom.evaluate(module, X, np.zeros(3, np.int8)).array, X + 1)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: hloom.jax.jit(3), "function"),
        (lambda: hloom.jax.jit(jnp.sin)("a"), "argument-type"),
        (lambda: hloom.jax.jit(lambda x, n: x, static_argnums=1)(X, [1]), "static-argument"),
        (lambda: jax.jit(hloom.jax.jit(jnp.sin))(X), "traced"),
        (lambda: jax.grad(hloom.jax.jit(jnp.sin))(1.0), "traced"),
        (
            lambda: hloom.jax.jit(lambda x: jax.pure_callback(np.sin, x, x))(jnp.asarray(X)),
            "host-callback",
        ),
    ],
)
def test_wrong_use_is_one_error(call, rule):
    with pytest.raises(hloom.HloError) as caught:
        call()
    assert caught.value.rule == rule


@pytest.mark.parametrize("name", ["jax", "torch", "tensorflow"])
def test_without_the_package_the_error_says_what_to_install(name):
    call = "jit(len)" if name != "torch" else "lower(len)"
    code = f"""
import sys
sys.modules[{name!r}] = None
import hloom
try:
    hloom.{name}.{call}
except hloom.HloError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install" in done.stdout and name in done.stdout, done.stderr
