"""What products ask memory for while they multiply."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloom
from hloom.codegen import lines_ahead
from hloom.types.literal import Literal
from tests.codegen.test_convolution import NHWC, module

FAR = module("1,7,7,512", "3,3,512,512", "1,7,7,512", "size=3x3 pad=1_1x1_1", NHWC)
NEAR = module("1,7,7,32", "3,3,32,64", "1,7,7,64", "size=3x3 pad=1_1x1_1", NHWC)


def drawn(text: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    of = [x.shape.dims for x in hloom.parse(text).entry.parameters]
    return [rng.integers(-3, 4, dims).astype(np.float32) for dims in of]


@pytest.mark.parametrize("least", [1, 1 << 20])
def test_constant_weights_larger_than_a_cache_are_asked_for(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of small integers are exact: the same as of weights that are arguments."""
    monkeypatch.setattr(lines_ahead, "LEAST_TILE", least)
    image, weights = drawn(FAR)
    frozen = hloom.parse(FAR).with_constants({1: Literal.of(weights)})
    executable = hloom.compile(frozen)
    asked = re.findall(r"prefetch %\S+\[", executable.as_text("kernels"))
    assert 1 <= len(asked) <= 4 if least == 1 else not asked
    packed = hloom.compile(FAR)  # weights that are arguments go to a cache first
    assert "prefetch" not in packed.as_text("kernels")
    np.testing.assert_array_equal(executable(image), packed(image, weights))


def test_what_a_cache_holds_is_not_asked_for() -> None:
    _, weights = drawn(NEAR)
    frozen = hloom.parse(NEAR).with_constants({1: Literal.of(weights)})
    assert "prefetch" not in hloom.compile(frozen).as_text("kernels")
