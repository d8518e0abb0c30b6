"""Kernels stay small: LLVM's time is that of the text it is given, often more than in proportion.

The budget holds for what is drawn at sizes of some vectors; no kernel needs to grow with an array.
"""

from __future__ import annotations

import re

import pytest

import hloom
from hloom.ir.module import Module
from tests.fuzz.programs_native import drawn_program, drawn_single, single

MOST_LINES = 1500
"""Of one kernel's text. The longest drawn has 1053; random bits of several types in one kernel."""

POOL = """HloModule pool
f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ENTRY e {
  x = f32[4,16,SIZE,SIZE] parameter(0)
  low = f32[] constant(-inf)
  ROOT r = f32[4,16,HALF,HALF] reduce-window(x, low), to_apply=f,
    window={size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1}
}
"""
REPEAT = """HloModule repeat
ENTRY e {
  x = bf16[3,SIZE] parameter(0)
  b = bf16[3,SIZE,HALF] broadcast(x), dimensions={0,1}
  ROOT r = bf16[3,PRODUCT] reshape(b)
}
"""


def texts(module: Module) -> list[str]:
    """The LLVM text of each function of a program."""
    text = hloom.compile(module, threads=1).as_text("llvm")
    return re.findall(r"^define .*?^}$", text, re.M | re.S)


def check(module: Module, most: int = MOST_LINES) -> None:
    for text in texts(module):
        assert text.count("\n") <= most, text.split("(")[0]


@pytest.mark.parametrize("opcode", single())
def test_kernels_of_one_operation(opcode: str) -> None:
    check(drawn_single(2, opcode))


@pytest.mark.parametrize("number", range(12))
def test_kernels_of_drawn_programs(number: int) -> None:
    check(drawn_program(number, integral=False))


@pytest.mark.parametrize("size", [14, 56, 224])
def test_windows_are_as_long_for_every_image(size: int) -> None:
    module = hloom.parse(POOL.replace("SIZE", str(size)).replace("HALF", str(size // 2)))
    check(module, 900)
    assert not any("masked.gather" in text for text in texts(module))


@pytest.mark.parametrize("by", [2, 4, 8])
def test_repeats_are_short(by: int) -> None:
    for size in (64, 1000):
        text = REPEAT.replace("SIZE", str(size)).replace("HALF", str(by))
        check(hloom.parse(text.replace("PRODUCT", str(size * by))), 150)
