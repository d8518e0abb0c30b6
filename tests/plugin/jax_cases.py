"""What JAX must be able to do on hloom; each function runs in a child process (`child.py`).

They compare with JAX's built-in backend for the CPU, which lives in the same process, or with
numpy. A case that needs several devices says so by its name.
"""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.experimental import io_callback, serialize_executable
from jax.experimental.buffer_callback import buffer_callback

HLOOM, BUILT_IN = jax.devices("hloom"), jax.devices("cpu")[0]
RANDOM = np.random.default_rng(0)
SQUARE = RANDOM.standard_normal((6, 6)).astype(np.float32)
WIDE = RANDOM.standard_normal((5, 7)).astype(np.float32)
VECTOR = RANDOM.random(64).astype(np.float32)


def same(function: Any, *arguments: Any, tolerance: float = 2e-5) -> Any:
    """The result on hloom, after comparing it with that of the built-in backend."""
    ours = jax.jit(function)(*[jax.device_put(a, HLOOM[0]) for a in arguments])
    theirs = jax.jit(function)(*[jax.device_put(a, BUILT_IN) for a in arguments])
    for mine, yours in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert mine.dtype == yours.dtype
        np.testing.assert_allclose(np.asarray(mine), np.asarray(yours), tolerance, tolerance)
    return ours


# -- programs


def case_backends():
    assert jax.default_backend() == "cpu"  # the platform, by which lowering rules are chosen
    assert jax.devices()[0] is HLOOM[0]
    assert "hloom" in HLOOM[0].client.platform_version
    assert "hloom" not in BUILT_IN.client.platform_version


def case_arithmetic():
    same(lambda a, b: (a + b, a * 2 - b, jnp.sin(a) / (1 + b * b)), WIDE, WIDE[::-1].copy())


def case_matmul():
    same(lambda a, b: (a @ b, jnp.einsum("ij,kj->ik", b, a.T)), WIDE, WIDE.T.copy())


def case_gradients():
    def f(x):
        return jnp.sum(jnp.tanh(x) ** 2) * x[0]

    same(jax.grad(f), VECTOR)
    same(jax.hessian(f), VECTOR[:5])
    same(
        jax.grad(lambda k, x: jnp.sum(lax.conv(x, k, (1, 1), "SAME") ** 2)),
        SQUARE[None, None, :3, :3],
        SQUARE[None, None],
    )


def case_control_flow():
    same(lambda x: lax.scan(lambda c, y: (c * 0.9 + y, c), 0.0, x), VECTOR)
    same(
        lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.1), (0, x)),
        VECTOR,
    )
    same(lambda x: lax.cond(x[0] > 2, jnp.sin, jnp.cos, x), VECTOR)
    same(lambda x: lax.fori_loop(0, 4, lambda i, a: a + i * x, x), VECTOR)
    same(lambda x: lax.associative_scan(jnp.add, x), VECTOR)


def case_random():
    for draw in (jax.random.normal, jax.random.uniform, jax.random.gumbel):
        same(lambda seed, draw=draw: draw(jax.random.PRNGKey(seed), (100,)), np.uint32(3))
    same(lambda seed: jax.random.permutation(jax.random.PRNGKey(seed), 50), np.uint32(3))


def case_sorting_and_indexing():
    rows = np.argsort(VECTOR).astype(np.int32)
    same(
        lambda x, i: (jnp.sort(x), jnp.argsort(x), lax.top_k(x, 5), x[i], x.at[i].add(1.0)),
        VECTOR,
        rows,
    )
    same(lambda x: (jnp.cumsum(x), lax.cummax(x), jnp.unique(x, size=9)), VECTOR)


def case_linear_algebra():
    spd = SQUARE @ SQUARE.T + 6 * np.eye(6, dtype=np.float32)
    same(
        lambda a: (jnp.linalg.cholesky(a), jnp.linalg.inv(a), jnp.linalg.eigvalsh(a)),
        spd,
        tolerance=1e-4,
    )
    same(lambda a: (jnp.linalg.svd(a, compute_uv=False), jnp.linalg.det(a)), SQUARE, tolerance=1e-4)
    same(lambda a: jnp.abs(jnp.fft.rfft(a)), VECTOR, tolerance=1e-4)


