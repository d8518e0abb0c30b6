"""hl_fft against numpy.fft in double precision: lengths of every kind, ranks, types, inverses."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from hloom.program.c_fft import fft_length
from hloom.runtime.library import library
from tests.runtime.native_call import NativeCall, native, sizes

FFT, IFFT, RFFT, IRFFT = range(4)
LENGTHS = [
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    11,
    13,
    15,
    16,
    17,
    30,
    31,
    64,
    77,
    97,
    100,
    101,
    128,
    143,
    210,
]
LENGTHS += [
    17 * 19,
    43,
    113,
    127,
    129,
    127 * 127,
    131,
    257,
    256,
    360,
    509,
    512,
    720,
    1000,
    1001,
    1024,
    1018,
    2048,
    2310,
    4096,
    6561,
    8192,
    10007,
]


@pytest.fixture(scope="module", params=[1, 2])
def call(request: pytest.FixtureRequest) -> Any:
    with native(request.param) as opened:
        yield opened


def check(call: NativeCall, kind: int, lengths: tuple[int, ...], batch: int, single: bool) -> None:
    real, whole = (np.float32, np.complex64) if single else (np.float64, np.complex128)
    rng = np.random.default_rng(sum(lengths) + kind)
    shape = (batch, *lengths)
    axes = tuple(range(1, len(shape)))
    half = (*shape[:-1], lengths[-1] // 2 + 1)
    given = half if kind == IRFFT else shape
    x: Any = rng.standard_normal(given)
    x = x.astype(real) if kind == RFFT else (x + 1j * rng.standard_normal(given)).astype(whole)
    wide = x.astype(np.float64 if kind == RFFT else np.complex128)
    expected = {
        FFT: lambda: np.fft.fftn(wide, lengths, axes),
        IFFT: lambda: np.fft.ifftn(wide, lengths, axes),
        RFFT: lambda: np.fft.rfftn(wide, lengths, axes),
        IRFFT: lambda: np.fft.irfftn(wide, lengths, axes),
    }[kind]()
    out = np.full(expected.shape, np.nan, real if kind == IRFFT else whole)
    call("hl_fft", kind, int(not single), len(lengths), sizes(lengths), batch, x, out)
    error = np.linalg.norm(out - expected) / max(np.linalg.norm(expected), 1e-30)
    assert error < (6e-7 if single else 1.2e-15), (kind, lengths, batch, error)


@pytest.mark.parametrize("single", [True, False], ids=["f32", "f64"])
@pytest.mark.parametrize("kind", [FFT, IFFT, RFFT, IRFFT])
def test_one_dimension(call: NativeCall, kind: int, single: bool):
    for n in LENGTHS:
        for batch in (1, 3, 33) if n < 3000 else (1, 2):
            check(call, kind, (n,), batch, single)


@pytest.mark.parametrize("single", [True, False], ids=["f32", "f64"])
@pytest.mark.parametrize("kind", [FFT, IFFT, RFFT, IRFFT])
def test_several_dimensions(call: NativeCall, kind: int, single: bool):
    for lengths in [
        (4, 6),
        (16, 16),
        (7, 33),
        (19, 34),
        (3, 4, 5),
        (8, 1, 12),
        (17, 3, 64),
        (64, 128),
        (131, 5),  # columns that are convolutions share tiles, too
        (257, 40),
        (40, 261),
    ]:
        check(call, kind, lengths, 2, single)


@pytest.mark.parametrize("single", [True, False], ids=["f32", "f64"])
@pytest.mark.parametrize("n", [1025, 1299, 1331, 1520, 1536, 2003, 2049, 2401, 4095, 4096, 4097])
def test_many_rows(call: NativeCall, n: int, single: bool):
    """In tiles, where two steps leave lanes empty; of the last tile some lanes are."""
    for kind in (FFT, IFFT, RFFT, IRFFT):
        for batch in (7, 8, 16, 19):
            check(call, kind, (n,), batch, single)


@pytest.mark.parametrize("n", [9, 75, 127, 185, 1001])
def test_rows_of_an_odd_number_of_reals_are_apart(call: NativeCall, n: int):
    """Rows share tiles: nothing of one is seen in another, and sums of reals are real."""
    x = np.random.default_rng(n).standard_normal((40, n)).astype(np.float32)
    alone = np.zeros((40, n // 2 + 1), np.complex64)
    call("hl_fft", RFFT, 0, 1, sizes([n]), 40, x, alone)
    assert (alone[:, 0].imag == 0).all()
    x[3], x[38] = np.inf, 1e30
    beside = np.zeros_like(alone)
    call("hl_fft", RFFT, 0, 1, sizes([n]), 40, x, beside)
    kept = [r for r in range(40) if r not in (3, 38)]
    assert np.array_equal(alone[kept], beside[kept])
    alone[:, 0] += 1j  # which is not read
    back = np.zeros((40, n), np.float32)
    call("hl_fft", IRFFT, 0, 1, sizes([n]), 40, alone, back)
    np.testing.assert_allclose(back[kept], x[kept], atol=2e-6)


def test_long_rows(call: NativeCall):
    for n in (32768, 65536, 100000, 1 << 18):
        check(call, FFT, (n,), 1, True)
        check(call, IFFT, (n,), 1, False)
        check(call, RFFT, (n,), 1, True)


def test_libraries_know_how_a_length_is_transformed(call: NativeCall):
    plan = library().hl_fft_plan
    for n in [*range(1, 300), 1009, 2027, 4099, 8193, 65537, 100003]:
        known = (ctypes.c_int64 * 4)()
        assert plan(n, 0, 0, ctypes.addressof(known)) == 32
        shape = fft_length(n)
        n1, n2, _, convolution = known
        assert (shape.n1, shape.n2, shape.convolution) == (n1, n2, convolution), n
        assert shape.has_passes == (plan(n, 0, 1, None) > 0), n


def test_in_place_empty_and_wrong(call: NativeCall):
    x = np.random.default_rng(0).standard_normal((5, 48)).astype(np.complex128)
    expected = np.fft.fft(x)
    call("hl_fft", FFT, 1, 1, sizes([48]), 5, x, x)
    np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-12)
    call("hl_fft", FFT, 1, 1, sizes([0]), 5, x, x)
    with pytest.raises(RuntimeError, match="fft: kind 0 over 4 dimensions"):
        call("hl_fft", FFT, 1, 4, sizes([1, 1, 1, 1]), 5, x, x)


def test_more_plans_than_are_kept(call: NativeCall):
    for n in range(1, 300):
        check(call, FFT, (n,), 1, False)
