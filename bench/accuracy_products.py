"""The products of `bench.accuracy`: dots, convolutions, gradients, attention."""

from __future__ import annotations

import numpy as np

from bench.accuracy_cases import Case, combiner, shown


def dot(
    dtype: str, m: int, k: int, n: int, form: str = "mk,kn", batch: int = 0, out: str | None = None
) -> Case:
    """A product of matrices; `form` says how the operands lie, as 'mk,kn' or 'km,nk'."""
    out = out or dtype
    sizes = {"m": m, "k": k, "n": n, "b": batch}
    left, right = form.split(",")
    front = "b" if batch else ""
    dims = [tuple([sizes[c] for c in front + side]) for side in (left, right)]
    shift = len(front)
    attributes = (
        f"lhs_contracting_dims={{{left.index('k') + shift}}}, "
        f"rhs_contracting_dims={{{right.index('k') + shift}}}"
    )
    if batch:
        attributes += ", lhs_batch_dims={0}, rhs_batch_dims={0}"
    result = [sizes[c] for c in front + "mn"]
    text = f"""HloModule product
ENTRY e {{
  x = {shown(dtype, dims[0])} parameter(0)
  y = {shown(dtype, dims[1])} parameter(1)
  ROOT r = {shown(out, result)} dot(x, y), {attributes}
}}"""

    def value(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.einsum(f"{front}{left},{front}{right}->{front}mn", x, y, optimize=True)

    name = f"dot {dtype} {form} m={m} k={k} n={n}" + (f" b={batch}" if batch else "")
    name += f" to {out}" if out != dtype else ""
    return Case(name, out, k, text, [(dtype, dims[0]), (dtype, dims[1])], value)


def weight_gradient(images: int, size: int, ci: int, co: int) -> Case:
    """The gradient of a 3 by 3 convolution's weights: sums over all places of all images."""
    x, g = (images, size, size, ci), (images, size, size, co)
    text = f"""HloModule gradient
ENTRY e {{
  x = {shown("f32", x)} parameter(0)
  g = {shown("f32", g)} parameter(1)
  ROOT r = f32[3,3,{ci},{co}]{{3,2,1,0}} convolution(x, g),
    window={{size={size}x{size} pad=1_1x1_1}}, dim_labels=f01b_i01o->01bf
}}"""

    def value(x: np.ndarray, g: np.ndarray) -> np.ndarray:
        padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
        found = np.empty((3, 3, ci, co))
        flat = g.reshape(-1, co)
        for i in range(3):
            for j in range(3):
                found[i, j] = padded[:, i : i + size, j : j + size].reshape(-1, ci).T @ flat
        return found

    name = f"weight gradient {images}x{size}x{size} {ci} to {co}"
    return Case(name, "f32", images * size * size, text, [("f32", x), ("f32", g)], value)


def depthwise_gradient(images: int, size: int, channels: int) -> Case:
    """The gradient of a depthwise convolution's weights."""
    x = (images, size, size, channels)
    text = f"""HloModule gradient
ENTRY e {{
  x = {shown("f32", x)} parameter(0)
  g = {shown("f32", x)} parameter(1)
  ROOT r = f32[3,3,1,{channels}]{{3,2,1,0}} convolution(x, g),
    window={{size={size}x{size} pad=1_1x1_1}}, dim_labels=f01b_i01o->01bf,
    batch_group_count={channels}
}}"""

    def value(x: np.ndarray, g: np.ndarray) -> np.ndarray:
        padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
        found = np.empty((3, 3, 1, channels))
        for i in range(3):
            for j in range(3):
                part = padded[:, i : i + size, j : j + size]
                found[i, j, 0] = np.sum(part * g, axis=(0, 1, 2))
        return found

    name = f"depthwise gradient {images}x{size}x{size}x{channels}"
    return Case(name, "f32", images * size * size, text, [("f32", x), ("f32", x)], value)


def convolution(size: int, taps: int, ci: int, co: int) -> Case:
    """A convolution along one dimension with many taps."""
    out = size - taps + 1
    text = f"""HloModule taps
ENTRY e {{
  x = f32[1,{size},{ci}]{{2,1,0}} parameter(0)
  w = f32[{taps},{ci},{co}]{{2,1,0}} parameter(1)
  ROOT r = f32[1,{out},{co}]{{2,1,0}} convolution(x, w),
    window={{size={taps}}}, dim_labels=b0f_0io->b0f
}}"""

    def value(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        view = np.lib.stride_tricks.sliding_window_view(x[0], taps, 0)
        return np.einsum("pct,tco->po", view, w, optimize=True)[None]

    name = f"convolution of {taps} taps, {ci} to {co}"
    given = [("f32", (1, size, ci)), ("f32", (taps, ci, co))]
    return Case(name, "f32", taps * ci, text, given, value)


def attention(rows: int, keys: int, width: int) -> Case:
    """softmax(q k^T) v."""
    of = f"f32[1,{rows},{keys}]{{2,1,0}}"
    text = f"""HloModule attention
{combiner("f32")}{combiner("f32", "maximum")}
ENTRY e {{
  q = f32[1,{rows},{width}]{{2,1,0}} parameter(0)
  k = f32[1,{keys},{width}]{{2,1,0}} parameter(1)
  v = f32[1,{keys},{width}]{{2,1,0}} parameter(2)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  s = {of} dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  m = f32[1,{rows}]{{1,0}} reduce(s, low), dimensions={{2}}, to_apply=maximum
  ms = {of} broadcast(m), dimensions={{0,1}}
  c = {of} subtract(s, ms)
  ex = {of} exponential(c)
  t = f32[1,{rows}]{{1,0}} reduce(ex, zero), dimensions={{2}}, to_apply=add
  ts = {of} broadcast(t), dimensions={{0,1}}
  p = {of} divide(ex, ts)
  ROOT r = f32[1,{rows},{width}]{{2,1,0}} dot(p, v), lhs_batch_dims={{0}},
    rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}"""

    def value(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        s = q[0] @ k[0].T
        p = np.exp(s - s.max(axis=1, keepdims=True))
        return (p @ v[0] / p.sum(axis=1, keepdims=True))[None]

    given = [("f32", (1, rows, width)), ("f32", (1, keys, width)), ("f32", (1, keys, width))]
    case = Case(f"attention over {keys} keys", "f32", keys, text, given, value)
    case.magnitude = lambda q, k, v: value(q, k, np.abs(v))
    return case
