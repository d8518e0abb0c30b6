"""Reading and writing at indices, as numpy writes it."""

import jax.numpy as jnp
import numpy as np

from tests.peer.programs.registry import add, normal, whole

READS = {
    "scalar": lambda x, k: x[k[0]],
    "negative": lambda x, k: x[-1, ..., -2],
    "rows": lambda x, k: x[k],
    "columns": lambda x, k: x[:, k],
    "pairs": lambda x, k: x[k, k],
    "split": lambda x, k: x[k, :, k],
    "outer": lambda x, k: x[k[:, None], k[None]],
    "slice": lambda x, k: x[1:4:2, ::-1, 2:],
    "step": lambda x, k: x[::-2, 1, ::3],
    "new": lambda x, k: x[None, :, None, 2, ..., None],
    "mixed": lambda x, k: x[1, k, 1:3],
    "table": lambda x, k: x[:, jnp.array([[0, 2], [3, 1]]), 1],
    "mask": lambda x, k: x[:, np.array([True, False, True, False, False, True])],
    "take": lambda x, k: jnp.take(x, k, axis=1),
    "take-clip": lambda x, k: jnp.take(x, k * 3, axis=1, mode="clip"),
    "take-wrap": lambda x, k: jnp.take(x, k * 3, axis=1, mode="wrap"),
    "take-fill": lambda x, k: jnp.take(x, k * 3, axis=1, mode="fill", fill_value=7),
    "flat": lambda x, k: jnp.ravel(x)[k * 11],
    "get-fill": lambda x, k: x.at[k * 4].get(mode="fill", fill_value=5),
    "get-clip": lambda x, k: x.at[k * 4, 1].get(mode="clip"),
    "sorted": lambda x, k: x.at[jnp.sort(k)].get(indices_are_sorted=True),
    "choose": lambda x, k: jnp.choose(k % 3, [x[0, 0, :3], x[1, 1, :3], x[2, 2, :3]], mode="clip"),
    "ravel": lambda x, k: jnp.ravel_multi_index((k, k), (6, 7), mode="clip"),
    "unravel": lambda x, k: jnp.unravel_index(k * 5, (4, 6)),
}
WRITES = "set add multiply divide power min max".split()
PLACES = {
    "row": lambda x, k: x.at[k],
    "point": lambda x, k: x.at[k, k, 0],
    "column": lambda x, k: x.at[:, k],
    "slice": lambda x, k: x.at[1:3, ::2],
    "whole": lambda x, k: x.at[...],
    "split": lambda x, k: x.at[k, :, k],
    "back": lambda x, k: x.at[::-1, 1, 2],
}


def reads() -> None:
    at = np.array([0, 3, -2], np.int32)
    for name, read in READS.items():
        for of in ("float32", "int8"):
            add(f"indexing/{name}-{of}", read, normal(5, 6, 7, of=of), at)
    for of in ("int8", "uint8", "int64", "uint32"):
        add(f"indexing/by-{of}", lambda x, k: x[k], normal(5, 3), np.array([0, 4, 2]).astype(of))
    for axis in (0, 1, 2):
        index = whole(4, 3, 2, low=0, high=1, seed=axis)
        add(
            f"indexing/along-{axis}",
            lambda x, k, a=axis: jnp.take_along_axis(x, k, a),
            normal(4, 3, 2),
            index,
        )
        add(
            f"indexing/put-along-{axis}",
            lambda x, k, a=axis: jnp.put_along_axis(x, k[:1, :1, :1], 9.0, a, inplace=False),
            normal(4, 3, 2),
            index,
        )


def writes() -> None:
    at = np.array([0, 3, 4], np.int32)
    for place, there in PLACES.items():
        for write in WRITES:

            def function(x, k, v, there=there, write=write):
                return getattr(there(x, k), write)(v)

            add(
                f"indexing/{write}-{place}",
                function,
                abs(normal(5, 6, 7)) + 1,
                at,
                np.float32(2),
                slack=4,
            )

        def added(x, k, there=there):
            return there(x, k).add(3)

        add(f"indexing/int-{place}", added, whole(5, 6, 7), at)
    twice = np.array([1, 1, 4, 1], np.int32)
    for mode in ("drop", "clip", "promise_in_bounds"):
        far = twice if mode == "promise_in_bounds" else np.array([1, 9, -9, 1], np.int32)
        add(
            f"indexing/mode-{mode}",
            lambda x, k, v, m=mode: x.at[k].add(v, mode=m),
            normal(5, 3),
            far,
            normal(4, 3, seed=1),
        )
    add(
        "indexing/duplicates",
        lambda x, k, v: (x.at[k].add(v), x.at[k].max(v), x.at[k].mul(v)),
        normal(5, 3),
        twice,
        normal(4, 3, seed=1),
    )
    add(
        "indexing/unique",
        lambda x, k: x.at[k].set(0, unique_indices=True),
        normal(5, 3),
        np.array([2, 0, 4]),
    )
    add("indexing/apply", lambda x, k: x.at[k].apply(jnp.sin), normal(5, 3), np.array([2, 0, 4]))
    add("indexing/bool-or", lambda x, k: x.at[k].set(True), whole(6, of="bool", high=1), at)
    add(
        "indexing/complex", lambda x, k: (x.at[k].add(1j), x[k].real), normal(6, of="complex64"), at
    )
    add(
        "indexing/bfloat16",
        lambda x, k, v: x.at[k].add(v),
        normal(6, 3, of="bfloat16"),
        twice,
        normal(4, 3, of="bfloat16"),
    )
    add("indexing/fill-diagonal", lambda x: jnp.fill_diagonal(x, 3, inplace=False), normal(4, 5))
    add(
        "indexing/place",
        lambda x: jnp.place(x, x > 0, jnp.arange(3.0), inplace=False),
        normal(4, 5, of="float64"),
    )
    add("indexing/put", lambda x, k: jnp.put(x, k, 5, inplace=False, mode="wrap"), normal(2, 4), at)


reads()
writes()
