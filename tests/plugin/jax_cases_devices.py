"""What JAX must be able to do on several devices of hloom; run by child.py, as jax_cases.py is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback, serialize_executable
from jax.experimental.custom_partitioning import custom_partitioning
from jax_cases import BUILT_IN, HLOOM, VECTOR


def mesh(*sizes: int, names: str = "xy") -> Any:
    return jax.sharding.Mesh(np.array(HLOOM).reshape(sizes), tuple(names[: len(sizes)]))


def spread(array: np.ndarray, over: Any, *axes: Any) -> Any:
    return jax.device_put(
        array, jax.sharding.NamedSharding(over, jax.sharding.PartitionSpec(*axes))
    )


GRID = np.arange(64.0, dtype=np.float32).reshape(8, 8)


def case_several_devices_place():
    assert len(HLOOM) == 4
    x = jax.device_put(VECTOR, HLOOM[3])
    y = jax.jit(lambda a: a * 2)(x)
    assert y.devices() == {HLOOM[3]}
    z = jax.device_put(y, HLOOM[1])
    assert z.devices() == {HLOOM[1]} and z.unsafe_buffer_pointer() != y.unsafe_buffer_pointer()
    assert np.array_equal(np.asarray(z + 1), VECTOR * 2 + 1)
    with np.testing.assert_raises_regex(ValueError, "incompatible devices"):
        jax.jit(lambda a, b: a + b)(x, z)


def case_several_devices_sharded():
    over = mesh(2, 2)
    a, b = spread(GRID, over, "x", "y"), spread(GRID.T.copy(), over, "y")
    whole, doubled = jax.jit(lambda a, b: (a @ b, a * 2))(a, b)
    np.testing.assert_allclose(np.asarray(whole), GRID @ GRID.T, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(doubled), GRID * 2)
    assert doubled.sharding == a.sharding  # as propagation has it
    for shard in doubled.addressable_shards:
        assert shard.data.devices() == {shard.device}
        np.testing.assert_array_equal(np.asarray(shard.data), GRID[shard.index] * 2)


def case_several_devices_results_as_asked():
    over = mesh(2, 2)
    a = spread(GRID, over, "x", "y")
    wanted = [
        jax.sharding.NamedSharding(over, jax.sharding.PartitionSpec(*p))
        for p in ((), ("y", "x"), ("y",))
    ]
    total, turned, row = jax.jit(lambda a: (a.sum(), a.T, a[1]), out_shardings=tuple(wanted))(a)
    assert [total.sharding, turned.sharding, row.sharding] == wanted
    assert float(total) == GRID.sum()
    np.testing.assert_array_equal(np.asarray(turned), GRID.T)
    np.testing.assert_array_equal(np.asarray(row), GRID[1])


def case_several_devices_training_donates():
    over = mesh(4)

    def loss(w, x):
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    def train(w, x):
        step = jax.jit(lambda w, x: w - 0.1 * jax.grad(loss)(w, x), donate_argnums=0)
        for _ in range(5):
            old, w = w, step(w, x)
        assert old.is_deleted()
        return w

    ours = train(spread(GRID / 64, over), spread(GRID / 64, over, "x"))
    with jax.default_device(BUILT_IN):
        theirs = train(jax.device_put(GRID / 64, BUILT_IN), jax.device_put(GRID / 64, BUILT_IN))
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-5)


def case_several_devices_constraints_and_callbacks():
    over = mesh(2, 2)
    place = jax.sharding.NamedSharding(over, jax.sharding.PartitionSpec("y", "x"))
    a = spread(GRID, over, "x", "y")
    shape = jax.ShapeDtypeStruct(GRID.shape, GRID.dtype)

    @jax.jit
    def f(a):
        b = lax.with_sharding_constraint(a + 1, place)
        return jax.pure_callback(lambda v: np.asarray(v) * 2, shape, b)

    np.testing.assert_array_equal(np.asarray(f(a)), (GRID + 1) * 2)


def case_several_devices_serialized():
    over = mesh(2, 2)
    a = spread(GRID, over, "x", "y")
    compiled = jax.jit(lambda a: a @ a).lower(a).compile()
    again = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(compiled), execution_devices=list(over.devices.flat)
    )
    np.testing.assert_array_equal(np.asarray(again(a)), np.asarray(compiled(a)))
    assert again.output_shardings == compiled.output_shardings


def per_device(function: Any, over: Any, into: Any, out: Any, **more: Any) -> Any:
    return jax.jit(jax.shard_map(function, mesh=over, in_specs=into, out_specs=out, **more))


P = jax.sharding.PartitionSpec


def case_several_devices_collectives():
    over, x = mesh(2, 2), GRID
    tiles = x.reshape(2, 4, 2, 4)
    for name in "float32 float64 bfloat16 float16 int32 uint8 complex64".split():
        given = (x % 7).astype(getattr(jnp, name))
        got = per_device(lambda a: lax.psum(a, "x"), over, P("x", "y"), P(None, "y"))(given)
        np.testing.assert_array_equal(np.asarray(got), given[:4] + given[4:])
    got = per_device(lambda a: lax.pmax(a, ("x", "y")), over, P("x", "y"), P())(x)
    np.testing.assert_array_equal(np.asarray(got), tiles.max((0, 2)))
    gather = per_device(
        lambda a: lax.all_gather(a, "y", axis=1, tiled=True),
        over,
        P("x", "y"),
        P("x", None),
        check_vma=False,
    )
    np.testing.assert_array_equal(np.asarray(gather(x)), x)
    scatter = per_device(
        lambda a: lax.psum_scatter(a, "y", tiled=True), over, P("x", None), P(("x", "y"))
    )
    np.testing.assert_array_equal(np.asarray(scatter(x)), x * 2)
    turn = per_device(
        lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), over, P("x", None), P(None, "x")
    )
    np.testing.assert_array_equal(np.asarray(turn(x)), x)
    shift = per_device(lambda a: lax.ppermute(a, "x", [(0, 1)]), over, P("x", "y"), P("x", "y"))
    np.testing.assert_array_equal(np.asarray(shift(x)), np.concatenate([x[:4] * 0, x[:4]]))
    where = per_device(
        lambda a: a * 0 + 10 * lax.axis_index("x") + lax.axis_index("y"),
        over,
        P("x", "y"),
        P("x", "y"),
    )
    np.testing.assert_array_equal(np.asarray(where(x))[::4, ::4], [[0, 1], [10, 11]])


def case_several_devices_pmap():
    doubled, total = jax.pmap(lambda a: (a * 2, lax.psum(a, "i")), axis_name="i")(GRID[:4])
    np.testing.assert_array_equal(np.asarray(doubled), GRID[:4] * 2)
    np.testing.assert_array_equal(np.asarray(total), np.tile(GRID[:4].sum(0), (4, 1)))


def case_several_devices_shard_map_in_programs():
    """Regions between other code, in loops, with loops inside, differentiated, donated to."""
    over = mesh(4)

    def ring(b):
        return lax.ppermute(b, "x", [(k, (k + 1) % 4) for k in range(4)])

    inside = per_device(
        lambda a: lax.scan(lambda c, _: (ring(c) + 1, None), a, length=4)[0], over, P("x"), P("x")
    )
    np.testing.assert_array_equal(np.asarray(inside(GRID)), GRID + 4)

    def step(c, _):
        c = jax.shard_map(
            lambda b: b + lax.psum(b, "x") * 0.5, mesh=over, in_specs=P("x"), out_specs=P("x")
        )(c)
        return jnp.sin(c), c.sum()

    got = np.asarray(jax.jit(lambda a: lax.scan(step, a, length=3)[0])(GRID / 64))
    want = GRID / 64
    for _ in range(3):
        want = np.sin(want + np.tile(want.reshape(4, 2, 8).sum(0), (4, 1)) * 0.5)
    np.testing.assert_allclose(got, want, rtol=1e-5)

    def loss(a):
        return jax.shard_map(
            lambda b: lax.pmean(jnp.sum(jnp.sin(b)), "x"), mesh=over, in_specs=P("x"), out_specs=P()
        )(a)

    np.testing.assert_allclose(
        np.asarray(jax.jit(jax.grad(loss))(GRID)), np.cos(GRID) / 4, rtol=1e-5, atol=1e-6
    )


def case_several_devices_some_axes_manual():
    over = mesh(2, 2)
    got = per_device(
        lambda a: lax.psum(a, "x") + lax.axis_index("x"), over, P("x"), P("x"), axis_names={"x"}
    )(GRID)
    total = GRID[:4] + GRID[4:]
    np.testing.assert_array_equal(np.asarray(got), np.concatenate([total, total + 1]))


def case_several_devices_a_device_fails():
    def fail_on_one(v):
        if v[0, 0] >= 32:
            raise ValueError("no more")
        return v

    shape = jax.ShapeDtypeStruct((2, 8), np.float32)
    f = per_device(
        lambda a: lax.psum(jax.pure_callback(fail_on_one, shape, a), "x"),
        mesh(4),
        P("x"),
        P(),
        check_vma=False,
    )
    with np.testing.assert_raises_regex(jax.errors.JaxRuntimeError, "ValueError: no more"):
        f(GRID).block_until_ready()
    np.testing.assert_array_equal(np.asarray(f(GRID * 0)), GRID[:2] * 0)


def case_several_devices_regions_serialized():
    compiled = per_device(lambda a: lax.psum(a, "x"), mesh(4), P("x"), P()).lower(GRID).compile()
    again = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(compiled), execution_devices=list(HLOOM)
    )
    a = spread(GRID, mesh(4), "x")
    np.testing.assert_array_equal(np.asarray(again(a)), GRID.reshape(4, 2, 8).sum(0))


def case_several_devices_sort_and_say_nothing():
    """Shardy's constants stay outside of comparators; a program may have no results at all."""
    a, seen = spread(-GRID, mesh(2, 2), "x", "y"), []
    np.testing.assert_array_equal(np.asarray(jnp.sort(a, 1)), np.sort(-GRID, 1))
    tell = jax.jit(lambda x: jax.debug.callback(lambda v: seen.append(np.asarray(v).sum()), x))
    assert tell(a) is None
    jax.effects_barrier()
    assert seen and seen[0] == -GRID.sum()


