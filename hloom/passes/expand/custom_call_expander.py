"""Custom calls that stand for operations HLO has: `TopK`, `mhlo.topk`, `mhlo.erf` and the like.

Front ends write operations their HLO version lacked as custom calls named after a dialect. Calls
with a meaning only a library has (factorisations, transforms by vendors) stay.
"""

from __future__ import annotations

from hloom.ir.custom_call_rules import (
    CHOICES,
    DIALECTS,
    FUNCTIONS,
    takes_largest,
    wrong_front_end_call,
)
from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import S32


@register
class CustomCallExpander(Expander):
    """Replace custom calls for top-k and for elementary functions by the operations."""

    name = "custom-call-expander"
    opcodes = frozenset(["custom-call"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        target, count = i.attrs.custom_call_target, len(i.operands)
        if target == "TopK" and count == 1 and i.shape.is_tuple:
            return self.top_k(b, i, True)
        dialect, _, name = target.partition(".")
        if dialect not in DIALECTS or not count or not i.operands[0].shape.is_array:
            return None
        x = i.operands[0]
        if name in CHOICES and count == 1 and i.shape.is_tuple:
            return self.top_k(b, i, takes_largest(i))
        if name not in FUNCTIONS or wrong_front_end_call(i) or not x.shape.compatible(i.shape):
            return None
        if name == "atan" and x.shape.dtype.is_complex:
            inner = b.atanh(b.complex(b.negate(b.imag(x)), b.real(x)))
            return b.complex(b.imag(inner), b.negate(b.real(inner)))
        if name == "atan":
            one = b.full(1, x.shape.dtype, x.shape.dims)
            return b.atan2(x, one)
        return b.emit(name, x)

    def top_k(self, b: Expansion, i: Instruction, largest: bool) -> Instruction | None:
        x, parts = i.operands[0].shape, i.shape.elements
        if len(parts) != 2 or not x.is_array or not x.rank or x.is_dynamic or x.dtype.is_complex:
            return None  # complex numbers have no order
        values, indices = parts
        k = values.dims[-1] if values.is_array and values.rank else x.dims[-1] + 1
        result_dims = (*x.dims[:-1], k)
        fits = (values.dtype, values.dims) == (x.dtype, result_dims) and k <= x.dims[-1]
        if not fits or indices.dtype is not S32 or indices.dims != result_dims:
            return None
        return b.topk(i.operands[0], k=k, largest=largest)
