"""Sorts that carry no more than is read: unread operands go, sorts of one element too."""

from __future__ import annotations

from hloom.ir.copy import copy_computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register


@register
class SortSimplifier(Expander):
    """Drop operands of a sort that neither the comparator nor anybody else reads."""

    name = "sort-simplifier"
    opcodes = frozenset(["sort"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x = i.operands[0]
        if not x.shape.is_dynamic and x.shape.dims[i.attrs.dimensions[0]] <= 1:
            return b.tuple(*i.operands) if i.shape.is_tuple else x
        if not i.shape.is_tuple or i.is_root or i.has_control_edges:
            return None
        if any(u.opcode != "get-tuple-element" for u in i.users):
            return None
        body = i.called[0]
        read = {u.attrs.index for u in i.users}
        for k in range(len(i.operands)):
            if any(p.users or p.is_root for p in body.parameters[2 * k : 2 * k + 2]):
                read.add(k)
        if len(read) == len(i.operands) or not read:
            return None
        kept_operands = sorted(read)
        smaller, new_for_old = copy_computation(body, b.module, body.name)
        parameter = OPS["parameter"].attrs
        for p in body.parameters:
            k, side = divmod(p.attrs.number, 2)
            if k not in read:
                smaller.erase(new_for_old[p])
            else:
                new_for_old[p].attrs = parameter(number=2 * kept_operands.index(k) + side)
        a = i.attrs
        new_sort = b.emit(
            "sort",
            *(i.operands[k] for k in kept_operands),
            called=(smaller,),
            dimensions=a.dimensions,
            is_stable=a.is_stable,
        )
        one = len(kept_operands) == 1
        # Elements that nobody reads stand in for themselves: they are gone with the tuple.
        return b.tuple(
            *(
                (new_sort if one else b.element(new_sort, kept_operands.index(k)))
                if k in read
                else x
                for k, x in enumerate(i.operands)
            )
        )
