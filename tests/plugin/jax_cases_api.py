"""The corners of JAX's API on hloom; each function runs in a child process (`child.py`)."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np


def error_of(function, *arguments) -> str:
    """What the JAX error says that this call raises."""
    try:
        function(*arguments)
    except jax.errors.JaxRuntimeError as error:
        return str(error)
    raise AssertionError("no error")


def case_an_array_is_donated_once():
    def fresh():
        return jnp.ones(4) + 1

    def double(a, b):
        return a * 2, b * 2

    x = fresh()
    told = error_of(jax.jit(double, donate_argnums=(0, 1)), x, x)
    assert "Attempt to donate the same buffer twice in Execute()" in told
    x = fresh()
    told = error_of(jax.jit(double, donate_argnums=0), x, x)
    assert "Attempt to use a buffer that was previously donated" in told
    x = fresh()
    told = error_of(jax.jit(double, donate_argnums=1), x, x)
    assert "Attempt to donate a buffer which is also used by the same call" in told


def case_an_array_that_is_viewed_is_not_donated():
    x = jnp.ones(1000) + 1
    view = np.asarray(x)
    y = jax.jit(lambda a: a * 2, donate_argnums=0)(x)
    assert (view == 2).all() and (np.asarray(y) == 4).all()
    assert not x.is_deleted()


def case_numpy_arguments_may_change_after_the_call():
    for size in (3, 1000, 50_000):
        # The first run of a program is not in the caller's thread.
        f = jax.jit(lambda a: a + 1)
        given = np.zeros(size, np.float32)
        y = f(given)
        given[:] = 7
        assert (np.asarray(y) == 1).all()
        given = np.zeros(size, np.float32)
        y = jnp.array(given)
        given[:] = 7
        assert (np.asarray(y) == 0).all()


def case_no_machine_has_so_much_memory():
    told = error_of(lambda: jnp.ones((1 << 25, 1 << 25)))
    assert told.startswith("RESOURCE_EXHAUSTED: Out of memory allocating")


def case_options_of_xla():
    def compiled(**options):
        return jax.jit(lambda x: x + 1).lower(jnp.ones(3)).compile(compiler_options=options)

    options = {"xla_embed_ir_in_executable": True, "xla_dump_max_hlo_modules": 200}
    assert (np.asarray(compiled(**options)(jnp.ones(3))) == 2).all()
    assert "No such compile option: 'invalid_key'" in error_of(lambda: compiled(invalid_key=True))
    told = error_of(lambda: compiled(xla_embed_ir_in_executable="maybe"))
    assert "xla_embed_ir_in_executable, 'maybe' is not a valid bool value" in told


HANDLERS = r"""
#include <memory>
#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

struct Counter {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  int count = 100;
};
ffi::TypeId Counter::id = {};
ffi::TypeInfo Counter::info = ffi::MakeTypeInfo<Counter>();

