"""Functions of `math` in long kernels: calls that compute what the code written out computes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.codegen.llvm import lower_state
from hloom.codegen.llvm.math import COMPLEX_MATH, MATH

BINARY = ("atan2", "divide", "power", "remainder")
FUNCTIONS = sorted(set(MATH) - {"is-finite"})
OF_COMPLEX = sorted(set(COMPLEX_MATH) - {"abs", "cbrt"})


def program(dtype: str, dims: str, functions: list[str] = FUNCTIONS) -> str:
    """All functions, each of the argument, in one fusion after another."""
    shape = f"{dtype}[{dims}]"
    lines = ["HloModule called", f"ENTRY e {{\n  p = {shape} parameter(0)"]
    for k, opcode in enumerate(functions):
        operands = "p, p" if opcode in BINARY else "p"
        lines.append(f"  v{k} = {shape} {opcode}({operands})")
    names = ", ".join([f"v{k}" for k in range(len(functions))])
    shapes = ", ".join([shape] * len(functions))
    return "\n".join([*lines, f"  ROOT t = ({shapes}) tuple({names})\n}}"])


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("dims", ["", "77"])
def test_a_call_gives_the_same_bits(dtype: str, dims: str, monkeypatch: pytest.MonkeyPatch):
    module = hloom.parse(program(dtype, dims))
    kind = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}[dtype]
    numbers = np.concatenate([np.linspace(-3, 3, 60), [0, -0.0, np.inf, -np.inf, np.nan, 1e-30]])
    numbers = np.concatenate([numbers, [1e6, -1e9, 1e30, 0.5, 1, -1, 89, -104, 3e38, 2, 1e-40]])
    texts, results = [], []
    for most in (lower_state.MOST_WRITTEN_OUT, -1):
        monkeypatch.setattr(lower_state, "MOST_WRITTEN_OUT", most)
        exe = hloom.compile(module)
        texts.append(exe.as_text("llvm"))
        arguments = [numbers] if dims else numbers
        made = [[np.asarray(r) for r in exe(x.astype(kind))] for x in arguments]
        results.append(made)
    assert texts[1].count("define internal") > 20
    for written, called in zip(*results):
        for opcode, x, y in zip(FUNCTIONS, written, called):
            assert x.tobytes() == y.tobytes(), opcode


def bits(x: np.ndarray) -> bytes:
    """The bits of the parts; a NaN has no sign."""
    parts = np.stack([x.real, x.imag])
    return np.where(np.isnan(parts), np.nan, parts).tobytes()


@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize("dims", ["", "77"])
def test_a_call_for_complex_numbers_gives_the_same_bits(
    dtype: str, dims: str, monkeypatch: pytest.MonkeyPatch
):
    module = hloom.parse(program(dtype, dims, OF_COMPLEX))
    parts = [0.5, -0.0, 3, -2e30, 1e-40, np.inf, np.nan]
    numbers = np.array([complex(a, b) for a in parts for b in parts] + [1 + 2j] * 28)
    numbers = numbers.astype({"c64": np.complex64, "c128": np.complex128}[dtype])
    results = []
    for most in (1 << 60, -1):
        monkeypatch.setattr(lower_state, "MOST_WRITTEN_OUT", most)
        exe = hloom.compile(module)
        count = exe.as_text("llvm").count("define internal")
        assert count > 15 if most < 0 else count == 0
        arguments = [numbers] if dims else numbers
        results.append([[bits(np.asarray(r)) for r in exe(x)] for x in arguments])
    for written, called in zip(*results):
        for opcode, x, y in zip(OF_COMPLEX, written, called):
            assert x == y, opcode


def test_a_long_chain_calls():
    lines = ["HloModule chain", "ENTRY e {\n  v0 = f32[64] parameter(0)"]
    lines += [f"  v{k + 1} = f32[64] sine(v{k})" for k in range(150)]
    module = hloom.parse("\n".join([*lines, "  ROOT r = f32[64] negate(v150)\n}"]))
    exe = hloom.compile(module)
    text = exe.as_text("llvm")
    assert text.count("define internal") >= 1
    assert text.count("call <") > 100
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    expected = x.astype(np.float64)
    for _ in range(150):
        expected = np.sin(expected)
    np.testing.assert_allclose(np.asarray(exe(x)), -expected, rtol=2e-5)
