"""Operations whose result is a narrower float than what they compute in."""

from __future__ import annotations

import numpy as np
import pytest

import hloom


@pytest.mark.parametrize("of", ["f8e5m2", "bf16", "f16"])
def test_transforms_to_narrow_floats(of: str) -> None:
    module = hloom.parse(
        f"HloModule m\nENTRY e {{ x = c64[4] parameter(0) "
        f"ROOT y = {of}[6] fft(x), fft_type=IRFFT, fft_length={{6}} }}"
    )
    arguments = hloom.random_arguments(module, seed=0)
    wanted = hloom.evaluate(module, *arguments).array.astype(np.float32)
    found = np.asarray(hloom.compile(module)(*arguments)).astype(np.float32)
    assert np.allclose(found, wanted, rtol=0.02) and np.any(wanted)
