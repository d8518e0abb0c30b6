"""Handlers of custom calls: Python functions, XLA's own FFI by its headers, older custom calls."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloom.base.diagnostics import UsageError
from hloom.runtime import ffi
from hloom.runtime.call_frame import CallFrame, typed
from hloom.types.attributes import Attribute
from tests.runtime.native_call import NativeCall, native


@pytest.fixture
def call() -> Any:
    with native() as opened:
        yield opened


def run(call: NativeCall, name: str, frame: CallFrame) -> tuple[int, str]:
    status = ffi.call(call.context, name, frame)
    message = call.library.hl_context_message(call.context).decode() if status else ""
    return status, message


def test_a_function_sees_arguments_and_attributes_and_writes_results(call: NativeCall):
    seen: list[ffi.Call] = []

    def scale(c: ffi.Call) -> None:
        seen.append(c)
        factor = c.attribute("factor", "f32")
        c.result(0, "f32", 2)[...] = c.argument(0, "f32", 2) * factor + sum(
            x.sum() for x in c.remaining(1)
        )

    ffi.register("test.scale", scale)
    x, out = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    rest = [np.ones(2, np.float32), np.ones((), np.float32)]
    inner: dict[str, Attribute] = {"deep": typed([1, 2, 3], "s64"), "name": "x"}
    attributes: dict[str, Attribute] = {
        "factor": typed(2.5, "f32"), "mode": typed(2, "s32"), "text": "héllo", "all": inner,
        "half": typed([0.5, 1.5], "bf16"), "none": typed([], "f64"),
    }  # fmt: skip
    assert run(call, "test.scale", CallFrame([x, *rest], [out], attributes, run_id=41)) == (0, "")
    np.testing.assert_array_equal(out, x * np.float32(2.5) + 3)
    (c,) = seen
    assert (c.stage, c.run_id, c.text("text")) == ("execute", 41, "héllo")
    assert c.attribute("half", "bf16", many=True).tolist() == [0.5, 1.5]
    assert c.attribute("none", "f64", many=True).shape == (0,)
    assert c.one_of("mode", "s32", {1: "slow", 2: "fast"}) == "fast"
    deep = c.dictionary("all")["deep"]
    assert not isinstance(deep, str) and getattr(deep, "value").tolist() == [1, 2, 3]  # noqa: B009
    with pytest.raises(ValueError, match="read-only"):
        c.arguments[0][0, 0] = 1


WRONG = {
    "missing": (lambda c: c.attribute("nothing", "f32"), 5, "attribute 'nothing' is missing"),
    "type": (lambda c: c.attribute("a", "f64"), 3, "attribute 'a' is of type f32, not f64"),
    "array": (lambda c: c.attribute("a", "f32", many=True), 3, "attribute 'a' is no array"),
    "string": (lambda c: c.text("a"), 3, "attribute 'a' is no string"),
    "dictionary": (lambda c: c.dictionary("a"), 3, "attribute 'a' is no dictionary"),
    "enum": (lambda c: c.one_of("b", "s32", {1: "x"}), 3, "attribute 'b' is 7, not one of"),
    "argument": (lambda c: c.argument(1), 3, "argument 1 is missing: there are 1"),
    "dtype": (lambda c: c.argument(0, "s32"), 3, "argument 0 is of type float32, not s32"),
    "rank": (lambda c: c.result(0, rank=3), 3, "result 0 has rank 1, not 3"),
    "crash": (lambda c: {}["key"], 13, "KeyError: 'key'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_errors_are_statuses_that_name_the_cause(call: NativeCall, what: str):
    function, status, message = WRONG[what]
    ffi.register("test.wrong", function)
    x = np.zeros(2, np.float32)
    frame = CallFrame([x], [x.copy()], {"a": typed(1, "f32"), "b": typed(7, "s32")})
    told = run(call, "test.wrong", frame)
    assert told[0] == status
    assert "custom call test.wrong: " in told[1]
    assert message in told[1]


def test_stages_come_in_order_and_keep_state(call: NativeCall):
    order: list[str] = []

    def stage(c: ffi.Call) -> Any:
        order.append(c.stage)
        if c.stage == "instantiate":
            assert c.arguments == []
            return {"made": c.attribute("n", "s32")}
        assert c.kept == {"made": 3}
        return None

    ffi.register("test.stages", stage, instantiate=stage, prepare=stage, initialize=stage)
    slot = ctypes.c_void_p()
    x = np.zeros(1, np.float32)
    for name in ("instantiate", "prepare", "initialize", "execute", "execute"):
        frame = CallFrame([x], [x.copy()], {"n": typed(3, "s32")}, stage=name, state=slot)
        assert run(call, "test.stages", frame) == (0, "")
    assert order == ["instantiate", "prepare", "initialize", "execute", "execute"]


def test_stages_without_a_function_do_nothing_and_names_are_found(call: NativeCall):
    ffi.register("test.only", lambda c: None)
    assert run(call, "test.only", CallFrame([], [], {}, stage="prepare")) == (0, "")
    assert ffi.find("test.nobody") is None
    assert ffi.find("lapack_dgeev_ffi") is not None
    with pytest.raises(
        UsageError, match=r"no handler is registered for custom calls to 'test\.nobody'"
    ):
        ffi.call(call.context, "test.nobody", CallFrame([], [], {}))


SOURCE = r"""
#include <cstdint>
#include <string>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
enum class Mode : int32_t { kA = 1, kB = 2 };
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Mode);
static ffi::Error Scale(ffi::Buffer<ffi::F32> x, ffi::RemainingArgs rest,
                        ffi::ResultBuffer<ffi::F32> y, float factor, std::string_view word,
                        ffi::Span<const int64_t> shape, Mode mode, ffi::Dictionary all) {
  if (word == "fail") return ffi::Error(ffi::ErrorCode::kOutOfRange, "asked to fail");
  auto inner = all.get<int32_t>("inner");
  if (inner.has_error()) return inner.error();
  float added = shape.size() + *inner + (float)mode + rest.size() + x.dimensions().size();
  for (size_t i = 0; i < x.element_count(); i++)
    y->typed_data()[i] = x.typed_data()[i] * factor + added;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    scale, Scale, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().RemainingArgs()
    .Ret<ffi::Buffer<ffi::F32>>().Attr<float>("factor").Attr<std::string_view>("word")
    .Attr<ffi::Span<const int64_t>>("shape").Attr<Mode>("mode").Attr<ffi::Dictionary>("all"));
