"""Collectives in two halves as one again: where nothing runs between the halves, they cost more."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS, opcodes_where
from hloom.ir.order import repair_schedules
from hloom.passes.collectives.halves import collective_of, erase_starts, start_of
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register


@register
class AsyncCollectiveReplacer(Expander):
    """Replace the start and the done of a collective by the collective."""

    name = "async-collective-replacer"
    opcodes = opcodes_where(lambda op: op.done_of is not None)

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        start = start_of(i)
        if start is None or set(start.users) != {i} or start.is_root:
            return None
        kind = collective_of(start)
        if kind is None:
            return None
        of = start.called[0].root if start.opcode == "async-start" else start
        named = {f.name: getattr(of.attrs, f.name) for f in OPS[kind].fields}
        if kind == "all-reduce" and (named["channel_id"] or 1) <= 0:
            return None  # which its two halves may say, and it may not
        new = b.emit(kind, *start.operands, called=of.called, shape=i.shape, **named)
        new.shape = i.shape
        new.copy_annotations(start)
        new.sharding = i.sharding
        for before in start.control_predecessors:
            new.add_control_predecessor(before)
        for after in start.control_successors:
            if after is not i:
                after.add_control_predecessor(new)
        return new

    def run(self, module, *, trace=None, threads=frozenset()):
        result = super().run(module, trace=trace, threads=threads)
        if result.changed:
            for c in list(module.computations):
                erase_starts(c)
            repair_schedules(module)
        return result
