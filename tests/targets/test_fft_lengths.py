"""Fourier transforms whose lengths are not those of the data, which XLA's verifier admits."""

import pytest

import hloom


@pytest.mark.parametrize("kind", ["FFT", "IFFT"])
@pytest.mark.parametrize("length", ["5", "7", "600", "6,4", "5,6"])
def test_a_length_that_is_not_that_of_the_data_is_refused(kind: str, length: str) -> None:
    module = hloom.parse(f"""HloModule m
    ENTRY e {{ x = c64[4,6] parameter(0)
      ROOT f = c64[4,6] fft(x), fft_type={kind}, fft_length={{{length}}} }}""")
    hloom.verify(module)
    with pytest.raises(hloom.HloError, match="is not the length of the data"):
        hloom.compile(module)
    with pytest.raises(hloom.HloError, match="is not the length of the data"):
        hloom.evaluate(module, *hloom.random_arguments(module, seed=0))


@pytest.mark.parametrize(
    ("kind", "given", "result", "length"),
    [("RFFT", "f32[4,6]", "c64[4,4]", "7"), ("IRFFT", "c64[4,4]", "f32[4,6]", "5")],
)
def test_real_transforms_are_refused_by_the_verifier(kind, given, result, length) -> None:
    with pytest.raises(hloom.HloError):
        hloom.compile(f"""HloModule m
        ENTRY e {{ x = {given} parameter(0)
          ROOT f = {result} fft(x), fft_type={kind}, fft_length={{{length}}} }}""")
