"""Libraries that compute parts of programs: what they are given, what is left to our kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

import hloom
from hloom.api import HandlerCall, register_handler, register_library
from hloom.base.diagnostics import UsageError
from hloom.passes.expand.defuser import kind_of
from hloom.passes.fuse.library_rewriter import LibraryRewriter

KIND = "__ynn_fusion"
PROGRAM = """HloModule m

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY e {
  a = f32[8,16] parameter(0)
  b = f32[8,16] parameter(1)
  c = f32[8,16] parameter(2)
  w = f32[16,4] parameter(3)
  v = f32[4] parameter(4)
  product = f32[8,16] multiply(a, b)
  x = f32[8,16] add(product, c)
  d = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bias = f32[8,4] broadcast(v), dimensions={1}
  y = f32[8,4] add(d, bias)
  h = f32[8,16] tanh(x)
  zero = f32[] constant(0)
  r = f32[8] reduce(h, zero), dimensions={1}, to_apply=sum
  ROOT t = (f32[8,4], f32[8]) tuple(y, r)
}
"""
MODULES: list[hloom.Module] = []
"""What the library was asked to compute."""
THREADS: list[bool] = []


def computed(call: HandlerCall) -> None:
    """The library: the interpreter."""
    MODULES.append(hloom.parse(str(call.attributes["computation"])))
    THREADS.append(bool(call.attribute("use_threadpool", "pred")))
    hloom.verify(MODULES[-1])
    call.results[0][...] = hloom.evaluate(MODULES[-1], *call.arguments).array


@pytest.fixture(autouse=True)
def library() -> Iterator[None]:
    MODULES.clear()
    THREADS.clear()
    register_handler(KIND, computed)
    yield
    register_library(KIND, None)


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = ((8, 16), (8, 16), (8, 16), (16, 4), (4,))
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def opcodes(module: hloom.Module) -> list[str]:
    """Of what a library's fusion computes."""
    (body,) = module.entry.root.called
    return sorted(i.opcode for i in body.instructions if i.opcode != "parameter")


def evaluated(module: hloom.Module) -> list[np.ndarray]:
    """The arrays that the interpreter gives."""
    return [leaf.array for leaf in hloom.evaluate(module, *arguments()).leaves()]


def agrees(executable: hloom.Executable) -> None:
    for x, y in zip(executable(*arguments()), evaluated(hloom.parse(PROGRAM))):
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-5, atol=1e-5)


def test_without_a_library_nothing_is_rewritten_and_everything_runs():
    executable = hloom.compile(PROGRAM)
    assert "custom-call" not in executable.as_text("hlo") and "kCustom" not in str(executable)
    agrees(executable)
    module = hloom.parse(PROGRAM)
    assert not LibraryRewriter().run(module).changed


def test_what_a_library_accepts_is_grouped_and_computed_by_it():
    register_library(KIND, lambda i: i.opcode in ("add", "multiply", "dot", "broadcast"))
    executable = hloom.compile(PROGRAM)
    agrees(executable)
    # The first value is read by tanh, too, which the library does not take.
    assert sorted(map(opcodes, MODULES)) == [["add", "broadcast", "dot"], ["add", "multiply"]]
    assert THREADS == [True, True]
    assert "tanh" in executable.as_text("hlo")


def test_reductions_go_to_a_library_too_and_moves_alone_do_not():
    register_library(KIND, lambda i: i.opcode in ("reduce", "tanh", "constant", "broadcast"))
    agrees(hloom.compile(PROGRAM))
    assert [opcodes(m) for m in MODULES] == [["constant", "reduce", "tanh"]]


def test_what_a_library_does_not_take_is_left_alone():
    register_library(KIND, lambda i: False)
    executable = hloom.compile(PROGRAM)
    assert "custom-call" not in executable.as_text("hlo")
    agrees(executable)


