"""Addresses in loops, left as they are written, on an x86."""

import numpy as np
import pytest

import hloom
from hloom.codegen.llvm import compile as compile_
from hloom.codegen.llvm.compile import CodeCompiler, has_plain_addresses
from hloom.codegen.llvm.elf_symbols import renamed
from hloom.codegen.llvm.machine import PLAIN_ADDRESSES, Machine, object_bytes
from hloom.compiler import compile_module

# Two loads a step, at another stride than the count: what loop strength reduction rewrites.
LOOP = """
define void @f(ptr %p, ptr %q, i64 %n) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = mul i64 %i, 516
  %a = getelementptr i8, ptr %p, i64 %at
  %x = load float, ptr %a
  %b = getelementptr i8, ptr %q, i64 %at
  store float %x, ptr %b
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
MARKED = LOOP.replace("nounwind", f"nounwind {PLAIN_ADDRESSES}")
X86 = Machine.of("x86_64-unknown-linux-gnu", "skylake-avx512", "+avx512f")


def test_the_switch_changes_one_module_and_is_back_after_it():
    before = object_bytes(LOOP, X86)
    plain = object_bytes(LOOP, X86, plain_addresses=True)
    assert plain != before
    assert object_bytes(LOOP, X86) == before
    with pytest.raises(hloom.HloError):
        object_bytes("define nonsense", X86, plain_addresses=True)
    assert object_bytes(LOOP, X86) == before


def test_other_processors_have_no_such_addresses():
    arm = Machine.of("aarch64-unknown-linux-gnu", "neoverse-n1")
    assert object_bytes(LOOP, arm, plain_addresses=True) == object_bytes(LOOP, arm)


def test_most_of_the_text_decides():
    assert not has_plain_addresses([])
    assert not has_plain_addresses([LOOP])
    assert has_plain_addresses([MARKED])
    assert has_plain_addresses([MARKED, LOOP])  # the mark itself is text
    assert not has_plain_addresses([MARKED, LOOP, LOOP])


@pytest.mark.parametrize("threads", [0, 1])
def test_a_batch_is_the_same_whoever_compiles_it(threads: int):
    with CodeCompiler(X86, threads=threads) as code:
        code.add("f", MARKED)
        [made] = code.objects()
    alone = f'source_filename = "f"\n{MARKED}'
    assert made == renamed(object_bytes(alone, X86, plain_addresses=True), {})
    assert made != renamed(object_bytes(alone, X86), {})


def test_a_batch_whose_addresses_are_never_rewritten_waits_for_nobody():
    with CodeCompiler(X86) as code:
        code.add("f", LOOP, 0)
        code.objects()
    assert [batch.plain_addresses for batch in code.batches] == [True]
    assert object_bytes(LOOP, X86, 0, plain_addresses=True) == object_bytes(LOOP, X86, 0)


@pytest.mark.parametrize(
    "root",
    [
        "dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "transpose(x), dimensions={1,0}",
        "add(x, y)",
    ],
)
def test_all_kernels_want_it(root: str, monkeypatch: pytest.MonkeyPatch):
    asked = []
    real = compile_.object_bytes
    monkeypatch.setattr(compile_, "object_bytes", lambda *a: asked.append(a[3]) or real(*a))
    text = f"""HloModule m
ENTRY e {{
  x = f32[96,96] parameter(0)
  y = f32[96,96] parameter(1)
  ROOT r = f32[96,96] {root}
}}"""
    made = compile_module(hloom.parse(text), cached=False)
    # The kernel, and the function that calls it, by threads of their own.
    assert asked == [True, True]
    x, y = np.random.default_rng(0).standard_normal((2, 96, 96)).astype(np.float32)
    expected = x @ y if "dot" in root else x.T if "transpose" in root else x + y
    np.testing.assert_allclose(made(x, y), expected, rtol=1e-4, atol=1e-4)
