"""Programs for eight devices: every collective, by hand (shard_map) and as the compiler cuts them.

Arguments are whole arrays; the second field of each entry says how they are cut over the mesh of
two by four devices, axes `x` and `y`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.peer.programs.registry import add, normal, whole

X, Y, BOTH = P("x"), P("y"), P(("x", "y"))


def mesh():
    """Two by four devices, made when first asked for: the number of devices is then fixed."""
    return jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def local(function, into, out, *arguments):
    """A function of what one device holds."""

    def whole_program(*a):
        mapped = jax.shard_map(function, mesh=mesh(), in_specs=into, out_specs=out, check_vma=False)
        return mapped(*a)

    return whole_program, tuple(into), arguments


def placed(function, into, *arguments):
    """A function of whole arrays, cut by the compiler."""
    return function, tuple(into), arguments


def put(arguments, specs):
    return [jax.device_put(a, NamedSharding(mesh(), s)) for a, s in zip(arguments, specs)]


def collectives() -> None:
    x = normal(8, 4)
    ring = [(k, (k + 1) % 4) for k in range(4)]
    reduced = {
        "psum-y": lambda v: lax.psum(v, "y"),
        "psum-x": lambda v: lax.psum(v, "x"),
        "psum-both": lambda v: lax.psum(v, ("x", "y")),
        "psum-tree": lambda v: sum(lax.psum((v, v * 2, v.sum()), "y")[:2]),
        "psum-groups": lambda v: lax.psum(v, "y", axis_index_groups=[[0, 1], [2, 3]]),
        "pmax": lambda v: lax.pmax(v, "y"),
        "pmin": lambda v: lax.pmin(v, ("x", "y")),
        "pmean": lambda v: lax.pmean(v, "x"),
        "permute": lambda v: lax.ppermute(v, "y", ring),
        "permute-part": lambda v: lax.ppermute(v, "y", [(0, 2), (3, 1)]),
        "shuffle": lambda v: lax.pshuffle(v, "y", [2, 0, 3, 1]),
        "index": lambda v: v + lax.axis_index("y") * 10 + lax.axis_index("x"),
        "size": lambda v: v * lax.axis_size("y"),
        "logsumexp": lambda v: v - jnp.log(lax.psum(jnp.exp(v - lax.pmax(v, "y")), "y")),
        "in-loop": lambda v: lax.fori_loop(0, 3, lambda i, w: lax.ppermute(w, "y", ring) + i, v),
        "in-branch": lambda v: lax.cond(
            lax.axis_index("x") == 0, lambda w: lax.psum(w, "y"), lambda w: w * 2, v
        ),
        "in-scan": lambda v: lax.scan(lambda c, _: (lax.pmean(c, "y") + 1, c), v, None, length=3)[
            0
        ],
        "dynamic-slice": lambda v: lax.dynamic_slice(
            lax.all_gather(v, "y", tiled=True), (lax.axis_index("y"), np.int32(0)), v.shape
        ),
        "reduce-then-gather": lambda v: lax.all_gather(
            lax.psum_scatter(jnp.tile(v, (4, 1)), "y", tiled=True), "x", tiled=True
        )[:1],
    }
    for name, function in reduced.items():
        keep(f"devices/{name}", local(function, (BOTH,), BOTH, x))
    for of in ("int32", "bfloat16", "float64", "complex64", "uint8"):
        function = functools.partial(lax.psum, axis_name=("x", "y"))
        keep(f"devices/psum-{of}", local(function, (BOTH,), P(), normal(8, 4, of=of)))
    flags = whole(8, 4, of="int32", high=1, low=0)
    keep("devices/any", local(lambda v: lax.pmax(v > 0, "y"), (BOTH,), BOTH, flags))


def moves() -> None:
    x = normal(16, 8, 3)
    cases = {
        "gather": (lambda v: lax.all_gather(v, "y"), BOTH, P("x")),
        "gather-tiled": (lambda v: lax.all_gather(v, "y", axis=1, tiled=True), BOTH, BOTH),
        "gather-both": (lambda v: lax.all_gather(v, ("x", "y"), tiled=True), BOTH, P()),
        "gather-new-axis": (lambda v: lax.all_gather(v, "x", axis=1), BOTH, BOTH),
        "scatter": (
            lambda v: lax.psum_scatter(v, "y", scatter_dimension=1, tiled=True),
            BOTH,
            P(("x", "y")),
        ),
        "scatter-groups": (
            lambda v: lax.psum_scatter(
                v, "y", scatter_dimension=1, tiled=True, axis_index_groups=[[0, 2], [1, 3]]
            ),
            BOTH,
            BOTH,
        ),
        "all-to-all": (lambda v: lax.all_to_all(v, "y", 1, 0, tiled=True), BOTH, BOTH),
        "all-to-all-axis": (lambda v: lax.all_to_all(v, "x", 0, 2), P(None, "y"), P(None, "y")),
        "all-to-all-both": (lambda v: lax.all_to_all(v, ("x", "y"), 1, 0, tiled=True), BOTH, BOTH),
        "replicated": (lambda v: v * 2, P(), P()),
    }
    for name, (function, into, out) in cases.items():
        given = x[:2] if name == "all-to-all-axis" else x
        keep(f"devices/{name}", local(function, (into,), out, given))


def cut() -> None:
    x, w, v = normal(8, 16), normal(16, 12, seed=1), normal(12, 8, seed=2)
    keep("devices/matmul-rows", placed(lambda a, b: a @ b, (X, P(None, "y")), x, w))
    keep("devices/matmul-inner", placed(lambda a, b: a @ b, (P(None, "y"), Y), x, w))
    keep(
        "devices/two-layers",
        placed(lambda a, b, c: jax.nn.relu(a @ b) @ c, (X, P(None, "y"), Y), x, w, v),
    )
    keep(
        "devices/two-layers-grad",
        placed(
            jax.grad(lambda b, a, c: jnp.sum(jnp.tanh(a @ b) @ c)), (P(None, "y"), X, Y), w, x, v
        ),
    )
    keep("devices/softmax", placed(lambda a: jax.nn.softmax(a, 1), (P("x", "y"),), x))
    keep("devices/sum", placed(lambda a: (a.sum(), a.max(0), a.mean(1)), (P("x", "y"),), x))
    keep("devices/sort", placed(lambda a: jnp.sort(a, 1), (P("x", "y"),), x))
    keep("devices/transpose", placed(lambda a: a.T.reshape(4, 32) * 2, (P("x", "y"),), x))
    keep("devices/take", placed(lambda a, k: a[k], (Y, P()), x, whole(5, low=0, high=7)))
    keep(
        "devices/write",
        placed(
            lambda a, k, u: a.at[k].add(u), (Y, P(), P()), x, whole(5, low=0, high=7), normal(5, 16)
        ),
    )
    keep("devices/roll", placed(lambda a: jnp.roll(a, 3, 1) + jnp.flip(a, 0), (P("x", "y"),), x))
    keep("devices/concatenate", placed(lambda a: jnp.concatenate([a, a * 2], 1), (P("x", "y"),), x))
    keep("devices/pad", placed(lambda a: jnp.pad(a, ((1, 2), (3, 0))), (P("x", "y"),), x))
    keep("devices/cumsum", placed(lambda a: jnp.cumsum(a, 1), (P("x", "y"),), x))
    keep(
        "devices/scan",
        placed(
            lambda a, b: lax.scan(lambda c, r: (jnp.tanh(c @ b), r.sum()), a[:, :12] @ b[:12], a),
            (X, P(None, "y")),
            x,
            normal(16, 16)[:, :16],
        ),
    )
    keep(
        "devices/convolution",
        placed(
            lambda a, k: lax.conv_general_dilated(
                a, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            ),
            (P("x", "y"), P()),
            normal(2, 8, 6, 3),
            normal(3, 3, 3, 4),
        ),
    )
    keep(
        "devices/resharded",
        placed(
            lambda a: lax.with_sharding_constraint(a * 2, NamedSharding(mesh(), P("y", "x"))) + 1,
            (P("x", "y"),),
            x,
        ),
    )
    keep("devices/uneven", placed(lambda a: jnp.sin(a) @ a.T, (P(None, "x"),), normal(7, 6)))
    keep(
        "devices/constants",
        placed(lambda a: a + jnp.arange(16.0) + lax.iota("float32", 8)[:, None], (P("x", "y"),), x),
    )


def keep(name, given) -> None:
    add(name, *given)


collectives()
moves()
cut()
