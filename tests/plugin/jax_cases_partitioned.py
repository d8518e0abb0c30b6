# pyright: reportOperatorIssue=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false
"""Programs with shardings, each device of which runs its part; child.py runs them."""

from __future__ import annotations

import os
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding
from jax_cases_devices import GRID, P, mesh, spread

from hloom.passes.partition import whole_program


def case_partitioned_product():
    """Each device holds parts, sums meet, and what is told is of one device."""
    over = mesh(2, 2)
    x, w = spread(GRID, over, "x", "y"), spread(GRID.T.copy() / 8, over, "y")
    exe = jax.jit(lambda x, w: jnp.tanh(x @ w)).lower(x, w).compile()
    text = exe.as_text()
    assert "(f32[4,4]{1,0}, f32[4,8]{1,0})->f32[4,8]{1,0}" in text
    assert " all-reduce(" in text and "num_partitions=4" in text
    assert "parameter(0), sharding={devices=[2,2]<=[4]}" in text
    assert "parameter(1), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}" in text
    assert exe.output_shardings.is_equivalent_to(NamedSharding(over, P("x")), 2)
    assert exe.memory_analysis().argument_size_in_bytes == 4 * (4 * 4 + 4 * 8)
    assert exe.cost_analysis()["transcendentals"] == 4 * 8
    np.testing.assert_allclose(np.asarray(exe(x, w)), np.tanh(GRID @ GRID.T / 8), rtol=1e-5)


def case_partitioned_collectives_are_told():
    """A result that is asked for whole is gathered, one cut otherwise is exchanged."""
    over = mesh(4)
    x = spread(GRID, over, "x")
    for spec, collective in ((P(), "all-gather"), (P(None, "x"), "all-to-all")):
        f = jax.jit(lambda x: x + 1, out_shardings=NamedSharding(over, spec))
        assert f" {collective}(" in f.lower(x).compile().as_text()
        np.testing.assert_array_equal(np.asarray(f(x)), GRID + 1)


def case_partitioned_rows_of_a_loop():
    """What steps take row by row is exchanged once, where each of them would have to ask for it."""
    x = spread(GRID, mesh(4), "x")
    f = jax.jit(lambda x: lax.map(lambda row: row * 2 - 1, x), out_shardings=x.sharding)
    exe = f.lower(x).compile()
    assert " all-to-all(" in exe.as_text() and " all-reduce(" not in exe.as_text()
    np.testing.assert_array_equal(np.asarray(exe(x)), 2 * GRID - 1)


def case_partitioned_training_step():
    """Weights and moments in parts: losses are those of one device, and so is the memory."""
    over, rate = mesh(4), 0.1
    w = {"a": np.sin(np.arange(64 * 64.0, dtype=np.float32)).reshape(64, 64) / 8}
    w["b"] = w["a"].T.copy()
    x = np.cos(np.arange(32 * 64.0, dtype=np.float32)).reshape(32, 64)

    def loss(w, x):
        return jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - x) ** 2)

    def step(w, m, x):
        value, g = jax.value_and_grad(loss)(w, x)
        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
        return jax.tree.map(lambda w, m: w - rate * m, w, m), m, value

    def losses(*place):
        state = [
            jax.tree.map(lambda a: place[0](a), s) for s in (w, jax.tree.map(lambda a: a * 0, w))
        ]
        f, told = jax.jit(step, donate_argnums=(0, 1)), []
        for _ in range(5):
            *state, value = f(*state, place[1](x))
            told.append(float(value))
        return told, state

    rows = lambda a: spread(a, over, "x")  # noqa: E731
    alone, _ = losses(jnp.asarray, jnp.asarray)
    together, state = losses(rows, rows)
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    assert all(a.sharding.spec == P("x") for a in jax.tree.leaves(state))
    exe = jax.jit(step).lower(*state, rows(x)).compile()
    assert exe.memory_analysis().argument_size_in_bytes == 4 * (4 * 64 * 64 + 32 * 64) // 4


def case_partitioned_rows_taken_are_cut_as_their_indices():
    """Also where weights are cut along the same axis: Shardy sees what XLA lets it see."""
    over = mesh(2, 2)
    table, w = (jax.ShapeDtypeStruct(s, np.float32) for s in ((8, 16), (16, 8)))
    at = jax.ShapeDtypeStruct((8, 2), np.int32)
    places = [NamedSharding(over, P(*axes)) for axes in (("y",), ("x", "y"), ("y", "x"), ("x",))]

    def step(table, w, v, at):
        def loss(table):
            rows = table[at]
            return jnp.sum(jnp.sin(rows + jnp.tanh(rows @ w) @ v)), rows

        g, rows = jax.grad(loss, has_aux=True)(table)
        return table - g, rows

    shapes = (table, w, jax.ShapeDtypeStruct((8, 16), np.float32), at)
    exe = jax.jit(step, in_shardings=places).lower(*shapes).compile()
    assert [s.spec for s in exe.output_shardings] == [P("y"), P("x")]


