"""Cumulative windows in loops that are one kernel: each element is folded once there, too."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from tests.codegen.test_scratch_sums import NUMPY

KINDS = {**{k: v for k, v in NUMPY.items() if k != "c64"}, "s32": np.int32}


def program(kind: str, sizes: tuple[int, ...], d: int, reverse: bool, fold: str) -> str:
    """A loop that replaces its state by its cumulative fold twice."""
    shape = f"{kind}[{','.join(map(str, sizes))}]"
    n = sizes[d]
    size = "x".join(str(n if k == d else 1) for k in range(len(sizes)))
    ends = f"0_{n - 1}" if reverse else f"{n - 1}_0"
    pad = "x".join(ends if k == d else "0_0" for k in range(len(sizes)))
    initial = {"add": "0", "multiply": "1", "maximum": "-9"}[fold]
    return f"""HloModule m
f {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT r = {kind}[] {fold}(a, b) }}
cond {{ p = (s32[], {shape}) parameter(0)  k = s32[] get-tuple-element(p), index=0
  n = s32[] constant(2)  ROOT r = pred[] compare(k, n), direction=LT }}
body {{ p = (s32[], {shape}) parameter(0)  k = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)  next = s32[] add(k, one)
  x = {shape} get-tuple-element(p), index=1  i = {kind}[] constant({initial})
  w = {shape} reduce-window(x, i), window={{size={size} pad={pad}}}, to_apply=f
  ROOT r = (s32[], {shape}) tuple(next, w) }}
ENTRY e {{ x = {shape} parameter(0)  k = s32[] constant(0)  i = (s32[], {shape}) tuple(k, x)
  w = (s32[], {shape}) while(i), condition=cond, body=body
  ROOT r = {shape} get-tuple-element(w), index=1 }}
"""


SIZES = [((300,), 0), ((2,), 0), ((17,), 0), ((5, 33), 1), ((33, 5), 0), ((3, 20, 5), 1)]
SIZES += [((1, 40), 1), ((40, 1), 0), ((4, 1, 70), 1), ((9, 66), 0)]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("fold", ["add", "multiply", "maximum"])
def test_equals_the_fold(kind: str, fold: str):
    rng = np.random.default_rng(0)
    ufunc = getattr(np, fold)
    for sizes, d in SIZES:
        for reverse in (False, True):
            low, high = {"add": (0, 2), "multiply": (1, 2), "maximum": (-5, 6)}[fold]
            x = rng.integers(low, high, sizes)
            if fold == "add" and KINDS[kind] not in (np.float32, np.float64, np.int32):
                x[...] = 0  # small sums are exact in 8 bits
                x.flat[::40] = 1
            got = hloom.compile(program(kind, sizes, d, reverse, fold))(x.astype(KINDS[kind]))
            expected = x
            for _ in range(2):
                turned = np.flip(expected, d) if reverse else expected
                expected = ufunc.accumulate(turned, d)
                expected = np.flip(expected, d) if reverse else expected
            np.testing.assert_array_equal(
                np.asarray(got), expected.astype(KINDS[kind]), err_msg=f"{sizes} {d} {reverse}"
            )


def test_each_element_is_folded_once():
    """The fastest dimension is scanned in registers; no loop walks a window."""
    text = hloom.compile(program("f32", (300,), 0, False, "add")).as_text("kernels")
    assert text.count("scan") >= 1
    assert "mask" not in text


@pytest.mark.parametrize("sizes", [(70, 3), (2, 3, 20), (5, 6, 1), (1, 9)])
@pytest.mark.parametrize("reverse", [False, True])
def test_dear_folds_along_rows(sizes: tuple[int, ...], reverse: bool):
    """A row for each lane: log-sum-exp element by element waits for each function."""
    d = len(sizes) - 1 - (sizes[-1] == 1)
    x = np.random.default_rng(0).standard_normal(sizes, dtype=np.float32)
    shape, n = f"f32[{','.join(map(str, sizes))}]", sizes[d]
    size = "x".join(str(n if k == d else 1) for k in range(len(sizes)))
    ends = f"0_{n - 1}" if reverse else f"{n - 1}_0"
    pad = "x".join(ends if k == d else "0_0" for k in range(len(sizes)))
    exe = hloom.compile(f"""
f {{ a = f32[] parameter(0)  b = f32[] parameter(1)  m = f32[] maximum(a, b)
  d = f32[] subtract(a, b)  s = f32[] abs(d)  t = f32[] negate(s)  e = f32[] exponential(t)
  l = f32[] log-plus-one(e)  ROOT r = f32[] add(m, l) }}
ENTRY e {{ x = {shape} parameter(0)  i = f32[] constant(-inf)
  ROOT w = {shape} reduce-window(x, i), window={{size={size} pad={pad}}}, to_apply=f }}""")
    turned = np.flip(x, d) if reverse else x
    expected = np.logaddexp.accumulate(turned.astype(np.float64), d)
    expected = np.flip(expected, d) if reverse else expected
    np.testing.assert_allclose(np.asarray(exe(x)), expected, rtol=1e-5, atol=1e-5)
    assert x.size == n or "exponential %" not in _scalars(exe.as_text("kernels"))


def _scalars(kernels: str) -> str:
    """The lines that compute no tile."""
    return "\n".join(line for line in kernels.splitlines() if line.endswith(": f32[]"))
