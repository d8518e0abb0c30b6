"""All-to-alls of an array as all-to-alls of its parts, for machines that exchange whole buffers."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import devices_of, group_size, is_plain
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import tuple_shape


@register
class AllToAllDecomposer(Expander):
    """Replace all-to-alls along a dimension by all-to-alls of slices, which are joined again."""

    name = "all-to-all-decomposer"
    opcodes = frozenset(["all-to-all"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        groups = devices_of(i)
        count = group_size(groups) if groups is not None else None
        if i.attrs.dimensions is None or not is_plain(i) or count is None or count < 2:
            return None
        (x,), (d,), a = i.operands, i.attrs.dimensions, i.attrs
        size = x.shape.dims[d] // count
        parts = [b.sliced(x, d, k * size, (k + 1) * size) for k in range(count)]
        exchanged = b.emit(
            "all-to-all",
            *parts,
            shape=tuple_shape([p.shape for p in parts]),
            channel_id=a.channel_id,
            replica_groups=a.replica_groups,
        )
        return b.joined([b.element(exchanged, k) for k in range(count)], d)
