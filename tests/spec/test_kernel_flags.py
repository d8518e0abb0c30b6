"""Options, fast-math flags, symbols."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hloom.codegen.llvm.machine import Machine, assembly_text
from hloom.codegen.llvm.module import KernelOptions, kernel_module, symbol_names
from hloom.interp.draw_kernel import DrawnKernel
from hloom.kernel.text import parse_kernel
from tests.fuzz.check_kernel import difference, run_native

LOOP = """
kernel @NAME(%x: buffer<f32>[16] in, %y: buffer<f32>[16] out) {
  %0 = constant 0 : s64[]
  %1 = constant 3 : s64[]
  %2 = load %x[%0] strides(1) : f32[16]
  %3 = for %4 = %0 to %1 step 1 (%5 = %2) : f32[16] {
    %6 = add %5, %5 : f32[16]
    %7 = log %6 : f32[16]
    %8 = divide %7, %2 : f32[16]
    yield %8
  }
  store %y[%0], %3 strides(1)
}
"""


def backward_jumps(assembly: str, symbol: str) -> int:
    """How many jumps of a function go to a label above them: its loops."""
    lines = assembly[assembly.index(f"\n{symbol}:") :].split(".size")[0].split("\n")
    seen: set[str] = set()
    count = 0
    for line in lines:
        if label := re.match(r"(\.\w+):", line):
            seen.add(label.group(1))
        elif (jump := re.match(r"\s+j\w+\s+(\.\w+)", line)) and jump.group(1) in seen:
            count += 1
    return count


@pytest.mark.skipif(not Machine.host().is_x86, reason="reads the assembly of x86")
def test_of_two_kernels_one_is_not_unrolled():
    kernels = [parse_kernel(LOOP.replace("NAME", n)) for n in ("rolled", "free")]
    options = [KernelOptions(disable_loop_unrolling=True), KernelOptions()]
    machine = Machine.host()
    module = kernel_module(kernels, machine, options)
    assembly = assembly_text(module.text, machine)
    loops = [backward_jumps(assembly, symbol) for symbol in module.symbols]
    assert loops == [2, 1]  # one runs over the steps of the grid


def test_fast_math_marks_instructions_of_its_kernel_only():
    kernels = [parse_kernel(LOOP.replace("NAME", n)) for n in ("fast", "exact")]
    fast = KernelOptions(True, True, False, False, True, False, False, False, False)
    assert fast.fast_math
    module = kernel_module(kernels, Machine.host(), [fast, KernelOptions()])
    first, second = module.text.split("\ndefine ")[1:]
    assert "fdiv fast " in first
    assert "fast" not in second.replace("@fast", "")


def test_by_default_the_logarithm_of_nan_is_nan():
    kernel = parse_kernel(LOOP.replace("NAME", "k"))
    x, y = np.full(16, np.nan, np.float32), np.zeros(16, np.float32)
    assert run_native(kernel, [x, y], "host") == ""
    assert np.isnan(y).all()
    assert difference(DrawnKernel(kernel, [x, y], {}), "host") == ""


def test_symbols_are_unique_identifiers_with_the_name_of_the_module():
    kernels = [parse_kernel(LOOP.replace("NAME", "add.1"))] * 2
    symbols = kernel_module(kernels, Machine.host(), prefix="m").symbols
    assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", s) and "m" in s for s in symbols)
    assert len(set(symbols)) == 2
    assert not set(symbols) & set(symbol_names(["add.1", "add.1"], "other"))
