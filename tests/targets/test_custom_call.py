"""Custom calls in native programs: handlers, attributes, layouts, aliases, tokens, stages."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.compiler import compile_module
from hloom.executable import Executable
from hloom.runtime import ffi
from hloom.runtime.call_sites import MissingHandlerError
from hloom.runtime.native import ExecutionError


def built(body: str) -> Executable:
    """The program whose entry has these lines."""
    return compile_module(
        hloom.parse(f"HloModule m\nENTRY e {{\n{body}\n}}"), threads=1, cached=False
    )


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_handler_gets_every_buffer_with_its_type_and_writes_the_results():
    seen: list[ffi.Call] = []

    def handler(c: ffi.Call) -> None:
        seen.append(c)
        c.results[0][...] = c.argument(0, "f32", 2) + c.argument(1, "s8", 0)
        c.results[1][...] = [c.arguments[0].size, 7]

    ffi.register("test.two", handler)
    run = built(
        """ x = f32[2,3] parameter(0)
  y = s8[] parameter(1)
  p = (f32[2,3], s8[]) tuple(x, y)
  c = ((f32[2,3]), u16[2]) custom-call(p), custom_call_target="test.two"
  a = (f32[2,3]) get-tuple-element(c), index=0
  b = f32[2,3] get-tuple-element(a), index=0
  d = u16[2] get-tuple-element(c), index=1
  n = f32[2,3] negate(b)
  ROOT r = (f32[2,3], u16[2]) tuple(n, d)"""
    )
    negated, counts = run(X, np.int8(10))
    np.testing.assert_array_equal(negated, -(X + 10))
    np.testing.assert_array_equal(counts, np.array([6, 7], np.uint16))
    assert [c.stage for c in seen] == ["execute"]
    run(X, np.int8(1))
    assert seen[1].run_id > seen[0].run_id


def test_attributes_of_the_typed_ffi_are_typed_and_those_of_older_calls_are_text():
    seen: list[dict[str, Any]] = []
    ffi.register("test.attributes", lambda c: seen.append(c.attributes))
    call = 'ROOT c = f32[] custom-call(), custom_call_target="test.attributes"'
    config = '{a = 76 : ui8, b = "x", c = array<i64: 1, 2>, d = {e = 2.5e-01 : f32}, f = true}'
    built(f"{call}, api_version=API_VERSION_TYPED_FFI, backend_config={config}")()
    built(f'{call}, api_version=API_VERSION_STATUS_RETURNING, backend_config="a b"')()
    typed, old = seen
    assert (str(typed["a"].dtype), typed["a"].value, typed["b"]) == ("u8", 76, "x")
    assert typed["c"].value.tolist() == [1, 2]
    assert typed["d"]["e"].value == np.float32(0.25)
    assert typed["f"].value
    assert old == {"opaque": "a b"}


def test_wrong_attributes_are_told_when_compiling():
    ffi.register("test.wrong", lambda c: None)
    with pytest.raises(HloError, match="cannot be handed over"):
        built(
            'ROOT c = f32[] custom-call(), custom_call_target="test.wrong",'
            " api_version=API_VERSION_TYPED_FFI, backend_config={a = affine_map}"
        )


def test_a_missing_handler_is_named_with_the_way_to_register_one():
    with pytest.raises(MissingHandlerError, match=r"untyped custom call to test\.none") as told:
        built('ROOT c = f32[] custom-call(), custom_call_target="test.none"')
    assert "ffi.register('test.none', function)" in str(told.value)


def test_stages_run_in_order_and_instantiate_once():
    order: list[tuple[str, Any, int]] = []

    def stage(c: ffi.Call) -> str:
        order.append((c.stage, c.kept, len(c.arguments)))
        return "kept"

    ffi.register("test.stages", stage, instantiate=stage, prepare=stage, initialize=stage)
    run = built(
        """x = f32[2,3] parameter(0)
  ROOT c = f32[2,3] custom-call(x), custom_call_target="test.stages" """
    )
    assert order == [("instantiate", None, 0)]
    run(X)
    run(X)
    each = [("prepare", "kept", 1), ("initialize", "kept", 1), ("execute", "kept", 1)]
    assert order[1:] == each * 2
    before = len(ffi._KEPT)
    del run
    gc.collect()
    assert len(ffi._KEPT) == before - 1


def test_a_failing_stage_is_the_status_of_the_execution():
    def fail(c: ffi.Call) -> None:
        raise ffi.HandlerError("no more", code="RESOURCE_EXHAUSTED")

    call = 'ROOT c = f32[] custom-call(), custom_call_target="test.fail"'
    ffi.register("test.fail", lambda c: None, instantiate=fail)
    with pytest.raises(ExecutionError, match=r"test\.fail: no more"):
        built(call)
    ffi.register("test.fail", lambda c: None, prepare=fail)
    run = built(call)
    with pytest.raises(ExecutionError) as told:
        run()
    assert told.value.status == 8
    ffi.register("test.fail", lambda c: c.attribute("b", "f32"))
    with pytest.raises(ExecutionError, match=r"^%c \(test.fail\): .*attribute 'b' is missing"):
        run()


def test_layouts_are_those_that_the_call_states():
    seen: list[np.ndarray] = []

    def handler(c: ffi.Call) -> None:
        seen.append(c.arguments[0].copy().reshape(-1))
        c.results[0].reshape(-1)[...] = np.arange(6)

    ffi.register("test.layout", handler)
    run = built(
        """x = f32[2,3]{1,0} parameter(0)
  c = f32[2,3]{0,1} custom-call(x), custom_call_target="test.layout",
    operand_layout_constraints={f32[2,3]{0,1}}
  ROOT r = f32[2,3]{1,0} negate(c)"""
    )
    result = run(X)
    np.testing.assert_array_equal(seen[0], X.T.reshape(-1))
    np.testing.assert_array_equal(result, -np.arange(6, dtype=np.float32).reshape(3, 2).T)


@pytest.mark.parametrize("again", ["", "x"])
def test_a_result_that_aliases_an_operand_stands_in_its_memory(again: str):
    """Also where the operand is read later, and has to be copied before."""
    seen: list[bool] = []

    def add_one(c: ffi.Call) -> None:
        seen.append(c.arguments[0].ctypes.data == c.results[0].ctypes.data)
        c.results[0][...] += 1

    ffi.register("test.alias", add_one)
    run = built(
        f"""x = f32[2,3] parameter(0)
  n = f32[2,3] negate(x)
  c = (f32[2,3], s32[]) custom-call(n), custom_call_target="test.alias",
    output_to_operand_aliasing={{{{0}}: (0, {{}})}}
  g = f32[2,3] get-tuple-element(c), index=0
  ROOT r = f32[2,3] add(g, {"n" if again else "g"})"""
    )
    np.testing.assert_array_equal(run(X), 1 - X - X if again else 2 - X - X)
    assert seen == [True]


def test_tokens_order_calls_and_calls_with_side_effects_stay():
    order: list[str] = []
    for name in ("test.b", "test.a"):
        ffi.register(name, lambda c, name=name: order.append(name))
    run = built(
        """t = token[] after-all()
  a = token[] custom-call(t), custom_call_target="test.a", custom_call_has_side_effect=true
  b = (f32[], token[]) custom-call(a), custom_call_target="test.b",
    custom_call_has_side_effect=true
  ROOT r = f32[] constant(1)"""
    )
    assert float(np.asarray(run())) == 1
    assert order == ["test.a", "test.b"]


def test_calls_in_loops_and_branches_are_made_as_often_as_they_run():
    def double(c: ffi.Call) -> None:
        c.results[0][...] = c.arguments[0] * 2

    ffi.register("test.double", double)
    text = """HloModule m
