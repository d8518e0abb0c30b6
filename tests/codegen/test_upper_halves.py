"""Upper halves of products of which a whole register is multiplied by 1: LLVM 22 takes them for a
shift by the whole width, and leaves whatever was there."""

from __future__ import annotations

import numpy as np
import pytest

import hloom

SHAPES = ((13, 5), (7, 9), (25, 5))
"""Of short rows, which one tile holds: of longer ones no register is known to be all 1."""
ISAS = ("", "AVX2", "SSE4_2")


def compiled(text: str, isa: str) -> hloom.Executable:
    return hloom.compile(hloom.parse(text), options={"xla_cpu_max_isa": isa} if isa else {})


def check(text: str, isa: str, *arguments: np.ndarray) -> None:
    """Of a program with one result, in memory where all bits were set before."""
    want = hloom.evaluate(hloom.parse(text), *arguments).array
    program = compiled(text, isa)
    ones = compiled(
        f"ENTRY e {{\n  one = u8[] constant(255)\n"
        f"  ROOT r = u8[{want.nbytes}] broadcast(one), dimensions={{}}\n}}",
        isa,
    )
    for _ in range(3):
        for result in [ones() for _ in range(4)]:
            del result
        np.testing.assert_array_equal(np.asarray(program(*arguments)), want)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("of", ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"])
def test_mulhi(of: str, isa: str) -> None:
    for rows, columns in SHAPES:
        size, dims = rows * columns, f"{rows},{columns}"
        x = np.random.default_rng(0).integers(0, 1 << 30, (rows, columns))
        kind = np.dtype(("uint" if of[0] == "u" else "int") + of[1:])
        check(
            f"""
ENTRY e {{
  few = {of}[2] parameter(0)
  x = {of}[{dims}] parameter(1)
  one = {of}[] constant(1)
  long = {of}[{size}] pad(few, one), padding=0_{size - 2}
  more = {of}[{dims}] reshape(long)
  ROOT r = {of}[{dims}] mulhi(x, more)
}}""",
            isa,
            np.array([77, 99]).astype(kind),
            x.astype(kind),
        )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shift", ["logical", "arithmetic"])
@pytest.mark.parametrize("of, wide", [(8, 16), (16, 32), (16, 64), (32, 64)])
@pytest.mark.parametrize("to", ["u", "s"])
def test_shifted_products(to: str, of: int, wide: int, shift: str, isa: str) -> None:
    for rows, columns in SHAPES:
        size, dims = rows * columns, f"{rows},{columns}"
        check(
            f"""
ENTRY e {{
  few = u{of}[2] parameter(0)
  x = u{of}[{dims}] parameter(1)
  one = u{of}[] constant(1)
  long = u{of}[{size}] pad(few, one), padding=0_{size - 2}
  more = u{of}[{dims}] reshape(long)
  a = {to}{wide}[{dims}] convert(x)
  b = {to}{wide}[{dims}] convert(more)
  product = {to}{wide}[{dims}] multiply(a, b)
  by = {to}{wide}[] constant({of})
  bys = {to}{wide}[{dims}] broadcast(by), dimensions={{}}
  high = {to}{wide}[{dims}] shift-right-{shift}(product, bys)
  ROOT r = u{of}[{dims}] convert(high)
}}""",
            isa,
            np.array([255, 199]).astype(f"uint{of}"),
            np.random.default_rng(1).integers(0, 1 << of, (rows, columns)).astype(f"uint{of}"),
        )