def case_narrow_types():
    for name in "bfloat16 float16 int8 uint8 int4 uint4 float8_e4m3fn bool_ complex64".split():
        dtype = getattr(jnp, name)
        ours = jax.jit(lambda x, dtype=dtype: x.astype(dtype))(VECTOR * 5)
        theirs = jax.jit(lambda x, dtype=dtype: x.astype(dtype))(
            jax.device_put(VECTOR * 5, BUILT_IN)
        )
        assert ours.dtype == theirs.dtype
        assert np.array_equal(np.asarray(ours), np.asarray(theirs)), name


def case_every_type_goes_in_and_out():
    names = """bool int2 int4 int8 int16 int32 uint2 uint4 uint8 uint16 uint32 float4_e2m1fn
    float8_e3m4 float8_e4m3 float8_e4m3fn float8_e4m3b11fnuz float8_e4m3fnuz
    float8_e5m2 float8_e5m2fnuz float8_e8m0fnu bfloat16 float16 float32 complex64"""
    for name in names.split():
        given = np.array([1, 1, 0.5, 1, 2]).astype(getattr(ml_dtypes, name, name))
        there = jax.device_put(given, HLOOM[0])
        doubled = jax.jit(lambda x: jnp.concatenate([x, x[::-1]]))(there)
        for got, want in ((there, given), (doubled, np.concatenate([given, given[::-1]]))):
            assert got.dtype == want.dtype and np.asarray(got).tobytes() == want.tobytes(), name
    tiny = jnp.finfo(jnp.bfloat16).smallest_normal  # a constant of the program, as is 1e-40
    below = jax.jit(lambda x: (abs(x) < tiny, jnp.float32(1e-40), jnp.float32(1e-40) + 0 * x[0]))
    mask, moved, added = below(jax.device_put(np.array([1e-40, 3.0], np.float32), HLOOM[0]))
    assert mask.tolist() == [True, False] and [moved, added] == [np.float32(1e-40), 0]


def case_training():
    def loss(parameters, x, y):
        w, b, v = parameters
        return jnp.mean((jax.nn.relu(x @ w + b) @ v - y) ** 2)

    def losses(device):
        @jax.jit
        def step(parameters, x, y):
            value, slopes = jax.value_and_grad(loss)(parameters, x, y)
            return jax.tree.map(lambda p, g: p - 0.02 * g, parameters, slopes), value

        with jax.default_device(device):
            keys = jax.random.split(jax.random.PRNGKey(0), 3)
            parameters = [
                jax.random.normal(keys[0], (8, 16)),
                jnp.zeros(16),
                jax.random.normal(keys[1], (16, 1)),
            ]
            x = jax.random.normal(keys[2], (32, 8))
            y = jnp.sum(x, 1, keepdims=True)
            values = []
            for _ in range(20):
                parameters, value = step(parameters, x, y)
                values.append(float(value))
        return values

    ours = losses(HLOOM[0])
    assert ours[-1] < ours[0] / 2
    np.testing.assert_allclose(ours, losses(BUILT_IN), rtol=1e-3)


# -- buffers


