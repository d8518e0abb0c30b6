"""fft against the sums that define it."""

from typing import Any

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.types.dtype import BY_NAME
from tests.interp.one_op import run

LENGTHS = [(8,), (7,), (1,), (4, 6), (3, 5), (2, 3, 4)]


def matrix(n: int, sign: int) -> Any:
    """e**(sign 2 pi i j k / n), the angles reduced so that they are exact."""
    j, k = np.ogrid[:n, :n]
    return np.exp(sign * 2j * np.pi * ((j * k) % n) / n)


def transformed(x: Any, lengths: tuple[int, ...], sign: int) -> Any:
    """The sum over each of the last dimensions in turn."""
    for k, n in enumerate(lengths):
        axis = x.ndim - len(lengths) + k
        x = np.moveaxis(np.tensordot(matrix(n, sign), x, (1, axis)), 0, axis)
        x = x / n if sign > 0 else x
    return x


def drawn(dims: tuple[int, ...], is_complex: bool) -> Any:
    rng = np.random.default_rng(3)
    made = rng.normal(size=dims)
    return made + 1j * rng.normal(size=dims) if is_complex else made


@pytest.mark.parametrize("type_name", ["c64", "c128"])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(("fft_type", "sign"), [("FFT", -1), ("IFFT", 1)])
def test_complex(fft_type: str, sign: int, lengths: tuple[int, ...], type_name: str) -> None:
    x = drawn((3, *lengths), True).astype(BY_NAME[type_name].numpy)
    got = run("fft", x, fft_type=fft_type, fft_length=lengths)
    assert got.dtype == x.dtype
    tolerance = 1e-12 if type_name == "c128" else 1e-6
    assert np.allclose(got, transformed(x, lengths, sign), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("real", "type_name"), [("f32", "c64"), ("f64", "c128")])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_real_there_and_back(lengths: tuple[int, ...], real: str, type_name: str) -> None:
    x = drawn((2, *lengths), False).astype(BY_NAME[real].numpy)
    half = (2, *lengths[:-1], lengths[-1] // 2 + 1)
    got = run("fft", x, result=type_name, dims=half, fft_type="RFFT", fft_length=lengths)
    assert got.dtype == BY_NAME[type_name].numpy
    assert got.shape == half
    whole = transformed(x.astype(np.complex128), lengths, -1)
    assert np.allclose(got, whole[..., : half[-1]], rtol=1e-5, atol=1e-5)
    back = run("fft", got, result=real, dims=x.shape, fft_type="IRFFT", fft_length=lengths)
    assert back.dtype == x.dtype
    assert back.shape == x.shape
    assert np.allclose(back, x, rtol=1e-5, atol=1e-5)


def test_no_batch_and_empty_batch() -> None:
    x = drawn((4,), True)
    assert np.allclose(run("fft", x, fft_type="FFT", fft_length=(4,)), transformed(x, (4,), -1))
    assert run("fft", x[None][:0], fft_type="FFT", fft_length=(4,)).shape == (0, 4)


def test_more_lengths_than_dimensions() -> None:
    with pytest.raises(EvalError, match="fft over 2 dimensions of an array of 1"):
        run("fft", drawn((4,), True), fft_type="FFT", fft_length=(4, 4))