def case_partitioned_random_bits():
    """Random numbers are those of one device, in whichever parts they are asked for."""
    over, key = mesh(2, 2), jax.random.key(3)

    def f(key):
        return jax.random.normal(key, (8, 6)), jax.random.permutation(key, 12)

    cut = (NamedSharding(over, P("x", "y")), NamedSharding(over, P("x")))
    for a, b in zip(jax.jit(f)(key), jax.jit(f, out_shardings=cut)(key)):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def case_partitioned_functions_stay_what_they_are():
    """`erf` and others are one operation, not what they can be written as; bits are the same."""
    over, x = mesh(4), np.linspace(-0.9, 0.9, 64, dtype=np.float32).reshape(8, 8)

    def f(x):
        return lax.erf(x), jnp.arcsin(x), jnp.sinh(x), jnp.arccosh(x + 2), jnp.arctanh(x)

    exe = jax.jit(f).lower(spread(x, over, "x")).compile()
    text = exe.as_text()
    for name in ("erf", "asin", "sinh", "acosh", "atanh"):
        assert f" {name}(" in text, name
    for a, b in zip(exe(spread(x, over, "x")), jax.jit(f)(x), strict=True):
        assert a.sharding.is_equivalent_to(NamedSharding(over, P("x")), 2)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    bounded = jax.jit(
        lambda key: jax.random.truncated_normal(key, -1.0, 1.0, (64, 8)),
        out_shardings=NamedSharding(over, P("x")),
    )
    wanted = jax.random.truncated_normal(jax.random.key(3), -1.0, 1.0, (64, 8))
    np.testing.assert_array_equal(np.asarray(bounded(jax.random.key(3))), np.asarray(wanted))


def case_partitioned_names_of_functions_that_are_called():
    """What comes from a function that is called has the names and lines of both."""

    @jax.jit
    def inner(x):
        return jnp.sin(lax.fori_loop(0, 3, lambda k, x: x * jnp.cos(x), x))

    def outer(x):
        return inner(x) + jax.jit(lambda y: inner(y) * 2)(x)

    text = jax.jit(outer).lower(spread(GRID, mesh(4), "x")).compile().as_text() or ""
    names = re.findall(r'op_name="([^"]*)"', text)
    assert {"jit(outer)/jit(inner)/sin", "jit(outer)/jit(<lambda>)/mul"} <= {*names}
    assert "jit(outer)/jit(inner)/while/body/closed_call/cos" in names
    assert not any("//" in name for name in names)
    assert re.search(r'\d+ "[^"]*inner"', text), "its frames are there"


def case_partitioned_loops_and_branches():
    over = mesh(2, 2)
    x = spread(GRID / 64, over, "x", "y")

    def f(x):
        def body(c, _):
            return jnp.tanh(c @ x), c.sum()

        last, sums = lax.scan(body, x, None, length=3)
        return lax.cond(sums[-1] > 0, lambda a: a + 1, lambda a: a - 1, last), sums

    alone = jax.jit(f)(GRID / 64)
    for a, b in zip(jax.jit(f)(x), alone):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-6)


def case_partitioned_uneven_results_are_whole():
    """JAX has no arrays in parts of several sizes."""
    a = jax.jit(lambda x: (x[:5], x[1:] * 2))(spread(GRID, mesh(4), "x"))
    assert all(each.sharding.is_fully_replicated for each in a)
    np.testing.assert_array_equal(np.asarray(a[0]), GRID[:5])
    np.testing.assert_array_equal(np.asarray(a[1]), GRID[1:] * 2)


def case_partitioned_nested_regions():
    over = mesh(2, 2)

    def inner(a):
        return lax.psum(a, "y") + lax.axis_index("x")

    def outer(a):
        place = {"in_specs": P(None, "y"), "out_specs": P(), "axis_names": {"y"}}
        return jax.shard_map(inner, **place)(a) * 2

    place = {"in_specs": P("x"), "out_specs": P("x"), "axis_names": {"x"}, "check_vma": False}
    exe = jax.jit(jax.shard_map(outer, mesh=over, **place)).lower(GRID).compile()
    assert "hloom_manual_region" not in exe.as_text()
    wanted = 2 * (GRID[:, :4] + GRID[:, 4:] + np.repeat([[0], [1]], 4, 0))
    np.testing.assert_allclose(np.asarray(exe(GRID)), wanted, rtol=1e-6)


def case_partitioned_callbacks():
    """One device calls for all; in a loop, too, and with tokens that order the calls."""
    seen: list[float] = []
    x = spread(GRID, mesh(2, 2), "x", "y")

    def f(x):
        def body(k, c):
            jax.debug.callback(lambda v: seen.append(float(v)), c.sum())
            return c + 1

        kind = jax.ShapeDtypeStruct((), np.float32)
        total = io_callback(lambda a: np.asarray(a).sum(), kind, x, ordered=True)
        return lax.fori_loop(0, 3, body, x), total

    exe = jax.jit(f).lower(x).compile()
    looped, total = exe(x)
    jax.effects_barrier()
    np.testing.assert_allclose(sorted(seen), [GRID.sum() + 64 * k for k in range(3)], rtol=1e-6)
    assert float(total) == GRID.sum() and "num_partitions=4" in exe.as_text()
    np.testing.assert_array_equal(np.asarray(looped), GRID + 3)


