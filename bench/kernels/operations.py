"""One operation of JAX at a time, against XLA:CPU: `python -m bench.kernels.operations`.

Each is what a user writes in a line, at a size at which memory and threads matter, lowered by JAX,
so that both compilers are given the same HLO. The worst ratio comes first in the table at the end.
Beside it stands the least that this machine allows, and how many times that hloom takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.kernels.loops import arguments, compare

Function = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """A function, and its arguments as `type[dims]` or `type[dims]<bound`."""

    name: str
    function: Function
    arguments: tuple[str, ...]

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(len(self.name))
        return [_drawn(rng, text) for text in self.arguments]

    def text(self, inputs: list[np.ndarray]) -> str:
        """HLO as JAX writes it."""
        import jax

        lowered = jax.jit(self.function).lower(*inputs).compiler_ir("hlo")
        assert lowered is not None
        return row_major(lowered.as_hlo_text(True))


def row_major(text: str) -> str:
    """HLO without layouts: JAX's results are row-major, whatever a transpose is printed as.
    Where libraries are called they stay: they say what is read there."""
    if "operand_layout_constraints" in text:
        return text
    return re.sub(r"(?<=\])\{[\d,]+\}", "", text)


def _drawn(rng: np.random.Generator, text: str) -> np.ndarray:
    import ml_dtypes

    kind, rest = text.split("[")
    dims, _, bound = rest.partition("]")
    shape = tuple(int(d) for d in dims.split(",") if d)
    if kind in ("s8", "s32"):
        top = int(bound[1:].split()[0]) if bound else 100
        made = rng.integers(0, top, shape, np.int8 if kind == "s8" else np.int32)
        return np.sort(made) if bound.endswith("sorted") else made
    wide = rng.standard_normal(shape, np.float32)
    if kind == "c64":
        return (wide + 1j * rng.standard_normal(shape, np.float32)).astype(np.complex64)
    if kind == "s4":
        return rng.integers(-8, 8, shape, np.int8).astype(ml_dtypes.int4)
    types = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f64": np.float64}
    return wide.astype(types[kind])


def operations() -> Iterator[Operation]:
    """All of them; a name begins with its family."""
    for family in (_windows, _scans, _sorts, _moves, _indexed, _folds, _products, _functions):
        for name, function, *operands in family():
            yield Operation(name, function, tuple(operands))


def _windows() -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def pooled(window: tuple[int, ...], strides: tuple[int, ...], padding: str) -> Function:
        return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding)

    def gradient(of: Function) -> Function:
        return lambda x: jax.grad(lambda y: (of(y) ** 2).sum())(x)

    channels_last = {
        "2x2 by 2": ((1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        "3x3 by 2 padded": ((1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        "3x3 by 1": ((1, 3, 3, 1), (1, 1, 1, 1), "VALID"),
        "3x3 by 3": ((1, 3, 3, 1), (1, 3, 3, 1), "VALID"),
    }
    for name, (window, strides, padding) in channels_last.items():
        last = pooled(window, strides, padding)
        first = pooled((1, 1, *window[1:3]), (1, 1, *strides[1:3]), padding)
        for layout, of, shape in (
            ("NHWC", last, "f32[16,56,56,64]"),
            ("NCHW", first, "f32[16,64,56,56]"),
        ):
            yield f"window max pool {name} {layout}", of, shape
            yield f"window gradient of max pool {name} {layout}", gradient(of), shape

    def sliding(start: float, by: Function, window: tuple[int, ...]) -> Function:
        ones = (1,) * len(window)
        return lambda x: lax.reduce_window(x, start, by, window, ones, "SAME")

    yield "window max of 31, 2 M", sliding(-np.inf, lax.max, (31,)), "f32[2097152]"
    yield "window max of 255, 1 M", sliding(-np.inf, lax.max, (255,)), "f32[1048576]"
    yield "window sum of 255, 1 M", sliding(0.0, lax.add, (255,)), "f32[1048576]"
    yield "window sum of 15x15 image", sliding(0.0, lax.add, (15, 15)), "f32[1024,1024]"
    yield "window max of 15x15 image", sliding(-np.inf, lax.max, (15, 15)), "f32[1024,1024]"


def _scans() -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp
    from jax import lax

    for axis in (0, 1):
        yield f"scan cumsum over {axis}", lambda x, d=axis: jnp.cumsum(x, d), "f32[2048,2048]"
        yield f"scan cummax over {axis}", lambda x, d=axis: lax.cummax(x, d), "f32[2048,2048]"
        yield f"scan cumprod over {axis}", lambda x, d=axis: jnp.cumprod(x, d), "f32[2048,2048]"
        exps = lambda x, d=axis: lax.cumlogsumexp(x, d)  # noqa: E731
        yield f"scan cumlogsumexp over {axis}", exps, "f32[1024,1024]"
    yield "scan cumsum of 4 M", jnp.cumsum, "f32[4194304]"
    yield "scan cumsum s32 of 4 M", jnp.cumsum, "s32[4194304]<9"
    yield "scan cumsum in the middle", lambda x: jnp.cumsum(x, 1), "f32[16,512,256]"


def _sorts() -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp
    from jax import lax

    for k in (1, 8, 64, 1000):
        yield f"sort top {k} of 256 rows", lambda x, k=k: lax.top_k(x, k), "f32[256,8192]"
    yield "sort top 50 of a vocabulary", lambda x: lax.top_k(x, 50), "f32[8,128256]"
    yield "sort top 8 over axis 0", lambda x: lax.top_k(x.T, 8), "f32[8192,256]"
    yield "sort 1 M", jnp.sort, "f32[1048576]"
    yield "sort rows", lambda x: jnp.sort(x, 1), "f32[1024,1024]"
    yield "sort columns", lambda x: jnp.sort(x, 0), "f32[1024,1024]"
    yield "sort arg 1 M", jnp.argsort, "f32[1048576]"
    for axis in (0, 1):
        yield f"sort argmax over {axis}", lambda x, d=axis: jnp.argmax(x, d), "f32[2048,2048]"
        yield f"sort argmin over {axis}", lambda x, d=axis: jnp.argmin(x, d), "bf16[2048,2048]"
    yield "sort argmax of all", jnp.argmax, "f32[4194304]"


def _moves() -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp

    two = ("f32[2097152]", "f32[2097152]")
    yield "move concatenate shifted", lambda x, y: jnp.concatenate([x[1:], y[:-1]]) * 2, *two
    yield "move concatenate", lambda x, y: jnp.concatenate([x, y]), *two
    columns = lambda x, y: jnp.concatenate([x[:, 1:], y[:, :-1]], 1)  # noqa: E731
    yield "move concatenate columns", columns, "f32[2048,1023]", "f32[2048,1023]"
    yield "move stack", lambda x, y: jnp.stack([x, y]), *two
    yield "move interleave", lambda x, y: jnp.stack([x, y], -1).reshape(-1), *two
    yield "move diff", jnp.diff, two[0]
    yield "move roll", lambda x: jnp.roll(x, 1001), two[0]
    yield "move roll axis 1", lambda x: jnp.roll(x, 7, 1), "f32[2048,1024]"
    yield "move reverse", lambda x: x[::-1], two[0]
    yield "move reverse s8", lambda x: x[::-1], "s8[4194304]"
    yield "move reverse rows", lambda x: x[::-1], "f32[2048,1024]"
    yield "move pad 1", lambda x: jnp.pad(x, 1), two[0]
    yield "move pad 2-D", lambda x: jnp.pad(x, 3), "f32[1021,2047]"
    yield "move pad reflect", lambda x: jnp.pad(x, 3, mode="reflect"), "f32[1021,2047]"
    yield "move repeat", lambda x: jnp.repeat(x, 3), "f32[1048576]"
    yield "move tile", lambda x: jnp.tile(x, (4, 2)), "f32[512,1000]"
    yield "move every third", lambda x: x[::3], two[0]
    yield "move transpose bf16", jnp.transpose, "bf16[2048,2048]"


def _indexed() -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    for order in ("sorted", "unsorted"):
        index = "s32[1048576]<10000" + (" sorted" if order == "sorted" else "")
        total = lambda x, i: jax.ops.segment_sum(x, i, 10000)  # noqa: E731
        yield f"index segment_sum {order}", total, "f32[1048576]", index
        rows = "s32[65536]<1000" + (" sorted" if order == "sorted" else "")
        wide = lambda x, i: jax.ops.segment_sum(x, i, 1000)  # noqa: E731
        yield f"index segment_sum rows of 64 {order}", wide, "f32[65536,64]", rows
    most = lambda x, i: jax.ops.segment_max(x, i, 10000)  # noqa: E731
    yield "index segment_max", most, "f32[1048576]", "s32[1048576]<10000"
    added = lambda y, i, x: y.at[i].add(x)  # noqa: E731
    yield "index add at", added, "f32[1000000]", "s32[1048576]<1000000", "f32[1048576]"
    yield "index take", lambda x, i: x[i], "f32[1000000]", "s32[1048576]<1000000"
    yield "index take rows", lambda x, i: x[i], "f32[50000,256]", "s32[8192]<50000"
    along = lambda x, i: jnp.take_along_axis(x, i, 1)  # noqa: E731
    yield "index take along", along, "f32[1024,1024]", "s32[1024,1024]<1024"
    yield "index one hot", lambda i: jax.nn.one_hot(i, 1000), "s32[4096]<1000"
    yield "index bincount", lambda i: jnp.bincount(i, length=256), "s32[1048576]<256"
    yield "index searchsorted", jnp.searchsorted, "f32[4096]", "f32[262144]"


def _folds() -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    outer = lambda x, y: (x[:, None] * y[None, :]).sum()  # noqa: E731
    yield "fold outer product", outer, "f32[4096]", "f32[4096]"
    distances = lambda x, y: ((x[:, None] - y[None, :]) ** 2).sum(-1)  # noqa: E731
    yield "fold distances", distances, "f32[512,64]", "f32[512,64]"
    yield "fold sum 16 M", jnp.sum, "f32[16777216]"
    yield "fold sum bf16", jnp.sum, "bf16[16777216]"
    yield "fold variance", jnp.var, "f32[4194304]"
    yield "fold variance of rows", lambda x: x.var(1), "f32[4096,1024]"
    yield "fold logsumexp", lambda x: jax.nn.logsumexp(x, 1), "f32[2048,2048]"
    yield "fold any", lambda x: (x > 7).any(0), "f32[2048,2048]"
    yield "fold norm", jnp.linalg.norm, "f32[4194304]"


def _products() -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp

    yield "product matvec 4096", lambda a, x: a @ x, "f32[4096,4096]", "f32[4096]"
    yield "product vecmat 4096", lambda x, a: x @ a, "f32[4096]", "f32[4096,4096]"
    yield "product matvec bf16", lambda a, x: a @ x, "bf16[4096,4096]", "bf16[4096]"

    def whole(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b, preferred_element_type=jnp.int32)

    yield "product s8 to s32", whole, "s8[512,512]<100", "s8[512,512]<100"
    yield "product bf16", lambda a, b: a @ b, "bf16[512,512]", "bf16[512,512]"
    yield "product dot", jnp.dot, "f32[4194304]", "f32[4194304]"
    batched = lambda a, b: a @ b  # noqa: E731
    yield "product batch of 4x4", batched, "f32[65536,4,4]", "f32[65536,4,4]"
    yield "product convolve 31 taps", lambda x, k: jnp.convolve(x, k), "f32[2097152]", "f32[31]"


def _functions() -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    yield "function erf", jax.scipy.special.erf, "f32[2097152]"
    yield "function tanh bf16", jnp.tanh, "bf16[2097152]"
    yield "function gelu", jax.nn.gelu, "f32[2097152]"
    yield "function rfft2", jnp.fft.rfft2, "f32[1024,1024]"
    yield "function fft 4096", jnp.fft.fft, "f32[256,4096]"


def contest(each_of: Iterable[Operation], doc: str | None) -> None:
    """Time each on both compilers; print a line for each, and at the end the worst first."""
    import jax

    args = arguments(doc)
    rows = []
    for each in each_of:
        if args.k not in each.name:
            continue
        inputs = each.inputs()
        with jax.enable_x64(any("f64" in a for a in each.arguments)):
            text = each.text(inputs)
            found = compare(text, args.rounds, args.seconds, inputs)
        ours, theirs, floor = found[:3]
        rows.append((ours / theirs, ours, theirs, floor, each.name))
        print(f"{_line(rows[-1])}   {found.compiling}", flush=True)
    print("\nworst first")
    for row in sorted(rows, reverse=True):
        print(_line(row))
    if rows:
        print(f"geometric mean of {len(rows)}: {np.exp(np.mean(np.log([r[0] for r in rows]))):.3f}")


def main() -> None:
    contest(operations(), __doc__)


def _line(row: tuple[float, float, float, float, str]) -> str:
    ratio, ours, theirs, floor, name = row
    return (
        f"{name:44s} {ours * 1e3:9.3f} ms   xla {theirs * 1e3:9.3f}   ratio {ratio:6.2f}   "
        f"floor {floor * 1e3:7.3f} ({ours / floor:5.1f})"
    )


if __name__ == "__main__":
    main()