def test_the_pass_writes_fusions_of_its_kind():
    module = hloom.parse(PROGRAM)
    result = LibraryRewriter(((KIND, lambda i: i.opcode in ("add", "multiply")),)).run(module)
    assert result.changed and result.fired == {KIND: 2}
    fusions = [i for i in module.entry.instructions if i.opcode == "fusion"]
    assert [kind_of(i) for i in fusions] == [KIND, KIND]
    hloom.verify(module)
    for x, y in zip(evaluated(module), evaluated(hloom.parse(PROGRAM))):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_the_first_library_that_accepts_an_instruction_has_it():
    kinds = (("__one", lambda i: i.opcode == "add"), ("__two", lambda i: True))
    module = hloom.parse(PROGRAM)
    fired = LibraryRewriter(kinds).run(module).fired
    assert fired["__one"] == 2 and fired["__two"] >= 2
    hloom.verify(module)


LOOP = """HloModule loop
body {
  s = (s32[], f32[5,5]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[5,5] get-tuple-element(s), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  d = f32[5,5] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], f32[5,5]) tuple(m, d)
}
condition {
  s = (s32[], f32[5,5]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT l = pred[] compare(n, k), direction=LT
}
ENTRY e {
  x = f32[5,5] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[5,5]) tuple(zero, x)
  w = (s32[], f32[5,5]) while(s), condition=condition, body=body
  ROOT r = f32[5,5] get-tuple-element(w), index=1
}
"""


def test_dots_of_loops_are_the_librarys_and_one_operand_twice_is_one_operand():
    register_library(KIND, lambda i: i.opcode == "dot")
    x = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32) / 3
    want = np.linalg.matrix_power(x.astype(np.float64), 8)
    np.testing.assert_allclose(hloom.compile(LOOP)(x).numpy(), want, rtol=1e-4, atol=1e-5)
    assert len(MODULES) == 3 and all(len(m.entry.parameters) == 1 for m in MODULES)


FUSED = """HloModule m
body {
  p = f32[4] parameter(0)
  ROOT s = f32[4] add(p, p)
}
ENTRY e {
  x = f32[4] parameter(0)
  f = f32[4] fusion(x), kind=kCustom, calls=body, backend_config={CONFIG}
  ROOT r = f32[4] negate(f)
}
"""


@pytest.mark.parametrize("uses", [True, False])
def test_fusions_of_a_library_that_is_there_are_kept_with_their_options(uses):
    options = '{"use_threadpool":false}' if not uses else "{}"
    config = f'{{"fusion_config":{{"kind":"{KIND}","ynn_fusion_options":{options}}}}}'
    text = FUSED.replace("{CONFIG}", config)
    x = np.arange(4, dtype=np.float32)
    assert list(hloom.compile(text)(x).numpy()) == [0, -2, -4, -6] and not MODULES
    register_library(KIND, lambda i: False)
    assert list(hloom.compile(text)(x).numpy()) == [0, -2, -4, -6]
    assert [opcodes(m) for m in MODULES] == [["add"]] and [uses] == THREADS


def test_programs_are_compiled_anew_where_a_library_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path / "programs"))
    monkeypatch.delenv("HLOOM_CACHE", raising=False)
    hloom.compile(PROGRAM)
    register_library(KIND, lambda i: i.opcode == "dot")
    assert "custom-call" in hloom.compile(PROGRAM).as_text("hlo")
    register_library(KIND, None)
    assert "custom-call" not in hloom.compile(PROGRAM).as_text("hlo")


def test_what_is_wrong_with_a_library_is_said():
    for kind in ("", "mine", "__a b", "loop"):
        with pytest.raises(UsageError, match=re.escape(repr(kind))):
            register_library(kind, lambda i: True)
    register_library(KIND, lambda i: 1 / 0)
    with pytest.raises(UsageError, match=f"the library {KIND} fails where it is asked about %"):
        hloom.compile(PROGRAM)


def test_c_libraries_are_made_without(tmp_path):
    register_library(KIND, lambda i: i.opcode == "dot")
    hloom.export_c(PROGRAM, tmp_path / "libm.so", tmp_path / "m.h")
    function = hloom.load_library(tmp_path / "libm.so")
    results = function(*arguments())
    values = results.values() if isinstance(results, dict) else results
    for x, y in zip(values, evaluated(hloom.parse(PROGRAM))):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    assert not MODULES
