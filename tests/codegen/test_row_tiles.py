"""Short rows whose elements come from here and there: rolled, padded, scanned by pairs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate

ROWS = 70


def agrees(text: str, of: str = "f32", **options: str) -> hloom.Executable:
    module = hloom.parse(text)
    [x] = hloom.random_arguments(module, seed=2)
    exe = hloom.compile(module, options=options)
    want = np.asarray(evaluate(module, x).array)
    np.testing.assert_allclose(np.asarray(exe(x)), want, rtol=1e-6, atol=1e-6)
    return exe


def rolled(of: str, n: int) -> str:
    """Twice a row rolled to the right, and the row padded by two zeros on its left."""
    s = f"{of}[{ROWS},{n}]"
    return f"""
ENTRY e {{
  x = {s} parameter(0)
  a = {of}[{ROWS},1] slice(x), slice={{[0:{ROWS}], [{n - 1}:{n}]}}
  b = {of}[{ROWS},{n - 1}] slice(x), slice={{[0:{ROWS}], [0:{n - 1}]}}
  c = {s} concatenate(a, b), dimensions={{1}}
  z = {of}[] constant(0)
  p = {of}[{ROWS},{n + 2}] pad(x, z), padding=0_0x2_0
  q = {s} slice(p), slice={{[0:{ROWS}], [0:{n}]}}
  d = {s} add(c, c)
  ROOT r = {s} subtract(d, q)
}}"""


def by_pairs(of: str, n: int) -> str:
    """Sums of neighbours and elements, by turns; n is odd."""
    s, m = f"{of}[{ROWS},{n}]", n // 2
    return f"""
ENTRY e {{
  x = {s} parameter(0)
  z = {of}[] constant(0)
  a = {of}[{ROWS},{m}] slice(x), slice={{[0:{ROWS}], [0:{n - 1}:2]}}
  b = {of}[{ROWS},{m}] slice(x), slice={{[0:{ROWS}], [1:{n}:2]}}
  c = {of}[{ROWS},{m}] multiply(a, b)
  d = {of}[{ROWS},{m + 1}] slice(x), slice={{[0:{ROWS}], [0:{n}:2]}}
  f = {of}[{ROWS},{m + 1}] pad(c, z), padding=0_0x1_0
  h = {of}[{ROWS},{m + 1}] subtract(d, f)
  i = {s} pad(h, z), padding=0_0x0_0_1
  j = {s} pad(c, z), padding=0_0x1_1_1
  k = {s} add(i, j)
  l = {s} reverse(k), dimensions={{1}}
  m = {s} multiply(l, x)
  n = {s} add(m, k)
  o = {s} multiply(n, l)
  p = {s} subtract(o, n)
  q = {s} add(p, k)
  ROOT r = {s} add(q, m)
}}"""


@pytest.mark.parametrize("of", ["f32", "f64", "s8", "s32", "bf16"])
@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 12, 15])
def test_rolled_and_padded_rows(of: str, n: int) -> None:
    """Tiles of 48, 80, 96 and 112 lanes are no vectors of the machine: they are read in parts that
    are, or LLVM takes their masks apart bit by bit."""
    assert "masked.load.v48" not in agrees(rolled(of, n), of).as_text("llvm")


@pytest.mark.parametrize("isa", ["SSE4_2", "AVX2"])
@pytest.mark.parametrize("n", [3, 6, 7])
def test_rolled_rows_on_narrower_vectors(isa: str, n: int) -> None:
    agrees(rolled("f32", n), xla_cpu_max_isa=isa)


@pytest.mark.parametrize("of", ["f32", "f64"])
@pytest.mark.parametrize("n", [3, 5, 7, 9, 11, 13, 15, 17, 33])
def test_pairs_of_elements(of: str, n: int) -> None:
    agrees(by_pairs(of, n), of)


def test_a_row_that_fills_most_of_a_vector_is_a_tile() -> None:
    """As wide as a row, not lane by lane: of those each would ask for the parts that it is of."""
    kernels = agrees(by_pairs("f32", 7), xla_cpu_max_isa="AVX2").as_text("kernels")
    assert set(re.findall(r": f32\[(\d+)\]", kernels)) == {"7"}


def rows_by_pairs(rows: int, row: str) -> str:
    """Rows that take turns: sums of neighbours, and a row plus the sum before it."""
    whole, half = f"f32[{2 * rows},{row}]", f"f32[{rows},{row}]"
    rest = "".join(f", [0:{n}]" for n in row.split(","))
    kept = "x0_0" * len(row.split(","))
    return f"""
ENTRY e {{
  x = {whole} parameter(0)
  z = f32[] constant(0)
  a = {half} slice(x), slice={{[0:{2 * rows}:2]{rest}}}
  b = {half} slice(x), slice={{[1:{2 * rows}:2]{rest}}}
  c = {half} add(a, b)
  d = {whole} pad(c, z), padding=1_0_1{kept}
  f = {half} multiply(c, a)
  g = {whole} pad(f, z), padding=0_1_1{kept}
  ROOT r = {whole} add(d, g)
}}"""


@pytest.mark.parametrize("row", ["3", "4", "5", "8", "3,3", "17"])
@pytest.mark.parametrize("isa", ["AVX2", "AVX512"])
def test_rows_that_take_turns(row: str, isa: str) -> None:
    agrees(rows_by_pairs(70, row), xla_cpu_max_isa=isa)


def test_a_row_that_takes_turns_is_a_tile() -> None:
    """Of two rows of 4 in a vector the lanes would each ask from where they come."""
    kernels = agrees(rows_by_pairs(70, "4"), xla_cpu_max_isa="AVX2").as_text("kernels")
    assert set(re.findall(r": f32\[(\d+)\]", kernels)) == {"4"}


@pytest.mark.parametrize("of", ["pred", "s8", "bf16"])
def test_narrow_elements_that_lie_apart_make_no_long_tiles(of: str) -> None:
    """They are read one by one: 15 vectors of 64 bytes took 12 s to compile, 15 of 16 take less."""
    text = f"""
ENTRY e {{
  x = {of}[127,15] parameter(0)
  a = {of}[127,8] slice(x), slice={{[0:127], [0:15:2]}}
  b = {of}[127,7] slice(x), slice={{[0:127], [1:15:2]}}
  c = {of}[127,15] concatenate(a, b), dimensions={{1}}
  d = {of}[127,15] reverse(c), dimensions={{0}}
  ROOT r = {of}[254,15] concatenate(c, d), dimensions={{0}}
}}"""
    kernels = agrees(text, xla_cpu_max_isa="AVX512").as_text("kernels")
    assert max(int(n) for n in re.findall(r"\[(\d+)\]\n", kernels)) <= 240
