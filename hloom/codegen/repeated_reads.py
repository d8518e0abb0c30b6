"""Reads of which neighbours along an axis are the same element: each is read once, and repeated.

Elements of four bits lie two to a byte, so that two neighbours read one byte; nearest neighbours of
a larger picture are alike. Along the last axis a gather of known distances does it in one shuffle;
along others it would read lane by lane, where whole rows can be read and named twice.
"""

from __future__ import annotations

from hloom.codegen.affine import Affine
from hloom.codegen.tile_shape import wants_transposed
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Value


def repeated_axis(offset: Affine, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """The axis, of those before the last, along which so many neighbours in turn are one element,
    their number, and the stride from such an element to the next; None where it is not so."""
    divided = [(s, c) for s, c in offset.terms if s.axis is None and s.axes]
    if len(divided) != 1:
        return None
    symbol, stride = divided[0]
    if symbol.origin is None:
        return None
    kind, lane, by = symbol.origin
    if kind != "div" or lane.const or len(lane.terms) != 1 or lane.terms[0][1] != 1:
        return None
    axis = lane.terms[0][0].axis
    if axis is None or axis >= len(shape) - 1 or shape[axis] % by or offset.coefficient(axis):
        return None
    return axis, by, stride


def load_repeated(
    b: KernelBuilder, buffer: Value, base: Value, offset: Affine, shape: tuple[int, ...]
) -> Value:
    """The tile that `repeated_axis` found; `base` is the offset of its first element."""
    repeated = repeated_axis(offset, shape)
    assert repeated is not None, "the caller has asked"
    axis, by, stride = repeated
    strides = [offset.coefficient(a) for a in range(len(shape))]
    strides[axis] = stride
    few = (*shape[:axis], shape[axis] // by, *shape[axis + 1 :])
    if wants_transposed(few, tuple(strides)):
        value = b.transpose(b.load(buffer, base, few[::-1], tuple(strides[::-1])), (1, 0))
    else:
        value = b.load(buffer, base, few, tuple(strides))
    apart = (*few[: axis + 1], 1, *few[axis + 1 :])
    together = (*few[: axis + 1], by, *few[axis + 1 :])
    return b.reshape(b.broadcast(b.reshape(value, apart), together), shape)