// Flips all bits of the memory that elements of `width` bits take, and shows what was there.
static ffi::Error Flip(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y,
                       ffi::Result<ffi::AnyBuffer> seen, int32_t width) {
  size_t bytes = (x.element_count() * width + 7) / 8;
  auto* from = (const uint8_t*)x.untyped_data();
  auto* to = (uint8_t*)y->untyped_data();
  auto* shown = (uint8_t*)seen->untyped_data();
  for (size_t i = 0; i < bytes; i++) shown[i] = from[i], to[i] = from[i] ^ 0xff;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(flip, Flip, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>()
    .Ret<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>().Attr<int32_t>("width"));
extern "C" void flip_seven(void* out, const void** in) {
  for (int i = 0; i < 4; i++) ((uint8_t*)out)[i] = ((const uint8_t*)in[0])[i] ^ 0xff;
}
struct Status;
extern "C" void old_style(void* out, const void** in, const char* opaque, size_t size, Status*) {
  *(float*)((void**)out)[0] = *(const float*)in[0] + size;
  *(float*)((void**)out)[1] = opaque[0];
}
extern "C" void original(void* out, const void** in) { *(float*)out = *(const float*)in[0] * 2; }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = importlib.util.find_spec("jaxlib")
    compiler = shutil.which("g++")
    if found is None or found.origin is None or compiler is None:
        pytest.skip("needs jaxlib's headers and g++")
    folder = tmp_path_factory.mktemp("ffi")
    (folder / "handlers.cc").write_text(SOURCE)
    include = Path(found.origin).parent / "include"
    command = [compiler, "-std=c++17", "-O0", "-shared", "-fPIC", "-w", f"-I{include}"]
    subprocess.run([*command, "handlers.cc", "-o", "handlers.so"], cwd=folder, check=True)
    return str(folder / "handlers.so")


def scale_frame(**changed: Attribute) -> tuple[CallFrame, np.ndarray]:
    x, out = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    attributes: dict[str, Attribute] = {
        "factor": typed(0.5, "f32"), "word": "go", "shape": typed([4, 5, 6], "s64"),
        "mode": typed(2, "s32"), "all": {"inner": typed(100, "s32")},
    }  # fmt: skip
    return CallFrame([x, x], [out], attributes | changed), out


@pytest.mark.slow
def test_handlers_compiled_against_the_headers_of_xla(call: NativeCall, compiled: str):
    ffi.register_symbol("test.xla", compiled, "scale")
    frame, out = scale_frame()
    assert run(call, "test.xla", frame) == (0, "")
    np.testing.assert_array_equal(out, np.arange(6).reshape(2, 3) * 0.5 + 3 + 100 + 2 + 1 + 2)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    pointer = ctypes.cast(ctypes.CDLL(compiled).scale, ctypes.c_void_p)
    ffi.register_capsule(
        "test.capsule", {"execute": capsule(pointer, b"xla._CUSTOM_CALL_TARGET", None)}
    )
    assert run(call, "test.capsule", scale_frame()[0]) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "status", "message"),
    [
        ({"word": "fail"}, 11, "asked to fail"),
        ({"factor": typed(1, "f64")}, 3, "expected F32 but got F64"),
        ({"all": {"other": typed(1, "s32")}}, 13, "Unexpected attribute: inner"),
    ],
)
def test_errors_of_such_handlers(
    call: NativeCall, compiled: str, changed: Any, status: int, message: str
):
    ffi.register_symbol("test.xla", compiled, "scale")
    told = run(call, "test.xla", scale_frame(**changed)[0])
    assert told[0] == status, told
    assert message in told[1]


