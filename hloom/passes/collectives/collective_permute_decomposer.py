"""Permutes as a send and a receive, whose halves a scheduler may place by themselves.

Both sides are begun before either is awaited, so that nobody waits for a neighbour that waits.
Permutes that go round in a circle stay: `collective-permute-cycle-decomposer` opens them.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.frontend import FrontendAttributes
from hloom.ir.values.group_modes import CROSS_PARTITION, TRANSFER_PAIRS, group_mode
from hloom.passes.collectives.groups import is_plain, module_of
from hloom.passes.collectives.pairs import has_cycle
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import U32
from hloom.types.shape import TOKEN_SHAPE, shape, tuple_shape


@register
class CollectivePermuteDecomposer(Expander):
    """Replace permutes without circles by send and receive."""

    name = "collective-permute-decomposer"
    opcodes = frozenset(["collective-permute"])

    threshold_in_bytes: int = 0
    """Smaller permutes stay as they are."""

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        (x,) = i.operands if len(i.operands) == 1 else (None,)
        if x is None or i.attrs.slice_sizes or not is_plain(i) or not is_sayable(i):
            return None
        pairs = i.attrs.source_target_pairs
        if x.shape.size_bytes < self.threshold_in_bytes or not pairs or has_cycle(pairs):
            return None
        channel = free_channel(i)
        token = b.emit("after-all")
        of = tuple_shape([x.shape, shape(U32), TOKEN_SHAPE])
        receive = b.emit("recv", token, channel_id=channel, shape=of)
        send = b.emit("send", x, token, channel_id=channel, shape=of)
        received = b.emit(
            "recv-done", receive, channel_id=channel, shape=tuple_shape([x.shape, TOKEN_SHAPE])
        )
        sent = b.emit("send-done", send, channel_id=channel)
        send.add_control_predecessor(receive)
        received.add_control_predecessor(send)
        sent.add_control_predecessor(received)
        text = "{" + ",".join(f"{{{s},{t}}}" for s, t in pairs) + "}"
        attributes = FrontendAttributes.of(i.frontend_attributes, **{TRANSFER_PAIRS: text})
        for half in (receive, send, received, sent):
            half.frontend_attributes = attributes
        return b.element(received, 0)


def is_sayable(i: Instruction) -> bool:
    """Whether pairs of a transfer, which are partitions if there are several, else replicas, are
    those of the permute."""
    module = module_of(i)
    if group_mode(i.attrs) == CROSS_PARTITION:
        return module.num_partitions > 1 or module.replica_count == 1
    return module.num_partitions == 1


def free_channel(i: Instruction) -> int:
    """A channel that nobody in the module has."""
    used = [getattr(x.attrs, "channel_id", None) or 0 for x in module_of(i).instructions()]
    return max(used) + 1
