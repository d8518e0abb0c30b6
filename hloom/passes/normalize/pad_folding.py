"""Padding folded into the windows of what reads it: convolution and reduce-window.

Both say in their window how far it goes beyond the operand, where a convolution sees zeros and a
reduce-window its initial value. A `pad` of the same value is that window on what was padded, and
elements put between are the dilation of the base.
"""

from __future__ import annotations

from dataclasses import replace

from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import PaddingDimension
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register


@register
class PadFolding(Expander):
    """Let convolutions and reduce-windows pad by their windows."""

    name = "pad-folding"
    opcodes = frozenset(["convolution", "reduce-window"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x = i.operands[0]
        if x.opcode != "pad" or len(i.operands) != 2 or x.shape.is_dynamic or not x.shape.size:
            return None
        padding = x.attrs.padding.dimensions
        if i.opcode == "convolution":
            if not (_is_zero(x.operands[1]) and _only(padding, _spatial(i))):
                return None
            walked = _spatial(i)
        else:
            if not _same_scalar(x.operands[1], i.operands[1]):
                return None
            walked = tuple(range(x.shape.rank))
        if not x.operands[0].shape.size:
            return None
        rows = [
            _widened(w, padding[d]) for w, d in zip(i.attrs.window.dimensions, walked, strict=True)
        ]
        padded = tuple([w for w in rows if w is not None])
        if len(padded) < len(rows):
            return None
        replacement = b.like(i, x.operands[0], *i.operands[1:])
        replacement.attrs = replace(i.attrs, window=Window(padded))
        return replacement


def _spatial(conv: Instruction) -> tuple[int, ...]:
    return tuple(conv.attrs.dim_labels.input_spatial_dimensions)


def _only(padding: tuple[PaddingDimension, ...], dims: tuple[int, ...]) -> bool:
    """Whether no other dimensions than these are padded."""
    none = PaddingDimension(0, 0)
    return all(p == none for d, p in enumerate(padding) if d not in dims)


def _is_zero(v: Instruction) -> bool:
    return v.opcode == "constant" and v.attrs.literal.is_zero


def _same_scalar(v: Instruction, w: Instruction) -> bool:
    """Whether two scalars are certainly one value."""
    if v is w:
        return True
    return v.opcode == w.opcode == "constant" and v.attrs.literal == w.attrs.literal


def _widened(w: WindowDimension, p: PaddingDimension) -> WindowDimension | None:
    """A dimension of the window over what was padded; None where elements are put between twice,
    or zeros in the place of elements that were taken away."""
    if p == PaddingDimension(0, 0):
        return w
    low, high = p.edge_padding_low, p.edge_padding_high
    if w.base_dilation != 1 or (low < 0 < w.padding_low) or (high < 0 < w.padding_high):
        return None
    return replace(
        w,
        padding_low=w.padding_low + low,
        padding_high=w.padding_high + high,
        base_dilation=1 + p.interior_padding,
    )
