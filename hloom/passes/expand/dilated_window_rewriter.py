"""Windows as long as the elements of an array were moved apart: each holds one element.

The gradient of a mean over 2x2 places that do not overlap is such a sum: zeros are put between the
elements, and every window of 2x2 meets one of them. So the elements are repeated:

    y = fold of windows of n (x, n - 1 filled in between)
        =>  y[i] = x[(i + n - 1 - low) / n], or what the fold begins with where that is outside
"""

from __future__ import annotations

from dataclasses import replace

from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import Padding
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.sliding_window_rewriter import is_neutral
from hloom.passes.expand.tree_reduction_rewriter import fold_opcode
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class DilatedWindowRewriter(Expander):
    """Repeat the elements that windows of a dilated array meet one at a time."""

    name = "dilated-window-rewriter"
    opcodes = frozenset(["reduce-window"])

    def wants(self, i: Instruction) -> bool:
        return len(i.operands) == 2 and any(_meets_one(w) for w in i.attrs.window.dimensions)

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, initial = i.operands
        kind = fold_opcode(i.called[0])
        plain = x.shape.is_static and i.shape.is_static and 0 not in (*x.shape.dims, *i.shape.dims)
        of = x.shape.dtype
        if not plain or kind is None or not is_neutral(initial, kind, of):
            return None
        dims = list(i.attrs.window.dimensions)
        for d, w in enumerate(dims):
            if _meets_one(w):
                x = _repeated(b, x, initial, d, w)
                dims[d] = WindowDimension(1)
        if all(w.is_trivial for w in dims):
            return x
        window = Window(tuple(dims))
        called = (i.called[0],)
        return b.emit("reduce-window", x, initial, window=window, called=called, shape=i.shape.bare)


def _meets_one(w: WindowDimension) -> bool:
    apart = w.base_dilation
    return apart > 1 and replace(w, padding_low=0, padding_high=0) == WindowDimension(
        apart, base_dilation=apart
    )


def _repeated(
    b: Expansion, x: Instruction, initial: Instruction, d: int, w: WindowDimension
) -> Instruction:
    """The folds along one dimension."""
    dims, n = x.shape.dims, w.size
    split = (*dims[: d + 1], n, *dims[d + 1 :])
    kept = tuple([k for k in range(len(split)) if k != d + 1])
    apart = b.emit("broadcast", x, dimensions=kept, shape=shape(x.shape.dtype, split))
    total = dims[d] * n
    y = b.reshaped(apart, [*dims[:d], total, *dims[d + 1 :]])
    start = n - 1 - w.padding_low
    end = start + w.output_size(dims[d])
    inside = (max(start, 0), min(end, total))
    if inside[0] >= inside[1]:  # padding everywhere
        sizes = (*dims[:d], end - start, *dims[d + 1 :])
        return b.emit("broadcast", initial, dimensions=(), shape=shape(x.shape.dtype, sizes))
    y = b.sliced(y, d, *inside)
    edges = [(0, 0)] * len(dims)
    edges[d] = (inside[0] - start, end - inside[1])
    padding = Padding.of(*edges)
    return y if padding.is_none else b.emit("pad", y, initial, padding=padding)
