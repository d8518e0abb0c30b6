"""Steps that fold, accumulate and sort."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.fuzz.jax_programs.sketch import Sketch, step

FLOAT_FOLDS: dict[str, Any] = {
    name: getattr(jnp, name)
    for name in "sum mean max min var std any all nansum nanmean nanmax nanmin nanvar ptp "
    "count_nonzero amax".split()
} | {
    "logsumexp": jax.nn.logsumexp,
    "prod": lambda x, axis, keepdims: jnp.prod(jnp.tanh(x) * 0.1 + 1, axis, keepdims=keepdims),
    "norm": lambda x, axis, keepdims: jnp.sqrt(jnp.sum(x * x, axis, keepdims=keepdims)),
    "sum_f32": lambda x, axis, keepdims: jnp.sum(x, axis, jnp.float32, keepdims=keepdims),
    "where": lambda x, axis, keepdims: jnp.mean(x, axis, keepdims=keepdims, where=x > -2),
    "two": lambda x, axis, keepdims: (
        jnp.sum(x, axis, keepdims=keepdims) / (1 + jnp.max(jnp.abs(x), axis, keepdims=keepdims))
    ),
}
PLAIN_FOLDS = ("sum", "max", "min", "any", "all", "count_nonzero", "prod")


@step("f", 7)
def fold(d: Sketch, x: Any) -> Any:
    f, axes, keep = d.pick(list(FLOAT_FOLDS.values())), d.axes(x), d.chance(0.3)
    if d.chance(0.2):
        axes = tuple(range(x.ndim))
    if d.chance(0.15):
        return lambda env, x: x - f(x, axis=axes, keepdims=True)
    return lambda env, x: f(x, axis=axes, keepdims=keep)


@step("ib", 5)
def fold_integers(d: Sketch, x: Any) -> Any:
    f, axes = getattr(jnp, d.pick(PLAIN_FOLDS)), d.axes(x)
    keep = d.chance(0.3)
    return lambda env, x: f(x, axis=axes, keepdims=keep)


@step("c", 2)
def fold_complex(d: Sketch, x: Any) -> Any:
    f, axes = d.pick((jnp.sum, jnp.mean, jnp.var)), d.axes(x)
    return lambda env, x: f(x, axis=axes)


@step("fi", 3)
def index_of(d: Sketch, x: Any) -> Any:
    f = d.pick((jnp.argmax, jnp.argmin))
    axis = None if d.chance(0.15) else d.axis(x)
    keep = d.chance(0.3)
    if d.chance(0.3):
        return lambda env, x: (f(x, axis=axis, keepdims=keep), jnp.max(x, axis=axis))
    return lambda env, x: f(x, axis=axis, keepdims=keep)


@step("f", 1)
def order_statistic(d: Sketch, x: Any) -> Any:
    d.need(x.size <= 1 << 20 and x.dtype.itemsize >= 4)
    axis, q = d.axis(x), float(d.rng.random())
    if d.chance(0.4):
        return lambda env, x: jnp.median(x, axis=axis)
    return lambda env, x: jnp.quantile(x, jnp.array([q, 0.5], x.dtype), axis=axis)


@step("f", 3, keeps_shape=True)
def cumulative(d: Sketch, x: Any) -> Any:
    f = d.pick((lax.cumsum, lax.cummax, lax.cummin, lax.cumlogsumexp, "prod", "scan", "max"))
    axis, back = d.axis(x), d.chance(0.3)
    if f == "prod":
        return lambda env, x: lax.cumprod(1 + 0.01 * jnp.tanh(x), axis, back)
    if f == "scan":
        return lambda env, x: _recurrence(jax.nn.sigmoid(x), x, axis, back)
    if f == "max":
        return lambda env, x: lax.associative_scan(jnp.maximum, x, back, axis)
    return lambda env, x: f(x, axis, back)


def _recurrence(a: Any, b: Any, axis: int, back: bool) -> Any:
    """y[t] = a[t] y[t - 1] + b[t]."""

    def both(one: Any, two: Any) -> Any:
        return one[0] * two[0], two[0] * one[1] + two[1]

    return lax.associative_scan(both, (a, b), back, axis)[1]


@step("ib", 2)
def cumulative_integers(d: Sketch, x: Any) -> Any:
    f, axis = d.pick((jnp.cumsum, jnp.cumprod)), d.axis(x)
    return lambda env, x: f(x, axis=axis)


@step("f", 2, keeps_shape=True)
def softmax(d: Sketch, x: Any) -> Any:
    f, axis = d.pick((jax.nn.softmax, jax.nn.log_softmax, jax.nn.standardize)), d.axis(x)
    if d.chance(0.3):
        temperature = d.arg((), x.dtype, "positive")
        return lambda env, x: f(x / env[temperature], axis=axis)
    return lambda env, x: f(x, axis=axis)


@step("fi", 2.5, keeps_shape=True)
def sort(d: Sketch, x: Any) -> Any:
    axis, back = d.axis(x), d.chance(0.3)
    d.need(x.size <= 1 << 20)
    if d.chance(0.3):
        return lambda env, x: jnp.argsort(x, axis=axis, descending=back)
    return lambda env, x: jnp.sort(x, axis=axis, descending=back)


@step("fi", 1.5, keeps_shape=True)
def sort_by_key(d: Sketch, x: Any) -> Any:
    axis, keys = d.axis(x), d.pick((1, 2))
    d.need(x.size <= 1 << 20)
    k = d.arg(x.shape, d.pick(("int32", "float32", "uint8")))
    third = d.arg(x.shape, d.pick(("float32", "int8")))
    return lambda env, x: lax.sort((env[k], x, env[third]), axis, num_keys=keys)


@step("fi", 2)
def top_k(d: Sketch, x: Any) -> Any:
    d.need(x.ndim and x.size <= 1 << 20)
    k = d.between(1, min(x.shape[-1], d.pick((1, 5, 40, 300))))
    f = d.pick((lax.top_k, lax.top_k, lambda x, k: lax.approx_max_k(x, k, recall_target=1.0)))
    if f is not lax.top_k:
        d.need(jnp.issubdtype(x.dtype, jnp.floating))
        return lambda env, x: f(x, k)[0]
    return lambda env, x: f(x, k)


@step("fi", 1.5)
def search_sorted(d: Sketch, x: Any) -> Any:
    d.need(x.size <= 1 << 20)
    table = d.arg((d.size(5000),), x.dtype, "sorted")
    side, way = d.pick(("left", "right")), d.pick(("scan", "sort", "compare_all", "scan_unrolled"))
    if way == "compare_all":
        d.need(x.size * d.args[table].size < 1 << 24)
    return lambda env, x: jnp.searchsorted(jnp.sort(env[table]), x, side=side, method=way)


@step("i", 2)
def unique(d: Sketch, x: Any) -> Any:
    d.need(x.size <= 1 << 18)
    size = d.size(min(300, x.size + 3))
    if d.chance(0.5):
        return lambda env, x: jnp.unique(x, size=size, fill_value=7)
    return lambda env, x: jnp.unique(x, return_counts=True, return_inverse=True, size=size)


@step("fi", 1)
def histogram(d: Sketch, x: Any) -> Any:
    d.need(x.size <= 1 << 18)
    bins = d.size(300)
    if d.chance(0.5):
        return lambda env, x: jnp.bincount(jnp.abs(x.astype(jnp.int32)).ravel(), length=bins)
    return lambda env, x: jnp.histogram(x.astype(jnp.float32), bins, range=(-3.0, 3.0))[0]


@step("f", 2.5)
def window(d: Sketch, x: Any) -> Any:
    d.need(x.ndim and x.size <= 1 << 21)
    dims = tuple(d.pick((1, 1, 2, 3, 5)) if n > 5 else 1 for n in x.shape)
    strides = tuple(d.pick((1, 1, 2, 3)) for _ in x.shape)
    dilation = tuple(d.pick((1, 1, 1, 2)) for _ in x.shape)
    padding = d.pick(("SAME", "VALID"))
    first, f = d.pick(((-jnp.inf, lax.max), (jnp.inf, lax.min), (0.0, lax.add), (0.0, lax.add)))
    return lambda env, x: lax.reduce_window(
        x, jnp.array(first, x.dtype), f, dims, strides, padding, window_dilation=dilation
    )


@step("f", 1)
def custom_fold(d: Sketch, x: Any) -> Any:
    axis = d.axis(x)
    d.need(x.size <= 1 << 18)

    def f(env: Any, x: Any) -> Any:
        where = lax.broadcasted_iota(jnp.int32, x.shape, axis)

        def larger(one: Any, two: Any) -> Any:
            take = (one[0] > two[0]) | ((one[0] == two[0]) & (one[1] < two[1]))
            return jnp.where(take, one[0], two[0]), jnp.where(take, one[1], two[1])

        return lax.reduce((x, where), (jnp.array(-jnp.inf, x.dtype), jnp.int32(0)), larger, (axis,))

    return f
