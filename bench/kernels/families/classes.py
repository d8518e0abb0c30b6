"""Softmax, losses, reductions, scans and small sorts: what works along one axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.kernels.families.draw import Draw


def _softmax(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    for classes in (3, 10, 50, 1000, draw.one([5, 7, 21, 37, 100, 151])):
        kind, matrix = draw.kind(), draw.matrix(classes)
        which = draw.one([jax.nn.softmax, jax.nn.log_softmax])
        yield which.__name__, which, f"{kind}[{matrix}]"
        back = lambda x, g, f=which: jax.vjp(f, x)[1](g)[0]  # noqa: E731
        yield f"{which.__name__} gradient", back, f"f32[{matrix}]", f"f32[{matrix}]"
        rows = matrix.split(",")[0]
        first = f"f32[{classes},{rows}]"
        yield f"{which.__name__} over 0", lambda x, f=which: f(x, axis=0), first

        def loss(x: Any, label: Any) -> Any:
            picked = jnp.take_along_axis(jax.nn.log_softmax(x), label[:, None], 1)
            return -picked.mean()

        label = f"s32[{rows}]<{classes}"
        yield "cross entropy", loss, f"f32[{matrix}]", label
        yield "cross entropy gradient", jax.grad(loss), f"f32[{matrix}]", label


def _fold(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    folds = [jnp.sum, jnp.max, jnp.min, jnp.mean, jnp.prod, jax.nn.logsumexp, jnp.linalg.norm]
    for columns in (3, 5, 8, 13, 17):
        fold = draw.one(folds)
        yield (
            f"{fold.__name__} rows",
            lambda x, f=fold: f(x, axis=1),
            (f"{draw.kind()}[{draw.matrix(columns)}]"),
        )
    for last in (1, 3, 17, 64, 0):
        fold = draw.one(folds[:5])
        yield (
            f"{fold.__name__} middle",
            lambda x, f=fold: f(x, axis=1),
            (f"{draw.kind()}[{draw.cube(last)}]"),
        )
    for axis in (0, 1, None):
        fold = draw.one([jnp.var, jnp.std, jnp.sum, jnp.max])
        yield (
            f"{fold.__name__} over {axis}",
            lambda x, f=fold, d=axis: f(x, axis=d),
            (f"{draw.kind()}[{draw.matrix()}]"),
        )
        most = draw.one([jnp.argmax, jnp.argmin])
        yield (
            f"{most.__name__} over {axis}",
            lambda x, f=most, d=axis: f(x, axis=d),
            (f"{draw.kind()}[{draw.matrix()}]"),
        )
        matrix = draw.matrix()
        yield (
            f"any equal over {axis}",
            lambda x, y, d=axis: (x == y).any(axis=d),
            f"s32[{matrix}]<9",
            f"s32[{matrix}]<9",
        )
    yield "argmax rows of 10", lambda x: jnp.argmax(x, 1), f"f32[{draw.matrix(10)}]"
    yield "sum of u8", lambda x: x.sum(dtype=jnp.int32), f"u8[{draw.elements()}]"
    yield "all close", lambda x, y: jnp.allclose(x, y), *[f"f32[{draw.elements()}]"] * 2
    yield "count", jnp.count_nonzero, f"pred[{draw.matrix()}]"


def _scan(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp
    from jax import lax

    def linear(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    for axis in (0, 1):
        scan = draw.one([lax.cumsum, lax.cumprod, lax.cummax, lax.cummin])
        yield (
            f"{scan.__name__} over {axis}",
            lambda x, f=scan, d=axis: f(x, d),
            (f"{draw.kind()}[{draw.matrix()}]"),
        )
        backwards = lambda x, d=axis: lax.cumsum(x, d, reverse=True)  # noqa: E731
        yield f"backwards over {axis}", backwards, f"f32[{draw.matrix()}]"
        matrix = draw.matrix()
        first_order = lambda x, y, d=axis: lax.associative_scan(linear, (x, y), axis=d)[1]  # noqa: E731
        yield f"linear over {axis}", first_order, f"f32[{matrix}]", f"f32[{matrix}]"
        sums = lambda x, d=axis: lax.associative_scan(jnp.add, x, axis=d)  # noqa: E731
        yield f"associative over {axis}", sums, f"f32[{draw.matrix()}]"
    yield (
        "cumsum of short rows",
        lambda x: jnp.cumsum(x, 1),
        f"f32[{draw.matrix(draw.one([4, 9]))}]",
    )


def _sort(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp
    from jax import lax

    for k, n in ((5, 100), (5, 32000), (2, 8), (draw.one([3, 10]), draw.one([64, 1000]))):
        rows = max(min(draw.elements(), 2_000_000) // n, 1)
        yield f"top {k}", lambda x, k=k: lax.top_k(x, k), f"f32[{rows},{n}]"
    for n in (4, draw.one([10, 16, 33]), draw.one([100, 128])):
        rows = max(min(draw.elements(), 2_000_000) // n, 1)
        which = draw.one([jnp.sort, jnp.argsort, jnp.median])
        yield f"{which.__name__} rows", lambda x, f=which: f(x, axis=1), f"f32[{rows},{n}]"


FAMILIES = (_softmax, _fold, _scan, _sort)
