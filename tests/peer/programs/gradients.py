"""What differentiation and batching make of operations: transposed, reversed, scattered."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.peer.programs.registry import add, normal, uniform, whole


def gradient(function):
    """Of the sum of squares of all results, by all arguments."""

    def total(*arguments):
        return sum(jnp.sum(jnp.abs(y) ** 2) for y in jax.tree.leaves(function(*arguments)))

    return lambda *a: jax.grad(total, tuple(range(len(a))))(*a)


def of_functions() -> None:
    names = """sin cos tan tanh exp expm1 log log1p sqrt rsqrt cbrt erf erfc erf_inv logistic atanh
     asin acos atan sinh cosh asinh lgamma digamma bessel_i0e bessel_i1e square""".split()
    x = uniform(7, low=0.1, high=0.9)
    for name in names:
        function = getattr(lax, name)
        add(f"gradients/{name}", gradient(function), x, slack=20)
        add(
            f"gradients/{name}-second",
            lambda x, f=function: jax.vmap(jax.grad(jax.grad(f)))(x),
            x,
            slack=60,
        )
    for name in "add mul div pow atan2 max min sub rem".split():
        add(f"gradients/{name}", gradient(getattr(lax, name)), x, uniform(7, seed=2), slack=8)
    for name in "sin exp log tanh sqrt mul".split():
        y = normal(4, of="complex64")
        given = (y, y + 1) if name == "mul" else (y,)
        add(f"gradients/{name}-complex", gradient(getattr(lax, name)), *given, slack=10)


def of_data() -> None:
    x = normal(4, 5, 3)
    cases = {
        "slice": lambda x: x[1:3, ::2, ::-1],
        "pad": lambda x: lax.pad(x, np.float32(0), [(1, 2, 1), (-1, 0, 0), (0, 0, 2)]),
        "gather": lambda x: x[jnp.array([0, 2, 2]), jnp.array([1, 1, 4])],
        "dynamic": lambda x: lax.dynamic_slice(x, (2, jnp.argmax(x[0, :, 0]), 0), (3, 2, 2)),
        "scatter": lambda x: x.at[jnp.array([0, 0, 3]), 1].add(x[:3, 0]),
        "scatter-mul": lambda x: x.at[jnp.array([0, 2]), 1].mul(x[:2, 0], unique_indices=True),
        "scatter-max": lambda x: x.at[jnp.array([0, 2]), 1].max(x[:2, 0]),
        "set": lambda x: x.at[1:3].set(x[0]),
        "concatenate": lambda x: jnp.concatenate([x, x[:, :2] * 2], 1),
        "sort": lambda x: jnp.sort(x, 1),
        "top-k": lambda x: lax.top_k(x, 2)[0],
        "where": lambda x: jnp.where(x > 0, x, x * 0.1),
        "max": lambda x: x.max((0, 2)),
        "prod": lambda x: x.prod(1),
        "var": lambda x: x.var(1),
        "cumsum": lambda x: jnp.cumsum(x, 1),
        "cumprod": lambda x: jnp.cumprod(x, 1),
        "cummax": lambda x: lax.cummax(x, 1),
        "cumlogsumexp": lambda x: lax.cumlogsumexp(x, 1),
        "logsumexp": lambda x: jax.nn.logsumexp(x, 1),
        "softmax": lambda x: jax.nn.softmax(x, 1),
        "einsum": lambda x: jnp.einsum("abc,dbc->ad", x, x),
        "norm": lambda x: jnp.linalg.norm(x, axis=1),
        "median": lambda x: jnp.median(x, 1),
        "roll": lambda x: jnp.roll(x, 2, 1),
        "repeat": lambda x: jnp.repeat(x, 3, 0),
        "take-along": lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
        "segment": lambda x: jax.ops.segment_sum(x, jnp.array([0, 1, 0, 2]), 3),
        "convert": lambda x: x.astype("bfloat16").astype("float32"),
        "precision": lambda x: lax.reduce_precision(x, 8, 7),
        "associative": lambda x: lax.associative_scan(jnp.multiply, x, axis=1),
        "fft": lambda x: jnp.fft.fft(x, axis=1),
        "rfft": lambda x: jnp.fft.rfft(x, axis=1),
        "resize": lambda x: jax.image.resize(x, (7, 3, 3), "cubic"),
    }
    for name, function in cases.items():
        add(f"gradients/data-{name}", gradient(function), x, slack=20)
        if name not in ("resize",):
            add(
                f"gradients/data-{name}-batched",
                jax.vmap(gradient(function)),
                normal(2, 4, 5, 3),
                slack=20,
            )
            add(
                f"gradients/data-{name}-forward",
                lambda x, f=function: jax.jvp(f, (x,), (x * 0.5,)),
                x,
                slack=20,
            )


def of_windows() -> None:
    x = normal(2, 8, 7, 3)
    for name, function, start in (
        ("max", lax.max, -np.inf),
        ("min", lax.min, np.inf),
        ("add", lax.add, 0.0),
    ):
        for padding in ("SAME", "VALID"):
            for size, step in ((2, 2), (3, 2), (3, 1)):
                label = f"gradients/window-{name}-{padding}-{size}-{step}"
                add(
                    label,
                    gradient(
                        lambda x, f=function, s=start, p=padding, n=size, k=step: lax.reduce_window(
                            x, np.float32(s), f, (1, n, n, 1), (1, k, k, 1), p
                        )
                    ),
                    x,
                )
    forms = {
        "plain": {"padding": "SAME", "window_strides": (1, 1)},
        "strided": {"padding": "VALID", "window_strides": (2, 3)},
        "dilated": {"padding": [(2, 1), (0, 3)], "window_strides": (1, 2), "rhs_dilation": (2, 1)},
        "transposed": {
            "padding": [(1, 2), (2, 1)],
            "window_strides": (1, 1),
            "lhs_dilation": (2, 3),
        },
    }
    for layout, left, right in (
        ("NHWC", (2, 7, 6, 4), (3, 2, 4, 6)),
        ("NCHW", (4, 4, 6, 5), (3, 2, 4, 4)),
    ):
        numbers = (layout, "HWIO", layout)
        for name, given in forms.items():
            add(
                f"gradients/conv-{layout}-{name}",
                gradient(
                    lambda x, y, g=given, n=numbers: lax.conv_general_dilated(
                        x, y, dimension_numbers=n, **g
                    )
                ),
                normal(*left),
                normal(*right),
                slack=20,
            )
    numbers = ("NHWC", "HWIO", "NHWC")
    for groups in (2, 4):
        add(
            f"gradients/conv-groups-{groups}",
            gradient(
                lambda x, y, g=groups: lax.conv_general_dilated(
                    x, y, (1, 2), "SAME", dimension_numbers=numbers, feature_group_count=g
                )
            ),
            normal(2, 5, 6, 4),
            normal(3, 2, 4 // groups, 8),
            slack=20,
        )
        add(
            f"gradients/conv-batch-groups-{groups}",
            gradient(
                lambda x, y, g=groups: lax.conv_general_dilated(
                    x, y, (1, 1), "SAME", dimension_numbers=numbers, batch_group_count=g
                )
            ),
            normal(4, 5, 6, 4),
            normal(3, 2, 4, 8),
            slack=20,
        )
    add(
        "gradients/conv-batched",
        jax.vmap(
            lambda x, y: lax.conv_general_dilated(x, y, (1, 1), "SAME", dimension_numbers=numbers)
        ),
        normal(3, 2, 5, 6, 4),
        normal(3, 3, 2, 4, 2),
        slack=4,
    )


def of_control() -> None:
    x = normal(6, 3)
    add(
        "gradients/scan",
        gradient(lambda x: lax.scan(lambda c, v: (jnp.tanh(c + v), c * v), jnp.zeros(3), x)),
        x,
        slack=8,
    )
    add(
        "gradients/cond",
        gradient(lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda v: v**3, x)),
        x,
        slack=8,
    )
    add(
        "gradients/while-forward",
        lambda x: jax.jvp(
            lambda v: lax.while_loop(lambda s: s.sum() < 50, lambda s: s * s + 1, v), (x,), (x,)
        ),
        x,
        slack=8,
    )
    add(
        "gradients/fori",
        gradient(lambda x: lax.fori_loop(0, 4, lambda i, v: jnp.sin(v) * i + v, x)),
        x,
        slack=8,
    )
    add("gradients/hessian", jax.hessian(lambda v: jnp.sum(jnp.sin(v) * v[::-1])), normal(5))
    add(
        "gradients/jacobians",
        lambda v: (jax.jacfwd(jnp.cumsum)(v), jax.jacrev(jnp.sort)(v)),
        normal(5),
    )
    add("gradients/linearize", lambda v: jax.linearize(lambda u: u * u.sum(), v)[1](v), normal(5))
    add(
        "gradients/ragged",
        gradient(lambda a, b: lax.ragged_dot(a, b, np.array([3, 0, 5], np.int32))),
        normal(8, 4),
        normal(3, 4, 5),
        slack=10,
    )
    add(
        "gradients/embedding",
        lambda t, k: jax.grad(lambda t: (t[k] ** 2).sum())(t),
        normal(9, 4),
        whole(12, low=0, high=8),
    )


of_functions()
of_data()
of_windows()
of_control()