def case_partitioned_custom_partitioning_in_a_loop():
    """Its shardings are known of elements of a loop's state, too."""

    @custom_partitioning
    def twice(a):
        return a * 2

    asked: list[Any] = []

    def partition(over, arguments, result):
        asked.append(arguments[0].sharding.spec)
        return over, lambda a: a * 2, result.sharding, (arguments[0].sharding,)

    twice.def_partition(partition, sharding_rule="i j -> i j")
    x = spread(GRID, mesh(2, 2), "x", "y")
    looped = jax.jit(lambda x: lax.fori_loop(0, 3, lambda k, c: twice(c), x))(x)
    np.testing.assert_array_equal(np.asarray(looped), GRID * 8)
    assert set(asked) == {P("x", "y")}


def case_partitioned_custom_partitioning_of_uneven_parts():
    """Code for one device gets parts of one size, zeros behind the end, and nothing is whole."""
    over = mesh(4)

    @custom_partitioning
    def f(x, y):
        return jnp.cos(x) + y, x * 2

    def code(_, arguments, __):
        s = arguments[0].sharding
        return over, lambda x, y: (jnp.cos(x) + y, x * 2), (s, s), (s, s)

    f.def_partition(
        infer_sharding_from_operands=lambda _, a, r: (a[0].sharding, a[0].sharding),
        partition=code,
        sharding_rule="i j, i j -> i j, i j",
    )
    shapes: list[tuple[int, ...]] = []

    def g(x):
        x = lax.with_sharding_constraint(x, NamedSharding(over, P("x")))
        jax.debug.callback(lambda part: shapes.append(np.shape(part)), x, partitioned=True)
        a, b = f(x, x + 1)
        return (a * b).sum(0), a[::-1]

    for rows in (13, 3):
        x = np.sin(np.arange(rows * 5, dtype=np.float32)).reshape(rows, 5)
        total, turned = jax.jit(g)(x)
        a = np.cos(x) + x + 1
        np.testing.assert_allclose(np.asarray(total), (a * x * 2).sum(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.asarray(turned), a[::-1], rtol=1e-5)
    jax.effects_barrier()
    assert sorted(shapes) == [(1, 5)] * 4 + [(4, 5)] * 4


def case_partitioned_shard_alike_in_a_loop():
    """What a loop carries is cut as an argument of its body that it is alike (JAX before 0.11)."""
    try:
        from jax.experimental.shard_alike import shard_alike
    except ImportError:
        return
    over = mesh(4)
    x = spread(GRID, over, "x")

    def f(x):
        def step(c, _):
            return shard_alike(x, c * 2)[1], None

        return lax.scan(step, jnp.ones_like(GRID), None, length=3)[0]

    y = jax.jit(f)(x)
    assert y.sharding.is_equivalent_to(NamedSharding(over, P("x")), 2)
    np.testing.assert_array_equal(np.asarray(y), np.full_like(GRID, 8))


def case_partitioned_in_spite_of_a_fault():
    """Where hloom has a fault every device computes the whole; regions and parts of arrays stay,
    and effects are had once."""
    over = mesh(2, 2)
    seen: list[float] = []

    def region(part):
        return part * lax.axis_index("x") + lax.psum(part.sum(), "y")

    def f(x):
        cut = jax.shard_map(region, mesh=over, in_specs=P("x", "y"), out_specs=P("x", "y"))
        return cut(jnp.sin(x)) @ x.T

    def faulty(*_):
        raise KeyError("planted")

    x = spread(GRID, over, "x", "y")
    wanted = np.asarray(jax.jit(f)(x))
    right = whole_program.partition_module
    whole_program.partition_module, os.environ["HLOOM_STRICT"] = faulty, "0"
    try:
        exe = jax.jit(lambda x: f(x) + 0, out_shardings=NamedSharding(over, P("x"))).lower(x)
        exe = exe.compile()
        told = jax.jit(lambda x: (jax.debug.callback(seen.append, x.sum()), x * 2)[1])(x)
        jax.effects_barrier()
    finally:
        whole_program.partition_module = right
    np.testing.assert_allclose(np.asarray(exe(x)), wanted, rtol=1e-4, atol=1e-5)
    assert " all-gather(" in exe.as_text() and exe.output_shardings.spec == P("x")
    assert exe.memory_analysis().argument_size_in_bytes == GRID.nbytes // 4
    np.testing.assert_array_equal(np.asarray(told), 2 * GRID)
    np.testing.assert_allclose(seen, [GRID.sum()], rtol=1e-5)
