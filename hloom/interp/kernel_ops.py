"""What the pure ops of kernels mean, on a batch of tiles: arrays [lanes, *shape of the tile].

Elementwise opcodes mean what they mean in HLO: an op stands in for an instruction, of which
meanings only ask opcode, types and attributes. Each op rounds to its type. Sums and products of
floats are taken in f64 and rounded once, so that they are the judge of any order of summing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from hloom.interp import elementwise_real as of_real
from hloom.interp.direct import direct
from hloom.interp.elementwise_number import Array, narrowed, widened
from hloom.interp.reduce_fold import known_fold
from hloom.interp.registry import MEANING, load_meanings
from hloom.kernel.kernel import Op
from hloom.types.convert import converted
from hloom.types.dtype import F64, DType
from hloom.types.shape import shape

Run = Callable[..., Array]


def prepared(op: Op) -> Run:
    """The function of one pure op: from one batch of tiles for each operand to that of the result.

    Ops without operands are given the count of lanes instead.
    """
    special = _SPECIAL.get(op.opcode)
    return special(op) if special is not None else _elementwise(op)


def _elementwise(op: Op) -> Run:
    """The meaning of the HLO operation of that name."""
    load_meanings()
    stand: Any = SimpleNamespace(
        opcode=op.opcode,
        name=op.opcode,
        shape=shape(op.result.dtype, ()),
        operands=[SimpleNamespace(shape=shape(x.dtype, ())) for x in op.operands],
        attrs=SimpleNamespace(**op.attrs),
    )
    if op.opcode == "compare":
        stand.attrs.type = "TOTALORDER" if op.attrs["order"] == "total" else None
    run = direct(stand) or MEANING[op.opcode]
    numpy_type = op.result.dtype.numpy

    def apply(*values: Array) -> Array:
        result = np.asarray(run(stand, None, *values))
        return result if result.dtype == numpy_type else result.astype(numpy_type)

    return apply


def _constant(op: Op) -> Run:
    value, dtype, tile = op.attrs["value"], op.result.dtype, op.result.shape
    if dtype.is_integral:
        word = np.uint64 if dtype.is_unsigned_int else np.int64
        number = narrowed(np.array(int(value), word), dtype)
    elif dtype.is_floating:
        number = converted(np.array(float(value)), F64, dtype)
    else:
        number = np.array(value, dtype.numpy)
    number = np.asarray(number).reshape(())
    return lambda lanes: np.broadcast_to(number, (lanes, *tile))


def _iota(op: Op) -> Run:
    tile, axis, dtype = op.result.shape, op.attrs["axis"], op.result.dtype
    counted = np.arange(tile[axis]).reshape([-1 if k == axis else 1 for k in range(len(tile))])
    wide = narrowed(counted.astype(np.float32 if dtype.is_floating else np.int64), dtype)
    return lambda lanes: np.broadcast_to(wide, (lanes, *tile))


def _broadcast(op: Op) -> Run:
    before, tile = op.operands[0].shape, op.result.shape
    aligned = (1,) * (len(tile) - len(before)) + before
    return lambda x: np.broadcast_to(x.reshape(len(x), *aligned), (len(x), *tile))


def _reshape(op: Op) -> Run:
    tile = op.result.shape
    return lambda x: x.reshape(len(x), *tile)


def _transpose(op: Op) -> Run:
    order = (0, *[d + 1 for d in op.attrs["permutation"]])
    return lambda x: np.transpose(x, order)


def _slice(op: Op) -> Run:
    start = op.attrs["start"]
    before = (slice(None),) * (op.attrs["axis"] + 1)
    index = (*before, slice(start, start + op.attrs["size"]))
    return lambda x: x[index]


def _concatenate(op: Op) -> Run:
    axis = op.attrs["axis"] + 1
    return lambda *values: np.concatenate(values, axis)


def _fma(op: Op) -> Run:
    dtype = op.result.dtype

    def run(a: Array, b: Array, c: Array) -> Array:
        wide = np.asarray(a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64))
        return _rounded(wide, dtype)

    return run


def _rounded(wide: Array, dtype: DType) -> Array:
    """f64 or c128 values in a type, narrow ones by way of f32, in which they are computed."""
    return narrowed(wide.astype(np.float32) if dtype.bits < 32 else wide, dtype)


def _folded(op: Op) -> tuple[np.ufunc, Callable[[Array], Array], Callable[[Array], Array]]:
    """The numpy function of a reduce or scan, and the ways into and out of what it works on."""
    dtype, kind = op.operands[0].dtype, op.attrs["kind"]
    fold = known_fold(dtype, kind)
    assert fold.ufunc is not None
    if dtype.is_floating and kind in ("maximum", "minimum"):
        return fold.ufunc, lambda x: widened(x, dtype), lambda y: narrowed(y, dtype)
    if dtype.is_floating:
        return fold.ufunc, lambda x: x.astype(np.float64), lambda y: _rounded(y, dtype)
    if dtype.is_complex:
        return fold.ufunc, lambda x: x.astype(np.complex128), lambda y: narrowed(y, dtype)
    return fold.ufunc, lambda x: widened(x, dtype), lambda y: narrowed(y, dtype)


def _reduce(op: Op) -> Run:
    axis, kind = op.attrs["axis"] + 1, op.attrs["kind"]
    ufunc, enter, leave = _folded(op)

    def run(x: Array) -> Array:
        wide = enter(x)
        result = ufunc.reduce(wide, axis, dtype=wide.dtype)
        return leave(
            of_real.zeros_ordered(kind, result, wide, lambda p: np.logical_or.reduce(p, axis))
        )

    return run


def _scan(op: Op) -> Run:
    axis, kind, reverse = op.attrs["axis"] + 1, op.attrs["kind"], op.attrs["reverse"]
    ufunc, enter, leave = _folded(op)

    def run(x: Array) -> Array:
        wide = enter(np.flip(x, axis) if reverse else x)
        result = ufunc.accumulate(wide, axis, dtype=wide.dtype)
        result = leave(
            of_real.zeros_ordered(kind, result, wide, lambda p: np.logical_or.accumulate(p, axis))
        )
        return np.flip(result, axis) if reverse else result

    return run


def _dot(op: Op) -> Run:
    dtype = op.result.dtype
    if dtype.is_integral:

        def enter(x: Array, source: DType) -> Array:
            word = np.uint64 if dtype.is_unsigned_int else np.int64
            return widened(x, source).astype(word)
    else:
        wide = np.complex128 if dtype.is_complex else np.float64

        def enter(x: Array, source: DType) -> Array:
            return x.astype(wide)

    types = [x.dtype for x in op.operands]

    def run(*values: Array) -> Array:
        acc, a, b = (enter(x, t) for x, t in zip(values, types))
        result = acc + np.matmul(a, b.reshape(len(b), a.shape[-1], b.shape[-1]))
        return narrowed(result, dtype) if dtype.is_integral else _rounded(result, dtype)

    return run


def _clamp(op: Op) -> Run:
    """As HLO's, on operands of one shape."""
    dtype = op.result.dtype
    least, most = (
        (of_real.minimum, of_real.maximum) if dtype.is_floating else (np.minimum, np.maximum)
    )

    def run(low: Array, x: Array, high: Array) -> Array:
        low, x, high = (widened(v, dtype) for v in (low, x, high))
        return narrowed(least(most(x, low), high), dtype)

    return run


_SPECIAL: dict[str, Callable[[Op], Run]] = {
    "broadcast": _broadcast,
    "clamp": _clamp,
    "concatenate": _concatenate,
    "constant": _constant,
    "dot": _dot,
    "fma": _fma,
    "iota": _iota,
    "reduce": _reduce,
    "reshape": _reshape,
    "scan": _scan,
    "slice": _slice,
    "transpose": _transpose,
}
"""Everything that is not an elementwise operation of HLO; clamp, since HLO's also broadcasts."""