static ffi::ErrorOr<std::unique_ptr<Counter>> made() { return std::make_unique<Counter>(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(Made, made, ffi::Ffi::BindInstantiate());

static ffi::Error next(Counter* counter, ffi::ResultBufferR0<ffi::S32> out) {
  *out->typed_data() = ++counter->count;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Next, next,
    ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Ret<ffi::BufferR0<ffi::S32>>());

static ffi::Error fails(ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) {
  return ffi::Error(ffi::ErrorCode::kResourceExhausted, "enough");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Fails, fails, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

extern "C" void twice(void* out, const void** in) {
  *static_cast<float*>(out) = 2 * *static_cast<const float*>(in[0]);
}
extern "C" void* counter_id() { return &Counter::id; }
extern "C" void* counter_info() { return &Counter::info; }
"""


@cache
def handlers() -> ctypes.CDLL:
    """Handlers that are written with jaxlib's headers, registered as programs do it."""
    folder = Path(tempfile.mkdtemp())
    source, library = folder / "handlers.cc", folder / "handlers.so"
    source.write_text(HANDLERS)
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}"]
    subprocess.run(["c++", *flags, str(source), "-o", str(library)], check=True)
    made = ctypes.CDLL(str(library))
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    made.counter_id.restype = made.counter_info.restype = ctypes.c_void_p
    kind = {
        "type_id": capsule(made.counter_id(), None, None),
        "type_info": capsule(made.counter_info(), None, None),
    }
    jax.ffi.register_ffi_type("case_counter", kind, platform="cpu")
    stages = {"instantiate": jax.ffi.pycapsule(made.Made), "execute": jax.ffi.pycapsule(made.Next)}
    jax.ffi.register_ffi_target("case_next", stages, platform="cpu")
    jax.ffi.register_ffi_target("case_fails", jax.ffi.pycapsule(made.Fails), platform="cpu")
    old = jax.ffi.pycapsule(made.twice)
    jax.ffi.register_ffi_target("case_twice", old, platform="cpu", api_version=0)
    return made


def case_handlers_keep_state():
    assert handlers()
    number = jax.ShapeDtypeStruct((), jnp.int32)

    def following():
        return jax.jit(lambda: jax.ffi.ffi_call("case_next", number)())

    one, other = following(), following()
    assert [int(f()) for f in (one, one, other, one, other)] == [101, 102, 101, 103, 102]


def case_handlers_fail_at_the_call():
    assert handlers()
    like = jax.ShapeDtypeStruct((3,), jnp.float32)
    told = error_of(jax.jit(lambda x: jax.ffi.ffi_call("case_fails", like)(x)), jnp.ones(3))
    assert told.startswith("RESOURCE_EXHAUSTED") and "enough" in told


def case_handlers_of_the_older_kind():
    assert handlers()
    like = jax.ShapeDtypeStruct((), jnp.float32)
    call = jax.ffi.ffi_call("case_twice", like, custom_call_api_version=2)
    assert float(jax.jit(call)(jnp.float32(4))) == 8
    for target, version in (("case_nobody", 4), ("case_fails", 1), ("case_twice", 4)):
        call = jax.ffi.ffi_call(target, like, custom_call_api_version=version)
        told = error_of(jax.jit(call), jnp.float32(4))
        assert told.startswith("NOT_FOUND: ") and target in told


def case_dumps():
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_as_proto": True}
        options |= {"xla_dump_hlo_as_text": True, "xla_dump_hlo_module_re": "cube"}

        def cube(x):
            return x * x * x

        def square(x):
            return x * x

        for function in (cube, square):
            jax.jit(function, compiler_options=options)(jnp.ones(3))
        names = sorted(path.name.split(".", 1)[1] for path in Path(folder).iterdir())
        assert names == [
            "jit_cube.before_optimizations.hlo.pb",
            "jit_cube.before_optimizations.txt",
            "jit_cube.cpu_after_optimizations.hlo.pb",
            "jit_cube.cpu_after_optimizations.txt",
        ]
        after = next(Path(folder).glob("*after*.txt")).read_text()
        assert after.startswith("HloModule jit_cube") and "fusion" in after


def case_costs_before_compiling():
    x = jnp.ones((8, 8))
    lowered = jax.jit(lambda x: jnp.sin(x @ x)).lower(x)
    told = lowered.cost_analysis()
    assert (told["flops"], told["transcendentals"]) == (1024, 64)
    assert told["bytes accessed"] == 4 * (3 * 64 + 2 * 64)
    on_cpu = jax.jit(lambda x: x @ x).lower(jax.device_put(x, jax.devices("cpu")[0]))
    assert on_cpu.cost_analysis()["flops"] == 1024


def case_control_dependencies_order_what_runs():
    try:
        from jax.experimental.control_deps import schedule
    except ImportError:
        return  # JAX 0.11 has them no more

    def f(x):
        a, b, c = x @ x, jnp.exp(x) @ x, x * 2
        schedule([a, b, c])
        return a, b, c

    x = jnp.eye(8)
    compiled = jax.jit(f).lower(x).compile()
    assert "control-predecessors=" in compiled.as_text()
    assert 'target="control_dep"' not in compiled.as_text()
    for made, wanted in zip(compiled(x), (x @ x, jnp.exp(x) @ x, x * 2)):
        np.testing.assert_array_equal(made, wanted)


def case_control_dependencies_that_close_a_cycle_are_refused():
    try:
        from jax.experimental.control_deps import control_dep
    except ImportError:
        return  # JAX 0.11 has them no more

    def backwards(x):
        a = jnp.sin(x)
        b = jnp.cos(a)
        control_dep(b, a)
        return b

    def itself(x):
        a = jnp.sin(x)
        control_dep(a, a)
        return a

    for f in (backwards, itself):
        assert "cycle is detected" in error_of(jax.jit(f), 1.0)


def case_memory_analysis_counts_the_table_of_several_results():
    x = jnp.eye(4)
    sizes = {
        f: jax.jit(f).lower(x).compile().memory_analysis().output_size_in_bytes
        for f in (lambda a: a + 1, lambda a: (a + 1, a * 2), lambda a: [a, (a + 2, a @ a)])
    }
    assert list(sizes.values()) == [64, 2 * 64 + 16, 3 * 64 + 24], sizes


def case_functions_registered_for_hlo_modules():
    try:
        from jax._src.xla_transform import PipelineStage
        from jax.extend import xla
        from jaxlib import _hlo
    except ImportError:
        return  # before JAX 0.10.2
    if not hasattr(xla, "register_hlo_module_transformation"):
        return
    seen = []

    def cosine(data):
        text = _hlo.HloModule.from_serialized_hlo_module_proto(data).to_string()
        changed = _hlo.hlo_module_from_text(text.replace(" sine(", " cosine("))
        return changed.as_serialized_hlo_module_proto()

    def fails(data):
        raise ValueError("not this one")

    late = PipelineStage.POST_SCHEDULER
    xla.register_hlo_module_transformation(lambda data: seen.append(data), name="sees")
    xla.register_hlo_module_transformation(cosine, name="turns", stage=late, platforms="cpu")
    try:
        assert jax.jit(lambda x: jnp.sin(x) + 1)(0.0) == 2
        assert seen
    finally:
        assert xla.clear_hlo_module_transformation("sees")
        assert xla.clear_hlo_module_transformation("turns", stage=late)
    assert not xla.clear_hlo_module_transformation("sees")
    assert jax.jit(lambda x: jnp.sin(x) + 2)(0.0) == 2
    xla.register_hlo_module_transformation(fails, name="fails")
    try:
        told = error_of(jax.jit(lambda x: x + 3), 0.0)
    finally:
        xla.clear_hlo_module_transformation("fails")
    assert "the transformation 'fails' (PRE_SCHEDULER) raised ValueError: not this one" in told
