"""How an element lies in memory and how it is computed with, and where it lies."""

from __future__ import annotations

from functools import reduce

from hloom.codegen.llvm.convert import computed_half, narrowed, widened
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.lower_state import KernelLowering, known_bits, raw, wrapped
from hloom.codegen.llvm.values import V
from hloom.kernel.kernel import Value
from hloom.types.dtype import DType


def from_storage(e: Emit, x: V, dtype: DType) -> V:
    """What memory held, as it is computed with."""
    if dtype.is_pred:
        return e.icmp("ne", x, e.like(x, 0))
    if not dtype.is_floating:
        return wrapped(e, x, dtype)
    if dtype.bits >= 32:
        return x
    wide = widened(e, x, dtype)
    if wide.value is None:
        e.narrow[wide.name] = (dtype, x)
    return wide


def to_storage(e: Emit, x: V, dtype: DType, *, is_result: bool = False) -> V:
    """A row as memory holds it; `is_result`: of arithmetic (`computed.py`)."""
    if dtype.is_pred:
        return e.zext(x, "i8")
    if dtype.is_floating and dtype.bits < 32:
        if (known := known_bits(e, x, dtype)) is not None:
            return known
        by_instruction = is_result and dtype.name == "bf16"
        return computed_half(e, x) if by_instruction else narrowed(e, x, dtype)
    return x if dtype.is_floating else raw(e, x, dtype)


def address(low: KernelLowering, buffer: Value, offset: Value) -> V:
    """Where the element at an offset of a buffer lies; its real part, where parts lie apart.
    Constants are added last, so that places at known distances share what comes before: less text,
    and less for LLVM to find out."""
    e, size = low.e, buffer.dtype.size_bytes
    if buffer in low.planes:
        size //= 2
    offset, constant = without_constant(offset)
    (base,) = low.of(buffer)
    for at in _parts(low, offset):
        base = e.gep(base, e.mul(at, e.const("i64", size)))
    return e.gep(base, constant * size)


def _parts(low: KernelLowering, offset: Value) -> list[V]:
    """What an offset is the sum of, as 64 bits: what stays while the innermost loop turns, what
    moves, constants. The address of the first part leaves the loop."""
    e, (whole,) = low.e, low.of(offset)
    terms = _terms(low, offset) if low.freedom.split_addresses else [whole]
    staying = [v for v in terms if v.depth < whole.depth and v.value is None]
    if not staying:
        return [e.sext(whole, "i64")]
    moving = [v for v in terms if v.depth == whole.depth]
    constants = [v for v in terms if v.value is not None]
    parts = [[e.sext(v, "i64") for v in part] for part in (staying, moving, constants) if part]
    return [reduce(e.add, part) for part in parts]


def _terms(low: KernelLowering, offset: Value) -> list[V]:
    """The registers that a scalar is the sum of; what comes from outer loops whole."""
    (whole,), op = low.of(offset), offset.op
    if op is None or op.opcode != "add" or offset.shape or whole.depth < low.e.depth:
        return [whole]
    return [term for x in op.operands for term in _terms(low, x)]


def address_apart(low: KernelLowering, buffer: Value, offset: Value) -> V:
    """`address` of a sum, its terms one after the other: the row of an image, which stays while
    what is added to it moves, for all rows alike."""
    op = offset.op
    if op is None or op.opcode != "add":
        return address(low, buffer, offset)
    e, size = low.e, buffer.dtype.size_bytes
    (base,) = low.of(buffer)
    for term in op.operands:
        (at,) = low.of(term)
        base = e.gep(base, e.mul(e.sext(at, "i64"), e.const("i64", size)))
    return base


def without_constant(offset: Value) -> tuple[Value, int]:
    """An offset as another one and a constant that is added to it. Offsets do not overflow: they
    are within buffers."""
    constant = 0
    while (op := offset.op) is not None and op.opcode == "add" and not offset.shape:
        first, second = op.operands
        if (number := _constant(second)) is not None:
            offset = first
        elif (number := _constant(first)) is not None:
            offset = second
        else:
            break
        constant += number
    return offset, constant


def _constant(x: Value) -> int | None:
    """The number that a scalar always is; None where it is computed."""
    if x.op is None or x.op.opcode != "constant" or x.shape:
        return None
    return int(x.op.attrs["value"])
