"""Convolutions without the places of their window that see nothing but padding.

A filter whose places are as far apart as the image is large (an atrous pyramid: 3 x 3 places, 24
apart, on 16 x 16) has places that are outside of the image wherever the window stands. Zeros are
multiplied there. The window begins behind them and ends before them instead, and of the filter a
slice is read.
"""

from __future__ import annotations

from dataclasses import replace

from hloom.ir.instruction import Instruction
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register


@register
class WindowTrimmer(Expander):
    """Leave out places of a convolution's window that are outside of its operand everywhere."""

    name = "window-trimmer"
    opcodes = frozenset(["convolution"])

    def wants(self, i: Instruction) -> bool:
        return any(w.padding_low > 0 or w.padding_high > 0 for w in i.attrs.window.dimensions)

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, kernel = i.operands
        labels, dims = i.attrs.dim_labels, list(i.attrs.window.dimensions)
        if x.shape.is_dynamic or i.shape.is_dynamic or not (x.shape.size and i.shape.size):
            return None
        for k, w in enumerate(dims):
            n, out = (
                s.dims[d[k]]
                for s, d in (
                    (x.shape, labels.input_spatial_dimensions),
                    (i.shape, labels.output_spatial_dimensions),
                )
            )
            first, end = seen_places(w, n, out)
            if (first, end) == (0, w.size):
                continue
            dims[k] = trimmed(w, first, end)
            if w.window_reversal:
                first, end = w.size - end, w.size - first
            kernel = b.sliced(kernel, labels.kernel_spatial_dimensions[k], first, end)
        if kernel is i.operands[1]:
            return None
        replacement = b.like(i, x, kernel)
        replacement.attrs = replace(i.attrs, window=Window(tuple(dims)))
        return replacement


def seen_places(w: WindowDimension, size: int, out: int) -> tuple[int, int]:
    """The first place of a window, in the order in which it lies, that is somewhere on an element
    of the operand, and the one behind the last such; one place where there is none."""
    reach = (size - 1) * w.base_dilation
    first = -(((out - 1) * w.stride - w.padding_low) // w.window_dilation)
    last = (reach + w.padding_low) // w.window_dilation
    first, last = max(first, 0), min(last, w.size - 1)
    return (first, last + 1) if first <= last else (0, 1)


def trimmed(w: WindowDimension, first: int, end: int) -> WindowDimension:
    """The window from one of its places to another."""
    return replace(
        w,
        size=end - first,
        padding_low=w.padding_low - first * w.window_dilation,
        padding_high=w.padding_high - (w.size - end) * w.window_dilation,
        window_dilation=w.window_dilation if end - first > 1 else 1,
    )
