"""Chains as long as a kernel may be, whose code is written without running out of stack."""

from __future__ import annotations

import numpy as np
import pytest

import hloom

LINKS = {
    "functions": "  v{n} = f32[64,6] tanh(v{k})",
    "cheap": "  v{n} = f32[64,6] negate(v{k})",
    "two operands": "  v{n} = f32[64,6] add(v{k}, x)",
    "turned": """  turned{k} = f32[64,6] reverse(v{k}), dimensions={{0}}
  v{n} = f32[64,6] sine(turned{k})""",
    "reshaped": """  flat{k} = f32[384] reshape(v{k})
  waved{k} = f32[384] sine(flat{k})
  v{n} = f32[64,6] reshape(waved{k})""",
    "moved": """  first{k} = f32[1,6] slice(v{k}), slice={{[0:1],[0:6]}}
  rest{k} = f32[63,6] slice(v{k}), slice={{[1:64],[0:6]}}
  v{n} = f32[64,6] concatenate(rest{k}, first{k}), dimensions={{0}}""",
}


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("count", [59, 60, 61, 62, 120, 121, 199, 200, 201, 400])
def test_a_chain_of_any_length(kind: str, count: int):
    lines = ["HloModule chain", "ENTRY e {", "  x = f32[64,6] parameter(0)"]
    lines.append("  v0 = f32[64,6] abs(x)")
    lines += [LINKS[kind].format(k=k, n=k + 1) for k in range(count)]
    module = hloom.parse("\n".join([*lines, f"  ROOT o = f32[64,6] negate(v{count})", "}"]))
    x = np.random.default_rng(count).uniform(-1, 1, (64, 6)).astype(np.float32)
    made = np.asarray(hloom.compile(module)(x))
    expected = hloom.evaluate(module, x).array
    assert np.allclose(made, expected, rtol=1e-4, atol=1e-5)


def test_a_chain_under_rows():
    """Dear values of a row, one of another, and what is done to every element with them."""
    count = 150
    lines = ["HloModule rows", "ENTRY e {", "  x = f32[300,6] parameter(0)"]
    lines.append("  w0 = f32[300] parameter(1)")
    lines += [f"  w{k + 1} = f32[300] tanh(w{k})" for k in range(count)]
    lines.append(f"  b = f32[300,6] broadcast(w{count}), dimensions={{0}}")
    module = hloom.parse("\n".join([*lines, "  ROOT o = f32[300,6] multiply(x, b)", "}"]))
    draw = np.random.default_rng(0)
    x, w = draw.uniform(-1, 1, (300, 6)), draw.uniform(-1, 1, 300)
    arguments = x.astype(np.float32), w.astype(np.float32)
    made = np.asarray(hloom.compile(module)(*arguments))
    assert np.allclose(made, hloom.evaluate(module, *arguments).array, rtol=1e-4, atol=1e-6)
