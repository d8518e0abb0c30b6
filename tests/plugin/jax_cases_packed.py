"""Arrays of elements below a byte, packed in buffers; each function runs in a child process
(`child.py`), with four devices."""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import shard_map
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

DEVICES = jax.devices("hloom")
TYPES: tuple[Any, ...] = (jnp.int4, jnp.uint4, jnp.int2, jnp.uint2, jnp.float4_e2m1fn)


def drawn(t: Any, dims: tuple[int, ...]) -> np.ndarray[Any, Any]:
    bits = 2 if t in (jnp.int2, jnp.uint2) else 4
    return np.random.default_rng(0).integers(0, 1 << bits, dims).astype(np.uint8).view(t)


def same(x: Any, y: Any) -> None:
    assert x.dtype == y.dtype and x.shape == y.shape, (x.dtype, y.dtype)
    assert np.asarray(x).tobytes() == np.ascontiguousarray(y).tobytes(), (x, y)


def case_the_bytes_of_a_buffer():
    """As the built-in backend has them: the first element in the lowest bits."""
    x = jnp.asarray(np.array([1, -2, 3, -4, 7], jnp.int4))
    held = (ctypes.c_ubyte * 3).from_address(x.unsafe_buffer_pointer())
    assert bytes(held) == b"\xe1\xc3\x07"
    compiled = jax.jit(lambda a: a + a).lower(x).compile()
    assert "(s4[5]{0:E(4)})->s4[5]{0:E(4)}" in (compiled.as_text() or "")
    assert compiled.memory_analysis().argument_size_in_bytes == 3


def case_arrays_to_the_device_and_back():
    for t in TYPES:
        for dims in ((), (1,), (0,), (7,), (4, 6), (3, 5), (2, 1, 3)):
            x = drawn(t, dims)
            same(jax.device_put(x), x)
            same(jax.device_put(x.T), x.T)
            same(jax.jit(lambda a: a.T)(x), x.T)
            if dims and dims[0] > 1:
                same(jax.device_put(x[::-2]), x[::-2])
                same(jax.device_put(x, DEVICES[1])[1:], x[1:])


def case_layouts():
    x = drawn(jnp.int4, (3, 5))
    columns = Format(Layout((1, 0)), SingleDeviceSharding(DEVICES[0]))
    held = jax.device_put(x, columns)
    assert held.format.layout.major_to_minor == (1, 0)
    same(held, x)
    turned = jax.jit(lambda a: a[1:], in_shardings=columns, out_shardings=columns)(held)
    same(turned, x[1:])
    same(jax.jit(lambda a: a[:, ::2])(held), x[:, ::2])


def case_shards_that_share_bytes():
    """Parts of a row begin in the middle of a byte of the whole."""
    mesh = Mesh(np.array(DEVICES[:4]).reshape(2, 2), ("a", "b"))
    for t in TYPES:
        for dims in ((6, 10), (2, 2), (4, 6), (2, 6, 5)):
            x = drawn(t, dims)
            for spec in (P("a"), P("a", "b"), P(None, "b")):
                held = jax.device_put(x, NamedSharding(mesh, spec))
                same(held, x)
                same(jax.jit(lambda a: a[::-1])(held), x[::-1])
                whole = np.concatenate([x, x])

                def both(a, spec=spec):
                    b = jax.lax.all_gather(a, "a", axis=0, tiled=True)
                    return b if spec[0] else jnp.concatenate([a, a])

                f = shard_map(
                    both, mesh=mesh, in_specs=spec, out_specs=P(None, *spec[1:]), check_vma=False
                )
                same(jax.jit(f)(held), x if spec[0] else whole)


def case_donated():
    x = jnp.asarray(drawn(jnp.int4, (15,)))
    expected = np.asarray(x) + np.asarray(x)
    at = x.unsafe_buffer_pointer()
    y = jax.jit(lambda a: a + a, donate_argnums=0)(x)
    assert x.is_deleted() and y.unsafe_buffer_pointer() == at
    same(y, expected)


def case_loops_and_callbacks():
    x = drawn(jnp.int4, (3, 5))
    last, all_ = jax.lax.scan(lambda c, row: (c + row, c), x[0], x)
    totals = [x[0]]
    for row in x:
        totals.append((totals[-1].astype(np.int8) + row.astype(np.int8)).astype(jnp.int4))
    same(last, totals[-1])
    same(all_, np.stack(totals[:-1]))
    given = jax.ShapeDtypeStruct((3, 5), jnp.int4)
    same(jax.jit(lambda a: jax.pure_callback(lambda b: np.asarray(b)[::-1], given, a))(x), x[::-1])


def case_weights():
    w, x = drawn(jnp.int4, (129, 257)), np.eye(3, 129, dtype=np.float32)
    found = jax.jit(lambda w, x: x @ (w.astype(jnp.float32) * 0.5))(w, x)
    assert np.array_equal(found, x @ (w.astype(np.float32) * 0.5))


def case_bits():
    x = np.arange(12, dtype=np.uint8).reshape(3, 4) * 21
    apart = jax.lax.bitcast_convert_type(x, jnp.int4)
    assert apart.shape == (3, 4, 2)
    assert np.array_equal(np.asarray(apart).view(np.uint8)[..., 0] & 15, x & 15)
    same(jax.lax.bitcast_convert_type(apart, jnp.uint8), x)
