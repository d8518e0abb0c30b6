"""Steps that read and write by indices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.fuzz.jax_programs.sketch import Sketch, step

ALL = "fibc"
READ_MODES = ("clip", "fill", "promise_in_bounds", "wrap")
WRITE_MODES = ("drop", "clip", "promise_in_bounds")


@step(ALL, 4)
def take(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    mode = d.pick(READ_MODES)
    count = d.size(max(1, min(4096, (1 << 21) * x.shape[axis] // max(1, x.size))))
    shape = (count,) if d.chance(0.7) else (2, count)
    k = d.index(shape, x.shape[axis], wild=mode in ("clip", "fill", "wrap") and d.chance(0.5))
    return lambda env, x: jnp.take(x, env[k], axis, mode=mode)


@step(ALL, 2)
def take_along(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    count = d.size(x.shape[axis])
    shape = tuple(count if k == axis else n for k, n in enumerate(x.shape))
    k = d.index(shape, x.shape[axis])
    mode = d.pick(("clip", "fill"))
    return lambda env, x: jnp.take_along_axis(x, env[k].astype(jnp.int32), axis, mode=mode)


@step(ALL, 3)
def gather_points(d: Sketch, x: Any) -> Any:
    """x[i, :, j] and the like."""
    d.need(x.ndim >= 2)
    count = d.size(2000)
    spots = {d.axis(x), d.axis(x)}
    ks = {a: d.index((count,), x.shape[a]) for a in spots}
    rest = [n for a, n in enumerate(x.shape) if a not in spots]
    d.need(count * (1 if not rest else max(1, x.size // x.shape[0])) <= 1 << 23)
    return lambda env, x: x[tuple(env[ks[a]] if a in ks else slice(None) for a in range(x.ndim))]


@step("fic", 5, keeps_shape=True)
def write_rows(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    mode, how = d.pick(WRITE_MODES), d.pick(("set", "add", "max", "min", "multiply", "add"))
    if how in ("max", "min") and x.dtype.kind == "c":
        how = "add"
    count = d.size(max(1, min(2000, (1 << 20) * x.shape[axis] // max(1, x.size))))
    if how == "set":  # who writes last is open where indices come twice
        count = min(count, x.shape[axis])
        d.args.append(d.rng.permutation(x.shape[axis])[:count].astype("int32"))
        k = len(d.args) - 1
    else:
        k = d.index((count,), x.shape[axis], wild=mode != "promise_in_bounds" and d.chance(0.5))
    shape = tuple(count if a == axis else n for a, n in enumerate(x.shape))
    updates = d.arg(shape if d.chance(0.7) else (), x.dtype)
    place = (slice(None),) * axis

    def f(env: Any, x: Any) -> Any:
        return getattr(x.at[(*place, env[k])], how)(env[updates], mode=mode)

    return f


@step("fi", 3, keeps_shape=True)
def write_points(d: Sketch, x: Any) -> Any:
    d.need(x.ndim >= 2)
    count, how = d.size(3000), d.pick(("add", "max", "min"))
    ks = [d.index((count,), n, wild=d.chance(0.3)) for n in x.shape]
    updates = d.arg((count,), x.dtype)
    return lambda env, x: getattr(x.at[tuple(env[k] for k in ks)], how)(env[updates], mode="drop")


@step("fi", 2, keeps_shape=True)
def write_windows(d: Sketch, x: Any) -> Any:
    """A scatter of whole windows, at places that may stand partly outside."""
    d.need(x.ndim == 2)
    h, w = (d.between(1, min(9, n)) for n in x.shape)
    count = d.size(60)
    mode = d.pick((lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP))
    k = d.arg((count, 2), "int32", f"wild:{min(x.shape)}")
    updates = d.arg((count, h, w), x.dtype)
    numbers = lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    return lambda env, x: lax.scatter_add(x, env[k], env[updates], numbers, mode=mode)


@step("fi", 2)
def read_windows(d: Sketch, x: Any) -> Any:
    d.need(x.ndim == 2)
    h, w = (d.between(1, min(17, n)) for n in x.shape)
    count = d.size(200)
    mode = d.pick((lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP))
    k = d.arg((count, 2), "int32", f"wild:{min(x.shape)}")
    numbers = lax.GatherDimensionNumbers((1, 2), (), (0, 1))
    return lambda env, x: lax.gather(x, env[k], numbers, (h, w), mode=mode)


@step("fi", 3)
def segments(d: Sketch, x: Any) -> Any:
    d.need(x.ndim and x.size <= 1 << 21)
    count, how = d.size(1000), d.pick(("sum", "sum", "max", "min"))
    in_order = d.chance(0.4)
    k = d.index((x.shape[0],), count)
    if in_order:
        d.args[k] = d.args[k].copy()
        d.args[k].sort()
    f = getattr(jax.ops, f"segment_{how}")
    return lambda env, x: f(x, env[k].astype(jnp.int32), count, indices_are_sorted=in_order)


@step("f", 2)
def segment_means(d: Sketch, x: Any) -> Any:
    """Message passing on a graph."""
    d.need(x.ndim == 2 and x.size <= 1 << 20)
    edges = d.size(4000)
    d.need(edges * x.shape[1] <= 1 << 21)
    a, b = d.index((edges,), x.shape[0]), d.index((edges,), x.shape[0])

    def f(env: Any, x: Any) -> Any:
        sums = jax.ops.segment_sum(x[env[a]], env[b].astype(jnp.int32), x.shape[0])
        ones = jnp.ones((edges, 1), x.dtype)
        counts = jax.ops.segment_sum(ones, env[b].astype(jnp.int32), x.shape[0])
        return x + sums / jnp.maximum(counts, 1)

    return f


@step("i", 2)
def one_hot(d: Sketch, x: Any) -> Any:
    classes = d.size(300)
    d.need(x.size * classes <= 1 << 21)
    return lambda env, x: jax.nn.one_hot(x % classes, classes)


@step("fi", 1)
def nonzero(d: Sketch, x: Any) -> Any:
    d.need(x.size <= 1 << 18 and x.ndim)
    size = d.size(x.size)
    return lambda env, x: jnp.nonzero(x > 0, size=size, fill_value=-1)


@step("f", 1)
def interpolate(d: Sketch, x: Any) -> Any:
    d.need(x.size <= 1 << 18)
    n = d.size(500)
    values = d.arg((n,), x.dtype)
    grid = jnp.linspace(-3, 3, n)
    return lambda env, x: jnp.interp(x, grid.astype(x.dtype), env[values])


@step("fi", 1)
def digitise(d: Sketch, x: Any) -> Any:
    d.need(x.size <= 1 << 18)
    bins = sorted(float(v) for v in d.rng.standard_normal(d.size(50)))
    return lambda env, x: jnp.digitize(x.astype(jnp.float32), jnp.array(bins, jnp.float32))


@step("i", 2)
def look_up(d: Sketch, x: Any) -> Any:
    rows, width = d.size(5000), d.size(256)
    d.need(x.size * width <= 1 << 22)
    k = d.arg((rows, width))
    return lambda env, x: env[k][jnp.abs(x.astype(jnp.int32)) % rows]


@step("fi", 1, keeps_shape=True)
def permute(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    d.args.append(d.rng.permutation(x.shape[axis]).astype("int32"))
    k = len(d.args) - 1
    return lambda env, x: jnp.take(x, jnp.argsort(env[k]), axis, unique_indices=True, mode="clip")


@step("fi", 1, keeps_shape=True)
def update_one(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    k = d.index((), x.shape[axis], wild=True)
    return lambda env, x: lax.dynamic_update_index_in_dim(
        x, lax.dynamic_index_in_dim(x, env[k] + 1, axis) * 2, env[k], axis
    )
