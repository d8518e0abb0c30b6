# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""The values of `dense<...>` attributes.

The bindings hand out the bytes of types that numpy itself has. The others (bf16, the small
floats, two- and four-bit integers, complex numbers) come as text: numbers, or for long constants
the bytes in hexadecimal digits, of which both are read here.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hloom.frontends.stablehlo.bindings import ir
from hloom.types.convert import converted
from hloom.types.dtype import S64, DType
from hloom.types.literal import Literal
from hloom.types.shape import Shape

_VALUE = re.compile(r"dense<(.*)> : ", re.S)
_BLOB = re.compile(r"dense_resource<([^>]*)>")
_RESOURCE = re.compile(r'([\w.$-]+)"?: "0x([0-9A-Fa-f]*)"')
_NUMBER = re.compile(r"[^\[\](),\s]+")
_IN_NUMPY = frozenset("pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64".split())
_ALIGNMENT_DIGITS = 8
"""A blob starts with its alignment, four bytes."""


def literal_of(attribute: Any, shape_: Shape) -> Literal:
    """The literal of a dense attribute; `ValueError` where its text is not understood."""
    if shape_.dtype.name in _IN_NUMPY and isinstance(attribute, ir.DenseElementsAttr):
        array = np.array(attribute)
        if shape_.dtype.is_pred:  # in hexadecimal digits any byte but 0 is true
            array = array.view(np.uint8) != 0
        return Literal(shape_, array.reshape(shape_.dims))
    return literal_of_text(str(attribute), shape_)


def literal_of_text(text: str, shape_: Shape) -> Literal:
    """The literal of `dense<...> : type` as it stands in text."""
    match = _VALUE.search(text)
    if match is None:
        raise ValueError(f"not a dense constant: {text[:80]}")
    body = match[1].strip()
    if body.startswith('"0x'):
        return Literal(shape_, from_raw(bytes.fromhex(body[3:-1]), shape_))
    words = _NUMBER.findall(body)
    array = _numbers(words, shape_.dtype)
    if array.size == 1 and shape_.size != 1:
        array = np.broadcast_to(array, shape_.dims).copy()
    return Literal(shape_, array.reshape(shape_.dims))


def blobs_of(module_text: str) -> dict[str, str]:
    """The hexadecimal digits of every resource, which stand at the end of a module's text."""
    start = module_text.rfind("{-#")
    return dict(_RESOURCE.findall(module_text, start)) if start >= 0 else {}


def literal_of_blob(digits: str, shape_: Shape) -> Literal:
    """The literal of a resource."""
    return Literal(shape_, from_raw(bytes.fromhex(digits[_ALIGNMENT_DIGITS:]), shape_))


def blob_name(text: str) -> str | None:
    """The name in `dense_resource<name>`."""
    match = _BLOB.search(text)
    return match[1] if match else None


def from_raw(data: bytes, shape_: Shape) -> np.ndarray:
    """The array of little-endian elements; narrow ones have a byte each."""
    dtype = shape_.dtype.numpy
    if shape_.dtype.is_pred:
        array = _predicates(data, shape_.size)
    elif shape_.dtype.is_integral and shape_.dtype.is_sub_byte:
        array = converted(np.frombuffer(data, np.int8), _wide(shape_.dtype), shape_.dtype)
    else:
        array = np.frombuffer(data, dtype)
    if array.size == 1 and shape_.size != 1:
        array = np.broadcast_to(array, shape_.dims)
    return np.array(array.reshape(shape_.dims))


def _wide(dtype: DType) -> DType:
    from hloom.types.dtype import S8, U8

    return S8 if dtype.is_signed_int else U8


def _predicates(data: bytes, count: int) -> np.ndarray:
    """Bits or bytes, whichever there are enough of."""
    raw = np.frombuffer(data, np.uint8)
    if len(raw) >= count:
        return raw[:count] != 0
    return np.unpackbits(raw, bitorder="little")[:count] != 0


def _numbers(words: list[str], dtype: DType) -> np.ndarray:
    """Numbers as MLIR writes them; hexadecimal ones are the bits of a float."""
    if dtype.is_complex:
        parts = _numbers(words, dtype.component)
        return parts.view(dtype.numpy)
    if dtype.is_pred:
        return np.array([word == "true" for word in words])
    if dtype.is_integral:
        wide = np.array([int(word, 0) for word in words], np.int64)
        return converted(wide, S64, dtype)
    bits = [k for k, word in enumerate(words) if word.startswith(("0x", "-0x"))]
    values = np.array([0.0 if "0x" in word else float(word) for word in words], np.float64)
    with np.errstate(over="ignore"):
        array = values.astype(dtype.numpy)  # what is below the normal numbers stays, unlike in HLO
    if bits:
        raw = array.view(np.dtype(f"u{dtype.numpy.itemsize}"))
        for k in bits:
            raw[k] = int(words[k], 16)
    return array
