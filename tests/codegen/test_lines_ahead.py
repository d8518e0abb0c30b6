"""What products ask memory for while they multiply."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloom
from hloom.codegen import lines_ahead
from hloom.codegen.llvm.machine import Machine
from hloom.device.device import Device
from hloom.executable import Executable
from hloom.targets.cpu.target import CpuTarget
from hloom.types.dtype import BY_NAME
from hloom.types.literal import Literal
from tests.codegen.emulated_tiles import tiles_emulated
from tests.codegen.test_convolution import NHWC, module

FAR = module("1,7,7,512", "3,3,512,512", "1,7,7,512", "size=3x3 pad=1_1x1_1", NHWC)
FAR_LINES = re.compile(r"prefetch [^\n]*\](?!.*nearest)")
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
    asked = FAR_LINES.findall(executable.as_text("kernels"))
    assert 1 <= len(asked) <= 4 if least == 1 else not asked
    packed = hloom.compile(FAR)  # weights that are arguments go to a cache first
    assert not FAR_LINES.search(packed.as_text("kernels"))
    np.testing.assert_array_equal(executable(image), packed(image, weights))


def test_what_a_cache_holds_is_not_asked_for() -> None:
    _, weights = drawn(NEAR)
    frozen = hloom.parse(NEAR).with_constants({1: Literal.of(weights)})
    assert not FAR_LINES.search(hloom.compile(frozen).as_text("kernels"))


@pytest.mark.parametrize("nearest", [1 << 10, 1 << 30])
def test_the_nearest_cache_is_asked_for_rows_of_panels_that_it_does_not_hold(
    nearest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They follow what is multiplied at a known distance: one address for all."""
    monkeypatch.setattr(Device, "nearest_bytes", nearest)
    for text in (NEAR, product(37, 300, 200, "f32")):
        asked = "nearest(true)" in hloom.compile(text).as_text("kernels")
        assert asked == (nearest == 1 << 10)


def product(m: int, k: int, n: int, of: str) -> str:
    return f"""HloModule product
ENTRY main {{
  x = {of}[{m},{k}] parameter(0)
  w = {of}[{k},{n}] parameter(1)
  ROOT d = f32[{m},{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


@pytest.mark.parametrize("size", [(37, 700, 1000), (70, 3000, 600)], ids=str)
def test_weights_of_products(size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_ahead, "LEAST_TILE", 1)
    monkeypatch.setattr(Device, "near_bytes", 1 << 18)
    text = product(*size, "f32")
    x, weights = drawn(text)
    executable = hloom.compile(hloom.parse(text).with_constants({1: Literal.of(weights)}))
    assert FAR_LINES.search(executable.as_text("kernels"))
    np.testing.assert_array_equal(executable(x), x @ weights)


@pytest.mark.skipif(
    not (Machine.host().is_x86 and Machine.host().has_avx512), reason="for vectors of 64 bytes"
)
def test_weights_of_products_by_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Device, "near_bytes", 1 << 18)
    text = product(70, 256, 1000, "bf16")
    x, weights = [y.astype(BY_NAME["bf16"].numpy) for y in drawn(text)]
    frozen = hloom.parse(text).with_constants({1: Literal.of(weights)})
    with tiles_emulated() as machine:
        executable = Executable(CpuTarget(machine).compile(frozen), threads=2)
    assert FAR_LINES.search(executable.as_text("kernels"))
    np.testing.assert_array_equal(executable(x), x.astype(np.float32) @ weights.astype(np.float32))
