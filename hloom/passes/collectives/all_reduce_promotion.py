"""Sums of narrow numbers among devices made in wider ones."""

from __future__ import annotations

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import is_plain, reduction_of
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import F32, S32, U32, DType
from hloom.types.shape import shape

WIDER: dict[str, DType] = {
    "bf16": F32,
    "f16": F32,
    "s8": S32,
    "s16": S32,
    "u8": U32,
    "u16": U32,
}


@register
class AllReducePromotion(CollectiveMotion):
    """Reduce narrow types in wider ones: convert, all-reduce or reduce-scatter, convert back."""

    name = "all-reduce-promotion"
    opcodes = frozenset(["all-reduce", "reduce-scatter"])
    what = "promoted"

    types: frozenset[str] = frozenset(["bf16", "f16", "s16", "u16"])
    """Those that are reduced in f32, s32 or u32."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in sorted(self.types - WIDER.keys()):
            raise UsageError(
                f"{name!r} is no type that is reduced in a wider one",
                rule="pass-option",
                hint=did_you_mean(name, WIDER) or f"known: {', '.join(WIDER)}",
            )

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        opcode, narrow = reduction_of(i), i.shape.dtype if i.shape.is_array else None
        if opcode is None or narrow is None or narrow.name not in self.types or not is_plain(i):
            return None
        if i.operands[0].shape.dtype is not narrow:
            return None
        wide = WIDER[narrow.name]
        attributes = {f.name: getattr(i.attrs, f.name) for f in i.op.fields}
        new = b.emit(
            i.opcode,
            b.converted(i.operands[0], wide),
            called=(b.combiner(opcode, wide),),
            shape=shape(wide, i.shape.dims),
            **attributes,
        )
        new.copy_annotations(i)
        new.sharding = None
        return CollectiveMove(i, b.converted(new, narrow), ())
