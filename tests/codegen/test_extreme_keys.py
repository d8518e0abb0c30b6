"""Maxima and minima of floats as those of integers: every order of numbers, zeros, infinities and
NaN, along rows of every length, down columns and in short rows."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.codegen.tile import Body
from hloom.device.probe import probed_cpu
from hloom.targets.cpu.lower.families import family_of
from tests.subnormal import flushed

TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f64": np.float64}
LENGTHS = (1, 2, 3, 7, 15, 16, 17, 23, 31, 33, 60, 63, 64, 65, 127, 129, 151, 255, 257, 1000)
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40, 1.0, -1.0)


def module(dtype: str, dims: tuple[int, int], axis: int, kind: str, initial: str) -> str:
    """A fold along an axis."""
    rest = dims[1 - axis]
    shape = f"{dtype}[{dims[0]},{dims[1]}]"
    return f"""HloModule m
f {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT r = {dtype}[] {kind}(a, b) }}
ENTRY e {{
  x = {shape} parameter(0)
  i = {dtype}[] constant({initial})
  ROOT r = {dtype}[{rest}] reduce(x, i), dimensions={{{axis}}}, to_apply=f
}}
"""


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal to the sign of zero; any NaN is one."""
    a, b = flushed(got).astype(np.float64), want.astype(np.float64)
    nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(nan | ((a == b) & (np.signbit(a) == np.signbit(b)))))


def extreme(x: np.ndarray, axis: int, kind: str, initial: float) -> np.ndarray:
    """In float64, with 0 above -0 and NaN where any is."""
    wide = np.concatenate(
        [flushed(x).astype(np.float64), np.full_like(x.take([0], axis), initial)], axis
    )
    best = (np.max if kind == "maximum" else np.min)(wide, axis)
    zeros = (wide == 0) & ~np.signbit(wide if kind == "maximum" else -wide)
    chosen = 0.0 if kind == "maximum" else -0.0
    return np.where(best == 0, np.where(zeros.any(axis), chosen, -chosen), best)


def values(rng: np.random.Generator, dims: tuple[int, int], dtype: str, rare: float) -> np.ndarray:
    """Numbers, of which some are special."""
    x = rng.standard_normal(dims).astype(TYPES[dtype])
    special = np.array(SPECIAL).astype(TYPES[dtype])
    where = rng.random(dims) < rare
    x[where] = rng.choice(special, int(where.sum()))
    return x


@pytest.mark.parametrize("kind", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", list(TYPES))
@pytest.mark.parametrize("axis", [0, 1])
def test_extremes_along_rows_and_columns(axis: int, dtype: str, kind: str) -> None:
    rng = np.random.default_rng([axis, len(kind)])
    loses = "-inf" if kind == "maximum" else "inf"
    for n in LENGTHS:
        for initial in (loses, "0.5"):
            dims = (n, 37) if axis == 0 else (37, n)
            run = hloom.compile(hloom.parse(module(dtype, dims, axis, kind, initial)))
            for rare in (0.0, 0.5 / n, 0.3, 1.0):
                x = values(rng, dims, dtype, rare)
                with np.errstate(all="ignore"):
                    want = extreme(x, axis, kind, float(initial))
                got = np.asarray(run(x))
                assert same(got, want), (n, initial, rare, got, want)


@pytest.mark.parametrize("kind", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_every_pair_of_special_numbers(dtype: str, kind: str) -> None:
    special = np.array([*SPECIAL, 65504.0, -65504.0, 2.0**-24]).astype(TYPES[dtype])
    pairs = np.stack([x.ravel() for x in np.meshgrid(special, special)], 1)
    x = np.tile(pairs, (1, 40))
    loses = "-inf" if kind == "maximum" else "inf"
    run = hloom.compile(hloom.parse(module(dtype, x.shape, 1, kind, loses)))
    with np.errstate(all="ignore"):
        want = extreme(x, 1, kind, float(loses))
    assert same(np.asarray(run(x)), want)


def test_a_long_row_by_parts() -> None:
    x = np.random.default_rng(3).standard_normal((2, 3_000_017)).astype(np.float32)
    x[0, 2_999_999] = np.nan
    run = hloom.compile(hloom.parse(module("f32", x.shape, 1, "maximum", "-inf")))
    got = np.asarray(run(x))
    assert np.isnan(got[0]) and got[1] == x[1].max()


def test_devices_with_an_instruction_for_it_fold_floats() -> None:
    fold = hloom.parse(module("f32", (100, 60), 1, "maximum", "-inf")).entry.root
    for weight, has_keys in ((1.0, False), (2.0, True)):
        device = probed_cpu(2, 16, 32)
        device = replace(device, costs=replace(device.costs, extreme_weight=weight))
        body = Body.of(fold)
        family, form = family_of(body, device)
        [emitted] = family.write(body, form, device)
        assert any(o.opcode == "bitcast-convert" for o in emitted.kernel.ops()) is has_keys
