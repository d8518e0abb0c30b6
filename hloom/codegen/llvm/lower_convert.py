"""Conversions between element types with the meaning of HLO's `convert` (types/convert.py)."""

from __future__ import annotations

from hloom.codegen.llvm.convert import float_to_integer, high_half, narrowed, widened
from hloom.codegen.llvm.four_bits import floats_of_codes
from hloom.codegen.llvm.lower_state import (
    KernelLowering,
    Rows,
    kind_of,
    known_bits,
    raw,
    rounded_through,
    wrapped,
)
from hloom.codegen.llvm.values import BITS, V
from hloom.types.dtype import DType


def convert_rows(low: KernelLowering, rows: Rows, source: DType, target: DType) -> Rows:
    """The rows of a tile in another type. Complex to real takes the real part."""
    if source is target:
        return rows
    e = low.e
    if source.is_complex and not target.is_complex:
        half = len(rows) // 2
        if target.is_pred:  # whether the number, not its real part, is not 0
            masks = [e.fcmp("une", row, e.like(row, 0.0)) for row in rows]
            return [e.or_(a, b) for a, b in zip(masks[:half], masks[half:])]
        return convert_rows(low, rows[:half], source.component, target)
    if target.is_complex:
        result = [convert_row(low, row, source.component, target.component) for row in rows]
        return result if source.is_complex else result + [e.like(row, 0.0) for row in result]
    return [convert_row(low, row, source, target) for row in rows]


def convert_row(low: KernelLowering, x: V, source: DType, target: DType) -> V:
    """A row of one real type as another."""
    if source is target:
        return x
    if target.is_floating and target.bits <= 32 and not source.is_floating:
        known = floats_of_codes(low.e, x, source)
        if known is not None:
            return low.each(lambda part: _held(low, part, source, target), known)
    return low.each(lambda part: _converted(low, part, source, target), x)


def _converted(low: KernelLowering, x: V, source: DType, target: DType) -> V:
    e, kind = low.e, kind_of(target)
    if target.is_pred:
        if source.is_floating:
            return e.fcmp("une", x, e.like(x, 0.0))
        return x if source.is_pred else e.icmp("ne", x, e.like(x, 0))
    if source.is_floating:
        if target.is_floating:
            return _between_floats(low, x, target)
        return wrapped(e, float_to_integer(e, x, target), target)
    if target.is_floating:
        return _from_integer(low, x, source, target)
    if BITS[kind] > BITS[x.kind]:
        result = e.sext(x, kind) if source.is_signed_int else e.zext(x, kind)
    else:
        result = e.trunc(x, kind)
    return wrapped(e, result, target)


def _between_floats(low: KernelLowering, x: V, target: DType) -> V:
    e = low.e
    if target.bits < 32:
        return rounded_through(e, x, target)
    return e.fpext(x, "f64") if target.bits == 64 else e.fptrunc(x, "f32")


def _from_integer(low: KernelLowering, x: V, source: DType, target: DType) -> V:
    e = low.e
    signed = source.is_signed_int
    if BITS[x.kind] < 32:
        x = e.sext(x, "i32") if signed else e.zext(x, "i32")
        signed = True
    exact = BITS[x.kind] == 32 and source.bits < 32
    kind = "f32" if exact or target.bits == 32 else "f64"
    result = e.sitofp(x, kind) if signed else e.uitofp(x, kind)
    if target.bits <= 32:
        return _held(low, result, source, target)
    return e.fpext(result, "f64")


def _held(low: KernelLowering, x: V, source: DType, target: DType) -> V:
    """An integer as f32, as a float of a type no wider."""
    e = low.e
    if target.bits == 32:
        return x
    digits = source.bits - source.is_signed_int
    if target.bits != 16 or digits > target.mantissa_bits + 1:
        return rounded_through(e, x, target)
    # Held exactly: weights of 8 bits and less.
    if target.name == "bf16" and x.value is None:
        e.narrow[x.name] = (target, high_half(e, e.bits(x)))
    return x


def bitcast_row(low: KernelLowering, x: V, source: DType, target: DType) -> V:
    """The same bits as another type of the same width."""
    if source is target:
        return x
    e = low.e
    if source.is_pred:
        bits = e.zext(x, "i8")
    elif source.is_floating and source.bits < 32:
        bits = known_bits(e, x, source) or narrowed(e, x, source)
    elif source.is_floating:
        bits = e.bits(x)
    else:
        bits = raw(e, x, source)
    if target.is_pred:
        return e.icmp("ne", bits, e.like(bits, 0))
    if target.is_floating:
        return widened(e, bits, target) if target.bits < 32 else e.bitcast(bits, target.name)
    return wrapped(e, bits, target)
