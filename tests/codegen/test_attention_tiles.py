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


def of_bf16_values(size: tuple[int, int, int, int, int], **more: Any) -> str:
    """An attention of f32 whose operands are widened."""
    text = module(*size, **more)
    for name in "qkv":
        shape = text.partition(f"%{name} = f32")[2].partition(" ")[0]
        of_16 = f"%{name}16 = bf16{shape} parameter"
        text = text.replace(f"%{name} = f32{shape} parameter", of_16)
        at = text.index("  %low =")
        text = f"{text[:at]}  %{name} = f32{shape} convert(%{name}16)\n{text[at:]}"
    return text


def drawn(parsed: hloom.Module) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [i.shape for i in parsed.entry.parameters]
    return [(0.3 * rng.standard_normal(x.dims)).astype(x.dtype.numpy) for x in shapes]


WIDENED = [(76, 50, 70, 40, 48), (18, 49, 301, 64, 80)]


@pytest.mark.parametrize("values_first", [False, True])
@pytest.mark.parametrize("size", WIDENED, ids=str)
def test_weights_of_f32_keep_their_digits(
    size: tuple[int, int, int, int, int], values_first: bool
) -> None:
    """Beside values of bf16 each is three numbers of bf16; one alone would be off by 2 ** -9."""
    executable, parsed = compiled(of_bf16_values(size, values_first=values_first))
    assert is_tiled(executable) and executable.as_text("hlo").count('"kind":"attention"') == 1
    given = drawn(parsed)
    wanted = np.asarray(hloom.evaluate(parsed, *given).array)
    result = np.asarray(executable(*given))
    np.testing.assert_allclose(result, wanted, atol=2.0**-18 * np.abs(wanted).max())


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3.3e38])
@pytest.mark.parametrize("alike", [False, True])
def test_infinite_values_give_infinite_results(value: float, alike: bool) -> None:
    """No part of a weight is zero or below it, not even where all weights are exactly 1."""
    executable, parsed = compiled(of_bf16_values(WIDENED[0]))
    queries, keys, values = drawn(parsed)
    if alike:
        queries[:] = 0
    values[0, 5, 7] = value
    wanted = np.asarray(hloom.evaluate(parsed, queries, keys, values).array)
    result = np.asarray(executable(queries, keys, values))
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
