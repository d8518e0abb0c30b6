"""Arrays in the runtime's memory: what programs return and take without a copy."""

from __future__ import annotations

import ctypes
from functools import cache
from math import prod
from typing import Any

import numpy as np

from hloom.base.diagnostics import HloError, UsageError
from hloom.runtime.native import library
from hloom.types.packing import pack, unpack
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes, dynamic_size_offset, packed_bits, size_bytes


@cache
def _arena_free() -> Any:
    return library().hl_arena_free


class OutOfMemoryError(HloError):
    """The machine, or the limit that was set, has no memory for a program's buffers."""


class ArenaMemory:
    """Memory of the process's arena, given back when nobody holds it any more."""

    __slots__ = ("__weakref__", "_free", "address", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        native = library()
        self._free = native.hl_arena_free
        address = native.hl_arena_alloc(None, size_bytes)
        if not address:
            raise OutOfMemoryError(
                f"no memory for a buffer of {size_bytes:,} bytes",
                rule="out-of-memory",
                hint="free buffers, or use smaller shapes; `exe.memory` shows what a run needs",
            )
        self.address: int = address
        self.size_bytes = size_bytes

    @classmethod
    def owned(cls, address: int, size_bytes: int) -> ArenaMemory:
        """Memory that the runtime has handed out."""
        memory = cls.__new__(cls)
        memory._free, memory.address, memory.size_bytes = _arena_free(), address, size_bytes
        return memory

    def passed_on(self) -> None:
        """Somebody else owns the memory from here on."""
        self.address = 0

    def __del__(self) -> None:
        address = getattr(self, "address", 0)
        if address:
            self._free(None, address)
            self.address = 0

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.size_bytes,),
            "typestr": "|u1",
            "data": (self.address, False),
            "version": 3,
        }


class Buffer:
    """A dense array that a program returned. `np.asarray` shows it without a copy.

    `shape` is its HLO shape. A donated or deleted buffer has no elements any more, and says so.
    """

    __slots__ = ("_memory", "_offset", "shape")

    def __init__(self, shape: Shape, memory: ArenaMemory, offset: int = 0) -> None:
        self.shape = shape
        self._memory: ArenaMemory | None = memory
        self._offset = offset

    @staticmethod
    def empty(shape: Shape) -> Buffer:
        """A buffer of a shape with any values in it, which `numpy()` lets one write."""
        return Buffer(shape, ArenaMemory(size_bytes(shape)))

    @staticmethod
    def of(array: np.ndarray[Any, Any], shape: Shape) -> Buffer:
        """The elements of an array in a buffer of their own, in the layout of a shape."""
        return Buffer(shape, copied(array, shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of the elements."""
        return self.shape.dtype.numpy

    @property
    def sizes(self) -> tuple[int, ...]:
        """The actual sizes of the dimensions."""
        shape = self.shape
        if not shape.is_dynamic:
            return shape.dims
        raw = np.asarray(self._alive())[self._offset :]
        sizes_ = []
        for d, bound in enumerate(shape.dims):
            if shape.is_dynamic_dim(d):
                at = dynamic_size_offset(shape, d)
                sizes_.append(int(raw[at : at + 4].view(np.int32)[0]))
            else:
                sizes_.append(bound)
        return tuple(sizes_)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements; of those that the bounds allow, where sizes are of run time."""
        return data_bytes(self.shape)

    @property
    def is_deleted(self) -> bool:
        return self._memory is None

    @property
    def address(self) -> int:
        """Where the first element is."""
        return self._alive().address + self._offset

    def delete(self) -> None:
        """Give the memory back (once no array made of it is left)."""
        self._memory = None

    def take(self) -> ArenaMemory:
        """The memory, for a program that was given this buffer for good."""
        memory = self._alive()
        self._memory = None
        return memory

    def restore(self, memory: ArenaMemory) -> None:
        """Have the memory again that was taken, as nobody has used it."""
        self._memory = memory

    def _alive(self) -> ArenaMemory:
        if self._memory is None:
            raise UsageError(
                f"this {self.shape.text} buffer was deleted or donated to a program",
                rule="deleted-buffer",
                hint="use what the program returned, or pass a copy: np.array(buffer)",
            )
        return self._memory

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as an array that shares the memory; of packed ones, a read-only copy."""
        try:
            return self._as_array()
        except ValueError as error:  # more than 64 dimensions; [2^32,0,2^32], of no elements
            raise UsageError(f"numpy has no array of shape {self.shape.text}: {error}") from error

    def _as_array(self) -> np.ndarray[Any, Any]:
        shape = self.shape
        sizes = self.sizes  # an array of run-time size is dense, whatever its bounds
        dtype = shape.dtype.numpy
        raw = np.asarray(self._alive())[self._offset :]
        if packed_bits(shape):
            array = unpacked(raw[: data_bytes(shape)], shape)
        else:
            array = raw[: prod(sizes) * dtype.itemsize].view(dtype)
        layout = shape.layout
        if layout is None or shape.rank < 2:
            return array.reshape(sizes)
        order = layout.minor_to_major[::-1]
        array = array.reshape([sizes[d] for d in order])
        return array.transpose([order.index(d) for d in range(shape.rank)])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.numpy().__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __len__(self) -> int:
        return self.sizes[0]

    def __getitem__(self, key: Any) -> Any:
        return self.numpy()[key]

    def __repr__(self) -> str:
        if self._memory is None:
            return f"<deleted Buffer {self.shape.text}>"
        if prod(self.shape.dims) > 1000:
            return f"<Buffer {self.shape.text}>"
        return f"<Buffer {self.shape.text} {self.numpy()!r}>"


def copied(array: np.ndarray[Any, Any], shape: Shape) -> ArenaMemory:
    """The elements of an array in new memory, in the layout of a shape.

    Behind the bound of an array of run-time size stand the sizes it has.
    """
    memory = ArenaMemory(size_bytes(shape))
    ordered = in_layout(array, shape)
    ctypes.memmove(memory.address, ordered.ctypes.data, ordered.nbytes)
    if shape.is_dynamic:
        sizes = np.array(array.shape, np.int32)
        place = memory.address + dynamic_size_offset(shape, 0)
        ctypes.memmove(place, sizes.ctypes.data, sizes.nbytes)
    return memory


def in_layout(array: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
    """The array with its elements in the order of the shape's layout, or its bytes where that says
    that they are packed; a copy only if needed."""
    layout = shape.layout
    if layout is not None and not layout.is_default and shape.rank > 1:
        array = array.transpose(layout.minor_to_major[::-1])
    if bits := packed_bits(shape):
        return pack(np.ascontiguousarray(array).reshape(-1), bits)
    return np.ascontiguousarray(array)


def unpacked(raw: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
    """The elements that packed bytes hold, flat and in the order of memory; read-only, as writing
    to them would change nothing there."""
    array = unpack(raw, shape.dtype.bits, shape.size).view(shape.dtype.numpy)
    array.flags.writeable = False
    return array
