"""A permute of one of two values, where all that are sent are the same one of them.

The partitioner chooses by the device's id what goes round a ring; on those devices that send, the
choice is known.
"""

from __future__ import annotations

from hloom.analysis.device_values import values_on_devices
from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import device_pairs, group_mode
from hloom.passes.collectives.groups import is_plain, module_of
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove, again
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register


@register
class CollectiveSelectFolder(CollectiveMotion):
    """Replace collective-permute(select(p, x, y)) by that of x or of y, whichever is sent."""

    name = "collective-select-folder"
    opcodes = frozenset(["collective-permute"])
    what = "folded"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        choice, module, mode = i.operands[0], module_of(i), group_mode(i.attrs)
        if choice.opcode != "select" or i.attrs.slice_sizes or not is_plain(i):
            return None
        if choice.has_control_edges or mode is None:
            return None
        predicate, on_true, on_false = choice.operands
        if predicate.opcode == "broadcast":
            predicate = predicate.operands[0]
        chosen = values_on_devices(predicate) if not predicate.shape.rank else None
        if chosen is None:
            return None
        pairs = device_pairs(
            i.attrs.source_target_pairs, mode, module.replica_count, module.num_partitions
        )
        sent = {bool(chosen[s]) for s, _ in pairs}
        if len(sent) != 1:
            return None
        x = on_true if sent.pop() else on_false
        return CollectiveMove(i, again(b, i, x, i.shape), [choice])
