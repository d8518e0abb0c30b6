"""Which programs may be padded with rows: of JAX's functions, and what more rows do."""

import numpy as np
import pytest

import hloom
from hloom.passes.partition.row_independence import why_rows_depend

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

W = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)


def attention(x):
    b = x.reshape(x.shape[0], 4, 4)
    return jax.nn.softmax(jnp.einsum("bik,bjk->bij", b, b)) @ b


def convolution(x):
    y = x.reshape(x.shape[0], 4, 4, 1)
    numbers = ("NHWC", "HWIO", "NHWC")
    kernel = np.ones((3, 3, 1, 8), np.float32)
    y = jax.lax.conv_general_dilated(y, kernel, (1, 1), "SAME", dimension_numbers=numbers)
    return jax.nn.relu(y).reshape(x.shape[0], -1)


def loop(x):
    return jax.lax.scan(lambda c, _: (jnp.tanh(c @ W), None), x, None, length=5)[0]


INDEPENDENT = {
    "mlp": lambda x: jax.nn.softmax(jnp.tanh(x @ W) @ W),
    "attention": attention,
    "convolution": convolution,
    "loop": loop,
    "embedding": lambda x: jnp.take(W, jnp.argmax(x, -1), axis=0),
    "gradient": jax.vmap(jax.grad(lambda x: jnp.mean((x @ W) ** 2))),
    "sort": lambda x: jnp.sort(x, -1),
    "top_k": lambda x: jax.lax.top_k(x, 3)[0],
    "scan of columns": lambda x: jnp.cumsum(x, -1),
    "pick": lambda x: jnp.take_along_axis(x, jnp.argmax(x, -1)[:, None], -1),
    "rows of parts": lambda x: (x.reshape(-1, 8) @ W[:8, :8]).reshape(x.shape),
    "number of the row": lambda x: x + jnp.arange(x.shape[0])[:, None],
}
DEPENDENT = {
    "mean": lambda x: x - x.mean(0),
    "largest": lambda x: x / jnp.max(x),
    "count": lambda x: x / x.shape[0],
    "gradient of a mean": jax.grad(lambda x: jnp.mean((x @ W) ** 2)),
    "reversed": lambda x: x[::-1],
    "next": lambda x: jnp.roll(x, 1, 0),
    "sorted rows": lambda x: jnp.sort(x, 0),
    "gram": lambda x: (x @ x.T) @ x,
    "count from the end": lambda x: x + jnp.arange(x.shape[0])[::-1, None],
}
ON_EARLIER = {"scan of rows": lambda x: jnp.cumsum(x, 0), "first": lambda x: x + x[:1]}


def reason(f, few=4, many=6):
    import hloom.jax as door

    a, b = [door.lower(f, np.zeros((n, 16), np.float32)) for n in (few, many)]
    count = b.entry.root.shape.leaf_count
    return why_rows_depend(a, b, many, {0: 0}, dict.fromkeys(range(count), 0))


def padded(f):
    """Whether rows behind leave those before as they are, for numbers at random."""
    x = np.random.default_rng(1).normal(size=(6, 16)).astype(np.float32)
    x[4:] *= 10
    return np.allclose(f(x)[:4], f(x[:4]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_rows_by_themselves(name):
    assert reason(INDEPENDENT[name]) == ""
    assert padded(INDEPENDENT[name])


@pytest.mark.parametrize("name", DEPENDENT)
def test_rows_that_know_of_others(name):
    assert reason(DEPENDENT[name])
    assert not padded(DEPENDENT[name])


@pytest.mark.parametrize("name", ON_EARLIER)
def test_rows_that_know_of_those_before(name):
    assert reason(ON_EARLIER[name])  # though rows behind would do no harm


def test_random_numbers_by_the_number_of_the_element():
    def drawn(x):
        return x + jax.random.uniform(jax.random.key(0), x.shape)

    assert bool(reason(drawn)) != padded(drawn)


def test_modules_stay_as_they_were():
    import hloom.jax as door

    a, b = [door.lower(INDEPENDENT["mlp"], np.zeros((n, 16), np.float32)) for n in (2, 3)]
    before = hloom.show(a), hloom.show(b)
    assert why_rows_depend(a, b, 3, {0: 0}, {0: 0}) == ""
    assert (hloom.show(a), hloom.show(b)) == before
