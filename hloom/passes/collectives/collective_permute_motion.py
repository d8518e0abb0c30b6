"""Permutes from the end of a loop's step to the beginning of the next one.

What goes round a ring at the end of a step is waited for before the next begins; at its beginning,
only by what reads it, and next to whatever the step does first. The first step takes what the loop
begins with, and behind the loop one permute more gives the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import is_plain
from hloom.passes.collectives.loop_results import element_readers, set_result
from hloom.passes.collectives.peeling import CountedLoop
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.expansion import Expansion
from hloom.passes.facts import loops_own_bodies, no_dead_code
from hloom.passes.pass_ import register
from hloom.types.dtype import PRED
from hloom.types.shape import shape


@register
class CollectivePermuteMotion(ComputationPass):
    """Move permutes from the end of a counted loop's steps to the beginning of the next ones."""

    name = "collective-permute-motion"
    needs = (loops_own_bodies,)
    breaks = (no_dead_code,)

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        changed: dict[Computation, None] = {}
        for i in [i for i in c.instructions if i.opcode == "while"]:
            loop = CountedLoop.of(i)
            counter = None if loop is None else counter_of(loop)
            if loop is None or counter is None:
                continue
            for k, permute in enumerate(loop.body.root.operands):
                if is_movable(loop, k, permute):
                    move(loop, counter, k, permute)
                    fired["moved"] += 1
                    changed.update(dict.fromkeys((c, loop.body)))
        return changed


def counter_of(loop: CountedLoop) -> tuple[int, int] | None:
    """An element that counts steps, and where from."""
    return next(((k, start) for k, (start, by) in loop.counters.items() if by), None)


def is_movable(loop: CountedLoop, k: int, permute: Instruction) -> bool:
    """Whether a step ends with a permute that nothing else in the step reads, and not with one of
    what the step before ended with, which was moved already."""
    if permute.opcode != "collective-permute" or permute.attrs.slice_sizes:
        return False
    root = loop.body.root
    if not is_plain(permute) or set(permute.users) != {root}:
        return False
    if list(root.operands).count(permute) != 1 or permute.shape is not permute.operands[0].shape:
        return False
    if any(x.sharding is not None for x in (permute, loop.loop)):
        return False
    return not element_readers(loop.condition.parameters[0], k)


def move(loop: CountedLoop, counter: tuple[int, int], k: int, permute: Instruction) -> None:
    """Let a step hand on what it would permute, and permute what it gets."""
    body, c, number = loop.body, loop.loop.parent, counter[0]
    b = Expansion(body, {})
    readers = element_readers(loop.state, k)
    received = b.emit("get-tuple-element", loop.state, index=k)
    at = b.emit("get-tuple-element", loop.state, index=number)
    start = b.scalar(counter[1], at.shape.dtype)
    is_first = b.emit("compare", at, start, direction="EQ", shape=shape(PRED))
    came = b.like(permute, received)
    chosen = b.emit("select", b.spread(is_first, received.shape.dims), received, came)
    chosen.shape = received.shape
    for reader in readers:
        body.replace(reader, chosen)
        body.erase(reader)
    body.replace(permute, permute.operands[0])
    body.erase(permute)
    element = c.add("get-tuple-element", loop.loop, index=k)
    last = c.append(permute.opcode, came.attrs, (element,), element.shape, permute.opcode)
    last.copy_annotations(came)
    set_result(loop.loop, k, element, last)
