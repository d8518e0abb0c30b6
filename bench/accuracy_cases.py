"""The programs of `bench.accuracy`: long sums of every kind, as HLO text with an exact result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

KINDS = ("normal", "uniform", "equal")
EQUAL = (0.1, 0.3, 0.7)
"""What all are where all are equal: with one number it is chance how roundings meet."""
NUMPY: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "c64": np.complex64,
    "s32": np.int32,
}
EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52, "bf16": 2.0**-7, "f16": 2.0**-10, "c64": 2.0**-23}

Exact = Callable[..., np.ndarray]


def epsilon(dtype: str) -> float:
    """The distance from 1 to the next number of a type."""
    return EPSILON[dtype]


def wide(x: np.ndarray) -> np.ndarray:
    """The numbers in extended precision; f32 and less in f64, which is enough for them."""
    if x.dtype == np.float64:
        return x.astype(np.longdouble)
    if x.dtype == np.complex64:
        return x.astype(np.complex128)
    return x.astype(np.int64) if x.dtype.kind == "i" else x.astype(np.float64)


@dataclass
class Case:
    """One program: `length` elements go into each result. `magnitude` is what errors are measured
    by: None for the result of absolute values, which is right for sums of products."""

    name: str
    dtype: str
    length: int
    text: str
    shapes: Sequence[tuple[str, tuple[int, ...]]]
    value: Exact
    magnitude: Exact | None = None
    segments: int = 0
    order: str = "random"

    def arguments(self, kind: str, number: float = EQUAL[0]) -> list[np.ndarray]:
        """The arguments, of one kind of data; `number` is what all are where they are equal."""
        random = np.random.default_rng(len(self.name) + self.length)
        return [self._argument(random, kind, number, *s) for s in self.shapes]

    def _argument(
        self,
        random: np.random.Generator,
        kind: str,
        number: float,
        dtype: str,
        dims: tuple[int, ...],
    ) -> np.ndarray:
        if dtype == "s32":
            ids = random.integers(0, self.segments, dims).astype(np.int32)
            return np.sort(ids, axis=0) if self.order == "sorted" else ids
        parts = 2 if dtype == "c64" else 1
        drawn = []
        for _ in range(parts):
            if kind == "normal":
                drawn.append(random.standard_normal(dims, np.float32))
            elif kind == "uniform":
                drawn.append(random.random(dims, np.float32))
            else:
                drawn.append(np.full(dims, number, NUMPY[dtype] if parts == 1 else np.float32))
        x = drawn[0] + 1j * drawn[1] if parts == 2 else drawn[0]
        return x.astype(NUMPY[dtype], copy=False)

    def exact(self, given: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The exact result, and the sum of magnitudes that an error is measured by."""
        numbers = [wide(x) for x in given]
        exact = self.value(*numbers)
        if self.magnitude is not None:
            return exact, self.magnitude(*numbers)
        return exact, self.value(*map(np.abs, numbers))


def shown(dtype: str, dims: Sequence[int], layout: Sequence[int] | None = None) -> str:
    """A shape as text."""
    if not dims:
        return f"{dtype}[]"
    order = layout if layout is not None else range(len(dims))[::-1]
    return f"{dtype}[{','.join(map(str, dims))}]{{{','.join(map(str, order))}}}"


def combiner(dtype: str, opcode: str = "add") -> str:
    return (
        f"{opcode} {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) "
        f"ROOT c = {dtype}[] {opcode}(a, b) }}\n"
    )


def zero(dtype: str) -> str:
    """The constant 0 as text."""
    return f"zero = {dtype}[] constant({'(0, 0)' if dtype == 'c64' else '0'})"


