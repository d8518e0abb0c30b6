"""cholesky and triangular-solve: what they return must satisfy the equation they solve."""

import itertools
from typing import Any

import numpy as np
import pytest

from hloom.types.dtype import BY_NAME
from tests.interp.one_op import run

TYPES = ["f32", "f64", "c64", "c128", "bf16", "f16"]
TOLERANCE = {"f32": 1e-5, "c64": 1e-5, "bf16": 5e-2, "f16": 5e-3}


def drawn(dims: tuple[int, ...], type_name: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    made = rng.normal(size=dims)
    return made + 1j * rng.normal(size=dims) if BY_NAME[type_name].is_complex else made


def wide(x: Any) -> Any:
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("type_name", TYPES)
def test_cholesky(type_name: str, lower: bool) -> None:
    b = drawn((2, 3, 5, 5), type_name)
    a = (b @ np.conj(np.swapaxes(b, -1, -2)) + 5 * np.eye(5)).astype(BY_NAME[type_name].numpy)
    read = np.tril(np.ones((5, 5), bool)) if lower else np.triu(np.ones((5, 5), bool))
    got = run("cholesky", np.where(read, a, np.array(np.nan, a.dtype)), lower=lower)
    assert got.dtype == a.dtype
    factor = wide(got)
    assert (factor[..., ~read] == 0).all()
    adjoint = np.conj(np.swapaxes(factor, -1, -2))
    product = factor @ adjoint if lower else adjoint @ factor
    assert np.allclose(product, wide(a), rtol=TOLERANCE.get(type_name, 1e-12))


def test_cholesky_of_what_is_not_positive_definite() -> None:
    a = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0]), np.zeros((3, 3)), np.full((3, 3), np.nan)])
    got = run("cholesky", a, lower=True)
    assert (got[0] == np.eye(3)).all()
    assert np.isnan(got[1:]).all()


def test_cholesky_of_nothing() -> None:
    assert run("cholesky", np.zeros((2, 0, 0)), lower=True).shape == (2, 0, 0)


FLAGS = list(itertools.product([True, False], [True, False], [True, False]))


@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("type_name", TYPES)
def test_triangular_solve(type_name: str, flags: tuple[bool, bool, bool], transpose: str) -> None:
    left, lower, unit = flags
    numpy_type = BY_NAME[type_name].numpy
    read = np.tril(np.ones((4, 4), bool), -unit)
    read = read if lower else read.T
    a = (drawn((3, 4, 4), type_name) / 4 + 2 * np.eye(4)).astype(numpy_type)
    b = drawn((3, 4, 2) if left else (3, 2, 4), type_name, 1).astype(numpy_type)
    given = np.where(read, a, np.array(np.nan, numpy_type))
    got = run(
        "triangular-solve",
        given,
        b,
        dims=b.shape,
        left_side=left,
        lower=lower,
        unit_diagonal=unit,
        transpose_a=transpose,
    )
    assert got.dtype == b.dtype
    matrix = np.where(read, wide(a), 0) + (np.eye(4) if unit else 0)
    if transpose != "NO_TRANSPOSE":
        matrix = np.swapaxes(matrix, -1, -2)
    if transpose == "ADJOINT":
        matrix = np.conj(matrix)
    product = matrix @ wide(got) if left else wide(got) @ matrix
    tolerance = TOLERANCE.get(type_name, 1e-12)
    assert np.allclose(product, wide(b), rtol=tolerance, atol=4 * tolerance)


def test_singular_systems_give_infinities_not_errors() -> None:
    a, b = np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([[1.0], [1.0]])
    got = run("triangular-solve", a, b, dims=(2, 1), left_side=True, lower=True)
    assert np.isinf(got[0, 0])


def test_many_right_hand_sides_and_rows() -> None:
    a = np.tril(drawn((200, 200), "f64")) / 20 + np.eye(200)
    b = drawn((200, 100), "f64", 1)
    got = run("triangular-solve", a, b, dims=b.shape, left_side=True, lower=True)
    assert np.allclose(a @ got, b, atol=1e-8)
