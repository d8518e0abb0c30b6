"""Products of few rows whose B is stored along K: long runs of memory, and every size around."""

from __future__ import annotations

import re

import pytest

import hloom
from tests.codegen.products import agrees

TEXT = """HloModule m
ENTRY e {{
  a = {of}[{rows},{depth}] parameter(0)
  b = {b}[{columns},{depth}] parameter(1)
  c = {sums}[{columns}] parameter(2)
  w = {of}[{columns},{depth}] convert(b)
  d = {sums}[{rows},{columns}] dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  s = {sums}[{rows},{columns}] broadcast(c), dimensions={{1}}
  ROOT r = {sums}[{rows},{columns}] add(d, s)
}}
"""
# Steps that are all alike, a last one that is not, a last tile that is not, and less than a tile.
COLUMNS = [1, 7, 8, 9, 64, 100, 128, 136, 1000, 1024, 2051]
TYPES = [
    ("f32", "f32", "f32"),
    ("bf16", "bf16", "bf16"),
    ("bf16", "s8", "f32"),
    ("f32", "s8", "f32"),
    ("f64", "f64", "f64"),
    ("s32", "s32", "s32"),
    ("c64", "c64", "c64"),
]


def text(rows: int, depth: int, columns: int, kinds: tuple[str, str, str]) -> str:
    of, b, sums = kinds
    return TEXT.format(rows=rows, depth=depth, columns=columns, of=of, b=b, sums=sums)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("depth", [127, 128, 130, 512])
def test_every_number_of_columns_and_depth(depth, columns):
    for rows in (1, 3):
        agrees(text(rows, depth, columns, TYPES[0]), "f32")


@pytest.mark.parametrize("kinds", TYPES)
@pytest.mark.parametrize("isa", ["", "AVX2", "SSE4_2"])
def test_every_type_on_machines_with_other_vectors(kinds, isa):
    of = kinds[2] if kinds[0] != "bf16" else "bf16"
    for rows, depth, columns in ((1, 256, 256), (2, 300, 512), (6, 256, 96), (1, 1024, 1000)):
        agrees(text(rows, depth, columns, kinds), of, isa)


def test_batches():
    agrees(
        """HloModule m
ENTRY e {
  a = f32[6,256] parameter(0)
  b = f32[6,512,256] parameter(1)
  ROOT d = f32[6,512] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={1}, rhs_contracting_dims={2}
}
""",
        "f32",
    )


def test_rows_of_weights_are_read_as_few_long_runs():
    """What one lane reads lies right behind what it read before: columns are far apart."""
    kernel = hloom.compile(text(1, 512, 4096, TYPES[0])).as_text("kernels")
    (strides,) = set(re.findall(r"load %in1\[%\d+\] strides\((\d+), 1\) : f32\[8,", kernel))
    assert int(strides) % 512 == 0 and int(strides) > 512
