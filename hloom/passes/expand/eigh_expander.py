"""`Eigh`, by which XLA's builders ask for eigenvectors of Hermitian matrices: a call of LAPACK's.

What is asked for beyond the triangle (`hloom/ir/eigh_call.py`) is for Jacobi's rotations, which
nobody does here: `syevd` and `heevd` are as exact as the type, and values always ascend.
"""

from __future__ import annotations

from hloom.ir.eigh_call import is_eigh, reads_lower, words
from hloom.ir.instruction import Instruction
from hloom.ir.settled_signs import SETTLED
from hloom.ir.values.backend_config import BackendConfig
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.rewrite.build import RuleBuilder
from hloom.types.dtype import F32, S32
from hloom.types.layout import Layout, layout
from hloom.types.shape import shape, tuple_shape

ROUTINES = {
    "f32": "lapack_ssyevd_ffi",
    "f64": "lapack_dsyevd_ffi",
    "c64": "lapack_cheevd_ffi",
    "c128": "lapack_zheevd_ffi",
}


@register
class EighExpander(Expander):
    """Replace the custom call Eigh by LAPACK's syevd or heevd; NaN where it does not converge."""

    name = "eigh-expander"
    opcodes = frozenset(["custom-call"])

    def wants(self, i: Instruction) -> bool:
        return is_eigh(i)

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x = i.operands[0]
        if x.shape.dtype.bits < 32:
            x = b.converted(x, F32)
        vectors, values = (
            shape(wanted.dtype if wanted.dtype.bits >= 32 else F32, wanted.dims)
            for wanted in i.shape.elements
        )
        info = shape(S32, x.shape.dims[:-2])
        turned = vectors.with_layout(column_major(vectors.rank))
        call = RuleBuilder.emit(  # not Expansion's, whose layouts are row-major
            b,
            "custom-call",
            x,
            custom_call_target=ROUTINES[x.shape.dtype.name],
            operand_layout_constraints=(turned,),
            api_version="API_VERSION_TYPED_FFI",
            shape=tuple_shape([turned, *(s.with_default_layouts() for s in (values, info))]),
        )
        uplo = ord("L" if reads_lower(i) else "U")
        config = f"mode = {ord('V')} : ui8, uplo = {uplo} : ui8"
        if SETTLED in words(i):
            config += f", {SETTLED} = 1 : i32"
        call.backend_config = BackendConfig("{" + config + "}")
        columns = b.get_tuple_element(call, index=0)
        results = [b.copy(columns, shape=vectors), b.get_tuple_element(call, index=1)]
        ended = b.get_tuple_element(call, index=2)
        has_ended = b.compare(ended, b.full(0, S32, info.dims), direction="EQ")
        parts = []
        for part, wanted in zip(results, i.shape.elements):
            undefined = b.full(float("nan"), part.shape.dtype, part.shape.dims)
            mask = b.spread(has_ended, part.shape.dims, range(len(info.dims)))
            parts.append(b.converted(b.select(mask, part, undefined), wanted.dtype))
        return b.tuple(*parts)


def column_major(rank: int) -> Layout:
    """LAPACK's layout of the last two dimensions."""
    rows, columns = rank - 2, rank - 1
    return layout((rows, columns, *reversed(range(rows))))
