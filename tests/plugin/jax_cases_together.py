"""Programs that each device of hloom runs on its own arrays; child.py runs them."""

from __future__ import annotations

import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lib import xla_client
from jax.experimental import serialize_executable
from jax_cases import HLOOM
from jax_cases_devices import GRID, P, mesh, per_device, spread


def compiled(f: Any, *arguments: Any) -> Any:
    """Compiled: each device runs it on its own arrays."""
    exe = f.lower(*arguments).compile()
    assert "hloom_manual_region" not in exe.as_text(), exe.as_text()
    return exe


def case_together_shapes_are_of_one_device():
    f = per_device(lambda a: lax.psum(a, "x") + 1, mesh(4), P("x"), P())
    found = compiled(f, spread(GRID, mesh(4), "x"))
    assert "(f32[2,8]{1,0})->f32[2,8]{1,0}" in found.as_text()
    assert "num_partitions=4" in found.as_text()
    assert found.output_shardings.spec == P() and found.input_shardings[0][0].spec == P("x")
    np.testing.assert_array_equal(
        np.asarray(found(spread(GRID, mesh(4), "x"))),
        GRID[:2] * 0 + 1 + GRID.reshape(4, 2, 8).sum(0),
    )


def case_together_devices_in_any_order():
    """The device assignment is the mesh's, and places along its axes are, too."""
    for order in ([3, 1, 0, 2], [1, 0, 3, 2], [2, 3, 0, 1]):
        over = jax.sharding.Mesh(np.array([HLOOM[d] for d in order]).reshape(2, 2), ("x", "y"))
        assembled = spread(GRID, over, "x", "y")

        def f(a):
            b = lax.ppermute(a, ("x", "y"), [(0, 1), (1, 3), (3, 2)])
            return b, lax.all_gather(a, "y"), a * 0 + 10 * lax.axis_index("x") + lax.axis_index("y")

        g = per_device(f, over, P("x", "y"), (P("x", "y"), P("x", "y"), P("x", "y")))
        found = compiled(g, assembled)
        assert [d.id for d in found.runtime_executable().local_devices()] == order
        turned, gathered, where = found(assembled)
        tiles = GRID.reshape(2, 4, 2, 4).swapaxes(1, 2).reshape(4, 4, 4)
        wanted = np.stack([tiles[0] * 0, tiles[0], tiles[3], tiles[1]]).reshape(2, 2, 4, 4)
        np.testing.assert_array_equal(
            np.asarray(turned), wanted.swapaxes(1, 2).reshape(8, 8), str(order)
        )
        for shard in turned.addressable_shards:
            assert (
                shard.device
                == HLOOM[order[2 * (shard.index[0].start // 4) + shard.index[1].start // 4]]
            )
        np.testing.assert_array_equal(np.asarray(where)[::4, ::4], [[0, 1], [10, 11]])
        np.testing.assert_array_equal(
            np.asarray(gathered)[:2, :4], GRID[:4].reshape(4, 2, 4).swapaxes(0, 1)
        )


def case_together_between_regions():
    """Operations on elements, numbers and arrays of one number stand between regions."""
    over = mesh(2, 2)
    table = np.arange(4, dtype=np.float32)

    def layer(w, x):
        return lax.pmean(jnp.tanh(x @ w + table[0]), "x")

    def loss(w, x):
        shard = jax.shard_map(layer, mesh=over, in_specs=(P(), P(("x", "y"))), out_specs=P("y"))
        return jax.shard_map(
            lambda b: lax.psum(jnp.sum(b * b), "y"), mesh=over, in_specs=P("y"), out_specs=P()
        )(shard(w, x) * 2 + 1)

    def train(w, x):
        return w - 0.1 * jax.grad(loss)(w, x)

    w, x = spread(GRID / 64, over), spread(GRID / 8, over, ("x", "y"))
    found = compiled(jax.jit(train, donate_argnums=0), w, x)

    def wanted(w):
        halves = jnp.tanh(GRID / 8 @ w).reshape(2, 2, 2, 8).mean(0)
        return jnp.sum((halves * 2 + 1) ** 2)

    alone = np.asarray(jax.jit(jax.grad(wanted))(GRID / 64))
    np.testing.assert_allclose(
        np.asarray(found(w, x)), GRID / 64 - 0.1 * alone, rtol=2e-4, atol=1e-5
    )
    assert w.is_deleted() and not x.is_deleted()


def case_together_cut_otherwise():
    """Where arrays have to be cut otherwise between regions, devices exchange what they need."""
    over = mesh(4)
    body = jax.shard_map(
        lambda a: a + lax.psum(a, "x"), mesh=over, in_specs=P("x"), out_specs=P("x")
    )
    total = GRID + np.tile(GRID.reshape(4, 2, 8).sum(0), (4, 1))
    turned = GRID.T + np.tile(GRID.T.reshape(4, 2, 8).sum(0), (4, 1))
    for f, wanted, argument, collective in (
        (lambda a: body(a.T), turned, P("x"), "all-to-all"),
        (lambda a: body(a).sum(0), total.sum(0), P("x"), "all-reduce"),
        (body, total, P(None, "x"), "all-to-all"),
        (lambda a: (body(a), a.sum()), (total, GRID.sum()), P("x"), "all-reduce"),
    ):
        a = spread(GRID, over, *argument)
        exe = compiled(jax.jit(f), a)
        assert f" {collective}(" in exe.as_text()
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(np.asarray(x), y, rtol=1e-5), exe(a), wanted
        )


def case_together_memory():
    """A donated array is written where it stands, on every device; each has results of its own."""
    over = mesh(4)
    a = spread(np.ones((4, 1 << 16), np.float32), over, "x")
    before = [s.data.unsafe_buffer_pointer() for s in a.addressable_shards]
    f = jax.jit(
        jax.shard_map(
            lambda b: b * 2 + lax.psum(b[0, 0], "x"), mesh=over, in_specs=P("x"), out_specs=P("x")
        ),
        donate_argnums=0,
    )
    found = compiled(f, a)
    assert found.memory_analysis().alias_size_in_bytes == 1 << 18
    b = found(a)
    assert [s.data.unsafe_buffer_pointer() for s in b.addressable_shards] == before
    assert np.unique(np.asarray(b)).tolist() == [6.0]
    c = per_device(lambda v: lax.psum(v, "x"), over, P("x"), P())(b)
    assert len({s.data.unsafe_buffer_pointer() for s in c.addressable_shards}) == 4
    again = per_device(lambda v: (v, v), over, P("x"), P("x"))(b)
    np.testing.assert_array_equal(np.asarray(again[0]), np.asarray(again[1]))


def case_together_serialized():
    a = spread(GRID, mesh(4), "x")
    found = compiled(per_device(lambda v: lax.psum(v, "x") * 2, mesh(4), P("x"), P()), a)
    bytes_and_trees = serialize_executable.serialize(found)
    again = serialize_executable.deserialize_and_load(
        *bytes_and_trees, execution_devices=list(HLOOM)
    )
    np.testing.assert_array_equal(np.asarray(again(a)), 2 * GRID.reshape(4, 2, 8).sum(0))
    assert again.output_shardings == found.output_shardings


def case_together_many_at_once():
    """Runs of several threads, and of programs on some of the devices, do not wait in a ring."""
    over, pair = mesh(4), jax.sharding.Mesh(np.array(HLOOM[2:]), ("x",))

    def body(k, c):
        return jnp.tanh(c + lax.psum(c, "x") / 9)

    def many(b):
        return lax.fori_loop(0, 20, body, b)

    runs = [
        (per_device(many, over, P("x"), P("x")), spread(GRID, over, "x")),
        (per_device(many, pair, P("x"), P("x")), spread(GRID, pair, "x")),
    ]
    wanted = [np.asarray(f(a)) for f, a in runs]
    wrong = []

    def go_on(n):
        for k in range(30):
            f, a = runs[(n + k) % 2]
            if not np.array_equal(np.asarray(f(a)), wanted[(n + k) % 2]):
                wrong.append((n, k))

    threads = [threading.Thread(target=go_on, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


PROGRAM = """
module @m attributes {{mhlo.num_replicas = {} : i32, mhlo.num_partitions = {} : i32}} {{
  func.func public @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<ui32>, tensor<ui32>) {{
    %s = "stablehlo.all_reduce"(%x) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }}) {{replica_groups = dense<{}> : {}{}}} : (tensor<3xf32>) -> tensor<3xf32>
    %r = stablehlo.replica_id : tensor<ui32>
    %p = stablehlo.partition_id : tensor<ui32>
    return %s, %r, %p : tensor<3xf32>, tensor<ui32>, tensor<ui32>
  }}
}}"""


def _run(replicas: int, partitions: int, groups: str, kind: str, more: str, order: Any) -> Any:
    """Results of a program that is what one device runs, by logical device."""
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = replicas, partitions
    build.use_spmd_partitioning = False
    ids = np.array(order).reshape(replicas, partitions)
    build.device_assignment = xla_client.DeviceAssignment.create(ids)
    client = HLOOM[0].client
    text = PROGRAM.format(replicas, partitions, groups, kind, more)
    devices = xla_client.DeviceList(tuple(HLOOM[d] for d in order))
    program = client.compile_and_load(text, devices, options)
    place = [jax.sharding.SingleDeviceSharding(HLOOM[d]) for d in order]
    x = [jax.device_put(np.full(3, 10.0**d, np.float32), place[d]) for d in range(4)]
    inputs = jax.make_array_from_single_device_arrays(
        (12,),
        jax.sharding.NamedSharding(
            jax.sharding.Mesh(np.array([HLOOM[d] for d in order]), ("x",)), P("x")
        ),
        x,
    )
    out = program.execute_sharded([inputs]).disassemble_into_single_device_arrays()
    return [[np.asarray(shard) for shard in each] for each in out]


def case_together_replicas_and_partitions():
    for order in ([0, 1, 2, 3], [3, 0, 2, 1]):
        for replicas, partitions, groups, kind, more, wanted in (
            (4, 1, "[[0,1,2,3]]", "tensor<1x4xi64>", "", [1111] * 4),
            (4, 1, "[[0,3],[1,2]]", "tensor<2x2xi64>", "", [1001, 110, 110, 1001]),
            (2, 2, "[[0,1]]", "tensor<1x2xi64>", "", [101, 1010, 101, 1010]),
            (
                *(1, 4, "[[0,2],[1,3]]", "tensor<2x2xi64>"),
                ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,"
                " use_global_device_ids",
                [101, 1010, 101, 1010],
            ),
        ):
            sums, rs, ps = _run(replicas, partitions, groups, kind, more, order)
            assert [s[0] for s in sums] == wanted, (order, replicas, sums)
            numbers = [(int(r), int(p)) for r, p in zip(rs, ps)]
            assert numbers == [(d // partitions, d % partitions) for d in range(4)]


def case_together_one_device():
    """What moves by run-time offsets, and a send to oneself, where there is nobody else."""
    text = """
    module @m {
      func.func public @main(%x: tensor<4xf32>, %o: tensor<6xf32>) -> tensor<6xf32> {
        %a = stablehlo.constant dense<1> : tensor<1xi32>
        %b = stablehlo.constant dense<3> : tensor<1xi32>
        %r = stablehlo.custom_call @ragged_all_to_all(%x, %o, %a, %b, %a, %b) {
          api_version = 4 : i32,
          backend_config = {replica_groups = dense<[[0]]> : tensor<1x1xi64>}
        } : (tensor<4xf32>, tensor<6xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>,
             tensor<1xi32>) -> tensor<6xf32>
        return %r : tensor<6xf32>
      }
    }"""
    for portable in (False, True):
        options = xla_client.CompileOptions()
        options.compile_portable_executable = portable
        devices = xla_client.DeviceList((HLOOM[0],))
        program = HLOOM[0].client.compile_and_load(text, devices, options)
        x = jax.device_put(np.arange(4, dtype=np.float32), HLOOM[0])
        o = jax.device_put(np.full(6, 9, np.float32), HLOOM[0])
        (out,) = program.execute_sharded([x, o]).disassemble_into_single_device_arrays()
        np.testing.assert_array_equal(np.asarray(out[0]), [9, 1, 2, 3, 9, 9])


def case_functions_of_the_host_do_not_see_what_the_caller_has_set():
    """As on the built-in backend, whose devices have threads of their own."""
    seen = []

    def called(a):
        seen.append((str(jnp.ones(2).dtype), jnp.ones(2).device.id))
        return a + 1  # of arrays on one device, which the mesh around the call has not

    def f(a):
        return jax.pure_callback(called, jax.ShapeDtypeStruct(a.shape, a.dtype), a)

    x = np.arange(8, dtype=np.float32)
    each = jax.shard_map(f, mesh=mesh(4), in_specs=P("x"), out_specs=P("x"), check_vma=False)
    whole = jax.jit(f, out_shardings=jax.NamedSharding(mesh(4), P("x")))
    with jax.enable_x64(True), jax.default_device(jax.devices()[2]):
        for g in (each, jax.jit(each), whole):
            np.testing.assert_array_equal(g(x), x + 1)
    assert set(seen) == {("float32", 0)}, seen