@pytest.mark.slow
def test_custom_calls_of_the_older_kind(call: NativeCall, compiled: str):
    ffi.register_symbol("test.old", compiled, "old_style", api="status")
    ffi.register_symbol("test.first", compiled, "original", api="original")
    x = np.array(3, np.float32)
    a, b = np.zeros((), np.float32), np.zeros((), np.float32)
    assert run(call, "test.old", CallFrame([x], [a, b], {"opaque": "A\0c"})) == (0, "")
    assert (a, b) == (6, 65)
    assert run(call, "test.first", CallFrame([x], [a], {})) == (0, "")
    assert a == 6


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int4", "int2", "uint4", "uint2", "float4_e2m1fn"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 65])
def test_handlers_find_elements_below_a_byte_packed(
    call: NativeCall, compiled: str, dtype: str, count: int
):
    """The first in the lowest bits; a result that is an operand stands where that does."""
    ffi.register_symbol("test.flip", compiled, "flip")
    width = 2 if "2" in dtype[-1] else 4
    mask = (1 << width) - 1
    raw = np.random.default_rng(count).integers(0, mask + 1, count).astype(np.uint8)
    x = np.asarray(ml_dtypes_of(dtype, raw, width))
    bytes_ = (count * width + 7) // 8
    for out in (np.zeros_like(x), x):
        before = raw.copy()
        shown = np.zeros(bytes_ + 1, np.uint8)
        frame = CallFrame([x], [out, shown], {"width": typed(width, "s32")})
        assert run(call, "test.flip", frame) == (0, "")
        packed = np.zeros(bytes_ + 1, np.uint8)
        for k, value in enumerate(before):
            packed[k * width // 8] |= value << (k * width % 8)
        np.testing.assert_array_equal(shown, packed)
        np.testing.assert_array_equal(out.view(np.uint8) & mask, before ^ mask)
        if dtype.startswith("int"):  # signs stand in all bits above, as numpy has them
            assert out.view(np.int8).tolist() == out.astype(np.int8).tolist()


def ml_dtypes_of(dtype: str, raw: np.ndarray, width: int) -> np.ndarray:
    """Elements of these bits, as numpy has them."""
    if dtype.startswith("int"):
        sign = 1 << (width - 1)
        return (
            (((raw ^ sign).astype(np.int8)) - sign).astype(np.int8).view(getattr(ml_dtypes, dtype))
        )
    return raw.view(getattr(ml_dtypes, dtype))


@pytest.mark.slow
def test_older_custom_calls_find_them_packed_and_views_of_numpy_do_not(
    call: NativeCall, compiled: str
):
    ffi.register_symbol("test.seven", compiled, "flip_seven", api="original")
    x = np.array([1, -2, 3, -4, 5, -6, 7], np.int8).astype(ml_dtypes.int4)
    out = np.zeros_like(x)
    assert run(call, "test.seven", CallFrame([x], [out], {})) == (0, "")
    assert out.astype(np.int8).tolist() == [-2, 1, -4, 3, -6, 5, -8]
    flip = ctypes.cast(ctypes.CDLL(compiled).flip, ctypes.c_void_p).value or 0
    ffi.register_bundle("test.apart", {"execute": flip}, packed=False)
    shown = np.zeros(4, np.uint8)
    frame = CallFrame([x], [out, shown], {"width": typed(4, "s32")})
    assert run(call, "test.apart", frame) == (0, "")
    assert shown.tolist() == x.view(np.uint8)[:4].tolist()


def test_what_cannot_be_registered():
    with pytest.raises(UsageError, match="no function 'nothing'"):
        ffi.register_symbol("test.x", "libc.so.6", "nothing")
    with pytest.raises(UsageError, match="no kind of handler is called 'new'"):
        ffi.register_pointer("test.x", 1, "new")
    with pytest.raises(UsageError, match="api_version=7"):
        ffi.register_capsule("test.x", None, 7)
    with pytest.raises(UsageError, match="'later' is no stage"):
        ffi.register_bundle("test.x", {"later": 1})
    with pytest.raises(UsageError, match="row-major"):
        CallFrame([np.zeros((2, 3)).T], [], {})