body { s = (s32[], f32[2,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[2,3] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[2,3] custom-call(x), custom_call_target="test.double"
  ROOT r = (s32[], f32[2,3]) tuple(j, y) }
condition { s = (s32[], f32[2,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[2,3] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[2,3]) tuple(zero, x)
  w = (s32[], f32[2,3]) while(s), condition=condition, body=body
  ROOT r = f32[2,3] get-tuple-element(w), index=1 }"""
    run = compile_module(hloom.parse(text), cached=False)
    np.testing.assert_array_equal(run(X), X * 32)


def test_a_matrix_is_factorised_by_the_built_in_lapack():
    run = built(
        """x = f64[3,3]{1,0} parameter(0)
  c = (f64[3,3]{0,1}, s32[]) custom-call(x), custom_call_target="lapack_dpotrf_ffi",
    operand_layout_constraints={f64[3,3]{0,1}}, output_to_operand_aliasing={{0}: (0, {})},
    api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : ui8}
  a = f64[3,3]{0,1} get-tuple-element(c), index=0
  i = s32[] get-tuple-element(c), index=1
  ROOT r = (f64[3,3]{1,0}, s32[]) tuple(a, i)"""
    )
    x = np.array([[4.0, 1, 2], [1, 5, 3], [2, 3, 6]])
    factor, info = run(x)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(x), rtol=1e-12)
    assert int(np.asarray(info)) == 0


@pytest.mark.parametrize("target", ["MoveToHost", "MoveToDevice", "Sharding"])
def test_what_only_says_where_a_value_lives_is_the_value(target: str):
    run = built(
        f"""x = f32[2,3] parameter(0)
  ROOT c = f32[2,3] custom-call(x), custom_call_target="{target}" """
    )
    np.testing.assert_array_equal(run(X), X)


SOURCE = """
extern "C" void twice(void* out, const void** in) {
  for (int k = 0; k < 6; k++) ((float*)out)[k] = ((const float*)in[0])[k] * 2;
}
"""


def test_a_function_of_a_shared_library_is_called(tmp_path: Path):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    (tmp_path / "twice.cc").write_text(SOURCE)
    command = [compiler, "-shared", "-fPIC", "-O0", "twice.cc", "-o", "twice.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    ffi.register_symbol("test.twice", str(tmp_path / "twice.so"), "twice", api="original")
    run = built(
        """x = f32[2,3] parameter(0)
  ROOT c = f32[2,3] custom-call(x), custom_call_target="test.twice" """
    )
    np.testing.assert_array_equal(run(X), X * 2)


STAGED = """
#include <cstdint>
#include <memory>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static int alive = 0;
struct Kept {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  float factor;
  explicit Kept(float f) : factor(f) { alive++; }
  ~Kept() { alive--; }
};
ffi::TypeId Kept::id = {};
ffi::TypeInfo Kept::info = ffi::MakeTypeInfo<Kept>();
static ffi::ErrorOr<std::unique_ptr<Kept>> Begin(float factor) {
  return std::make_unique<Kept>(factor);
}
static ffi::Error Run(Kept* kept, ffi::Token, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  if (x.element_type() != ffi::F32 || x.dimensions().size() != 2)
    return ffi::Error::InvalidArgument("not a matrix of f32");
  for (size_t k = 0; k < x.element_count(); k++)
    y->typed_data<float>()[k] = x.typed_data<float>()[k] * kept->factor + alive;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(begin, Begin, ffi::Ffi::BindInstantiate().Attr<float>("factor"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(run, Run, ffi::Ffi::Bind().Ctx<ffi::State<Kept>>()
    .Arg<ffi::Token>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());
extern "C" int still_alive() { return alive; }
extern "C" void* type_id() { return &Kept::id; }
extern "C" void* type_info() { return &Kept::info; }
"""


@pytest.mark.slow
def test_handlers_of_xla_keep_a_state_as_long_as_the_executable(tmp_path: Path):
    found = importlib.util.find_spec("jaxlib")
    compiler = shutil.which("g++")
    if found is None or found.origin is None or compiler is None:
        pytest.skip("needs jaxlib's headers and g++")
    (tmp_path / "staged.cc").write_text(STAGED)
    include = f"-I{Path(found.origin).parent / 'include'}"
    command = [compiler, "-std=c++17", "-O0", "-shared", "-fPIC", "-w", include]
    subprocess.run([*command, "staged.cc", "-o", "staged.so"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "staged.so"))
    addresses = {
        stage: ctypes.cast(function, ctypes.c_void_p).value or 0
        for stage, function in (("instantiate", library.begin), ("execute", library.run))
    }
    library.type_id.restype = library.type_info.restype = ctypes.c_void_p
    kept = {"type_id": library.type_id(), "type_info": library.type_info()}
    ffi.register_type("test.Kept", kept)
    ffi.register_bundle("test.staged", addresses)
    text = """t = token[] after-all()
  x = f32[2,3] parameter(0)
  ROOT c = f32[2,3] custom-call(t, x), custom_call_target="test.staged",
    api_version=API_VERSION_TYPED_FFI, backend_config={factor = 2.5 : f32}"""
    run = built(text)
    np.testing.assert_array_equal(run(X), X * np.float32(2.5) + 1)
    other = built(text)
    np.testing.assert_array_equal(run(X), X * np.float32(2.5) + 2)
    del run
    gc.collect()
    assert library.still_alive() == 1
    np.testing.assert_array_equal(other(X), X * np.float32(2.5) + 1)
    with pytest.raises(
        ExecutionError, match=r"%c \(test.staged\): .*\n.*\n.*expected F32 but got F64"
    ):
        built(text.replace("2.5 : f32", "2.5 : f64"))


@pytest.mark.parametrize("stage", ["instantiate", "prepare", "execute"])
def test_what_a_handler_raises_is_the_cause_and_an_interruption_comes_out(stage: str):
    error: list[BaseException] = []

    def handler(call: ffi.Call) -> None:
        if error and call.stage == stage:
            raise error[0]

    ffi.register("hloom.raises", handler, instantiate=handler, prepare=handler)
    text = """HloModule raises
ENTRY main {
  x = f32[2] parameter(0)
  ROOT c = f32[2] custom-call(x), custom_call_target="hloom.raises"
}
"""

    def once() -> object:
        return hloom.compile(text)(np.ones(2, np.float32))

    once()
    error.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        once()
    error[0] = ValueError("not so")
    with pytest.raises(ExecutionError, match="ValueError: not so") as caught:
        once()
    assert caught.value.__cause__ is error[0]
    error.clear()
    once()


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("__gpu$xla.gpu.triton", "a Triton kernel for GPUs"),
        ("tpu_custom_call", "a Mosaic kernel for TPUs"),
        ("__cublas$gemm", "before_optimizations"),
        ("my_own_call", "hloom.runtime.ffi.register"),
    ],
)
def test_a_call_that_nobody_answers_says_what_it_was_made_for(target, what):
    text = f"""HloModule m
ENTRY e {{ x = f32[8] parameter(0)
  ROOT y = f32[8] custom-call(x), custom_call_target="{target}" }}"""
    with pytest.raises(hloom.HloError, match="No registered implementation") as caught:
        hloom.compile(hloom.parse(text))
    assert what in str(caught.value)
    assert target in str(caught.value)
