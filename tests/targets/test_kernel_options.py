"""From the graph to the code: what a backend config asks of the kernel of an instruction."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError

TEXT = """HloModule logs
ENTRY main {{
  x = f32[64] parameter(0)
  first = f32[64] log(x){config}
  second = f32[64] cosine(first)
  third = f32[64] log(second)
  ROOT both = (f32[64], f32[64]) tuple(first, third)
}}
"""


def compiled(**options: object) -> hloom.Executable:
    config = json.dumps({"llvm_kernel_options": options})
    return hloom.compile(TEXT.format(config=f", backend_config={config}"))


def functions(executable: hloom.Executable) -> dict[str, str]:
    """The LLVM text of each function, by its name."""
    text = executable.as_text("llvm")
    return {m[1]: m[0] for m in re.finditer(r"define [^@]*@(\w+)\(.*?\n}", text, re.S)}


def test_an_instruction_with_options_is_a_kernel_of_its_own():
    together = hloom.compile(TEXT.format(config=""))
    apart = compiled(optimize_for_size=True)
    assert sum(name.startswith("k_") for name in functions(together)) == 1
    found = functions(apart)
    assert "optsize" in found.pop("k_logs_first")
    assert found and not any("optsize" in text for text in found.values())
    x = np.linspace(0.5, 4, 64, dtype=np.float32)
    for a, b in zip(together(x), apart(x)):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_options_change_the_code_of_that_kernel_only():
    x = np.linspace(0.5, 4, 64, dtype=np.float32)
    executable = compiled(disable_platform_dependent_math=True)
    found = functions(executable)
    if executable.target.machine.has_fma:
        assert "llvm.fma" not in found.pop("k_logs_first")
        assert any("llvm.fma" in text for text in found.values())
    np.testing.assert_allclose(executable(x)[0].numpy(), np.log(x), rtol=3e-7, atol=1e-7)


def test_equal_instructions_of_other_options_have_kernels_of_their_own():
    text = """HloModule two
ENTRY main {
  x = f32[64] parameter(0)
  a = f32[64] log(x), backend_config={"llvm_kernel_options":{"optimize_for_size":true}}
  y = f32[64] parameter(1)
  b = f32[64] log(y), backend_config={"llvm_kernel_options":{"slp_vectorizer_disabled":true}}
  ROOT both = (f32[64], f32[64]) tuple(a, b)
}
"""
    found = functions(hloom.compile(text))
    assert "optsize" in found["k_two_a"] and "slp" not in found["k_two_a"]
    assert "slp-vectorizer-disabled" in found["k_two_b"] and "optsize" not in found["k_two_b"]


def test_symbols_are_identifiers_of_their_module():
    text = (
        "HloModule {}\nENTRY e {{\n  x = f32[9] parameter(0)\n  ROOT add.1 = f32[9] add(x, x)\n}}\n"
    )
    one, two = (hloom.compile(text.format(n)) for n in ("my-model.v2", "other"))
    (first,) = [name for name in functions(one) if name.startswith("k_")]
    (second,) = [name for name in functions(two) if name.startswith("k_")]
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", first)
    assert "my_model_v2" in first and first != second


def test_a_wrong_option_is_named():
    with pytest.raises(UsageError, match="unroll_harder"):
        compiled(unroll_harder=True)
