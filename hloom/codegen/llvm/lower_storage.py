"""How an element lies in memory and how it is computed with, and where it lies."""

from __future__ import annotations

from hloom.codegen.llvm.convert import narrowed, widened
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.lower_state import KernelLowering, raw, wrapped
from hloom.codegen.llvm.values import V
from hloom.kernel.kernel import Value
from hloom.types.dtype import DType


def from_storage(e: Emit, x: V, dtype: DType) -> V:
    """What memory held, as it is computed with."""
    if dtype.is_pred:
        return e.icmp("ne", x, e.like(x, 0))
    if dtype.is_floating:
        return widened(e, x, dtype) if dtype.bits < 32 else x
    return wrapped(e, x, dtype)


def to_storage(e: Emit, x: V, dtype: DType) -> V:
    """A row as memory holds it."""
    if dtype.is_pred:
        return e.zext(x, "i8")
    if dtype.is_floating:
        return narrowed(e, x, dtype) if dtype.bits < 32 else x
    return raw(e, x, dtype)


def address(low: KernelLowering, buffer: Value, offset: Value) -> V:
    """Where the element at an offset of a buffer lies."""
    e = low.e
    (base,), (at,) = low.of(buffer), low.of(offset)
    at = e.sext(at, "i64")
    return e.gep(base, e.mul(at, e.const("i64", buffer.dtype.size_bytes)))
