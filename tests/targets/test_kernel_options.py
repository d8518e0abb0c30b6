"""From the graph to the code: what a backend config asks of the kernel of an instruction."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError
from hloom.executable import Executable
from hloom.program.thunks.thunk import walk
from hloom.targets.cpu.options import cpu_target
from hloom.types.sizes import data_bytes

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


FOLDS = """HloModule folds

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[1000,2,2] parameter(0)
  y = f32[1000,2,2] parameter(1)
  z = f32[] constant(0)
  one = f32[1000] reduce(x, z), dimensions={1,2}, to_apply=add, backend_config={"llvm_kernel_options":{"disable_loop_unrolling":true}}
  two = f32[1000] reduce(y, z), dimensions={1,2}, to_apply=add, backend_config={"llvm_kernel_options":{"slp_vectorizer_disabled":true}}
  ROOT both = (f32[1000], f32[1000]) tuple(one, two)
}
"""  # noqa: E501


def loop_heads(assembly: str) -> int:
    """To how many labels of a function a jump goes back."""
    behind: set[str] = set()
    heads: set[str] = set()
    for line in assembly.split(".size")[0].splitlines():
        if label := re.match(r"(\.?LBB\w+):", line):
            behind.add(label[1])
        elif jump := re.match(r"\s+(?:j|b|cb|tb)[\w.]*\s.*?(\.?LBB\w+)\s*$", line):
            heads |= behind & {jump[1]}
    return len(heads)


def test_of_two_kernels_one_has_a_loop_in_its_machine_code_and_the_other_has_it_written_out():
    executable = hloom.compile(FOLDS)
    parts = re.split(r"^(k_\w+):.*$", executable.as_text("assembly"), flags=re.M)
    loops = {name: loop_heads(body) for name, body in zip(parts[1::2], parts[2::2])}
    assert loops["k_folds_one"] > loops["k_folds_two"], loops
    x, y = np.random.default_rng(0).standard_normal((2, 1000, 2, 2)).astype(np.float32)
    for r, a in zip(executable(x, y), (x, y)):
        np.testing.assert_allclose(r.numpy(), a.sum((1, 2)), rtol=1e-5, atol=1e-5)


ADDS = """HloModule {name}
add {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT c = {dtype}[] add(a, b)
}}
ENTRY main {{
  x = {shape} parameter(0)
  z = {dtype}[] constant(0)
  ROOT r = {result} {op}, to_apply=add
}}
"""


def rolled(shape: str, result: str, op: str, isa: str = "AVX2", **rest: object) -> bool:
    """Whether the kernel of a fold keeps its loops."""
    text = ADDS.format(name="m", dtype=shape.split("[")[0], shape=shape, result=result, op=op)
    executable = hloom.compile(text, options={"cpu_max_isa": isa, **rest})
    (kernel,) = [text for name, text in functions(executable).items() if name.startswith("k_")]
    return "loop-unrolling-disabled" in kernel


@pytest.mark.parametrize(
    ("shape", "result", "dimensions", "is_rolled"),
    [
        ("f32[8,16]", "f32[8]", "1", True),
        ("f32[8,16]", "f32[16]", "0", False),
        ("f32[8,16]", "f32[]", "0,1", True),
        ("f32[4,8,16]", "f32[4]", "1,2", True),
        ("f32[4,8,16]", "f32[8]", "0,2", False),
    ],
)
def test_folds_of_the_innermost_dimensions_only_keep_their_loops(
    shape, result, dimensions, is_rolled
):
    op = f"reduce(x, z), dimensions={{{dimensions}}}"
    assert rolled(shape, result, op) == is_rolled


@pytest.mark.parametrize(
    ("dtype", "stride", "isa", "is_rolled"),
    [
        ("f32", 4, "AVX2", False),  # 16 bytes apart, vectors of 32
        ("f32", 8, "AVX2", True),
        ("f32", 8, "AVX512", False),
        ("f64", 4, "AVX2", True),
        ("f32", 2, "SSE4_2", False),
        ("f32", 4, "SSE4_2", True),
    ],
)
def test_windows_keep_their_loops_where_the_next_is_a_vector_away(dtype, stride, isa, is_rolled):
    places = (64 - 3) // stride + 1
    op = f"reduce-window(x, z), window={{size=2x3 stride=1x{stride}}}"
    if isa == "AVX512" and not hloom.compile(FOLDS).target.machine.has_avx512:
        pytest.skip("the machine has no AVX-512")
    assert rolled(f"{dtype}[9,64]", f"{dtype}[8,{places}]", op, isa) == is_rolled


COPIES = """HloModule copies
ENTRY main {
  x = f32[37,64] parameter(0)
  y = bf16[37,64] parameter(1)
  s = s4[3,5] parameter(2)
  a = f32[37,64]{0,1} copy(x)
  b = bf16[37,64] copy(y)
  c = s4[3,5] copy(s)
  ROOT t = (f32[37,64]{0,1}, bf16[37,64], s4[3,5]) tuple(a, b, c)
}
"""


@pytest.mark.parametrize("is_ahead", [False, True])
def test_kernels_of_libraries_are_copies_too_and_have_the_same_options(is_ahead: bool):
    target = replace(cpu_target(hloom.Options()), is_ahead=is_ahead)
    stages = target.compile(hloom.parse(COPIES))
    kinds = [t.kind for t in walk(stages.program.thunks)]
    assert kinds.count("Copy") == (0 if is_ahead else 1) and kinds.count("Kernel") >= 1
    fold = ADDS.format(
        name="f",
        dtype="f32",
        shape="f32[8,16]",
        result="f32[8]",
        op="reduce(x, z), dimensions={1}",
    )
    (text,) = [t for n, t in target.compile(hloom.parse(fold)).texts.items() if n[:2] == "k_"]
    assert ("loop-unrolling-disabled" in text) == (not is_ahead)


@pytest.mark.parametrize("dtype", "pred s8 u16 f16 bf16 f8e4m3fn f32 f64 c64 c128".split())
@pytest.mark.parametrize("dims", ["", "1", "65", "3,100", "0,4"])
def test_copies_by_kernels_keep_every_bit(dtype: str, dims: str):
    target = replace(cpu_target(hloom.Options()), is_ahead=True)
    text = f"HloModule c\nENTRY e {{\n x = {dtype}[{dims}] parameter(0)\n ROOT r = {dtype}[{dims}]"
    executable = Executable(target.compile(hloom.parse(f"{text} copy(x)\n}}\n")), 1)
    shape = executable.program.parameters[0].shape
    bits = np.random.default_rng(0).integers(0, 256, data_bytes(shape), dtype=np.uint8)
    if dtype == "pred":
        bits &= 1
    x = bits.view(shape.dtype.numpy).reshape(shape.dims)
    assert executable(x).numpy().tobytes() == x.tobytes()
