"""Moving data: slices, pads, reshapes, concatenation, gather and scatter in their raw forms."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.peer.programs.registry import add, normal, special, whole

TYPES = """float32 float64 float16 bfloat16 int8 int32 int64 uint8 bool complex64 int4
 float8_e5m2 float8_e4m3fn""".split()


def of_every_type() -> None:
    for of in TYPES:
        x = whole(4, 3, 5, of=of) if "int" in of or of == "bool" else normal(4, 3, 5, of=of)
        zero = np.zeros((), x.dtype)
        add(f"data/transpose-{of}", lambda x: lax.transpose(x, (2, 0, 1)), x)
        add(f"data/reshape-{of}", lambda x: lax.reshape(x, (6, 10)), x)
        add(f"data/rev-{of}", lambda x: lax.rev(x, (0, 2)), x)
        add(f"data/slice-{of}", lambda x: lax.slice(x, (1, 0, 1), (4, 3, 5), (2, 1, 3)), x)
        add(
            f"data/pad-{of}",
            lambda x, z: lax.pad(x, z, [(1, 2, 1), (0, 0, 2), (-1, 3, 0)]),
            x,
            zero,
        )
        add(f"data/broadcast-{of}", lambda x: lax.broadcast_in_dim(x, (2, 4, 3, 5), (1, 2, 3)), x)
        add(f"data/concatenate-{of}", lambda x: lax.concatenate([x, x[:, :1], x], 1), x)
        start = (np.int32(1), np.int32(9), np.int32(-2))
        add(f"data/dynamic-slice-{of}", lambda x, *s: lax.dynamic_slice(x, s, (2, 2, 3)), x, *start)
        update = x[:2, :2, :3]
        add(
            f"data/dynamic-update-{of}",
            lambda x, u, *s: lax.dynamic_update_slice(x, u, s),
            x,
            update,
            *start,
        )
        add(f"data/take-{of}", lambda x, k: x[k], x, np.array([[0, -1], [2, 9]]))
        add(f"data/set-{of}", lambda x, k: x.at[k, 1].set(x[0, 0]), x, np.array([0, 3, 9]))
        add(f"data/sort-{of}", lambda x: lax.sort(x, dimension=2), x) if of != "complex64" else None
        add(f"data/where-{of}", lambda x: jnp.where(jnp.arange(5) > 2, x, jnp.ones_like(x)), x)


def shapes() -> None:
    six = normal(2, 3, 1, 2, 2, 2)
    add("data/transpose-6", lambda x: lax.transpose(x, (5, 3, 1, 0, 2, 4)), six)
    add("data/squeeze", lambda x: lax.squeeze(x, (2,)), six)
    add("data/expand", lambda x: lax.expand_dims(x, (0, 4)), six)
    add("data/empty-concatenate", lambda x: lax.concatenate([x, x], 0), normal(0, 3))
    add("data/empty-pad", lambda x: lax.pad(x, np.float32(1), [(2, 1, 0), (0, 0, 0)]), normal(0, 3))
    add("data/negative-pad", lambda x: lax.pad(x, np.float32(1), [(-2, -1, 2)]), normal(5))
    add("data/collapse", lambda x: lax.collapse(x, 1, 4), six)
    add("data/iota", lambda: (lax.iota(np.int32, 7), lax.broadcasted_iota(np.float32, (3, 4), 1)))
    add(
        "data/iota-types",
        lambda: tuple(
            lax.broadcasted_iota(t, (2, 3), 0)
            for t in (np.uint8, np.int64, jnp.bfloat16, np.complex64)
        ),
    )
    add("data/eye", lambda: (jnp.eye(4, 5, k=-1), jnp.tri(4, k=1), jnp.linspace(0, 1, 11)))
    add(
        "data/constants",
        lambda: (
            special("float32"),
            special("bfloat16"),
            special("float64"),
            np.arange(30, dtype=np.int16).reshape(5, 6),
            np.array([True, False]),
            np.array([1 + 2j, -3j], np.complex64),
            np.arange(4).astype("int8"),
        ),
    )
    add(
        "data/stack",
        lambda x, y: (jnp.stack([x, y], 1), jnp.hstack([x, y]), jnp.dstack([x, y])),
        normal(3, 4),
        normal(3, 4, seed=1),
    )
    add("data/split", lambda x: jnp.split(x, [1, 3], axis=1), normal(3, 5))
    add("data/tile-repeat", lambda x: (jnp.tile(x, (2, 3)), jnp.repeat(x, 2, 1)), normal(2, 3))
    add("data/roll", lambda x, k: (jnp.roll(x, 2, 0), jnp.roll(x, k, 1)), normal(4, 5), np.int32(3))
    add("data/flips", lambda x: (jnp.flip(x), jnp.rot90(x), jnp.fliplr(x)), normal(3, 5))
    add("data/swap", lambda x: (jnp.swapaxes(x, 0, 2), jnp.moveaxis(x, 0, -1)), normal(2, 3, 4))
    add(
        "data/pad-modes",
        lambda x: tuple(
            jnp.pad(x, ((2, 1), (1, 3)), mode=m)
            for m in ("edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "mean")
        ),
        normal(4, 5),
    )
    add("data/barrier", lambda x, y: lax.optimization_barrier((x, y)), normal(3), whole(2))
    add("data/reshape-order", lambda x: jnp.reshape(x, (4, 6), order="F"), normal(2, 3, 4))
    add(
        "data/diagonals",
        lambda x: (jnp.diag(x), jnp.diagonal(x, 1), jnp.trace(x), jnp.tril(x, -1)),
        normal(5, 5),
    )
    add("data/block", lambda x: jnp.block([[x, x * 2], [x, x]]), normal(2, 3))
    add("data/meshgrid", lambda x, y: jnp.meshgrid(x, y, indexing="ij"), normal(3), normal(4))
    add("data/nothing", lambda x: (), normal(3))
    add("data/same", lambda x, y: (x, y, x), normal(3), whole(2))


def gathers() -> None:
    x, points = normal(5, 6, 7), np.array([[0, 1], [4, 5], [9, -3], [3, 6]], np.int32)
    numbers = lax.GatherDimensionNumbers
    forms = {
        "window": (numbers((1, 2), (0,), (0, 1)), (1, 2, 7)),
        "plain": (numbers((1,), (0, 1), (0, 1)), (1, 1, 7)),
        "order": (numbers((0, 1), (1,), (1, 0)), (3, 1, 2)),
        "one": (numbers((0, 1), (1,), (2, 0)), (2, 1, 1)),
    }
    for name, (how, sizes) in forms.items():
        for mode in ("clip", "fill", "promise_in_bounds"):
            at = points if mode != "promise_in_bounds" else np.abs(points) % 2
            add(
                f"data/gather-{name}-{mode}",
                lambda x, k, h=how, s=sizes, m=mode: lax.gather(x, k, h, s, mode=m),
                x,
                at,
            )
    batch = numbers((1,), (1,), (1,), operand_batching_dims=(0,), start_indices_batching_dims=(0,))
    at = np.array([[0], [3], [5], [1], [2]], np.int32)
    add("data/gather-batch", lambda x, k, b=batch: lax.gather(x, k, b, (1, 1, 7)), x, at)
    scatter = lax.ScatterDimensionNumbers
    forms = {
        "rows": (scatter((1,), (0, 1), (0, 1)), (4, 7)),
        "window": (scatter((1, 2), (0,), (0, 1)), (4, 2, 7)),
        "turned": (scatter((0,), (0, 1), (2, 0)), (6, 4)),
    }
    for name, (how, dims) in forms.items():
        for kind in "scatter scatter_add scatter_mul scatter_min scatter_max scatter_sub".split():
            function = getattr(lax, kind)
            for of in ("float32", "int32", "bfloat16"):
                add(
                    f"data/{kind}-{name}-{of}",
                    lambda x, k, u, f=function, h=how: f(x, k, u, h),
                    x.astype(of),
                    points,
                    normal(*dims).astype(of),
                )
    batch = scatter(
        (1,), (1,), (1,), operand_batching_dims=(0,), scatter_indices_batching_dims=(0,)
    )
    add("data/scatter-batch", lambda x, k, u: lax.scatter_add(x, k, u, batch), x, at, normal(5, 7))
    add(
        "data/scatter-apply",
        lambda x, k: lax.scatter_apply(
            x, k, lambda v: v * v + 1, forms["rows"][0], update_shape=(4, 7)
        ),
        x,
        points,
    )


of_every_type()
shapes()
gathers()