def case_several_devices_inspected():
    seen: list[Any] = []
    a = spread(GRID, mesh(2, 2), "x", "y")

    @jax.jit
    def f(a):
        b = a * 2
        jax.debug.inspect_array_sharding(b, callback=seen.append)
        return b.sum()

    assert float(f(a)) == GRID.sum() * 2
    (found,) = seen
    assert found.is_equivalent_to(a.sharding, 2)


def case_several_devices_groups_of_several_sizes():
    """Groups that are filled up; elements that are narrower than a byte or floats of one."""
    over, x = mesh(4), GRID[:4]
    groups = [[0, 2, 3], [1]]
    got = per_device(
        lambda a: lax.psum(a, "x", axis_index_groups=groups),
        over,
        P("x"),
        P("x"),
        check_vma=False,
    )(x)
    np.testing.assert_array_equal(np.asarray(got)[[0, 2, 3]], np.tile(x[[0, 2, 3]].sum(0), (3, 1)))
    np.testing.assert_array_equal(np.asarray(got)[1], x[1])
    for name, wanted in (("float8_e4m3fn", [6, 10]), ("int4", [6, -6]), ("uint4", [6, 10])):
        given = jnp.asarray([[0, 1], [1, 2], [2, 3], [3, 4]], name)
        got = per_device(lambda a: lax.psum(a, "x"), over, P("x"), P())(given)
        assert got.dtype == name and got.astype(int).tolist() == [wanted]


