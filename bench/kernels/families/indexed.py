"""Elements that data chooses: gathers, scatters, segments, histograms, slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.kernels.families.draw import Draw


def _segment(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    for order in ("", " sorted"):
        for count in (draw.one([10, 100]), draw.one([1000, 30000])):
            n = min(draw.elements(), 2_000_000)
            fold = draw.one([jax.ops.segment_sum, jax.ops.segment_max])
            of = lambda x, i, f=fold, c=count: f(x, i, c)  # noqa: E731
            yield f"{fold.__name__}{order}", of, f"f32[{n}]", f"s32[{n}]<{count}{order}"
            rows, columns = max(n // 32, 1), draw.one([16, 32, 50])
            yield (
                f"{fold.__name__} of rows{order}",
                of,
                f"f32[{rows},{columns}]",
                (f"s32[{rows}]<{count}{order}"),
            )
    n = draw.elements()
    for length in (10, 256, 50_000):
        counted = lambda i, m=length: jnp.bincount(i, length=m)  # noqa: E731
        yield "bincount", counted, f"s32[{n}]<{length}"
    histogram = lambda x: jnp.histogram(x, bins=64, range=(0.0, 1.0))[0]  # noqa: E731
    yield "histogram", histogram, f"f32[{min(n, 1_000_000)}]<1"


def _gather(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    for classes in (10, 1000):
        rows = max(draw.elements() // classes, 1)
        one = lambda i, c=classes: jax.nn.one_hot(i, c)  # noqa: E731
        yield f"one hot of {classes}", one, f"s32[{rows}]<{classes}"
    for width in (16, 100, 768):
        rows = max(draw.elements() // width, 1)
        yield (
            f"embedding of {width}",
            lambda t, i: t[i],
            f"f32[30000,{width}]",
            f"s32[{rows}]<30000",
        )
    back = lambda g, i: jnp.zeros((5000, g.shape[1])).at[i].add(g)  # noqa: E731
    yield "embedding gradient", back, "f32[8192,128]", "s32[8192]<5000"
    n = min(draw.elements(), 2_000_000)
    yield "take", lambda x, i: x[i], "f32[100000]", f"s32[{n}]<100000"
    yield "table of 16", lambda x, i: x[i], "f32[16]", f"u8[{n}]<16"
    for axis in (0, 1):
        rows, columns = draw.matrix().split(",")
        along = lambda x, i, d=axis: jnp.take_along_axis(x, i, d)  # noqa: E731
        top = (rows, columns)[axis]
        yield f"take along {axis}", along, f"f32[{rows},{columns}]", f"s32[{rows},{columns}]<{top}"
    rows, columns = draw.matrix(draw.one([10, 100])).split(",")
    picked = lambda x, i: jnp.take_along_axis(x, i[:, None], 1)[:, 0]  # noqa: E731
    yield "one of each row", picked, f"f32[{rows},{columns}]", f"s32[{rows}]<{columns}"
    columns_of = lambda x, i: x[:, i]  # noqa: E731
    yield "columns", columns_of, f"f32[{rows},{columns}]", f"s32[{int(columns) // 2}]<{columns}"


def _scatter(draw: Draw) -> Iterator[tuple[Any, ...]]:
    rows = draw.one([5000, 20000])
    put = lambda x, i, y: x.at[i].set(y)  # noqa: E731
    yield "rows set", put, f"f32[{rows},64]", f"s32[1000]<{rows}", "f32[1000,64]"
    n = min(draw.elements(), 2_000_000)
    yield "elements set", put, f"f32[{n}]", f"s32[{n // 4}]<{n}", f"f32[{n // 4}]"
    most = lambda x, i, y: x.at[i].max(y)  # noqa: E731
    yield "rows max", most, f"f32[{rows},64]", f"s32[4096]<{rows}", "f32[4096,64]"
    columns = lambda x, y: x.at[:, 3:17].set(y)  # noqa: E731
    yield "columns set", columns, f"f32[{rows},64]", f"f32[{rows},14]"


def _slice(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    from jax import lax

    matrix = draw.matrix()
    rows, columns = [int(n) for n in matrix.split(",")]
    sizes = (max(rows - 3, 1), max(columns // 2, 1))
    cut = lambda x, i: lax.dynamic_slice(x, (i, i), sizes)  # noqa: E731
    yield "dynamic slice", cut, f"f32[{matrix}]", "s32[]<3"
    put = lambda x, y, i: lax.dynamic_update_slice(x, y, (i, 0))  # noqa: E731
    yield "dynamic update", put, f"f32[{matrix}]", f"f32[{max(rows // 2, 1)},{columns}]", "s32[]<3"
    each = jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (50,)), (0, None))
    yield "slice of each row", each, f"f32[{draw.matrix(100)}]", "s32[]<3"


FAMILIES = (_segment, _gather, _scatter, _slice)
