"""Long sliding windows in a time that does not grow with the window (van Herk, Gil and Werman).

Each dimension of a window is folded by itself, and a long one in blocks of one element less than
the window: from any place it takes what is left of its block, and of the next block as much as is
missing. Both are cumulative folds.

    y[i] = fold(x[i : i + n])  =>  b = reshape(x): [k, n - 1]
                                   y[i] = f(from the end within b: [i], within b: [i + n - 1])

Sums are of the same numbers in another order, in chains no longer than before.
"""

from __future__ import annotations

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import Padding
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.tree_reduction_rewriter import fold_opcode
from hloom.passes.pass_ import register
from hloom.types.dtype import DType
from hloom.types.limits import max_value, min_value
from hloom.types.shape import shape

LONG = 12
"""Shorter windows are folded as they are."""


@register
class SlidingWindowRewriter(Expander):
    """Fold long windows by cumulative folds of blocks, and each dimension by itself."""

    name = "sliding-window-rewriter"
    opcodes = frozenset(["reduce-window"])

    def wants(self, i: Instruction) -> bool:
        return len(i.operands) == 2 and any(_is_long(w) for w in i.attrs.window.dimensions)

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, initial = i.operands
        kind = fold_opcode(i.called[0])
        plain = x.shape.is_static and i.shape.is_static and 0 not in (*x.shape.dims, *i.shape.dims)
        if not plain or kind is None or not is_neutral(initial, kind, x.shape.dtype):
            return None
        return None if _is_cumulative(i) else _folded(b, i, kind)


def is_neutral(initial: Instruction, kind: str, of: DType, is_cut: bool = True) -> bool:
    """Whether what a fold begins with changes nothing; where it is cut and joined (`is_cut`), also
    that what is joined was not rounded to a narrow type."""
    if initial.opcode != "constant" or of.is_complex or of.is_pred or initial.shape.dtype is not of:
        return False
    if is_cut and kind in ("add", "multiply") and of.is_floating and of.bits < 32:
        return False
    value = initial.attrs.literal.array
    neutral = {"add": 0, "multiply": 1}.get(kind)
    if neutral is None:
        neutral = min_value(of) if kind == "maximum" else max_value(of)
    return bool(value == neutral)


def _is_cumulative(i: Instruction) -> bool:
    """Whether every window holds all before it (or after it): there are kernels for that."""
    dims, sizes = i.attrs.window.dimensions, i.operands[0].shape.dims
    return any(w.size >= n > 1 for w, n in zip(dims, sizes))


def _is_long(w: WindowDimension) -> bool:
    return w.size >= LONG and w.window_dilation == 1 and w.base_dilation == 1 and w.stride == 1


def _folded(b: Expansion, i: Instruction, kind: str) -> Instruction:
    """One dimension after the other, those that leave least first."""
    y, initial = i.operands
    dims = i.attrs.window.dimensions
    order = [d for d, w in enumerate(dims) if not w.is_trivial]
    for d in sorted(order, key=lambda d: -dims[d].stride):
        y = _along(b, y, initial, i.called[0], kind, d, dims[d])
    return y


def _along(
    b: Expansion,
    x: Instruction,
    initial: Instruction,
    combiner: Computation,
    kind: str,
    d: int,
    w: WindowDimension,
) -> Instruction:
    """The windows of `x` along one dimension."""

    def windowed(y: Instruction, axis: int, of: WindowDimension, length: int) -> Instruction:
        windows = [WindowDimension(1)] * y.shape.rank
        windows[axis] = of
        sizes = list(y.shape.dims)
        sizes[axis] = length
        return b.emit(
            "reduce-window",
            y,
            initial,
            window=Window(tuple(windows)),
            called=(combiner,),
            shape=shape(y.shape.dtype, sizes),
        )

    dims = x.shape.dims
    if not _is_long(w):
        return windowed(x, d, w, w.output_size(dims[d]))
    size = w.size - 1
    total = dims[d] + w.padding_low + w.padding_high
    count = -(-total // size)
    edges = [(0, 0)] * len(dims)
    edges[d] = (w.padding_low, w.padding_high + count * size - total)
    padding = Padding.of(*edges)
    filled = x if padding.is_none else b.emit("pad", x, initial, padding=padding)
    blocks = b.reshaped(filled, [*dims[:d], count, size, *dims[d + 1 :]])
    whole = [*dims[:d], count * size, *dims[d + 1 :]]
    before = WindowDimension(size, padding_low=size - 1)
    after = WindowDimension(size, padding_high=size - 1)
    up_to = b.reshaped(windowed(blocks, d + 1, before, size), whole)
    since = b.reshaped(windowed(blocks, d + 1, after, size), whole)
    length = total - size
    left = b.sliced(since, d, 0, length)
    right = b.sliced(up_to, d, size, size + length)
    return b.emit(kind, left, right, shape=left.shape)
