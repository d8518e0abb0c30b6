"""Collectives of what a loop loads, made a step earlier: see `collective_pipeliner`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloom.ir.copy import copy_instructions
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import DEVICE_ID
from hloom.passes.collectives.peeling import (
    CountedLoop,
    Values,
    erase_unread,
    order_effects,
    own_bodies,
)
from hloom.passes.normalize.loop_state import unchanged_elements

if TYPE_CHECKING:
    from hloom.passes.collectives.collective_pipeliner import CollectivePipeliner

_SOURCES = opcodes(DEVICE_ID, also=("constant", "iota"))


def pipeline_backward(p: CollectivePipeliner, loop: CountedLoop) -> int:
    """Make a loop communicate for its next step what it loads; how many collectives moved."""
    carried, chain = _loads(p, loop)
    if not carried or not any(by for _, by in loop.counters.values()):
        return 0
    c, body = loop.loop.parent, loop.body
    readers = list(loop.loop.users)
    first = _loaded(loop, chain, dict(enumerate(loop.initial())), beside=True)
    now = loop.grow([first[i] for i in carried])
    parts = list(body.root.operands)
    after = _loaded(loop, chain, dict(enumerate(parts)), beside=False)
    for i, x in zip(carried, now, strict=True):
        body.replace(i, x)
    parts = list(body.root.operands)
    loop.hand_on([*parts, *[after[i] for i in carried]])
    erase_unread(body, chain)
    loop.end_before(loop.count - 1)
    results = loop.results()
    fresh = {after[i] for i in chain if loop.element_of(i) is None}
    last = loop.written_out(results, _only_for(loop, fresh))
    loop.end_with(readers, [last[x] for x in parts])
    order_effects(loop.loop, last, is_before=False)
    erase_unread(c, [])
    return len(carried)


def _loads(
    p: CollectivePipeliner, loop: CountedLoop
) -> tuple[list[Instruction], dict[Instruction, None]]:
    """The collectives to move, and all that has to be made for them, in order."""
    loads: dict[Instruction, list[Instruction]] = {}
    order = loop.body.in_order()
    number = {i: k for k, i in enumerate(order)}
    for i in order:
        if p.wants(i):
            chain = _chain(p, loop, i)
            if chain is not None:
                loads[i] = chain
    members = {i for chain in loads.values() for i in chain}
    carried, carried_bytes = [], 0
    for i in loads:
        # What is only handed on to the next step is early already.
        if not any(u not in members and u is not loop.body.root for u in i.users):
            continue
        if p.is_within(len(carried) + 1, carried_bytes + i.shape.size_bytes):
            carried.append(i)
            carried_bytes += i.shape.size_bytes
    needed = {x for i in carried for x in loads[i]}
    return carried, dict.fromkeys(sorted(needed, key=number.__getitem__))


def _chain(p: CollectivePipeliner, loop: CountedLoop, i: Instruction) -> list[Instruction] | None:
    """All that makes a collective's value from what the loop counts and does not change; None
    where it reads something else, or the same in every step."""
    same = set(unchanged_elements(loop.loop))
    seen: dict[Instruction, None] = {i: None}
    stack, is_counted = [i], False
    while stack:
        x = stack.pop()
        k = loop.element_of(x)
        if k is not None:
            if k not in same and k not in loop.counters:
                return None
            is_counted |= k not in same
            continue
        is_source = x.opcode in _SOURCES and not x.has_control_edges
        if x is not i and not is_source:
            is_collective = x.opcode in COLLECTIVES and p.wants(x)
            if not is_collective and not p.is_on_the_way(x):
                return None
        for o in x.operands:
            if o is loop.state:
                return None
            if o not in seen:
                seen[o] = None
                stack.append(o)
    return list(seen) if is_counted else None


def _loaded(
    loop: CountedLoop, chain: dict[Instruction, None], parts: dict[int, Instruction], beside: bool
) -> Values:
    """A chain made anew, before the loop or in its body, of another state."""
    into = loop.loop.parent if beside else loop.body
    known: Values = {}
    rest = []
    for i in chain:
        k = loop.element_of(i)
        if k is None:
            rest.append(i)
        else:
            known[i] = parts[k]
    copy_instructions(rest, into, known)
    for i in rest:
        own_bodies(known[i])
    return known


def _only_for(loop: CountedLoop, fresh: set[Instruction]) -> list[Instruction]:
    """What the body computes for its next step alone."""
    only: set[Instruction] = set()
    for i in reversed(loop.body.in_order()):
        if i in fresh and all(u in only or u is loop.body.root for u in i.users):
            if loop.element_of(i) is None and not i.has_control_edges:
                only.add(i)
    return [*only]
