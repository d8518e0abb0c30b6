"""The bits of arrays: packing of narrow elements into bytes, and reading bits as another type.

Narrow elements live unpacked in numpy, one per byte, in the low bits. Packed, the first element
takes the lowest bits of the first byte and the last byte is filled up with zeros. All of
it works on whole arrays; no function here loops over elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.types.dtype import DType

# Elements that are packed at once: they stay in a cache.
_PIECE = 1 << 17
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.uint64}


def bits_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements as flat unsigned integers of their width; c128 gives two words each."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(_UNSIGNED[flat.dtype.itemsize])


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays have one type, one shape and the same bits (NaN payloads, -0.0)."""
    return a.dtype == b.dtype and a.shape == b.shape and bool((bits_of(a) == bits_of(b)).all())


def packed_size(count: int, bits: int) -> int:
    """Bytes that `count` elements of `bits` (1, 2 or 4) take when packed."""
    return (count * bits + 7) // 8


def pack(values: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Bytes that hold the low `bits` (1, 2 or 4) of each byte of a flat array, in order."""
    if bits not in (1, 2, 4):
        raise UsageError(f"elements of {bits} bits cannot be packed")
    flat, per_byte = np.ascontiguousarray(values).reshape(-1).view(np.uint8), 8 // bits
    whole = flat.size - flat.size % per_byte
    packed = np.empty(packed_size(flat.size, bits), np.uint8)
    _put_together(flat[:whole], bits, packed)
    if whole < flat.size:
        last = np.zeros(per_byte, np.uint8)
        last[: flat.size - whole] = flat[whole:]
        _put_together(last, bits, packed[-1:])
    return packed


def _put_together(flat: np.ndarray[Any, Any], bits: int, packed: np.ndarray[Any, Any]) -> None:
    """`pack` of whole bytes: the elements of one are a word, whose halves come together again and
    again."""
    per_byte = 8 // bits
    words = flat.view(f"<u{per_byte}")
    low = words.dtype.type(sum(((1 << bits) - 1) << (8 * k) for k in range(per_byte)))
    for begin in range(0, words.size, _PIECE // per_byte):
        part = words[begin : begin + _PIECE // per_byte] & low
        for step in range(per_byte.bit_length() - 1):
            part |= part >> words.dtype.type((8 - bits) << step)
        np.copyto(packed[begin : begin + part.size], part, casting="unsafe")


def unpack(packed: np.ndarray[Any, Any], bits: int, count: int) -> np.ndarray[Any, Any]:
    """The first `count` elements of packed bytes, one per byte in its low bits."""
    if bits not in (1, 2, 4):
        raise UsageError(f"elements of {bits} bits cannot be packed")
    if packed.size < packed_size(count, bits):
        raise UsageError(f"{packed.size} bytes are too few for {count} elements of {bits} bits")
    per_byte, mask = 8 // bits, np.uint8((1 << bits) - 1)
    used = packed[: packed_size(count, bits)]
    apart = np.empty(used.size * per_byte, np.uint8)
    for k in range(per_byte):
        apart[k::per_byte] = (used >> np.uint8(k * bits)) & mask
    return apart[:count]


def dense_bytes(array: np.ndarray[Any, Any], dtype: DType, packed: bool = True) -> bytes:
    """Little-endian row-major bytes; types of 1, 2 and 4 bits packed unless told otherwise.

    Six-bit floats always take a byte each.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if packed and dtype.bits in (1, 2, 4):
        return pack(flat.view(np.uint8), dtype.bits).tobytes()
    if np.little_endian:
        return flat.tobytes()
    width = dtype.component.size_bytes
    return flat.view(np.dtype(f"u{width}")).byteswap().tobytes()


def from_dense_bytes(
    data: bytes | memoryview, dtype: DType, dims: tuple[int, ...], packed: bool = True
) -> np.ndarray[Any, Any]:
    """The array that `dense_bytes` wrote; a wrong number of bytes is a `UsageError`."""
    count = int(np.prod(dims, dtype=object))
    narrow = dtype.bits in (1, 2, 4)
    size = packed_size(count, dtype.bits) if narrow and packed else count * dtype.size_bytes
    if len(data) != size:
        raise UsageError(f"{dtype.name}{list(dims)} takes {size} bytes, not {len(data)}")
    raw = np.frombuffer(data, np.uint8)
    if narrow:
        raw = unpack(raw, dtype.bits, count) if packed else raw & np.uint8((1 << dtype.bits) - 1)
    elif dtype.bits == 6:
        raw = raw & np.uint8(63)
    elif dtype.is_pred:
        raw = (raw != 0).view(np.uint8)
    elif not np.little_endian:
        raw = raw.view(np.dtype(f"u{dtype.component.size_bytes}")).byteswap()
    return raw.copy().view(dtype.numpy).reshape(dims)


def bitcast_array(
    array: np.ndarray[Any, Any], from_dtype: DType, to_dtype: DType
) -> np.ndarray[Any, Any]:
    """The same bits read as another type, as `bitcast-convert` defines it.

    To a narrower type a last dimension appears (first part: lowest bits), to a wider type the
    last dimension, which must be as long as the ratio, goes away.
    """
    wide, narrow = from_dtype.bits, to_dtype.bits
    if wide == narrow:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return _as_type(flat, to_dtype).reshape(array.shape)
    ratio, rest = divmod(max(wide, narrow), min(wide, narrow))
    if rest:
        raise UsageError(f"no bitcast between {from_dtype.name} and {to_dtype.name}")
    if wide > narrow:
        dims = (*array.shape, ratio)
    else:
        if not array.shape or array.shape[-1] != ratio:
            raise UsageError(
                f"a bitcast from {from_dtype.name} to {to_dtype.name} needs a last dimension "
                f"of size {ratio}, not the shape {list(array.shape)}"
            )
        dims = array.shape[:-1]
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if wide < 8 and narrow < 8:
        raw = _regrouped(raw, wide, narrow)
    elif wide < 8:
        raw = pack(raw, wide)
    elif narrow < 8:
        raw = unpack(raw, narrow, raw.size * 8 // narrow)
    return _as_type(raw, to_dtype).reshape(dims)


def _as_type(raw: np.ndarray[Any, Any], to_dtype: DType) -> np.ndarray[Any, Any]:
    if to_dtype.is_pred:
        return raw != 0
    return raw.view(to_dtype.numpy)


def _regrouped(raw: np.ndarray[Any, Any], wide: int, narrow: int) -> np.ndarray[Any, Any]:
    """Bytes holding `wide` bits each as bytes holding `narrow` bits each, both below 8."""
    count = raw.size * wide // narrow
    return unpack(pack(raw, wide), narrow, count)
