"""In which types a product of matrices (or a convolution) is computed after expansion.

A code generator then meets operands of one type, and results of that type or of a wider one that
hardware sums in: bf16 or f16 into f32, bytes into 32 bits. Everything else becomes converts
around such a product. Integers are rings modulo their width, so operands may be extended or cut
to the result's type first; floats below 64 bits are summed in f32 and rounded once.
"""

from __future__ import annotations

from hloom.types.casts import preserves_values
from hloom.types.dtype import (
    BF16,
    C64,
    C128,
    F16,
    F32,
    F64,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    DType,
)

KEPT = frozenset([(BF16, F32), (F16, F32), (S8, S32), (U8, S32), (U8, U32), (S16, S32), (U16, U32)])
"""(operands, result) of unlike types that stay."""


def product_types(x: DType, y: DType, result: DType) -> tuple[DType, DType]:
    """The type both operands are converted to, and the type of the product, which is then
    converted to `result`."""
    if x.is_complex or y.is_complex or result.is_complex:
        wide = C128 if {C128, F64} & {x, y, result} else C64
        return wide, wide
    if x.is_floating or y.is_floating or result.is_floating:
        return _float_types(x, y, result)
    if x is y and (x, result) in KEPT:
        return x, result
    if result.is_pred:
        return S64, S64
    if result.bits < 8:
        narrow = S8 if result.is_signed_int else U8
        return narrow, narrow
    return result, result


def _float_types(x: DType, y: DType, result: DType) -> tuple[DType, DType]:
    if F64 in (x, y, result):
        return F64, F64
    both = F32
    for narrow in (BF16, F16):
        if all(_is_float_below(t, narrow) for t in (x, y)):
            both = narrow
            break
    return both, both if result is both else F32


def _is_float_below(t: DType, narrow: DType) -> bool:
    return t.is_floating and preserves_values(t, narrow)
