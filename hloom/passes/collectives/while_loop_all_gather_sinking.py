"""All-gathers of what a loop reads a slice of, from before the loop into its steps.

Weights of all layers that are gathered before a loop of layers are all there at once; gathered
layer by layer they take the memory of one. There are as many bytes to receive, where each step
reads another slice. `memory_limit_bytes` says how much may stay gathered: the largest go first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import is_plain
from hloom.passes.collectives.loop_results import element_readers, retype, set_initial
from hloom.passes.collectives.moving import again
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.expansion import Expansion
from hloom.passes.facts import loops_own_bodies, no_dead_code
from hloom.passes.normalize.loop_state import can_be_taken_apart, unchanged_elements
from hloom.passes.pass_ import register


class Sinkable(NamedTuple):
    """An element of a loop's state that is gathered before it, and its slices in the body."""

    loop: Instruction
    k: int
    gather: Instruction
    slices: list[Instruction]


@register
class WhileLoopAllGatherSinking(ComputationPass):
    """Gather slices in the steps of a loop instead of the whole array before it."""

    name = "while-loop-all-gather-sinking"
    needs = (loops_own_bodies,)
    breaks = (no_dead_code,)

    memory_limit_bytes: int = 0
    """So much of what one computation gathers for its loops may stay gathered before them."""

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        candidates = [s for i in c.instructions if i.opcode == "while" for s in sinkable(i)]
        candidates.sort(key=lambda s: -s.gather.shape.size_bytes)
        held = sum([s.gather.shape.size_bytes for s in candidates])
        changed: dict[Computation, None] = {}
        for s in candidates:
            if held <= self.memory_limit_bytes:
                break
            held -= s.gather.shape.size_bytes
            sink(s)
            fired["sunk"] += 1
            changed.update(dict.fromkeys((c, s.loop.called[1])))
        return changed


def sinkable(loop: Instruction) -> list[Sinkable]:
    """What a loop only reads slices of, across the dimension that is gathered."""
    if not can_be_taken_apart(loop) or loop.is_root or loop.has_control_edges:
        return []
    condition, body = loop.called
    sinkables = []
    for k in unchanged_elements(loop):
        gather = loop.operands[0].operands[k]
        if gather.opcode != "all-gather" or not is_plain(gather):
            continue
        if set(gather.users) != {loop.operands[0]} or loop.operands[0].operands.count(gather) > 1:
            continue
        if element_readers(condition.parameters[0], k) or set(loop.operands[0].users) != {loop}:
            continue
        if any(u.opcode != "get-tuple-element" or u.attrs.index == k for u in loop.users):
            continue
        readers = element_readers(body.parameters[0], k)
        slices = [u for r in readers for u in r.users if u is not body.root]
        if slices and all(is_across(u, gather) for u in slices):
            sinkables.append(Sinkable(loop, k, gather, slices))
    return sinkables


def is_across(i: Instruction, gather: Instruction) -> bool:
    """Whether a dynamic-slice takes the whole of the gathered dimension, and less of others."""
    (d,) = gather.attrs.dimensions
    if i.opcode != "dynamic-slice" or i.has_control_edges or i.shape.is_dynamic:
        return False
    is_less = i.shape.size < gather.shape.size
    return is_less and i.shape.dims[d] == gather.shape.dims[d]


def sink(s: Sinkable) -> None:
    """Let the state hold a shard, and each step gather what it cuts out of that."""
    body, (x,), (d,) = s.loop.called[1], s.gather.operands, s.gather.attrs.dimensions
    set_initial(s.loop, s.k, x)
    retype(s.loop, body, s.k, x.shape)
    s.loop.operands[0].shape = s.loop.shape
    for reader in element_readers(body.parameters[0], s.k):
        reader.shape = x.shape
    for i in s.slices:
        b = Expansion(body, {})
        dims = tuple(x.shape.dims[d] if k == d else n for k, n in enumerate(i.shape.dims))
        cut = b.emit("dynamic-slice", *i.operands, dynamic_slice_sizes=dims)
        new = again(b, s.gather, cut, i.shape)
        new.shape, new.sharding = i.shape, i.sharding
        cut.metadata = i.metadata
        body.replace(i, new)
        body.erase(i)
    if not s.gather.users and not s.gather.is_root:
        s.gather.parent.erase(s.gather)
