"""Instructions that multiply tiles of narrow elements: AMX.

    for t in matrix_tiles(machine): 16 x 16 sums += 16 x depth elements of `a` * depth x 16 of `b`

A tile register has 16 rows of 64 bytes. In a row of `b` the neighbours along K that fill 32 bits
stand side by side for each column, as in the panels of `gemm_groups.py`. Subnormal numbers of bf16
count as zero, and so do subnormal sums. (Intel's manual of the instruction set extensions.)
"""

from __future__ import annotations

from typing import NamedTuple

from hloom.codegen.llvm.machine import Machine

ROWS = 16
ROW_BYTES = 64
SUMS, LEFT, RIGHT = range(4), range(4, 6), range(6, 8)
"""The tile registers of each."""


class MatrixTile(NamedTuple):
    """One instruction: types of the operands and of the sums, elements of K."""

    a: str
    b: str
    sums: str
    depth: int
    intrinsic: str


_AMX = (
    ("amx-bf16", MatrixTile("bf16", "bf16", "f32", 32, "x86.tdpbf16ps")),
    ("amx-int8", MatrixTile("s8", "s8", "s32", 64, "x86.tdpbssd")),
    ("amx-int8", MatrixTile("u8", "s8", "s32", 64, "x86.tdpbusd")),
    ("amx-int8", MatrixTile("s8", "u8", "s32", 64, "x86.tdpbsud")),
    ("amx-int8", MatrixTile("u8", "u8", "s32", 64, "x86.tdpbuud")),
)


def matrix_tiles(machine: Machine) -> tuple[MatrixTile, ...]:
    """Those of a machine, the best one for each pair of types."""
    if not (machine.has_avx512 and machine.has("amx-tile")):
        return ()
    return tuple([tile for feature, tile in _AMX if machine.has(feature)])


def configuration(rows: int = ROWS) -> list[int]:
    """What tells the processor how many rows the eight tile registers have, those of sums and of
    the left operand `rows`, as words of 64 bits: the palette, then from byte 16 on the bytes of a
    row and from byte 48 on the rows of each."""
    text = bytearray(64)
    text[0] = 1
    for register in range(8):
        text[16 + 2 * register] = ROW_BYTES
        text[48 + register] = ROWS if register in RIGHT else rows
    return [int.from_bytes(text[at : at + 8], "little", signed=True) for at in range(0, 64, 8)]
