"""Sends and receives in an order in which no device waits for ever.

For each channel: receive, send, receive done, send done; and other collectives before the first of
them or behind the last, so that two devices never stand in different ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from hloom.ir.computation import Computation
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.verify.pairs import is_async_body
from hloom.passes.collectives.halves import collective_of
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.pass_ import register


class Transfer(NamedTuple):
    """The four halves of one channel, in the order in which they are to come."""

    receive: Instruction
    send: Instruction
    received: Instruction
    sent: Instruction


@register
class P2PSchedulePreparation(ComputationPass):
    """Order the halves of transfers between devices, and other collectives around them."""

    name = "p2p-schedule-preparation"

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        if c.is_fusion or is_async_body(c):
            return []
        halves = transfers(c)
        if not halves:
            return []
        others = [i for i in c.in_order() if i.opcode in COLLECTIVES or collective_of(i)]
        count = fired.total()
        last: Transfer | None = None
        for t in halves:
            for first, second in pairwise(t):
                fired["ordered"] += put_before(first, second)
            if last is not None:
                fired["ordered"] += put_before(last.sent, t.receive)
            for i in others:
                if waits_for(i, t.receive):
                    fired["ordered"] += put_before(t.sent, i)
                else:
                    fired["ordered"] += put_before(i, t.receive)
            last = t
        return [c] if fired.total() > count else []


def transfers(c: Computation) -> list[Transfer]:
    """Those whose four halves are in one computation, in program order."""
    halves: dict[int, dict[str, list[Instruction]]] = {}
    for i in c.in_order():
        if i.opcode in ("send", "recv", "send-done", "recv-done"):
            if not i.attrs.is_host_transfer and i.attrs.channel_id is not None:
                halves.setdefault(i.attrs.channel_id, {}).setdefault(i.opcode, []).append(i)
    names = ("recv", "send", "recv-done", "send-done")
    return [
        Transfer(*(of[name][0] for name in names))
        for of in halves.values()
        if all(len(of.get(name, ())) == 1 for name in names)
    ]


def put_before(first: Instruction, second: Instruction) -> bool:
    """Let `second` wait for `first`, where it does not yet and that is possible."""
    if waits_for(second, first) or waits_for(first, second):
        return False
    second.add_control_predecessor(first)
    return True


def waits_for(i: Instruction, other: Instruction) -> bool:
    """Whether `i` comes after `other` by data or control edges."""
    stack, seen = [i], {i}
    while stack:
        x = stack.pop()
        for o in (*x.operands, *x.control_predecessors):
            if o is other:
                return True
            if o not in seen:
                seen.add(o)
                stack.append(o)
    return False
