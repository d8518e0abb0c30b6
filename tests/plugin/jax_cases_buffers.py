# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Cases for `child.py`: buffers that callbacks fill, arrays that share memory, buffers given up."""

import os

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax.experimental import buffer_callback as callbacks

HLOOM, BUILT_IN = jax.devices(), jax.devices("cpu")
DTYPES = (
    *(np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64),
    *(np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128),
    *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
)


def error_of(function):
    """What a function raises, its first line."""
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def case_buffer_callback_context():
    seen = []

    def fill(context, out, given):
        seen.append(str(context.stage))
        seen.append(error_of(lambda: context.stream))
        seen.append(error_of(lambda: given.__cuda_array_interface__))
        seen.append((given.shape, str(given.dtype), given.ndim, given.writeable, out.writeable))
        seen.append(tuple(given.__dlpack_device__()))
        np.asarray(out)[...] = np.from_dlpack(given) + 1

    add = callbacks.buffer_callback(fill, jax.ShapeDtypeStruct((4,), np.float32))
    for devices in (HLOOM, BUILT_IN):
        x = jax.device_put(np.arange(4, dtype=np.float32), devices[0])
        assert np.array_equal(jax.jit(add)(x), [1, 2, 3, 4])
    ours, theirs = seen[:5], seen[5:]
    assert ours[1].startswith("JaxRuntimeError: UNIMPLEMENTED"), ours
    assert "XLA FFI GPU context is not available" in ours[1]
    assert [*ours[:1], *ours[2:]] == [*theirs[:1], *theirs[2:]], (ours, theirs)


def case_buffer_callback_types_and_sizes():
    def fill(context, out, given):
        np.asarray(out)[...] = np.asarray(given)

    with jax.enable_x64(True):
        for dtype in DTYPES:
            for shape in ((), (0,), (1,), (5,), (2, 0, 3), (3, 7), (129, 65)):
                copy = callbacks.buffer_callback(fill, jax.ShapeDtypeStruct(shape, dtype))
                x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
                for given in (x, jnp.asarray(x)):
                    found = jax.jit(copy)(given)
                    assert found.dtype == dtype and found.shape == shape
                    assert np.asarray(found).tobytes() == x.tobytes(), (dtype, shape)


def case_buffer_callback_read_only():
    """Whether a callback may write to its arguments, and what becomes of them if it does."""
    if os.environ.get("HLOOM_GUARD") == "1":
        return  # whoever writes to an argument is stopped there

    def write(context, out, given):
        seen = np.asarray(given)
        writeable.append(seen.flags.writeable)
        if seen.flags.writeable:
            seen[...] = 7
        np.asarray(out)[...] = 3

    f = jax.jit(callbacks.buffer_callback(write, jax.ShapeDtypeStruct((4,), np.float32)))
    writeable: list[bool] = []
    for devices in (HLOOM, BUILT_IN):
        x = jax.device_put(np.arange(4, dtype=np.float32), devices[0])
        assert np.array_equal(f(x), [3] * 4)
    assert writeable[0] == writeable[1], writeable


def case_buffer_callback_aliases_and_vmap():
    def add_in_place(context, out, given):
        np.asarray(out)[...] += 1

    shape = jax.ShapeDtypeStruct((4,), np.float32)
    aliased = callbacks.buffer_callback(add_in_place, shape, input_output_aliases={0: 0})
    for x in (np.arange(4, dtype=np.float32), jnp.arange(4.0)):
        assert np.array_equal(jax.jit(aliased)(x), [1, 2, 3, 4])
        assert np.array_equal(x, [0, 1, 2, 3])

    def double(context, out, given):
        np.asarray(out)[...] = 2 * np.asarray(given)

    for method in ("sequential", "expand_dims", "broadcast_all"):
        one = callbacks.buffer_callback(double, shape, vmap_method=method)
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        assert np.array_equal(jax.vmap(one)(x), 2 * x), method


def case_buffer_callback_errors_come_back():
    def fails(context, out, given):
        raise ValueError("no, not this")

    f = jax.jit(callbacks.buffer_callback(fails, jax.ShapeDtypeStruct((4,), np.float32)))
    for _ in range(3):
        assert "INTERNAL" in str(error_of(lambda: f(np.zeros(4, np.float32)).block_until_ready()))