def case_several_devices_regions_in_regions_meet():
    """A collective of an inner region along an axis of the outer one, again in a loop."""
    over = mesh(2, 2)

    def inner(y):
        loop = lax.fori_loop(0, 3, lambda _, c: c + lax.psum(c, "x"), y)
        return loop + lax.ppermute(y, ("x", "y"), [(k, (k + 1) % 4) for k in range(4)])

    def outer(x):
        return jax.shard_map(
            inner, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}, check_vma=False
        )(x)

    got = per_device(outer, over, P("x"), P("x"), axis_names={"x"}, check_vma=False)(GRID)
    want = GRID.reshape(2, 4, 8)
    turned = np.roll(GRID.reshape(2, 4, 2, 4).swapaxes(1, 2).reshape(4, 4, 4), 1, 0)
    turned = turned.reshape(2, 2, 4, 4).swapaxes(1, 2).reshape(2, 4, 8)
    for _ in range(3):
        want = want + want.sum(0)
    np.testing.assert_array_equal(np.asarray(got), (want + turned).reshape(8, 8))


def case_several_devices_ordered_callbacks_in_regions():
    seen: list[float] = []

    def f(a):
        for k in range(2):
            io_callback(lambda v, k=k: seen.append(k), None, a, ordered=True)
        return a * 2

    got = per_device(f, mesh(4), P("x"), P("x"))(GRID)
    jax.effects_barrier()
    np.testing.assert_array_equal(np.asarray(got), GRID * 2)
    assert sorted(seen) == [0] * 4 + [1] * 4


