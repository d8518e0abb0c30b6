"""Shortcuts for the operations that loops of scalars are made of.

A meaning serves every type an operation admits, and finds out on every call which one it has: 20
microseconds, whatever the size. Where numpy's own operation is exactly what HLO means (plain
integers, f32, f64, pred, static shapes) a step list calls it directly instead, for one. Each
shortcut is tested to give the bits that the meaning gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape

Direct = Callable[..., Any]

INTEGERS = frozenset("s8 s16 s32 s64 u8 u16 u32 u64".split())
FLOATS = frozenset(["f32", "f64"])

_INTEGER: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
    "negate": np.negative,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "shift-left": np.left_shift,
}
"""Wrap as two's complement does; numpy shifts by the width or more give 0, as in HLO."""

_FLOAT: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negate": np.negative,
    "abs": np.absolute,
}
_PRED: dict[str, Any] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
}
_COMPARE: dict[str, Any] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def direct(i: Instruction) -> Direct | None:
    """A shortcut with the signature of a meaning, or None where there is none."""
    shape = i.shape
    if not shape.is_static or not all(x.shape.is_static for x in i.operands):
        return None
    if not shape.is_array:
        return _tuple if i.opcode == "tuple" else None
    special = _SPECIAL.get(i.opcode)
    if special is not None:
        return special(i)
    if not i.operands or any(x.shape.dtype is not shape.dtype for x in i.operands):
        return None
    if any(x.shape.dims != shape.dims for x in i.operands):
        return None
    ufunc = _ufunc(i.opcode, shape)
    if ufunc is None:
        return None
    if len(i.operands) == 1:
        return lambda i, context, x: ufunc(x)
    return lambda i, context, x, y: ufunc(x, y)


def _ufunc(opcode: str, shape: Shape) -> Any:
    name = shape.dtype.name
    if name in INTEGERS:
        if opcode == "shift-right-arithmetic" and name[0] == "s":
            return np.right_shift
        if opcode == "shift-right-logical" and name[0] == "u":
            return np.right_shift
        return _INTEGER.get(opcode)
    if name in FLOATS:
        return _FLOAT.get(opcode)
    return _PRED.get(opcode) if name == "pred" else None


def _tuple(i: Instruction, context: Any, *values: Any) -> Any:
    return values


def _element(i: Instruction) -> Direct:
    index = i.attrs.index
    return lambda i, context, x: x[index]


def _compare(i: Instruction) -> Direct | None:
    a, b = (x.shape for x in i.operands)
    name = a.dtype.name
    if a.dtype is not b.dtype or a.dims != b.dims or i.attrs.type == "TOTALORDER":
        return None
    if name not in INTEGERS and name not in FLOATS:
        return None
    if i.attrs.type not in (None, "FLOAT" if name in FLOATS else _SIGN[name[0]]):
        return None
    ufunc = _COMPARE[i.attrs.direction]
    return lambda i, context, x, y: ufunc(x, y)


_SIGN = {"s": "SIGNED", "u": "UNSIGNED"}


def _select(i: Instruction) -> Direct | None:
    p, a, b = (x.shape for x in i.operands)
    if a.dtype is not b.dtype or a.dtype is not i.shape.dtype or a.dims != b.dims:
        return None
    if p.dims != a.dims or p.dtype.name != "pred":
        return None
    return lambda i, context, p, x, y: np.where(p, x, y)


def _convert(i: Instruction) -> Direct | None:
    source, target = i.operands[0].shape.dtype.name, i.shape.dtype
    narrow = source in INTEGERS or source == "pred"
    if not (narrow and (target.name in INTEGERS or target.name in FLOATS)):
        return None
    if i.operands[0].shape.dims != i.shape.dims:
        return None
    dtype = target.numpy
    return lambda i, context, x: x.astype(dtype)


def _reshape(i: Instruction) -> Direct | None:
    dims = i.shape.dims
    if i.operands[0].shape.dtype is not i.shape.dtype or i.operands[0].shape.size != i.shape.size:
        return None
    return lambda i, context, x: x.reshape(dims)


def _slice(i: Instruction) -> Direct | None:
    parts = i.attrs.slice.dimensions
    if len(parts) != i.operands[0].shape.rank or not parts:
        return None
    index = tuple(slice(d.start, d.limit, d.stride) for d in parts)
    return lambda i, context, x: x[index]


def _broadcast(i: Instruction) -> Direct | None:
    if i.operands[0].shape.rank != 0 or i.shape.size > 256:
        return None
    if i.operands[0].shape.dtype is not i.shape.dtype:
        return None
    dims, dtype = i.shape.dims, i.shape.dtype.numpy
    return lambda i, context, x: np.full(dims, x, dtype)


_SPECIAL: dict[str, Callable[[Instruction], Direct | None]] = {
    "broadcast": _broadcast,
    "compare": _compare,
    "convert": _convert,
    "get-tuple-element": _element,
    "reshape": _reshape,
    "select": _select,
    "slice": _slice,
}