def case_buffer_callback_on_every_device():
    def double(context, out, given):
        np.asarray(out)[...] = 2 * np.asarray(given)

    f = jax.jit(callbacks.buffer_callback(double, jax.ShapeDtypeStruct((4,), np.float32)))
    for device in HLOOM:
        found = f(jax.device_put(np.ones(4, np.float32), device))
        assert found.devices() == {device} and np.array_equal(found, [2] * 4)


# -- memory of the host


def placed(x, offset):
    """A copy of an array at so many bytes from a multiple of 64."""
    memory = np.zeros(x.nbytes + 128, np.uint8)
    at = -memory.ctypes.data % 64 + offset
    made = memory[at : at + x.nbytes].view(x.dtype).reshape(x.shape)
    made[...] = x
    return made


def case_refilled_arrays_are_as_on_the_built_in_backend():
    """What a change of the numpy array does afterwards: on both backends the same."""
    ways = {
        "asarray": lambda x, d: jax.device_put(jnp.asarray(x), d),
        "array": lambda x, d: jax.device_put(jnp.array(x), d),
        "device_put": jax.device_put,
        "device_put may alias": lambda x, d: jax.device_put(x, d, may_alias=True),
        "device_put never": lambda x, d: jax.device_put(x, d, may_alias=False),
        "jit": lambda x, d: jax.jit(lambda a: a, device=d)(x),
        "computed": lambda x, d: jax.jit(lambda a: a * 2, device=d)(x),
    }
    before = np.arange(6000, dtype=np.float32).reshape(60, 100)
    changes = {
        "whole": lambda x: x.fill(-1),
        "element": lambda x: x.__setitem__((3, 5), -1),
        "row": lambda x: x.__setitem__(7, -1),
    }
    for offset in (0, 4, 16, 32, 48):
        for name, way in ways.items():
            for how, change in changes.items():
                found = []
                for devices in (HLOOM, BUILT_IN):
                    with jax.default_device(devices[0]):
                        x = placed(before, offset)
                        made = way(x, devices[0]).block_until_ready()
                        change(x)
                        found.append(np.asarray(made))
                assert np.array_equal(*found), (offset, name, how)


# -- buffers given up


def case_arguments_come_back_where_a_call_does_not_begin():
    """A deleted argument of one device costs the other devices' donated ones nothing."""
    devices = HLOOM[:2]
    mesh = jax.sharding.Mesh(np.array(devices), ("i",))
    parts = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    f = jax.jit(lambda a, b: (a + 1, b * 2), donate_argnums=(0, 1))
    x = jax.device_put(np.arange(8, dtype=np.float32), parts)
    y = jax.device_put(np.arange(8, dtype=np.float32), parts)
    f(x.copy(), y.copy())
    y.addressable_shards[1].data.delete()
    assert "deleted" in str(error_of(lambda: f(x, y)))
    assert [np.asarray(s.data).tolist() for s in x.addressable_shards] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]
    g = jax.pmap(lambda a, b: a + b, devices=devices, donate_argnums=(0,))
    p = g(*[np.stack([np.full(3, k, np.float32) for k in range(2)])] * 2)
    q = g(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    q.addressable_shards[1].data.delete()
    assert "deleted" in str(error_of(lambda: g(p, q)))
    assert np.asarray(p.addressable_shards[0].data).ravel().tolist() == [0, 0, 0]


def case_memory_statistics():
    jax.jit(lambda: jnp.ones((1 << 18,)))().block_until_ready()
    told = HLOOM[0].memory_stats()
    wanted = (
        "num_allocs bytes_in_use peak_bytes_in_use largest_alloc_size bytes_limit bytes_reserved"
    )
    wanted += " peak_bytes_reserved bytes_reservable_limit largest_free_block_bytes pool_bytes"
    assert {*wanted.split()} <= {*told}, told
    assert all(isinstance(value, int) and value >= 0 for value in told.values())
    assert told["largest_alloc_size"] >= 1 << 20
    assert told["bytes_in_use"] <= told["peak_bytes_in_use"] <= told["bytes_limit"]
    assert told["bytes_reservable_limit"] == told["bytes_limit"]
