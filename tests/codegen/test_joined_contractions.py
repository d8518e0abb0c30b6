"""Dots over several dimensions that do not lie side by side in memory: read in runs of the last."""

from __future__ import annotations

import pytest

import hloom
from tests.codegen.products import agrees


def module(b: int, m: int, n: int, k: int, of: str = "f32", turned: bool = False) -> str:
    """`bmk,bkn->mn`, or `bmk,bnk->mn`."""
    rhs, over = (f"{b},{n},{k}", 2) if turned else (f"{b},{k},{n}", 1)
    return f"""HloModule m
ENTRY e {{
  x = {of}[{b},{m},{k}] parameter(0)
  y = {of}[{rhs}] parameter(1)
  ROOT d = {of}[{m},{n}] dot(x, y), lhs_contracting_dims={{0,2}}, rhs_contracting_dims={{0,{over}}}
}}
"""


@pytest.mark.parametrize(
    "sizes, of, turned",
    [
        ((3, 20, 33, 7), "f32", False),
        ((3, 20, 33, 7), "bf16", True),  # no whole groups of neighbours
        ((5, 17, 40, 24), "bf16", False),
        ((5, 17, 40, 24), "c64", True),
        ((4, 1, 40, 9), "f32", True),
        ((4, 40, 1, 9), "f64", False),
        ((2, 9, 2, 300), "f32", False),
    ],
    ids=str,
)
def test_agrees(sizes: tuple[int, int, int, int], of: str, turned: bool) -> None:
    agrees(module(*sizes, of, turned), of)


def test_an_operand_is_read_in_runs() -> None:
    kernels = hloom.compile(module(6, 40, 64, 24)).as_text("kernels")
    assert "dot" in kernels
    assert "gather" not in kernels
