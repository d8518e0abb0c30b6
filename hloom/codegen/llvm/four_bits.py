"""What numbers of a few bits stand for, without cutting them out of their bytes first.

With registers of sixteen f32 a permutation of one that holds them is a table: a weight of four bits
becomes an f32 in one instruction, which looks at no more than four bits of its index. Elsewhere an
integer is moved to the top of 32 bits and back, which leaves its sign where it belongs.
"""

from __future__ import annotations

import numpy as np

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.values import BITS, V
from hloom.types.dtype import DType

CODES = 16
"""As many as an index of four bits tells apart: lanes of the register that is asked."""
MOST_BITS = 4


def floats_of_codes(e: Emit, codes: V, dtype: DType) -> V | None:
    """The f32 of numbers of a type whose bits are the lowest of bytes; None where it has more than
    four, or the machine nothing better than to cut them out."""
    bits = dtype.bits
    if codes.kind != "i8" or codes.lanes < 2 or codes.value is not None or bits > MOST_BITS:
        return None
    is_table = e.machine.has_avx512 and codes.lanes % CODES == 0
    if not is_table and dtype.is_floating:
        return None
    held, by = e.code(codes, bits)
    if not is_table:
        return _moved(e, e.zext(held, "i32"), by, dtype)
    table = e.vector("f32", _numbers(dtype))
    pieces = []
    for start in range(0, held.lanes, CODES):
        code = e.zext(e.slice(held, start, CODES), "i32")
        at = e.lshr(code, e.like(code, by))
        text = f"call {table.type} @llvm.x86.avx512.permvar.sf.512({table.typed}, {at.typed})"
        pieces.append(e.pure(text, "f32", CODES, at.depth))
    return e.concat(pieces)


def _numbers(dtype: DType) -> list[float]:
    """What each number of four bits is whose lowest are those of the type."""
    codes = np.arange(CODES) % (1 << dtype.bits)
    if dtype.is_floating:
        return [float(x) for x in codes.astype(np.uint8).view(dtype.numpy)]
    least = 1 << (dtype.bits - 1) if dtype.is_signed_int else 1 << dtype.bits
    return [float(x - 2 * least if x >= least else x) for x in codes]


def _moved(e: Emit, x: V, by: int, dtype: DType) -> V:
    """An integer of a few bits within 32, from `by` on, as f32."""
    if dtype.is_signed_int:
        top = BITS[x.kind] - dtype.bits
        return e.sitofp(e.ashr(e.shl(x, e.like(x, top - by)), e.like(x, top)), "f32")
    low = e.lshr(x, e.like(x, by))
    return e.sitofp(e.and_(low, e.like(low, (1 << dtype.bits) - 1)), "f32")
