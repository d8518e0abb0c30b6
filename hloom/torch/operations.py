"""Operations of PyTorch that torchax lacks, or writes in JAX as something else.

Each is a function of arrays with the arguments of the operation, under its name in `OWN`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from hloom.api import UsageError
from hloom.torch.linalg import LINALG

Array = Any


def addmm(x: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    """`beta * x + alpha * (a @ b)`; a beta of zero leaves out `x`, be it NaN."""
    from jax import numpy as jnp

    y = jnp.matmul(a, b)
    y = y if alpha == 1 else y * jnp.asarray(alpha, y.dtype)
    if beta == 0:
        return y
    return (x if beta == 1 else x * jnp.asarray(beta, y.dtype)) + y


def convolution(
    x: Array,
    kernel: Array,
    bias: Array | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Array:
    """Torchax joins a transposed convolution's groups as they lie, inputs outermost; each belongs
    to its own outputs."""
    from torchax.ops import jaten  # pyright: ignore[reportMissingImports]

    if transposed and groups > 1:
        apart = kernel.reshape(groups, kernel.shape[0] // groups, *kernel.shape[1:])
        kernel = apart.swapaxes(0, 1).reshape(kernel.shape)
    rest = (stride, padding, dilation, transposed, output_padding, groups)
    return jaten._aten_convolution(x, kernel, bias, *rest)


# -- pooling ---------------------------------------------------------------------------------------


def average_pool(
    x: Array,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Means of windows: of what they hold of the image and, if that counts, of its padding, but
    never of what lies behind it."""
    import jax
    from jax import numpy as jnp

    n = len(window)
    stride = list(stride) or list(window)
    padding = list(padding) * (n if len(padding) == 1 else 1)
    ends, counts = [], []
    for size, k, s, p in zip(x.shape[-n:], window, stride * n, padding):
        over = size + 2 * p - k
        steps = (-(-over // s) if ceil_mode else over // s) + 1
        if ceil_mode and (steps - 1) * s >= size + p:
            steps -= 1  # a window must begin in the image or before it
        starts = np.arange(steps) * s - p
        last = np.minimum(starts + k, size + p)
        held = last - starts if count_include_pad else np.minimum(last, size) - starts.clip(0)
        counts.append(held)
        ends.append((p, max((steps - 1) * s + k - size - p, 0)))
    outer = x.ndim - n
    sums = jax.lax.reduce_window(
        x,
        np.zeros((), x.dtype),
        jax.lax.add,
        (*[1] * outer, *window),
        (*[1] * outer, *(stride * n)[:n]),
        (*[(0, 0)] * outer, *ends),
    )
    sums = sums[(..., *[slice(0, len(c)) for c in counts])]
    if divisor_override is not None:
        return sums / jnp.asarray(divisor_override, x.dtype)
    of = np.ones(())
    for held in counts:
        of = of[..., None] * held
    return sums / jnp.asarray(of.flat[0] if (of == of.flat[0]).all() else of, x.dtype)


def adaptive_max_pool(x: Array, sizes: Sequence[int]) -> tuple[Array, Array]:
    """The largest of each of so many windows that share the image, and where it stands."""
    from jax import numpy as jnp

    n = len(sizes)
    outer, image = x.shape[:-n], x.shape[-n:]
    places = np.zeros((1,) * (2 * n), np.int64)
    for k, (size, count) in enumerate(zip(image, sizes)):
        starts = np.arange(count) * size // count
        ends = -(-np.arange(1, count + 1) * size // count)
        width = int((ends - starts).max(initial=1))
        inside = np.minimum(starts[:, None] + np.arange(width), ends[:, None] - 1)
        places = places * size + inside.reshape(
            [len(inside) if d == k else width if d == n + k else 1 for d in range(2 * n)]
        )
    places = places.reshape(prod(sizes), -1)
    windows = x.reshape(*outer, prod(image))[..., places]
    best = jnp.argmax(windows, -1, keepdims=True)
    values = jnp.take_along_axis(windows, best, -1)
    at = jnp.take_along_axis(jnp.broadcast_to(places, windows.shape), best, -1)
    return values.reshape(*outer, *sizes), at.reshape(*outer, *sizes)


def upsample_smoothed(
    cubic: bool, x: Array, sizes: Sequence[int], corners: bool, *scales: Any
) -> Array:
    """An image resized by means of all that its new points stand for (antialias=True)."""
    from jax import numpy as jnp

    scales = tuple(scales[0] or ()) if len(scales) == 1 else scales
    sizes = sizes or [int(n * s) for n, s in zip(x.shape[-2:], scales)]
    for d, size in enumerate(sizes):
        asked = scales[d] if d < len(scales) else None
        weights = _smoothing(x.shape[2 + d], size, corners, asked, cubic)
        letters = ("nchw,yh->ncyw", "nchw,yw->nchy")[d]
        x = jnp.einsum(letters, x, jnp.asarray(weights, x.dtype), precision="highest")
    return x


def _smoothing(old: int, new: int, corners: bool, asked: float | None, cubic: bool) -> np.ndarray:
    """The share of each old point in each new one."""
    scale = old / new if not asked else 1 / asked
    if corners:
        scale = (old - 1) / (new - 1) if new > 1 else 0.0
    width = max(scale, 1.0)
    centers = scale * (np.arange(new)[:, None] + 0.5)
    support = (2 if cubic else 1) * width
    first = np.maximum((centers - support + 0.5).astype(int), 0)
    last = np.minimum((centers + support + 0.5).astype(int), old)
    at = np.arange(old)
    t = np.abs((at - centers + 0.5) / width)
    if cubic:
        near, far = (1.5 * t - 2.5) * t * t + 1, ((-0.5 * t + 2.5) * t - 4) * t + 2
        share = np.where(t < 1, near, np.where(t < 2, far, 0))
    else:
        share = np.maximum(1 - t, 0)
    share = np.where((at >= first) & (at < last), share, 0)
    return share / share.sum(1, keepdims=True)


# -- rows at indices -------------------------------------------------------------------------------


def index_reduce(
    x: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True
) -> Array:
    """Rows of `source` folded into rows of `x`."""
    from jax import numpy as jnp

    rows, news = jnp.moveaxis(x, dim, 0), jnp.moveaxis(source, dim, 0)
    floating = jnp.issubdtype(x.dtype, jnp.inexact)
    limits = jnp.finfo(x.dtype) if floating else jnp.iinfo(x.dtype)
    low, high = (-jnp.inf, jnp.inf) if floating else (limits.min, limits.max)
    first = {"prod": 1, "mean": 0, "amax": low, "amin": high}[reduce]
    if not include_self:
        rows = rows.at[index].set(jnp.asarray(first, x.dtype))
    fold = {"prod": "multiply", "mean": "add", "amax": "max", "amin": "min"}[reduce]
    rows = getattr(rows.at[index], fold)(news)
    if reduce == "mean":
        counts = jnp.full(len(rows), int(include_self), x.dtype).at[index].add(1)
        counts = jnp.maximum(counts, 1).reshape(-1, *[1] * (rows.ndim - 1))
        rows = rows / counts if floating else rows // counts
    return jnp.moveaxis(rows, 0, dim)


def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Array, Array, Array, Array]:
    """Sums (0), means (1), largest (2) of bags of rows; with the bag of each row, and sizes."""
    import jax
    from jax import numpy as jnp

    bags = len(offsets) - include_last_offset
    of = jnp.searchsorted(offsets[:bags], jnp.arange(len(indices)), side="right") - 1
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    counted = (indices != padding_idx) if padding_idx >= 0 else jnp.ones(len(indices), bool)
    sizes = jax.ops.segment_sum(counted.astype(jnp.int64), of, bags)
    if mode == 2:
        rows = jnp.where(counted[:, None], rows, jnp.asarray(-jnp.inf, rows.dtype))
        result = jax.ops.segment_max(rows, of, bags)
        result = jnp.where(sizes[:, None] > 0, result, jnp.zeros((), rows.dtype))
    else:
        result = jax.ops.segment_sum(jnp.where(counted[:, None], rows, 0), of, bags)
        if mode == 1:
            result = result / jnp.maximum(sizes, 1)[:, None].astype(result.dtype)
    return result, of, sizes, sizes


def searchsorted(
    line: Array,
    values: Array,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """Where values would stand in sorted lines: in one, or each row of values in its own."""
    import jax
    from jax import numpy as jnp

    if sorter is not None:
        line = jnp.take_along_axis(line, sorter, -1)
    search = partial(jnp.searchsorted, side="right" if right or side == "right" else "left")
    values = jnp.asarray(values)
    if line.ndim > 1:
        rows = line.reshape(-1, line.shape[-1]), values.reshape(-1, values.shape[-1])
        return jax.vmap(search)(*rows).reshape(values.shape)
    return search(line, values)


def repeat_interleave(times: Array, *, output_size: int | None = None) -> Array:
    """The number of each element as often as it says."""
    from jax import numpy as jnp

    return jnp.repeat(jnp.arange(len(times)), times, total_repeat_length=output_size)


# -- elements --------------------------------------------------------------------------------------


def ldexp(x: Array, power: Array) -> Array:
    from jax import numpy as jnp

    of = jnp.result_type(x, jnp.float32) if not jnp.issubdtype(x.dtype, jnp.inexact) else x.dtype
    return x.astype(of) * jnp.exp2(power.astype(of))


def angle(x: Array) -> Array:
    from jax import numpy as jnp

    return jnp.angle(x)


def frequencies(name: str, count: int, spacing: float = 1.0, **keywords: Any) -> Array:
    """Those of a transform: `fftfreq`, `rfftfreq`."""
    from jax import numpy as jnp

    return getattr(jnp.fft, name)(count, spacing)


def view_as_type(x: Array, dtype: Any) -> Array:
    """The same bytes as elements of another type."""
    import jax

    from hloom.torch.tensors import dtype_of

    new = dtype_of(dtype)
    old, wanted = x.dtype.itemsize, new.itemsize
    if wanted > old:
        x = x.reshape(*x.shape[:-1], -1, wanted // old)
    y = jax.lax.bitcast_convert_type(x, new)
    return y.reshape(*y.shape[:-2], -1) if wanted < old else y


def rrelu(
    x: Array,
    noise: Array,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> tuple[Array, Array]:
    """The leaky relu that it is outside of training."""
    from jax import numpy as jnp

    if training:
        raise UsageError(
            "rrelu draws its slopes in training, and random numbers of PyTorch are not compiled",
            rule="torch",
            hint="call model.eval(), or draw the slopes outside of the model",
        )
    return jnp.where(x < 0, x * jnp.asarray((lower + upper) / 2, x.dtype), x), noise


def item(x: Array) -> Array:
    """A tensor of one element as a number of the program."""
    return x.reshape(())


def no_check(*arguments: Any, **keywords: Any) -> None:
    """What says only that something holds."""


def with_effects(token: Any, operation: Any, *arguments: Any, **keywords: Any) -> tuple[Any, Any]:
    """What keeps its place in the order of effects: a check, which no program here makes."""
    if OWN.get(operation.name()) is not no_check:
        raise UsageError(
            f"{operation.name()} has an effect, which is not compiled",
            rule="torch",
            hint="leave it out of the model, or do it outside",
        )
    return token, None


OWN: dict[str, Callable[..., Any]] = {
    **LINALG,
    "with_effects": with_effects,
    "aten::_linalg_check_errors": no_check,
    "aten::addmm": addmm,
    "aten::addmv": addmm,
    "aten::baddbmm": addmm,
    "aten::convolution": convolution,
    "aten::avg_pool1d": average_pool,
    "aten::avg_pool2d": average_pool,
    "aten::avg_pool3d": average_pool,
    "aten::adaptive_max_pool2d": adaptive_max_pool,
    "aten::adaptive_max_pool3d": adaptive_max_pool,
    "aten::_upsample_bilinear2d_aa": partial(upsample_smoothed, False),
    "aten::_upsample_bicubic2d_aa": partial(upsample_smoothed, True),
    "aten::_upsample_bilinear2d_aa.vec": partial(upsample_smoothed, False),
    "aten::_upsample_bicubic2d_aa.vec": partial(upsample_smoothed, True),
    "aten::index_reduce": index_reduce,
    "aten::_embedding_bag": embedding_bag,
    "aten::_embedding_bag_forward_only": embedding_bag,
    "aten::searchsorted.Tensor": searchsorted,
    "aten::searchsorted.Scalar": searchsorted,
    "aten::repeat_interleave.Tensor": repeat_interleave,
    "aten::ldexp.Tensor": ldexp,
    "aten::angle": angle,
    "aten::fft_fftfreq": partial(frequencies, "fftfreq"),
    "aten::fft_rfftfreq": partial(frequencies, "rfftfreq"),
    "aten::view.dtype": view_as_type,
    "aten::rrelu_with_noise_functional": rrelu,
    "aten::item": item,
    "aten::_local_scalar_dense": item,
    "aten::_assert_async": no_check,
    "aten::_assert_async.msg": no_check,
    "aten::_assert_scalar": no_check,
    "aten::sym_constrain_range": no_check,
    "aten::sym_constrain_range_for_size": no_check,
}
"""By the name of the operation and its form."""
