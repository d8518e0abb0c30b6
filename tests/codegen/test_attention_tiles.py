"""Attention by whole tiles (AMX), whose instructions are written out where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloom
from hloom.codegen.llvm.machine import Machine
from tests.codegen.test_attention import any_cache, module
from tests.codegen.test_matrix_tiles import compiled, is_tiled

pytestmark = pytest.mark.skipif(
    not (Machine.host().is_x86 and Machine.host().has_avx512), reason="for vectors of 64 bytes"
)

__all__ = ["any_cache"]

SIZES = [
    (64, 64, 64, 64, 64),
    (76, 50, 70, 40, 48),  # nothing fills its tiles
    (18, 49, 301, 64, 80),  # blocks of keys, the last one shorter
    (3, 227, 530, 80, 33),  # several steps
]
UNTILED = [(140, 64, 31, 64, 64), (64, 64, 64, 64, 31), (64, 64, 64, 15, 64)]


def agrees(size: tuple[int, int, int, int, int], tiled: bool = True, **more: Any) -> None:
    """Near to what wide numbers give, by tiles or not. Scores are small: they are rounded once, and
    weights are off by as much as their scores are."""
    executable, parsed = compiled(module(*size, of="bf16", **more))
    assert is_tiled(executable) == tiled
    rng = np.random.default_rng(0)
    parameters = [i.shape for i in parsed.entry.instructions if i.opcode == "parameter"]
    given = [(0.3 * rng.standard_normal(x.dims)).astype(x.dtype.numpy) for x in parameters]
    result = np.asarray(executable(*given)).astype(np.float32)
    wide = hloom.parse(module(*size, **more))
    wanted = np.asarray(hloom.evaluate(wide, *[x.astype(np.float32) for x in given]).array)
    np.testing.assert_allclose(result, wanted, atol=2.0**-5 * np.abs(wanted).max())


@pytest.mark.parametrize("mask", ["causal", "bias", ""])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_attention(size: tuple[int, int, int, int, int], mask: str) -> None:
    agrees(size, mask=mask)


def test_operands_in_another_order() -> None:
    agrees((76, 50, 70, 40, 48), sides="kq", values_first=True)


@pytest.mark.parametrize("size", UNTILED, ids=str)
def test_what_fills_no_tile_is_left_to_vectors(size: tuple[int, int, int, int, int]) -> None:
    agrees(size, tiled=False)


@pytest.mark.parametrize("values_first", [False, True])
@pytest.mark.parametrize("size", [(3, 50, 70, 40, 48), (2, 49, 301, 64, 80)], ids=str)
def test_weights_of_f32_keep_their_digits(
    size: tuple[int, int, int, int, int], values_first: bool
) -> None:
    """Beside values of bf16 each is three numbers of bf16; one alone would be off by 2 ** -9."""
    text = module(*size, values_first=values_first)
    for name in "qkv":
        shape = text.partition(f"%{name} = f32")[2].partition(" ")[0]
        of_16 = f"%{name}16 = bf16{shape} parameter"
        text = text.replace(f"%{name} = f32{shape} parameter", of_16)
        at = text.index("  %low =")
        text = f"{text[:at]}  %{name} = f32{shape} convert(%{name}16)\n{text[at:]}"
    executable, parsed = compiled(text)
    assert is_tiled(executable)
    rng = np.random.default_rng(0)
    given = [
        (0.3 * rng.standard_normal(i.shape.dims)).astype(i.shape.dtype.numpy)
        for i in parsed.entry.parameters
    ]
    wanted = np.asarray(hloom.evaluate(parsed, *given).array)
    result = np.asarray(executable(*given))
    np.testing.assert_allclose(result, wanted, atol=2.0**-18 * np.abs(wanted).max())
