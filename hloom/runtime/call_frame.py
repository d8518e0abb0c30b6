"""The call frame of a custom call, both ways: as C sees it, and as numpy arrays and attributes.

The structs are those of native/custom_call.h. Attributes are plain Python values with a type: what
a program says is kept exactly, so that a handler can be told that it asked for the wrong one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.types.attributes import Attribute, Typed
from hloom.types.dtype import BY_NAME, BY_NUMBER, TOKEN

STAGES = ("instantiate", "prepare", "initialize", "execute")
ARRAY, DICTIONARY, SCALAR, STRING = 1, 2, 3, 4


class ArgumentBuffer(ctypes.Structure):
    """hl_buffer."""

    _fields_ = [
        ("dtype", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
    ]


class RawAttribute(ctypes.Structure):
    """hl_attribute."""

    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_int64),
        ("kind", ctypes.c_int64),
        ("dtype", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("data", ctypes.c_void_p),
    ]


class RawCallFrame(ctypes.Structure):
    """hl_call_frame."""

    _fields_ = [
        ("operand_count", ctypes.c_int64),
        ("operands", ctypes.POINTER(ArgumentBuffer)),
        ("result_count", ctypes.c_int64),
        ("results", ctypes.POINTER(ArgumentBuffer)),
        ("attribute_count", ctypes.c_int64),
        ("attributes", ctypes.POINTER(RawAttribute)),
        ("stage", ctypes.c_int64),
        ("run_id", ctypes.c_int64),
        ("state", ctypes.POINTER(ctypes.c_void_p)),
        ("user", ctypes.c_void_p),
    ]


def typed(value: Any, dtype: str) -> Typed:
    """A number (or a list of them) as an attribute of the named element type."""
    kind = BY_NAME[dtype]
    array = np.asarray(value, kind.numpy)
    if array.ndim > 1:
        raise UsageError(f"an attribute is a number or a list of numbers, not rank {array.ndim}")
    return Typed(kind, array if array.ndim else array[()])


def view(buffer: ArgumentBuffer, writable: bool) -> np.ndarray:
    """The memory of a buffer as a row-major array; nothing is copied. A token has no elements."""
    if buffer.dtype == TOKEN.number:
        return np.empty(0, np.bool_)
    dtype = BY_NUMBER[buffer.dtype].numpy
    dims = tuple(buffer.dims[: buffer.rank])
    size_bytes = int(np.prod(dims, dtype=np.int64)) * dtype.itemsize
    if size_bytes == 0:
        return np.empty(dims, dtype)
    memory = memoryview((ctypes.c_char * size_bytes).from_address(buffer.data))
    array = np.frombuffer(memory, dtype).reshape(dims)
    array.flags.writeable = writable
    return array


def decoded(count: int, raw: Any) -> dict[str, Attribute]:
    """The attributes of a frame (or of a dictionary in it) by name; values are copies."""
    attributes_: dict[str, Attribute] = {}
    for k in range(count):
        a = raw[k]
        name = ctypes.string_at(a.name, a.name_size).decode()
        if a.kind == STRING:
            attributes_[name] = ctypes.string_at(a.data, a.count).decode(errors="surrogateescape")
        elif a.kind == DICTIONARY:
            entries = ctypes.cast(a.data, ctypes.POINTER(RawAttribute))
            attributes_[name] = decoded(a.count, entries)
        else:
            dtype = BY_NUMBER[a.dtype]
            many = 1 if a.kind == SCALAR else a.count
            data = ctypes.string_at(a.data, many * dtype.size_bytes) if many else b""
            values = np.frombuffer(data, dtype.numpy)
            attributes_[name] = Typed(dtype, values[0] if a.kind == SCALAR else values)
    return attributes_


class CallFrame:
    """A call frame made in Python, with everything that its pointers lead to.

    `operands` and `results` are row-major arrays, `attributes` as `decoded` gives them.
    """

    def __init__(
        self,
        operands: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        attributes: Mapping[str, Attribute],
        stage: str = "execute",
        run_id: int = 0,
        state: ctypes.c_void_p | None = None,
    ) -> None:
        self._alive: list[Any] = [operands, results]
        self.state = ctypes.c_void_p() if state is None else state
        self.raw = RawCallFrame(
            len(operands),
            self._buffers(operands),
            len(results),
            self._buffers(results),
            len(attributes),
            self._attributes(attributes),
            STAGES.index(stage),
            run_id,
            ctypes.pointer(self.state),
            None,
        )

    def _keep_alive(self, object_: Any) -> Any:
        self._alive.append(object_)
        return object_

    def _buffers(self, arrays: Sequence[np.ndarray]) -> Any:
        buffers = self._keep_alive((ArgumentBuffer * len(arrays))())
        for buffer, array in zip(buffers, arrays):
            if not array.flags.c_contiguous:
                raise UsageError("the buffers of a custom call are row-major arrays")
            dims = self._keep_alive((ctypes.c_int64 * array.ndim)(*array.shape))
            buffer.dtype, buffer.rank = number_of(array.dtype), array.ndim
            buffer.dims = ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64))
            buffer.data = array.ctypes.data
        return ctypes.cast(buffers, ctypes.POINTER(ArgumentBuffer))

    def _attributes(self, attributes: Mapping[str, Attribute]) -> Any:
        raw_attributes = self._keep_alive((RawAttribute * len(attributes))())
        for raw, (name, value) in zip(raw_attributes, attributes.items()):
            letters = self._keep_alive(ctypes.create_string_buffer(name.encode()))
            raw.name, raw.name_size = ctypes.addressof(letters), len(letters) - 1
            if isinstance(value, str):
                data = self._keep_alive(
                    ctypes.create_string_buffer(value.encode(errors="surrogateescape"))
                )
                raw.kind, raw.count, raw.data = STRING, len(data) - 1, ctypes.addressof(data)
            elif isinstance(value, Typed):
                numbers = self._keep_alive(np.array(value.value, value.dtype.numpy, ndmin=1))
                is_scalar = np.ndim(value.value) == 0
                raw.kind = SCALAR if is_scalar else ARRAY
                raw.dtype, raw.count = value.dtype.number, numbers.size
                raw.data = numbers.ctypes.data
            else:
                raw.kind, raw.count = DICTIONARY, len(value)
                raw.data = ctypes.cast(self._attributes(value), ctypes.c_void_p).value
        return ctypes.cast(raw_attributes, ctypes.POINTER(RawAttribute))


_NUMBERS = {dtype.numpy: dtype.number for dtype in BY_NUMBER.values() if dtype.is_array_element}


def number_of(dtype: np.dtype[Any]) -> int:
    """The number of a numpy type in the protobuf enum."""
    if dtype not in _NUMBERS:
        raise UsageError(f"no element type of HLO is numpy's {dtype}")
    return _NUMBERS[dtype]
