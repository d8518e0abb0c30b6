"""Dimensions that both operands of a convolution and its result share, like the batch of a dot.

HLO's convolutions name no such dimensions, but a window can be one: the input's elements moved
apart by their number n and a stride of n - 1 let element k of the window meet an element of the
input only where k is the number of the result, and that element is the one with this number:
position o * (n - 1) + k is a multiple of n for k = o alone, and then it is o * n.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.window import WindowDimension


def shared_window(size: int) -> WindowDimension:
    """The window along a dimension of this size (at least 2) that is shared."""
    return WindowDimension(size, stride=size - 1, base_dilation=size)


def is_shared(w: WindowDimension) -> bool:
    """Whether a dimension of a window says that its dimension is shared, if the input's size is
    the window's."""
    return w.size > 1 and w == shared_window(w.size)


def shared_parts(conv: Instruction) -> int:
    """The size of the first spatial dimension if it is shared; 1 otherwise."""
    dims = conv.attrs.window.dimensions
    if not dims or not is_shared(dims[0]):
        return 1
    base = conv.operands[0].shape.dims[conv.attrs.dim_labels.input_spatial_dimensions[0]]
    return base if base == dims[0].size else 1
