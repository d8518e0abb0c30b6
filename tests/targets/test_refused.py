"""What has no code is refused by name, before anything wrong is computed."""

from __future__ import annotations

import pytest

from hloom.base.diagnostics import HloError
from hloom.compiler import compile_module
from hloom.ir.text import parse_module

NARROW_FFT = """
HloModule m
ENTRY e { x = c64[4] parameter(0)  ROOT y = f8e5m2[6] fft(x), fft_type=IRFFT, fft_length={6} }
"""


def test_transforms_of_narrow_floats():
    with pytest.raises(HloError, match="fft from c64 to f8e5m2") as caught:
        compile_module(parse_module(NARROW_FFT))
    assert caught.value.rule == "cpu-unsupported"
