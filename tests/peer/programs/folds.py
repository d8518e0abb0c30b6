"""Reductions, windows, scans, sorts."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.peer.programs.registry import add, normal, special, uniform, whole

FLOATS = "float32 float64 float16 bfloat16".split()


def reductions() -> None:
    for of in FLOATS + ["int32", "uint8", "int64", "complex64"]:
        x = normal(3, 4, 5, of=of)
        for name in "sum prod max min mean var".split():
            if of == "complex64" and name in ("max", "min"):
                continue
            add(f"folds/{name}-{of}", lambda x, f=name: getattr(jnp, f)(x, axis=(0, 2)), x, slack=4)
            add(f"folds/{name}-{of}-all", lambda x, f=name: getattr(jnp, f)(x), x, slack=4)
    for name in "argmax argmin".split():
        for of in ("float32", "int32", "bfloat16", "bool"):
            x = normal(4, 6, of=of) if of != "bool" else whole(4, 6, of=of, high=1)
            add(f"folds/{name}-{of}", lambda x, f=name: getattr(jnp, f)(x, axis=1), x)
        add(f"folds/{name}-special", lambda x, f=name: getattr(jnp, f)(x), special())
    for name in "nansum nanmean nanmax nanmin nanprod nanstd nanargmax nanmedian".split():
        x = normal(4, 5)
        x[1, 2], x[3, 0] = np.nan, np.nan
        add(f"folds/{name}", lambda x, f=name: getattr(jnp, f)(x, axis=1), x)
    flags = whole(4, 5, of="bool", high=1)
    add("folds/all-any", lambda x: (jnp.all(x, 0), jnp.any(x, 1), jnp.count_nonzero(x)), flags)
    for kind in "and or xor".split():
        function = getattr(lax, f"reduce_{kind}_p")
        add(f"folds/reduce-{kind}", lambda x, f=function: f.bind(x, axes=(1,)), whole(4, 5))
    add(
        "folds/custom",
        lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.sqrt(a * a + b * b), (1,)),
        normal(3, 7),
    )
    add(
        "folds/two",
        lambda x, y: lax.reduce(
            (x, y),
            (np.float32(-np.inf), np.int32(0)),
            lambda a, b: (jnp.maximum(a[0], b[0]), jnp.where(a[0] >= b[0], a[1], b[1])),
            (0,),
        ),
        normal(7, 3),
        whole(7, 3, seed=1),
    )
    add("folds/empty", lambda x: (jnp.sum(x, 0), jnp.prod(x, 1), jnp.sum(x)), normal(0, 4))
    add("folds/logsumexp", lambda x: (jnp.log(jnp.sum(jnp.exp(x))), lax.logistic(x)), normal(9))
    add(
        "folds/statistics",
        lambda x: (
            jnp.std(x, 0),
            jnp.var(x, 1, ddof=1),
            jnp.ptp(x),
            jnp.median(x, 1),
            jnp.average(x, weights=jnp.abs(x) + 1),
            jnp.cov(x),
            jnp.corrcoef(x),
        ),
        normal(4, 7),
        slack=4,
    )
    for q in (0, 12.5, 50, 90, 100):
        add(f"folds/percentile-{q}", lambda x, q=q: jnp.percentile(x, q, axis=0), normal(9, 3))
    for method in "lower higher midpoint nearest linear".split():
        add(
            f"folds/quantile-{method}",
            lambda x, m=method: jnp.quantile(x, np.array([0.1, 0.7], np.float32), axis=1, method=m),
            normal(3, 8),
        )


def windows() -> None:
    x = normal(2, 8, 7, 3)
    cases = {
        "same": {
            "window_dimensions": (1, 3, 3, 1),
            "window_strides": (1, 2, 2, 1),
            "padding": "SAME",
        },
        "valid": {
            "window_dimensions": (1, 2, 3, 1),
            "window_strides": (1, 1, 2, 1),
            "padding": "VALID",
        },
        "dilated": {
            "window_dimensions": (1, 2, 2, 1),
            "window_strides": (1, 1, 1, 1),
            "padding": [(0, 0), (1, 2), (0, 1), (0, 0)],
            "base_dilation": (1, 2, 1, 1),
            "window_dilation": (1, 1, 3, 1),
        },
    }
    kinds = {
        "add": (lax.add, 0),
        "max": (lax.max, -np.inf),
        "min": (lax.min, np.inf),
        "mul": (lax.mul, 1),
    }
    for case, given in cases.items():
        for kind, (function, start) in kinds.items():
            for of in ("float32", "bfloat16"):
                add(
                    f"folds/window-{case}-{kind}-{of}",
                    lambda x, f=function, s=start, g=given: lax.reduce_window(
                        x, np.array(s, x.dtype), f, **g
                    ),
                    x.astype(of),
                )
        add(
            f"folds/window-{case}-custom",
            lambda x, g=given: lax.reduce_window(
                x, np.float32(0), lambda a, b: a + 2 * b - a * 0, **g
            ),
            x,
        ) if case == "valid" else None
        add(
            f"folds/window-{case}-int",
            lambda x, g=given: lax.reduce_window(x, np.int32(0), lax.add, **g),
            whole(2, 8, 7, 3),
        )
    add(
        "folds/window-two",
        lambda x, y: lax.reduce_window(
            (x, y),
            (np.float32(-np.inf), np.float32(0)),
            lambda a, b: (jnp.maximum(a[0], b[0]), a[1] + b[1]),
            (3, 2),
            (1, 2),
            "VALID",
        ),
        normal(6, 7),
        normal(6, 7, seed=1),
    )
    for name in "cumsum cumprod cummax cummin cumlogsumexp".split():
        for of in ("float32", "int32", "bfloat16"):
            if name == "cumlogsumexp" and of == "int32":
                continue
            for reverse in (False, True):
                label = f"folds/{name}-{of}-{'back' if reverse else 'on'}"
                add(
                    label,
                    lambda x, f=name, r=reverse: getattr(lax, f)(x, axis=1, reverse=r),
                    normal(3, 11, of=of),
                    slack=2,
                )
    add("folds/associative", lambda x: lax.associative_scan(jnp.multiply, x, axis=1), normal(2, 13))
    add(
        "folds/associative-pair",
        lambda x, y: lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, y)),
        normal(10),
        normal(10, seed=1),
    )
    add(
        "folds/np-cumulative",
        lambda x: (
            jnp.cumsum(x),
            jnp.cumprod(x, 1),
            jnp.nancumsum(x, 0),
            jnp.diff(x, 2),
            jnp.ediff1d(x),
            jnp.gradient(x[0]),
            jnp.trapezoid(x),
        ),
        normal(3, 6),
    )


def sorts() -> None:
    for of in FLOATS + ["int32", "uint8", "bool", "complex64"]:
        x = normal(4, 9, of=of) if of != "bool" else whole(4, 9, of="bool", high=1)
        add(f"folds/sort-{of}", lambda x: jnp.sort(x, axis=0), x)
        add(f"folds/argsort-{of}", lambda x: jnp.argsort(x, axis=1), x)
        add(f"folds/descending-{of}", lambda x: jnp.sort(x, descending=True), x)
        if of not in ("bool", "complex64"):
            add(f"folds/top-k-{of}", lambda x: lax.top_k(x, 3), x)
    for of in FLOATS:
        add(f"folds/sort-special-{of}", lambda x: (jnp.sort(x), jnp.argsort(x)), special(of))
        add(f"folds/top-k-special-{of}", lambda x: lax.top_k(x, 9), special(of))
    x, y, z = whole(20, high=3), whole(20, high=3, seed=1), normal(20)
    for keys in (1, 2):
        add(
            f"folds/sort-{keys}-keys",
            lambda x, y, z, n=keys: lax.sort((x, y, z), num_keys=n),
            x,
            y,
            z,
        )
    add("folds/sort-unstable", lambda x: lax.sort(x, is_stable=False), z)
    add("folds/lexsort", lambda x, y: jnp.lexsort((x, y)), x, y)
    add(
        "folds/partition",
        lambda x: (jnp.sort(jnp.partition(x, 4)[:4]), jnp.argpartition(x, 4).shape),
        z,
    )
    add(
        "folds/unique",
        lambda x: jnp.unique(
            x, size=9, fill_value=99, return_index=True, return_inverse=True, return_counts=True
        ),
        x,
    )
    for side in ("left", "right"):
        for method in ("scan", "sort", "compare_all", "scan_unrolled"):
            add(
                f"folds/searchsorted-{side}-{method}",
                lambda a, v, s=side, m=method: jnp.searchsorted(a, v, side=s, method=m),
                np.sort(normal(17)),
                normal(6, seed=2),
            )
    add("folds/digitize", lambda x, b: jnp.digitize(x, b), normal(8), np.sort(normal(5)))
    add("folds/histogram", lambda x: jnp.histogram(x, bins=6, range=(-2, 2)), normal(40))
    add("folds/histogram2d", lambda x: jnp.histogram2d(x[0], x[1], bins=4)[0], normal(2, 30))
    add("folds/bincount", lambda x: jnp.bincount(x, length=9), whole(30, low=0, high=8))
    add(
        "folds/bincount-weights",
        lambda x, w: jnp.bincount(x, w, length=9),
        whole(30, low=0, high=8),
        normal(30),
    )
    add(
        "folds/set-operations",
        lambda x, y: (
            jnp.isin(x, y),
            jnp.intersect1d(x, y, size=5),
            jnp.union1d(x, y, size=8),
            jnp.setdiff1d(x, y, size=5),
        ),
        x,
        y[:4],
    )
    add("folds/nonzero", lambda x: jnp.nonzero(x > 0, size=12, fill_value=-1), normal(4, 6))
    add(
        "folds/interp",
        lambda x, a, b: jnp.interp(x, a, b),
        normal(7),
        np.sort(normal(5)),
        normal(5),
    )
    add(
        "folds/select-piecewise",
        lambda x: (
            jnp.select([x < -1, x > 1], [x, x * 2], 0.0),
            jnp.piecewise(x, [x < 0, x >= 0], [jnp.negative, jnp.square]),
        ),
        normal(9),
    )
    add("folds/approx-top-k", lambda x: lax.approx_max_k(x, 4, aggregate_to_topk=True), uniform(64))


reductions()
windows()
sorts()