def case_zero_copy():
    given = np.zeros(4096 + 16, np.float32)
    given = given[(-given.ctypes.data // 4) % 16 :][:4096]  # aligned to 64 bytes
    there = jax.device_put(given, HLOOM[0])
    assert there.unsafe_buffer_pointer() == given.ctypes.data
    assert np.asarray(there).ctypes.data == given.ctypes.data
    assert not np.asarray(there).flags.writeable
    strided = np.arange(24.0, dtype=np.float32).reshape(4, 6)[:, ::2]
    assert np.array_equal(jax.device_put(strided, HLOOM[0]), strided)
    assert np.array_equal(jax.device_put(SQUARE.T, HLOOM[0]), SQUARE.T)


def case_donation():
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = step(jnp.zeros(1000))
    place = x.unsafe_buffer_pointer()
    y = step(x)
    assert x.is_deleted() and y.unsafe_buffer_pointer() == place
    view = np.asarray(y)
    z = step(y)  # its memory is seen elsewhere, so it stays, and the program works on a copy
    assert not y.is_deleted() and z.unsafe_buffer_pointer() != place
    assert (view == 2).all() and (np.asarray(z) == 3).all()
    given = np.zeros(1024, np.float32)
    step(jax.device_put(given))
    assert (given == 0).all()
    with np.testing.assert_raises_regex(Exception, "deleted"):
        step(x)


def case_donating_twice():
    step = jax.jit(lambda x, y: (x + 1, y + 2), donate_argnums=(0, 1))
    x = jnp.zeros(10)
    with np.testing.assert_raises_regex(Exception, "donate the same buffer twice"):
        step(x, x)


def case_dlpack():
    x = jnp.arange(6.0)
    seen = np.from_dlpack(x)
    assert seen.ctypes.data == x.unsafe_buffer_pointer()
    back = jnp.from_dlpack(np.arange(64.0, dtype=np.float32))
    del x
    gc.collect()
    assert seen.tolist() == [0, 1, 2, 3, 4, 5] and float(back.sum()) == 2016


def case_memory_kinds():
    device = HLOOM[0]
    assert [m.kind for m in device.addressable_memories()] == [
        "device",
        "pinned_host",
        "unpinned_host",
    ]
    pinned = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
    x = jax.device_put(VECTOR, pinned)
    assert x.sharding.memory_kind == "pinned_host"
    y = jax.device_put(x, jax.sharding.SingleDeviceSharding(device))
    assert np.array_equal(np.asarray(y), VECTOR)


def case_memory_is_given_back():
    device = HLOOM[0]
    before = device.memory_stats()["bytes_in_use"]
    x = jax.jit(lambda: jnp.ones((1 << 20,)))().block_until_ready()
    assert device.memory_stats()["bytes_in_use"] >= before + (4 << 20)
    x.delete()
    # The thread that ran the program may hold its result for a moment more.
    until = time.monotonic() + 60
    while device.memory_stats()["bytes_in_use"] >= before + (4 << 20):
        assert time.monotonic() < until
        time.sleep(0.01)


# -- executables


def case_questions():
    compiled = jax.jit(lambda a: jnp.sin(a) @ a).lower(SQUARE).compile()
    text = compiled.as_text()
    assert text.startswith("HloModule jit__lambda") and "sine(" in text
    costs = compiled.cost_analysis()
    assert costs["flops"] >= 2 * 6**3 and costs["transcendentals"] == 36
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 144
    assert memory.generated_code_size_in_bytes > 0
    other = jax.jit(lambda a: jnp.cos(a) @ a).lower(SQUARE).compile()
    prints = [c.runtime_executable().fingerprint for c in (compiled, other)]
    assert prints[0] and prints[0] != prints[1]


def case_serialized():
    compiled = jax.jit(lambda a: jnp.sin(a) @ a).lower(SQUARE).compile()
    payload, into, out_of = serialize_executable.serialize(compiled)
    again = serialize_executable.deserialize_and_load(
        payload, into, out_of, execution_devices=HLOOM[:1]
    )
    assert np.array_equal(np.asarray(again(SQUARE)), np.asarray(compiled(SQUARE)))
    assert again.as_text() == compiled.as_text()
    assert again.cost_analysis() == compiled.cost_analysis()


def case_options():
    lowered = jax.jit(lambda a: a + 1).lower(VECTOR)
    fast = lowered.compile(compiler_options={"xla_cpu_enable_fast_math": True})
    assert np.array_equal(np.asarray(fast(VECTOR)), VECTOR + 1)
    with np.testing.assert_raises_regex(Exception, "No such compile option: .nonsense."):
        lowered.compile(compiler_options={"nonsense": 1})


def case_error_of_the_compiler():
    with np.testing.assert_raises_regex(
        jax.errors.JaxRuntimeError, "NOT_FOUND.* registered for nobody"
    ):
        jax.jit(lambda x: jax.ffi.ffi_call("nobody", jax.ShapeDtypeStruct((), x.dtype))(x))(VECTOR)


# -- time


def long_program(x):
    return lax.fori_loop(0, 200, lambda i, a: jnp.tanh(a @ x), x)


def case_readiness():
    step = jax.jit(long_program)
    x = jnp.asarray(RANDOM.standard_normal((256, 256)).astype(np.float32))
    (jax.device_put(step(x), HLOOM[0]) + 1).block_until_ready()
    shares = []
    while len(shares) < 10 and min(shares, default=1) >= 0.5:  # who launches may wait for a core
        begin, y = time.perf_counter(), step(x)
        z = jax.device_put(y, HLOOM[0]) + 1  # queued behind it
        launched, was_ready = time.perf_counter() - begin, y.is_ready()
        y.block_until_ready()
        shares.append(1 if was_ready else launched / (time.perf_counter() - begin))
        assert y.is_ready() and (np.asarray(z) == np.asarray(y) + 1).all()
    assert min(shares) < 0.5, shares


def case_deleted_while_it_is_read():
    x = jnp.asarray(RANDOM.standard_normal((256, 256)).astype(np.float32))
    step = jax.jit(long_program)
    wanted = np.asarray(step(x))
    y = step(x)
    x.delete()
    np.testing.assert_array_equal(np.asarray(y), wanted)


def case_threads():
    step = jax.jit(lambda a, n: a * n + 1)
    wrong = []

    def run(first):
        for n in range(first, first + 200):
            if not np.array_equal(np.asarray(step(VECTOR, float(n))), VECTOR * np.float32(n) + 1):
                wrong.append(n)

    threads = [threading.Thread(target=run, args=(1000 * k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- calls of Python


def case_pure_callback():
    shape = jax.ShapeDtypeStruct(VECTOR.shape, VECTOR.dtype)

    def on_host(a):
        return np.asarray(a) * 3

    ours = jax.jit(lambda x: jax.pure_callback(on_host, shape, x + 1))(VECTOR)
    np.testing.assert_allclose(np.asarray(ours), (VECTOR + 1) * 3, rtol=1e-6)


def case_ordered_effects():
    seen: list[float] = []

    @jax.jit
    def f(x):
        for k in range(3):
            io_callback(lambda a: seen.append(float(a)), None, x[k], ordered=True)
        return x + 1

    for _ in range(3):
        x = f(np.arange(3.0, dtype=np.float32))
    jax.effects_barrier()
    assert seen == [0, 1, 2] * 3 and x.tolist() == [1, 2, 3]


def case_a_callback_runs_programs():
    inner = jax.jit(lambda a: a @ a)

    def on_host(a):
        return np.asarray(inner(jax.device_put(a, HLOOM[0])))

    shape = jax.ShapeDtypeStruct(SQUARE.shape, SQUARE.dtype)
    ours = jax.jit(lambda x: jax.pure_callback(on_host, shape, x))(SQUARE)
    np.testing.assert_allclose(np.asarray(ours), SQUARE @ SQUARE, rtol=1e-4, atol=1e-5)


def case_a_failing_callback():
    def fail(a):
        raise ValueError("Oh no")

    shape = jax.ShapeDtypeStruct((), np.float32)
    with np.testing.assert_raises_regex(
        jax.errors.JaxRuntimeError, "CpuCallback error.*ValueError: Oh no"
    ):
        np.asarray(jax.jit(lambda x: jax.pure_callback(fail, shape, x))(VECTOR))
    same(lambda x: x + 1, VECTOR)  # and the next program runs


def case_buffer_callback():
    def fill(context, out, x):
        np.copyto(np.asarray(out), np.asarray(x) * 2)

    shape = jax.ShapeDtypeStruct(VECTOR.shape, VECTOR.dtype)
    ours = jax.jit(lambda x: buffer_callback(fill, shape)(x))(VECTOR)
    np.testing.assert_array_equal(np.asarray(ours), VECTOR * 2)


def case_memory_kinds_of_results():
    place = jax.sharding.SingleDeviceSharding(HLOOM[0], memory_kind="pinned_host")
    there = jax.jit(lambda x: x * 2, out_shardings=place)(VECTOR)
    assert there.sharding.memory_kind == "pinned_host"
    home = jax.sharding.SingleDeviceSharding(HLOOM[0])
    back = jax.jit(lambda x: x + 1, out_shardings=home)(there)
    assert back.sharding.memory_kind == "device"
    np.testing.assert_allclose(np.asarray(back), VECTOR * 2 + 1, rtol=1e-6)
