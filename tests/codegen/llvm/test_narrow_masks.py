"""Masked reads that AVX2 has no instruction for: plain where the tile is in the buffer."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hloom

KINDS = {"s8": np.int8, "u16": np.uint16, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
SHAPES = [(64,), (65,), (200,), (1, 300), (7, 33), (64, 64), (3, 129), (40, 1), (5, 16, 48)]


def rolled(kind: str, sizes: tuple[int, ...], by: int) -> str:
    """An array plus itself moved around its last dimension."""
    shape, n = f"{kind}[{','.join(map(str, sizes))}]", sizes[-1]
    by %= n

    def part(low: int, high: int) -> tuple[str, str]:
        dims = ",".join(map(str, (*sizes[:-1], high - low)))
        ranges = ", ".join([*(f"[0:{m}]" for m in sizes[:-1]), f"[{low}:{high}]"])
        return f"{kind}[{dims}]", ranges

    (first, where), (second, there) = part(n - by, n), part(0, n - by)
    return f"""HloModule m
ENTRY e {{ x = {shape} parameter(0)
  a = {first} slice(x), slice={{{where}}}  b = {second} slice(x), slice={{{there}}}
  c = {shape} concatenate(a, b), dimensions={{{len(sizes) - 1}}}
  ROOT r = {shape} add(x, c) }}
"""


def padded(kind: str, sizes: tuple[int, ...]) -> str:
    """An array padded and cut so that it moves by one in every dimension."""
    shape = f"{kind}[{','.join(map(str, sizes))}]"
    edges = "x".join("1_-1" if n > 1 else "0_0" for n in sizes)
    return f"""HloModule m
ENTRY e {{ x = {shape} parameter(0)  z = {kind}[] constant(3)
  p = {shape} pad(x, z), padding={edges}  ROOT r = {shape} add(x, p) }}
"""


@pytest.mark.parametrize("isa", ["AVX2", "SSE4_2"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_rolls_and_pads(kind: str, isa: str):
    rng = np.random.default_rng(0)
    options = {"cpu_max_isa": isa}
    for sizes in SHAPES:
        x = rng.integers(0, 50, sizes).astype(KINDS[kind])
        for by in (1, sizes[-1] - 1):
            got = hloom.compile(rolled(kind, sizes, by), options=options)(x)
            np.testing.assert_array_equal(
                np.asarray(got), x + np.roll(x, by, -1), err_msg=str(sizes)
            )
        moved = np.full(sizes, 3, KINDS[kind])
        inner = tuple(slice(1, None) if n > 1 else slice(None) for n in sizes)
        outer = tuple(slice(None, -1) if n > 1 else slice(None) for n in sizes)
        moved[inner] = x[outer]
        got = hloom.compile(padded(kind, sizes), options=options)(x)
        np.testing.assert_array_equal(np.asarray(got), x + moved, err_msg=str(sizes))
