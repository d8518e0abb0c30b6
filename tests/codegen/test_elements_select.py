"""Selects with one condition for all lanes: branches where a side is dear, the same values."""

from __future__ import annotations

import numpy as np
import pytest

import hloom

FOLD = "top { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }"


def compiled(text: str) -> hloom.Executable:
    return hloom.compile(hloom.parse(text), threads=1)


def agrees(text: str, *arguments: np.ndarray) -> str:
    """The kernels of a program that gives what the interpreter gives."""
    step = compiled(text)
    expected = hloom.evaluate(hloom.parse(text), *arguments).array
    found = np.asarray(step(*arguments))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    return step.as_text("kernels")


def one(t: str, dims: str, dear: str, cheap: str = "p1", of: str = "") -> str:
    """A select by a scalar."""
    of = of or f"p = {t}[{dims}] parameter(0)\n  p1 = {t}[{dims}] parameter(1)"
    return f"""HloModule m
ENTRY e {{
  {of}
  c = pred[] parameter(2)
  w = pred[{dims}] broadcast(c), dimensions={{}}
  d = {t}[{dims}] {dear}
  ROOT s = {t}[{dims}] select(w, d, {cheap})
}}"""


@pytest.mark.parametrize("size", [1, 7, 16, 33, 1000, 20_001])
@pytest.mark.parametrize("t, dear", [("s32", "remainder(p, p1)"), ("f32", "sine(p)")])
@pytest.mark.parametrize("condition", [False, True])
def test_one_condition(size: int, t: str, dear: str, condition: bool) -> None:
    rng = np.random.default_rng(size)
    x = rng.integers(-99, 99, size) if t == "s32" else rng.standard_normal(size)
    y = rng.integers(1, 9, size)
    kernels = agrees(
        one(t, str(size), dear),
        x.astype(np.int32 if t == "s32" else np.float32),
        y.astype(np.int32 if t == "s32" else np.float32),
        np.array(condition),
    )
    if size > 1:
        assert "= if " in kernels


def test_cheap_sides_are_no_branch() -> None:
    x = np.arange(1000, dtype=np.float32)
    assert "= if " not in agrees(one("f32", "1000", "multiply(p, p1)"), x, x, np.array(True))


def test_what_others_need_stays_outside() -> None:
    text = """HloModule m
ENTRY e {
  p = f32[1000] parameter(0)
  c = pred[] parameter(1)
  w = pred[1000] broadcast(c), dimensions={}
  d = f32[1000] sine(p)
  s = f32[1000] select(w, d, p)
  ROOT r = f32[1000] add(s, d)
}"""
    for condition in (False, True):
        x = np.linspace(-5, 5, 1000).astype(np.float32)
        assert "= if " not in agrees(text, x, np.array(condition))


@pytest.mark.parametrize("rows, columns", [(9, 40), (40, 300), (50, 5), (3, 20_000)])
def test_a_condition_for_each_row(rows: int, columns: int) -> None:
    """Lanes of short rows have several conditions: those are selects."""
    text = f"""HloModule m
ENTRY e {{
  p = f32[{rows},{columns}] parameter(0)
  c = pred[{rows}] parameter(1)
  w = pred[{rows},{columns}] broadcast(c), dimensions={{0}}
  d = f32[{rows},{columns}] sine(p)
  l = f32[{rows},{columns}] log(p)
  n = f32[{rows},{columns}] multiply(d, l)
  k = f32[{rows},{columns}] cosine(p)
  ROOT s = f32[{rows},{columns}] select(w, n, k)
}}"""
    rng = np.random.default_rng(rows)
    x = rng.uniform(0.1, 5, (rows, columns)).astype(np.float32)
    kernels = agrees(text, x, rng.integers(0, 2, rows).astype(bool))
    assert ("= if " in kernels) == (columns >= 40)


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_one_within_another(outer: bool, inner: bool) -> None:
    """Both sides and the condition's branch share a sine; maxima of rows stand before them."""
    text = f"""HloModule m
{FOLD}
ENTRY e {{
  p = f32[60,500] parameter(0)
  c = pred[] parameter(1)
  a = pred[] parameter(2)
  zero = f32[] constant(0)
  top = f32[60] reduce(p, zero), dimensions={{1}}, to_apply=top
  every = f32[60,500] broadcast(top), dimensions={{0}}
  w = pred[60,500] broadcast(c), dimensions={{}}
  v = pred[60,500] broadcast(a), dimensions={{}}
  both = f32[60,500] sine(p)
  x = f32[60,500] add(both, every)
  y = f32[60,500] tanh(x)
  z = f32[60,500] cosine(x)
  t = f32[60,500] tan(y)
  inside = f32[60,500] select(v, t, z)
  other = f32[60,500] subtract(both, p)
  ROOT s = f32[60,500] select(w, inside, other)
}}"""
    x = np.random.default_rng(3).uniform(-1, 1, (60, 500)).astype(np.float32)
    agrees(text, x, np.array(outer), np.array(inner))


@pytest.mark.parametrize("size", [50, 3000])
def test_in_a_loop_of_tiles(size: int) -> None:
    """The condition is another one in every iteration."""
    text = f"""HloModule m
body {{
  s = (s32[], s32[{size}]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  x = s32[{size}] get-tuple-element(s), index=1
  one = s32[] constant(1)
  three = s32[] constant(3)
  n = s32[] add(k, one)
  m = s32[] remainder(k, three)
  q = pred[] compare(m, one), direction=EQ
  w = pred[{size}] broadcast(q), dimensions={{}}
  d = s32[{size}] broadcast(n), dimensions={{}}
  r = s32[{size}] remainder(x, d)
  v = s32[{size}] add(x, r)
  u = s32[{size}] select(w, v, x)
  ROOT t = (s32[], s32[{size}]) tuple(n, u)
}}
cond {{
  s = (s32[], s32[{size}]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  c = s32[] constant(700)
  ROOT l = pred[] compare(k, c), direction=LT
}}
ENTRY e {{
  x = s32[{size}] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], s32[{size}]) tuple(zero, x)
  w = (s32[], s32[{size}]) while(t), condition=cond, body=body
  ROOT r = s32[{size}] get-tuple-element(w), index=1
}}"""
    kernels = agrees(text, np.random.default_rng(1).integers(1, 999, size).astype(np.int32))
    assert "= if " in kernels or size == 50  # which is carried in registers


def test_a_long_chain() -> None:
    """Each select reads the one before it."""
    lines = ["p = f32[600] parameter(0)", "c = pred[] parameter(1)", "t0 = f32[600] copy(p)"]
    lines.append("w = pred[600] broadcast(c), dimensions={}")
    for k in range(1, 200):
        lines.append(f"d{k} = f32[600] sine(t{k - 1})")
        lines.append(f"t{k} = f32[600] select(w, d{k}, t{k - 1})")
    body = "\n  ".join(lines).replace("t199 =", "ROOT t199 =")
    text = "HloModule m\nENTRY e {\n  " + body + "\n}"
    x = np.linspace(-2, 2, 600).astype(np.float32)
    for condition in (False, True):
        agrees(text, x, np.array(condition))
