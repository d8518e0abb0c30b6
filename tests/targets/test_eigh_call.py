"""The custom call Eigh, as TensorFlow and PyTorch/XLA write it, compiled and interpreted."""

import numpy as np
import pytest

from hloom import api
from tests.pass_case import leaves

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
REAL = {"f32": "f32", "f64": "f64", "c64": "f32", "c128": "f64"}


def module(kind: str, dims: tuple[int, ...], config: str) -> str:
    square, row = (",".join(map(str, d)) for d in (dims, dims[:-1]))
    result = f"({kind}[{square}], {REAL[kind]}[{row}])"
    return f"""HloModule eigh
ENTRY e {{
  x = {kind}[{square}] parameter(0)
  ROOT e = {result} custom-call(x), custom_call_target="Eigh", backend_config="{config}"
}}"""


def drawn(kind: str, dims: tuple[int, ...]) -> np.ndarray:
    """No Hermitian matrices: what is not read is something else."""
    rng = np.random.default_rng(sum(dims))
    x = rng.standard_normal(dims)
    return (x + 1j * rng.standard_normal(dims) if kind[0] == "c" else x).astype(TYPES[kind])


@pytest.mark.parametrize("lower", [1, 0])
@pytest.mark.parametrize("dims", [(5, 5), (3, 2, 4, 4), (1, 1), (2, 0, 0), (0, 3, 3), (70, 70)])
@pytest.mark.parametrize("kind", list(TYPES))
def test_vectors_and_values(kind: str, dims: tuple[int, ...], lower: int) -> None:
    text = module(kind, dims, f"{lower},1,100,1e-6")
    x = drawn(kind, dims)
    read = np.tril(x) if lower else np.triu(x)
    other = np.conj(np.swapaxes(np.tril(x, -1) if lower else np.triu(x, 1), -1, -2))
    index = np.arange(dims[-1])
    matrix = read + other
    matrix[..., index, index] = x[..., index, index].real
    exact = 1e-3 if TYPES[kind](0).real.dtype == np.float32 else 1e-11
    for run in (api.compile(api.parse(text)), lambda x: api.evaluate(api.parse(text), x)):
        vectors, values = leaves(run(x))
        assert (vectors.dtype, vectors.shape) == (x.dtype, dims)
        assert values.dtype == x.real.dtype and values.shape == dims[:-1]
        if not x.size:
            continue
        np.testing.assert_allclose(matrix @ vectors, vectors * values[..., None, :], atol=exact)
        np.testing.assert_allclose(
            np.conj(np.swapaxes(vectors, -1, -2)) @ vectors,
            np.broadcast_to(np.eye(dims[-1]), dims),
            atol=exact,
        )
        assert (np.diff(values, axis=-1) >= 0).all()


def test_what_is_not_finite_has_none() -> None:
    x = np.stack([np.eye(3), np.full((3, 3), np.nan)]).astype(np.float32)
    vectors, values = api.compile(api.parse(module("f32", (2, 3, 3), "1,1,6,1e-6")))(x)
    assert np.isnan(np.asarray(values)[1]).all() and np.isnan(np.asarray(vectors)[1]).all()
    np.testing.assert_array_equal(np.asarray(values)[0], [1, 1, 1])


def test_signs_can_be_settled() -> None:
    text = module("c64", (4, 6, 6), "1,1,6,1e-6")
    x = drawn("c64", (4, 6, 6))
    compiled, interpreted = api.parse(text), api.parse(text)
    api.settle_signs(compiled)
    api.settle_signs(interpreted)
    found, wanted = leaves(api.compile(compiled)(x)), leaves(api.evaluate(interpreted, x))
    np.testing.assert_allclose(found[0], wanted[0], atol=2e-4)
