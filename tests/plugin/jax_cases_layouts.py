"""Arrays in layouts that JAX asks for; each function runs in a child process (`child.py`)."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Format, Layout, with_layout_constraint
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

DEVICE = SingleDeviceSharding(jax.devices("hloom")[0])
COLUMNS, ROWS = Format(Layout((1, 0)), DEVICE), Format(Layout((0, 1)), DEVICE)
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def order(x: Any) -> tuple[int, ...]:
    """Dimensions from the one that varies slowest, as the buffer says and as numpy sees it."""
    said = x.format.layout.major_to_minor
    strides = np.asarray(x).strides
    assert [strides[d] for d in said] == sorted(strides, reverse=True), (said, strides)
    return said


def refused(call, words: str) -> None:
    try:
        call()
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError("nothing was refused")


def case_arrays_are_put_in_every_layout():
    x = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    for wanted in itertools.permutations(range(3)):
        held = jax.device_put(x, Format(Layout(wanted), DEVICE))
        assert order(held) == wanted
        assert np.array_equal(held, x)
        assert np.array_equal(jnp.sort(held, 1), np.sort(x, 1))
        assert np.array_equal(jax.device_put(held, Format(Layout((0, 1, 2)), DEVICE)), x)


def case_programs_have_layouts():
    f = jax.jit(lambda a: a * 2, in_shardings=COLUMNS, out_shardings=COLUMNS)
    assert order(f(X)) == (1, 0)
    assert np.array_equal(f(X), X * 2)
    compiled = f.lower(X).compile()
    assert compiled.output_formats.layout.major_to_minor == (1, 0)
    assert "f32[4,3]{0,1})->f32[4,3]{0,1}" in (compiled.as_text() or "")
    refused(lambda: f(jax.device_put(X, DEVICE)), "Layout passed to jit does not match")
    refused(lambda: compiled(jax.device_put(X, DEVICE)), "disagree with the layouts of arguments")


def case_one_program_takes_any_layout():
    f = jax.jit(lambda a: jnp.cumsum(a, 0) @ a.T)
    plain, turned = jax.device_put(X, ROWS), jax.device_put(X, COLUMNS)
    wanted = np.cumsum(X, 0) @ X.T
    for x in (plain, turned, plain, turned, turned):
        assert np.array_equal(f(x), wanted)


def case_layouts_that_are_left_open():
    auto = Format(Layout.AUTO)
    f = jax.jit(lambda a, b: (a.T, b.T + 1), in_shardings=auto, out_shardings=auto)
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    compiled = f.lower(shape, shape).compile()
    turned, more = compiled(X, X)
    assert order(turned) == order(more) == (1, 0)
    assert np.array_equal(turned, X.T)
    assert np.array_equal(more, X.T + 1)
    constrained = jax.jit(lambda a: with_layout_constraint(a * 2, Layout((1, 0))))(X)
    assert order(constrained) == (1, 0)


def case_donated_arrays_keep_layout_and_place():
    f = jax.jit(lambda a: a + 1, in_shardings=COLUMNS, out_shardings=COLUMNS, donate_argnums=0)
    x = jax.device_put(X, COLUMNS)
    places = set()
    for _ in range(3):
        places.add(x.unsafe_buffer_pointer())
        given, x = x, f(x)
        assert given.is_deleted()
    assert len(places) == 1
    assert np.array_equal(x, X + 3)


def case_shards_have_layouts():
    mesh = jax.make_mesh((2, 2), ("i", "j"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    spread = NamedSharding(mesh, P("i", "j"))
    columns = Format(Layout((1, 0)), spread)
    held = jax.device_put(x, columns)
    assert {order(s.data) for s in held.addressable_shards} == {(1, 0)}
    f = jax.jit(lambda a: a + a.sum(), in_shardings=columns, out_shardings=columns)
    made = f(held)
    assert {order(s.data) for s in made.addressable_shards} == {(1, 0)}
    assert np.array_equal(made, x + x.sum())
    rows = NamedSharding(mesh, P("j"))
    assert np.array_equal(jax.device_put(held, rows), x)
    # Shards of one array need not lie alike: a program reads each as it is.
    devices = mesh.devices.ravel()
    formats = [
        Format(Layout((k % 2, 1 - k % 2)), SingleDeviceSharding(devices[k])) for k in range(4)
    ]
    parts = [jax.device_put(s.data, formats[k]) for k, s in enumerate(held.addressable_shards)]
    mixed = jax.make_array_from_single_device_arrays(x.shape, spread, parts)
    assert np.array_equal(mixed * 2, x * 2)


def case_other_libraries_see_strides():
    turned = jax.device_put(X, COLUMNS)
    assert np.from_dlpack(turned).strides == (4, 16)
    whole = np.zeros(32, np.float32)
    begin = -whole.ctypes.data // 4 % 16  # as jaxlib wants it: aligned to 64 bytes
    view = whole[begin : begin + 12].reshape(3, 4).T
    view[:] = X
    seen = jnp.from_dlpack(view)
    assert order(seen) == (1, 0)
    assert seen.unsafe_buffer_pointer() == view.ctypes.data
    assert np.array_equal(seen + 1, X + 1)
    strided = np.arange(120, dtype=np.complex64).reshape(4, 5, 6)
    for given in (strided[::2], strided[..., ::-1], strided.T, strided[:, 1::3], strided[:0]):
        assert np.array_equal(jnp.asarray(given), given)


def case_tiles_are_refused():
    tiled = Format(Layout((0, 1), ((2, 2),)), DEVICE)
    try:
        jax.jit(lambda a: a, out_shardings=tiled)(X)
    except jax.errors.JaxRuntimeError as error:
        assert "result in tiles: f32[4,3]{1,0:T(2,2)}" in str(error), error
    else:
        raise AssertionError("tiles were taken")


def case_calls_do_not_hide_shardings():
    mesh = jax.make_mesh((2, 2), ("i", "j"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    spread = NamedSharding(mesh, P("i", "j"))
    x = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4) / 32, spread)

    def loss(x):
        return jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=3)[0].sum()

    gradient = jax.jit(jax.grad(loss))(x)
    assert gradient.sharding.is_equivalent_to(spread, 2), gradient.sharding
    a, b, c = x, jnp.sin(x), jnp.sin(jnp.sin(x))
    assert np.allclose(gradient, jnp.cos(a) * jnp.cos(b) * jnp.cos(c), atol=1e-6)

    # What a function says of its own arguments and results holds where it is called.
    turned = NamedSharding(mesh, P("j", "i"))
    inner = jax.jit(lambda x: x * 2, in_shardings=turned, out_shardings=turned)
    outer = jax.jit(lambda x: (inner(x), inner(x + 1)))
    for made, wanted in zip(outer(x), (x * 2, (x + 1) * 2)):
        assert made.sharding.is_equivalent_to(turned, 2), made.sharding
        assert np.array_equal(made, wanted)


def case_programs_say_in_which_memory_arrays_are():
    pinned, unpinned = (DEVICE.with_memory_kind(k) for k in ("pinned_host", "unpinned_host"))
    given, made = (DEVICE, unpinned), (pinned, DEVICE)
    f = jax.jit(lambda a, b: (a * 2, b + 1), in_shardings=given, out_shardings=made)
    compiled = f.lower(X, X).compile()
    wanted = "(f32[4,3]{1,0}, f32[4,3]{1,0:S(6)})->(f32[4,3]{1,0:S(5)}, f32[4,3]{1,0})"
    assert wanted in (compiled.as_text() or "")
    assert [x.sharding.memory_kind for x in compiled(X, X)] == ["pinned_host", "device"]
