"""Dear values that the lanes of a row share: computed once for a row, with the same bits."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloom
from hloom.codegen import elements_simple
from tests.covering import covering


def program(rows: int, columns: int, opcode: str, dtype: str = "f32") -> str:
    """Rows divided by what an operation makes of one number each."""
    return f"""HloModule rows
ENTRY e {{
  x = {dtype}[{rows},{columns}] parameter(0)
  r = {dtype}[{rows}] parameter(1)
  c = {dtype}[] constant(1.7)
  cs = {dtype}[{rows}] broadcast(c), dimensions={{}}
  p = {dtype}[{rows}] {opcode}
  b = {dtype}[{rows},{columns}] broadcast(p), dimensions={{0}}
  ROOT q = {dtype}[{rows},{columns}] divide(x, b)
}}"""


OPERATIONS = ("power(r, cs)", "tanh(r)", "divide(cs, r)", "exponential(r)")


@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    covering(
        [1, 2, 7, 8, 9, 63, 64, 257, 5000],
        [1, 2, 3, 4, 6, 7, 12, 15, 16, 17, 48],
        ["f32", "f64", "bf16"],
    ),
)
def test_the_bits_are_those_of_every_lane_by_itself(
    rows: int, columns: int, dtype: str, monkeypatch: pytest.MonkeyPatch
):
    opcode = OPERATIONS[(rows + columns) % len(OPERATIONS)]
    module = hloom.parse(program(rows, columns, opcode, dtype))
    kind = module.entry.parameters[0].shape.dtype.numpy
    draw = np.random.default_rng(rows * columns)
    x = draw.standard_normal((rows, columns)).astype(kind)
    r = draw.uniform(0.1, 4, rows).astype(kind)
    results = []
    for dear in (elements_simple.DEAR, float("inf")):
        monkeypatch.setattr(elements_simple, "DEAR", dear)
        results.append(np.asarray(hloom.compile(module)(x, r)).tobytes())
    assert results[0] == results[1]


def test_a_power_is_computed_once_for_a_row():
    exe = hloom.compile(hloom.parse(program(256, 6, OPERATIONS[0])))
    lanes = re.findall(r"= power .*: f32\[(\d+)\]", exe.as_text("kernels"))
    divided = re.findall(r"= divide .*: f32\[(\d+)\]", exe.as_text("kernels"))
    assert lanes and divided
    assert all(int(n) * 6 == int(m) for n, m in zip(lanes, divided))


def test_what_is_cheap_is_not_repeated():
    text = program(256, 6, "add(r, cs)")
    kernels = hloom.compile(hloom.parse(text)).as_text("kernels")
    assert "reshape" not in kernels
