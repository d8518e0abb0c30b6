"""All-gathers for machines that only reduce: each device puts its part among zeros.

The parts are joined by `or` of their bits, so that no number is changed: a sum would make 0 of -0.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import devices_of, is_plain, keeps_layouts
from hloom.passes.collectives.own_entry import place_in_group
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import S32, U8, U16, U32, U64
from hloom.types.shape import shape

_BITS = {x.bits: x for x in (U8, U16, U32, U64)}


@register
class AllGatherDecomposer(Expander):
    """Replace all-gathers by a dynamic-update-slice into zeros and an all-reduce."""

    name = "all-gather-decomposer"
    opcodes = frozenset(["all-gather"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        groups = devices_of(i)
        dtype = i.shape.dtype if i.shape.is_array else None
        if groups is None or dtype is None or not is_plain(i):
            return None
        bits = dtype if dtype.is_pred or dtype.is_integral else _BITS.get(dtype.bits)
        if dtype.is_complex or bits is None or dtype.bits < 8:
            return None
        (x,), (d,), a = i.operands, i.attrs.dimensions, i.attrs
        x = b.converted(x, dtype)  # floats of another precision
        if bits is not dtype:
            x = b.emit("bitcast-convert", x, shape=shape(bits, x.shape.dims))
        zero = b.scalar(0, S32)
        starts = [zero] * x.shape.rank
        starts[d] = place_in_group(b, groups, x.shape.dims[d])
        own = b.emit("dynamic-update-slice", b.full(0, bits, i.shape.dims), x, *starts)
        joined = b.emit(
            "all-reduce",
            own,
            called=(b.combiner("or", bits),),
            channel_id=a.channel_id,
            replica_groups=a.replica_groups,
            use_global_device_ids=a.use_global_device_ids,
            constrain_layout=keeps_layouts(b.module),
        )
        if bits is not dtype:
            joined = b.emit("bitcast-convert", joined, shape=shape(dtype, i.shape.dims))
        return joined
