"""Short rows of narrow elements: several fill a register; they are turned, and turned back."""

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.codegen.llvm.machine import Machine
from hloom.targets.cpu.target import CpuTarget
from tests.codegen.llvm.machine_code import X86

TYPES = {"u8": np.uint8, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


def text(dtype: str, rows: int, row: int) -> str:
    """Rows less their smallest elements."""
    return f"""HloModule m
f {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT r = {dtype}[] minimum(a, b) }}
ENTRY e {{
  x = {dtype}[{rows},{row}] parameter(0)
  top = {dtype}[] constant(200)
  least = {dtype}[{rows}] reduce(x, top), dimensions={{1}}, to_apply=f
  all = {dtype}[{rows},{row}] broadcast(least), dimensions={{0}}
  ROOT r = {dtype}[{rows},{row}] subtract(x, all) }}"""


@pytest.mark.parametrize("row", [4, 8, 16])
@pytest.mark.parametrize("dtype", TYPES)
def test_values(dtype: str, row: int) -> None:
    rows = 64 * 5 + 23
    x = np.random.default_rng(0).integers(0, 200, (rows, row)).astype(TYPES[dtype])
    result = np.asarray(hloom.compile(hloom.parse(text(dtype, rows, row)))(x))
    assert np.array_equal(result, x - x.min(1, keepdims=True))


@pytest.mark.parametrize("row", [4, 8, 16])
def test_registers_are_loaded_and_stored_whole(row: int) -> None:
    """Not row by row, which takes two to five times as long."""
    target = CpuTarget(Machine.of(X86, "sapphirerapids", "+avx512vbmi"))
    texts = target.written(hloom.parse(text("u8", 4096, row))).texts
    [kernel] = [lines for name, lines in texts.items() if name != "hloom_main"]
    assert kernel.count("load <64 x i8>") >= row and kernel.count("store <64 x i8>") >= row
    assert f"load <{row} x i8>" not in kernel and f"store <{row} x i8>" not in kernel
