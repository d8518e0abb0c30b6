"""Collectives of counted loops moved into the step before or after, where other work hides them.

*Forward*: what is communicated is written into a slot of a buffer. Each step writes what the step
before computed; the first step is written out before the loop, the last write after it.
*Backward*: what is communicated is loaded, from values that the loop does not change. Each step
loads for the next; the first load is written out before the loop, and the last step after it.
*Forward-sink*: what is communicated is written into slots that nobody reads before the loop ends.
The steps stack what they would send, and one collective after the loop communicates all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.ir.computation import Computation
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.passes.collectives.collective_pipelining_analyzer import PIPELINING
from hloom.passes.collectives.groups import is_plain, module_of
from hloom.passes.collectives.peeling import CountedLoop, is_form, renumber
from hloom.passes.collectives.pipelined_backward import pipeline_backward
from hloom.passes.collectives.pipelined_forward import pipeline_forward
from hloom.passes.collectives.pipelined_sink import sink_forward
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.facts import loops_own_bodies, no_dead_code
from hloom.passes.pass_ import register

DIRECTIONS = {
    "forward": pipeline_forward,
    "backward": pipeline_backward,
    "forward-sink": sink_forward,
}


@register
class CollectivePipeliner(ComputationPass):
    """Move collectives of counted loops into the step before or after, or behind the loop."""

    name = "collective-pipeliner"
    needs = (loops_own_bodies,)
    breaks = (no_dead_code,)

    direction: str = "forward"
    """`forward`: writes of the step before; `backward`: loads for the next; `forward-sink`: all
    behind the loop."""
    kinds: frozenset[str] = frozenset()
    """Opcodes to move; none: all collectives of one array."""
    least_bytes: int = 0
    """Collectives that read fewer bytes stay."""
    most_bytes: int = -1
    """A loop carries at most so many bytes more (-1: any number)."""
    most_collectives: int = -1
    """Of one loop at most so many are moved (-1: any number)."""
    level: int = -1
    """Only loops in so many others (-1: any)."""
    through_barriers: bool = False
    """Let optimization barriers lie between a collective and its buffer."""
    has_uses_as_tree: bool = False
    """Forward: let values on the way to buffers have several readers, all on the way."""
    only_noted: bool = False
    """Only collectives that `collective-pipelining-analyzer` says can be moved so at no price."""
    unique_channel_id: bool = True
    """Give copies of collectives channels of their own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction not in DIRECTIONS:
            raise UsageError(
                f"{self.direction!r} is no direction",
                rule="pass-option",
                hint=did_you_mean(self.direction, DIRECTIONS) or f"known: {', '.join(DIRECTIONS)}",
            )
        for kind in sorted(self.kinds - COLLECTIVES):
            raise UsageError(
                f"{kind!r} is no collective",
                rule="pass-option",
                hint=did_you_mean(kind, COLLECTIVES) or f"known: {', '.join(sorted(COLLECTIVES))}",
            )

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        changed: dict[Computation, None] = {}
        for i in [i for i in c.instructions if i.opcode == "while"]:
            if self.level >= 0 and self.level != depth_of(c):
                continue
            loop = CountedLoop.of(i)
            if loop is None:
                continue
            before = set(c.instructions)
            count = DIRECTIONS[self.direction](self, loop)
            if not count:
                continue
            copies = [x for x in c.instructions if x not in before]
            if self.unique_channel_id:
                renumber(module_of(i), copies)
            self.peeled(copies)
            self.rotated(loop.body)
            fired[self.direction] += count
            changed.update(dict.fromkeys((c, *i.called)))
        return changed

    def wants(self, i: Instruction) -> bool:
        """Whether a collective may be moved."""
        if i.opcode not in COLLECTIVES or (self.kinds and i.opcode not in self.kinds):
            return False
        if self.only_noted and (i.frontend_attributes or {}).get(PIPELINING) != self.direction:
            return False
        return is_plain(i) and i.operands[0].shape.size_bytes >= self.least_bytes

    def is_on_the_way(self, i: Instruction) -> bool:
        """Whether an operation may lie between a collective and its buffer, or what it loads."""
        if i.opcode == "opt-barrier":
            return self.through_barriers and i.shape.is_array and not i.has_control_edges
        return is_form(i)

    def is_within(self, count: int, size_bytes: int) -> bool:
        """Whether so many collectives of a loop may move, for which it carries so many bytes."""
        limits = ((count, self.most_collectives), (size_bytes, self.most_bytes))
        return all(most < 0 or n <= most for n, most in limits)

    def peeled(self, copies: list[Instruction]) -> None:
        """Called with what was written out beside a loop; for passes that know more of it."""

    def rotated(self, body: Computation) -> None:
        """Called with a body whose collectives were moved."""


def depth_of(c: Computation) -> int:
    """How many loops a computation is run by."""
    depth = 0
    while c.callers:
        caller = next(iter(c.callers))
        depth += caller.opcode == "while"
        c = caller.parent
    return depth
