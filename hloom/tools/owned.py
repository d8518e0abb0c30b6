"""Arguments in the runtime's own memory, which a program may take for good.

Why: a program that returns its parameters in place (a training step, a cache of keys) takes the
memory of buffers that nobody else holds. Arrays of numpy's would be copied first, and weights of
15 GB then need 30.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hloom import api


class OwnedMemory:
    """Makes arrays in buffers of the runtime, and hands those buffers over to a program."""

    def __init__(self) -> None:
        self._buffers: dict[int, api.Buffer] = {}

    def empty(self, shape: api.Shape, sizes: tuple[int, ...]) -> np.ndarray:
        """An array with any values; in a buffer of its own where it is dense and row-major, each
        element at an address."""
        if not _is_plain(shape):
            return np.empty(sizes, shape.dtype.numpy)
        buffer = api.Buffer.empty(shape)
        self._buffers[buffer.address] = buffer
        return buffer.numpy()

    def handed_over(self, exe: api.Executable, arguments: Sequence[api.Literal]) -> tuple[Any, ...]:
        """The arguments, those in a buffer as that buffer: a program that returns one in place
        deletes it."""
        shapes = iter([p.shape for p in exe.program.parameters])
        return tuple([self._owned(a, shapes) for a in arguments])

    def _owned(self, literal: api.Literal, shapes: Iterator[api.Shape]) -> Any:
        if literal.is_tuple:
            return tuple([self._owned(part, shapes) for part in literal.elements])
        if not literal.shape.is_array:
            return literal
        shape = next(shapes)
        buffer = self._buffers.pop(literal.array.ctypes.data, None) if _is_plain(shape) else None
        return literal if buffer is None else api.Buffer(shape, buffer.take())


def _is_plain(shape: api.Shape) -> bool:
    in_rows = shape.rank < 2 or shape.layout is None or shape.layout.is_default
    return in_rows and not shape.is_dynamic and not shape.dtype.is_sub_byte