def listed(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def reduction(
    dtype: str, dims: tuple[int, ...], folded: tuple[int, ...], layout: Sequence[int] | None = None
) -> Case:
    """A plain sum over some dimensions."""
    kept = tuple([n for d, n in enumerate(dims) if d not in folded])
    text = f"""HloModule reduction
{combiner(dtype)}
ENTRY e {{
  x = {shown(dtype, dims, layout)} parameter(0)
  {zero(dtype)}
  ROOT r = {shown(dtype, kept)} reduce(x, zero), dimensions={listed(folded)}, to_apply=add
}}"""
    name = f"sum {dtype}{list(dims)} over {listed(folded)}"
    name += f" in {listed(layout)}" if layout is not None else ""
    length = prod(dims[d] for d in folded)
    return Case(name, dtype, length, text, [(dtype, dims)], lambda x: np.sum(x, axis=folded))


def variance(dims: tuple[int, ...], axis: int) -> Case:
    """Mean and variance as `jnp.var` writes them."""
    n, kept = dims[axis], [d for d in range(len(dims)) if d != axis]
    of, less = shown("f32", dims), shown("f32", [dims[d] for d in kept])
    text = f"""HloModule variance
{combiner("f32")}
ENTRY e {{
  x = {of} parameter(0)
  zero = f32[] constant(0)
  n = f32[] constant({n})
  ns = {less} broadcast(n), dimensions={{}}
  s = {less} reduce(x, zero), dimensions={{{axis}}}, to_apply=add
  m = {less} divide(s, ns)
  ms = {of} broadcast(m), dimensions={listed(kept)}
  c = {of} subtract(x, ms)
  q = {of} multiply(c, c)
  v = {less} reduce(q, zero), dimensions={{{axis}}}, to_apply=add
  ROOT r = {less} divide(v, ns)
}}"""

    name = f"variance f32{list(dims)} over {axis}"
    case = Case(name, "f32", n, text, [("f32", dims)], lambda x: np.var(x, axis=axis))
    # Where all are equal the variance is nothing.
    case.magnitude = lambda x: np.mean(x * x, axis=axis)
    return case


def norm(dims: tuple[int, ...], axis: int) -> Case:
    kept = [n for d, n in enumerate(dims) if d != axis]
    of, less = shown("f32", dims), shown("f32", kept)
    text = f"""HloModule norm
{combiner("f32")}
ENTRY e {{
  x = {of} parameter(0)
  zero = f32[] constant(0)
  q = {of} multiply(x, x)
  s = {less} reduce(q, zero), dimensions={{{axis}}}, to_apply=add
  ROOT r = {less} sqrt(s)
}}"""
    name = f"norm f32{list(dims)} over {axis}"
    value = lambda x: np.sqrt(np.sum(x * x, axis=axis))  # noqa: E731
    return Case(name, "f32", dims[axis], text, [("f32", dims)], value)


def log_sum_exp(dims: tuple[int, ...], axis: int, softmax: bool) -> Case:
    """log(sum(exp(x - max))) + max, or exp(x - max) / sum."""
    kept = [d for d in range(len(dims)) if d != axis]
    of, less = shown("f32", dims), shown("f32", [dims[d] for d in kept])
    end = f"""l = {less} log(s)
  ROOT r = {less} add(l, m)"""
    if softmax:
        end = f"""ss = {of} broadcast(s), dimensions={listed(kept)}
  ROOT r = {of} divide(ex, ss)"""
    text = f"""HloModule lse
{combiner("f32")}{combiner("f32", "maximum")}
ENTRY e {{
  x = {of} parameter(0)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  m = {less} reduce(x, low), dimensions={{{axis}}}, to_apply=maximum
  ms = {of} broadcast(m), dimensions={listed(kept)}
  c = {of} subtract(x, ms)
  ex = {of} exponential(c)
  s = {less} reduce(ex, zero), dimensions={{{axis}}}, to_apply=add
  {end}
}}"""

    def value(x: np.ndarray) -> np.ndarray:
        most = np.max(x, axis=axis, keepdims=True)
        total = np.sum(np.exp(x - most), axis=axis, keepdims=True)
        if softmax:
            return np.exp(x - most) / total
        return np.squeeze(np.log(total) + most, axis)

    name = f"{'softmax' if softmax else 'log-sum-exp'} f32{list(dims)} over {axis}"
    return Case(name, "f32", dims[axis], text, [("f32", dims)], value, value)


def cumulative(dtype: str, dims: tuple[int, ...], axis: int, reverse: bool = False) -> Case:
    """A cumulative sum as a reduce-window."""
    n = dims[axis]
    size = "x".join([str(n) if d == axis else "1" for d in range(len(dims))])
    pad = f"0_{n - 1}" if reverse else f"{n - 1}_0"
    pads = "x".join([pad if d == axis else "0_0" for d in range(len(dims))])
    of = shown(dtype, dims)
    text = f"""HloModule cumulative
{combiner(dtype)}
ENTRY e {{
  x = {of} parameter(0)
  {zero(dtype)}
  ROOT r = {of} reduce-window(x, zero), window={{size={size} pad={pads}}}, to_apply=add
}}"""

    def value(x: np.ndarray) -> np.ndarray:
        x = x.astype(np.clongdouble if np.iscomplexobj(x) else np.longdouble)
        found = np.cumsum(np.flip(x, axis) if reverse else x, axis=axis)
        return np.flip(found, axis) if reverse else found

    name = f"cumsum {dtype}{list(dims)} along {axis}{' reverse' if reverse else ''}"
    return Case(name, dtype, n, text, [(dtype, dims)], value)


def window_sum(dims: tuple[int, ...], axis: int, size: int) -> Case:
    """Sums of a large window that moves along an axis."""
    sizes = "x".join([str(size) if d == axis else "1" for d in range(len(dims))])
    out = [n - size + 1 if d == axis else n for d, n in enumerate(dims)]
    text = f"""HloModule windows
{combiner("f32")}
ENTRY e {{
  x = {shown("f32", dims)} parameter(0)
  zero = f32[] constant(0)
  ROOT r = {shown("f32", out)} reduce-window(x, zero), window={{size={sizes}}}, to_apply=add
}}"""

    def value(x: np.ndarray) -> np.ndarray:
        view = np.lib.stride_tricks.sliding_window_view(x, size, axis)
        return np.sum(view, axis=-1)

    name = f"window of {size} f32{list(dims)} along {axis}"
    return Case(name, "f32", size, text, [("f32", dims)], value)


def segment_sum(n: int, segments: int, width: int, order: str, dtype: str = "f32") -> Case:
    """A scatter that adds rows to segments."""
    row = [width] if width else []
    out = shown(dtype, [segments, *row])
    window = "{1}" if width else "{}"
    text = f"""HloModule segments
{combiner(dtype)}
ENTRY e {{
  ids = s32[{n},1]{{1,0}} parameter(0)
  x = {shown(dtype, [n, *row])} parameter(1)
  {zero(dtype)}
  start = {out} broadcast(zero), dimensions={{}}
  ROOT r = {out} scatter(start, ids, x), update_window_dims={window},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
}}"""

    def value(ids: np.ndarray, x: np.ndarray) -> np.ndarray:
        found = np.zeros((segments, *row), x.dtype)
        np.add.at(found, ids[:, 0], x)
        return found

    name = f"segment sum {dtype} {n} to {segments} of {max(width, 1)} {order}"
    given = [("s32", (n, 1)), (dtype, (n, *row))]
    length = n // segments
    return Case(name, dtype, length, text, given, value, segments=segments, order=order)


def variadic(dims: tuple[int, ...], axis: int) -> Case:
    """The sum and the maximum in one reduction."""
    kept = [n for d, n in enumerate(dims) if d != axis]
    less = shown("f32", kept)
    text = f"""HloModule variadic
both {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  s = f32[] add(a, c)
  m = f32[] maximum(b, d)
  ROOT t = (f32[], f32[]) tuple(s, m)
}}
ENTRY e {{
  x = {shown("f32", dims)} parameter(0)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  r = ({less}, {less}) reduce(x, x, zero, low), dimensions={{{axis}}}, to_apply=both
  ROOT s = {less} get-tuple-element(r), index=0
}}"""
    name = f"sum and maximum f32{list(dims)} over {axis}"
    return Case(name, "f32", dims[axis], text, [("f32", dims)], lambda x: np.sum(x, axis=axis))


def fused(dims: tuple[int, ...], axis: int) -> Case:
    """A sum of products inside a fusion."""
    kept = [n for d, n in enumerate(dims) if d != axis]
    of = shown("f32", dims)
    text = f"""HloModule fused
{combiner("f32")}
ENTRY e {{
  x = {of} parameter(0)
  y = {of} parameter(1)
  zero = f32[] constant(0)
  p = {of} multiply(x, y)
  q = {of} add(p, x)
  ROOT r = {shown("f32", kept)} reduce(q, zero), dimensions={{{axis}}}, to_apply=add
}}"""
    name = f"fused sum f32{list(dims)} over {axis}"
    value = lambda x, y: np.sum(x * y + x, axis=axis)  # noqa: E731
    return Case(name, "f32", dims[axis], text, [("f32", dims)] * 2, value)


def looped(rows: int, n: int) -> Case:
    """A row sum in each trip of a while."""
    text = f"""HloModule looped
{combiner("f32")}
body {{
  s = (s32[], f32[{rows},{n}]{{1,0}}, f32[{rows}]{{0}}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[{rows},{n}]{{1,0}} get-tuple-element(s), index=1
  o = f32[{rows}]{{0}} get-tuple-element(s), index=2
  one = s32[] constant(1)
  nought = s32[] constant(0)
  zero = f32[] constant(0)
  row = f32[1,{n}]{{1,0}} dynamic-slice(x, i, nought), dynamic_slice_sizes={{1,{n}}}
  t = f32[1]{{0}} reduce(row, zero), dimensions={{1}}, to_apply=add
  u = f32[{rows}]{{0}} dynamic-update-slice(o, t, i)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[{rows},{n}]{{1,0}}, f32[{rows}]{{0}}) tuple(j, x, u)
}}
condition {{
  s = (s32[], f32[{rows},{n}]{{1,0}}, f32[{rows}]{{0}}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({rows})
  ROOT r = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  x = f32[{rows},{n}]{{1,0}} parameter(0)
  i = s32[] constant(0)
  zero = f32[] constant(0)
  o = f32[{rows}]{{0}} broadcast(zero), dimensions={{}}
  s = (s32[], f32[{rows},{n}]{{1,0}}, f32[{rows}]{{0}}) tuple(i, x, o)
  w = (s32[], f32[{rows},{n}]{{1,0}}, f32[{rows}]{{0}}) while(s), condition=condition, body=body
  ROOT r = f32[{rows}]{{0}} get-tuple-element(w), index=2
}}"""
    name = f"row sums in a loop f32[{rows}, {n}]"
    return Case(name, "f32", n, text, [("f32", (rows, n))], lambda x: np.sum(x, axis=1))
