"""Long sums as JAX writes them, for `bench.accuracy`: lowered by JAX, so what it adds is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.accuracy_cases import NUMPY, Case

Function = Callable[..., Any]


def lowered(
    name: str,
    function: Function,
    value: Function,
    given: list[tuple[str, tuple[int, ...]]],
    length: int,
    magnitude: Function | None = None,
    segments: int = 0,
    out: str = "f32",
) -> Case:
    """A case whose program is a function of JAX; `value` is the same in numpy."""
    import jax

    arguments = [jax.ShapeDtypeStruct(dims, NUMPY[dtype]) for dtype, dims in given]
    made = jax.jit(function).lower(*arguments).compiler_ir("hlo")
    assert made is not None
    text = made.as_hlo_text()
    return Case(
        f"jax {name}", out, length, text, given, value, magnitude or value, segments=segments
    )


def log_sum_exps(x: np.ndarray) -> np.ndarray:
    return np.logaddexp.accumulate(x)


def cases(n: int) -> Iterator[Case]:
    """Sums of n numbers."""
    yield from means(n)
    yield from scans(n)
    yield from narrow(n, "bf16")
    yield from narrow(n, "f16")
    yield from segments(n)


def means(n: int) -> Iterator[Case]:
    """Means, variances, norms, log-sum-exps."""
    import jax
    import jax.numpy as jnp

    one = [("f32", (n,))]
    means = lambda x: np.mean(np.abs(x), axis=0)  # noqa: E731
    yield lowered(f"mean f32[{n}]", jnp.mean, np.mean, one, n, means)
    yield lowered(
        f"mean f32[{n}, 3] of columns",
        lambda x: x.mean(0),
        lambda x: x.mean(0),
        [("f32", (n, 3))],
        n,
        means,
    )
    # Numbers far from 0: what is left after the mean is subtracted is small.
    shifted = lambda x: (x + np.float32(100)).astype(np.float32).astype(np.float64)  # noqa: E731
    yield lowered(
        f"var f32[{n}] about 100",
        lambda x: jnp.var(x + 100),
        lambda x: np.var(shifted(x)),
        one,
        n,
        lambda x: np.mean(shifted(x) ** 2) / 100,
    )
    yield lowered(
        f"std f32[{n}, 3] of columns",
        lambda x: jnp.std(x, 0),
        lambda x: x.std(0),
        [("f32", (n, 3))],
        n,
        lambda x: np.sqrt(np.mean(x * x, 0)),
    )
    yield lowered(f"linalg.norm f32[{n}]", jnp.linalg.norm, np.linalg.norm, one, n)
    yield lowered(
        f"logsumexp f32[{n}]",
        jax.nn.logsumexp,
        lambda x: np.log(np.sum(np.exp(x - x.max()))) + x.max(),
        one,
        n,
    )
    yield lowered(
        f"softmax f32[{n}], summed",
        lambda x: jax.nn.softmax(x).sum(),
        lambda x: np.ones(()),
        one,
        n,
    )


def scans(n: int) -> Iterator[Case]:
    """All partial sums."""
    import jax.numpy as jnp
    from jax import lax

    one = [("f32", (n,))]
    yield lowered(
        f"cumlogsumexp f32[{n}]",
        lambda x: lax.cumlogsumexp(x),
        log_sum_exps,
        one,
        n,
        lambda x: np.maximum(np.abs(log_sum_exps(x)), 1),
    )
    yield lowered(f"cumsum f32[{n}]", jnp.cumsum, np.cumsum, one, n, lambda x: np.cumsum(np.abs(x)))
    yield lowered(
        f"associative_scan of add f32[{n}]",
        lambda x: lax.associative_scan(jnp.add, x),
        np.cumsum,
        one,
        n,
        lambda x: np.cumsum(np.abs(x)),
    )
    yield lowered(f"mean s32[{n}]", jnp.mean, np.mean, [("s32", (n,))], n, segments=1000)


def segments(n: int) -> Iterator[Case]:
    """Sums of which data says what goes where."""
    import jax
    import jax.numpy as jnp

    ids = [("s32", (n,)), ("f32", (n,))]
    counted = lambda ids, x: np.bincount(ids, x, 7)  # noqa: E731
    yield lowered(
        f"segment_sum f32[{n}] to 7",
        lambda ids, x: jax.ops.segment_sum(x, ids, 7),
        counted,
        ids,
        n // 7,
        lambda ids, x: counted(ids, np.abs(x)),
        7,
    )
    yield lowered(
        f"at[].add f32[{n}] to 7",
        lambda ids, x: jnp.zeros(7).at[ids].add(x),
        counted,
        ids,
        n // 7,
        lambda ids, x: counted(ids, np.abs(x)),
        7,
    )


def narrow(n: int, dtype: str) -> Iterator[Case]:
    """Sums of 16-bit numbers, scaled so that they do not overflow."""
    import jax.numpy as jnp

    scale = 2.0 ** -np.floor(np.log2(n))
    rounded = lambda x: (x * scale).astype(NUMPY[dtype]).astype(np.float64)  # noqa: E731
    one = [(dtype, (n,))]
    yield lowered(
        f"sum {dtype}[{n}] scaled",
        lambda x: jnp.sum(x.astype(jnp.float32) * scale),
        lambda x: np.sum(x) * scale,
        one,
        n,
        lambda x: np.sum(np.abs(x)) * scale,
    )
    if n <= 1 << 17:
        yield lowered(
            f"mean {dtype}[{n}]", jnp.mean, np.mean, one, n, lambda x: np.mean(np.abs(x)), out=dtype
        )
        yield lowered(
            f"vdot {dtype}[{n}] scaled",
            lambda x, y: jnp.vdot(x, y * scale),
            lambda x, y: np.dot(x, rounded(y)),
            one * 2,
            n,
            lambda x, y: np.dot(np.abs(x), np.abs(rounded(y))),
            out=dtype,
        )