def case_several_devices_custom_partitioning():
    """The code that `def_partition` writes runs on shards as it wants them, and meets."""
    over, asked = mesh(2, 2), []

    @custom_partitioning
    def multiply(a, b):
        return a @ b

    def partition(over, given, result):
        asked.append([given[0].sharding.spec, given[1].sharding.spec, result.sharding.spec])
        place = [jax.sharding.NamedSharding(over, p) for p in (P("x", "y"), P("y"), P("x", None))]

        def of_one(a, b):
            assert a.shape == (4, 4) and b.shape == (4, 8)
            return lax.psum(a @ b, "y") + 1

        return over, of_one, place[2], tuple(place[:2])

    multiply.def_partition(partition, sharding_rule="i k, k j -> i j", reduction_factors=("k",))
    a, b = spread(GRID, over, "x", "y"), spread(GRID.T.copy(), over, "y")
    with over:
        got = jax.jit(lambda a, b: multiply(a, b) * 2)(a, b)
    assert asked == [[P("x", "y"), P("y", None), P("x", None)]]
    np.testing.assert_allclose(np.asarray(got), (GRID @ GRID.T + 1) * 2, rtol=1e-5)

    def no_code(*given):
        raise ValueError("not today")

    multiply.def_partition(no_code, sharding_rule="i k, k j -> i j", reduction_factors=("k",))
    with over, np.testing.assert_raises_regex(jax.errors.JaxRuntimeError, "not today"):
        jax.jit(multiply)(a, b)


def case_several_devices_callbacks_of_parts():
    seen: list[Any] = []

    @jax.jit
    def f(a):
        jax.debug.callback(lambda v: seen.append(np.asarray(v)), a, partitioned=True)
        return a + 1

    f(spread(GRID, mesh(2, 2), "x", "y")).block_until_ready()
    jax.effects_barrier()
    assert sorted(v.sum() for v in seen) == sorted(GRID.reshape(2, 4, 2, 4).sum((1, 3)).ravel())


def case_several_devices_top_k_and_composites_keep_shardings():
    a = spread(GRID, mesh(2, 2), "x", "y")
    values, indices = jax.jit(lambda a: lax.top_k(a, 3))(a)
    assert values.sharding.spec == indices.sharding.spec == P("x")
    np.testing.assert_array_equal(np.asarray(values), GRID[:, :-4:-1])
    own = lax.composite(lambda x: jnp.sin(x) * 2, "mine.double_sine")
    got = jax.jit(own)(a)
    assert got.sharding == a.sharding
    np.testing.assert_allclose(np.asarray(got), np.sin(GRID) * 2, rtol=1e-5, atol=1e-6)


def case_several_devices_executables_tell():
    a = spread(GRID, mesh(2, 2), "x", "y")
    compiled = jax.jit(lambda a: (a * 2, a.sum(0)), donate_argnums=0).lower(a).compile()
    assert compiled.memory_analysis().alias_size_in_bytes == 64  # of one device
    place, _ = compiled.runtime_executable().get_output_shardings()
    assert list(place.iota_reshape_dims) == [4]


def case_several_devices_regions_tell():
    """The text has what one device runs, nested regions included; so has it once loaded."""
    over = mesh(2, 2)

    def outer(x):
        inner = jax.shard_map(
            lambda y: lax.all_gather(jnp.sin(y), "y", axis=1, tiled=True),
            in_specs=P(None, "y"),
            out_specs=P(),
            axis_names={"y"},
            check_vma=False,
        )
        return lax.psum(inner(x), "x")

    compiled = (
        per_device(outer, over, P("x"), P(), axis_names={"x"}, check_vma=False)
        .lower(GRID)
        .compile()
    )
    saved = serialize_executable.serialize(compiled)
    load = serialize_executable.deserialize_and_load
    for each in (compiled, load(*saved, execution_devices=list(HLOOM))):
        text = each.as_text()
        assert text.count(" all-gather(") == text.count(" all-reduce(") == 1, text
        assert each.cost_analysis()["transcendentals"] > 0
