"""Transfers that do not depend on each other as one group, which is begun and awaited as one.

A communicator that is handed a group sends and receives all of it at once, and no order among its
members can make two devices wait for each other. The group is a computation in which all receives
and sends are begun before the first is awaited; it runs asynchronously, as its members did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.verify.pairs import is_async_body
from hloom.passes.collectives.p2p_schedule_preparation import Transfer, transfers
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register
from hloom.types.shape import tuple_shape


@register
class CollectiveSendRecvCombiner(ComputationPass):
    """Put sends and receives that do not depend on each other in one asynchronous group."""

    name = "collective-send-recv-combiner"
    breaks = (no_dead_code,)

    most_transfers: int = 256
    """So many transfers in a group, at most."""

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        if c.is_fusion or is_async_body(c):
            return []
        count = fired.total()
        for level in _levels(c, [t for t in transfers(c) if _is_movable(t)]):
            for first in range(0, len(level), self.most_transfers):
                group = level[first : first + self.most_transfers]
                if len(group) > 1:
                    _combine(c, group)
                    fired["combined"] += len(group)
        return [c] if fired.total() > count else []


def _is_movable(t: Transfer) -> bool:
    """Whether each half is awaited where it was begun, and nothing else comes between them."""
    if t.received.operands != (t.receive,) or t.sent.operands != (t.send,):
        return False
    if len(t.receive.users) != 1 or len(t.send.users) != 1:
        return False
    stack = [x for i in t for x in (*i.users, *i.control_successors) if x not in t]
    seen = set(stack)
    while stack:
        i = stack.pop()
        for x in (*i.users, *i.control_successors):
            if x in t:
                return False
            if x not in seen:
                seen.add(x)
                stack.append(x)
    return True


def _levels(c: Computation, among: list[Transfer]) -> list[list[Transfer]]:
    """Those together with as many others on the longest way to them; none of these waits for
    another, and groups of different levels cannot wait for each other in a circle."""
    of = {i: k for k, t in enumerate(among) for i in t}
    depths = dict.fromkeys(range(len(among)), 0)
    is_new = True
    while is_new:  # the halves of one transfer are apart: what one of them waits for, all do
        is_new = False
        depth: dict[Instruction, int] = {}
        for i in c.in_order():
            deepest = 0
            for x in (*i.operands, *i.control_predecessors):
                is_own = i in of and of.get(x) == of[i]
                deepest = max(deepest, depth[x] - 1 if is_own and x in of else depth[x])
            if i in of:
                if deepest > depths[of[i]]:
                    depths[of[i]], is_new = deepest, True
                deepest = depths[of[i]] + 1
            depth[i] = deepest
        if max(depths.values(), default=0) > len(among):
            return []  # halves wait for halves of each other: they are no group
    levels: dict[int, list[Transfer]] = {}
    for k, t in enumerate(among):
        levels.setdefault(depths[k], []).append(t)
    return [levels[k] for k in sorted(levels)]


def _combine(c: Computation, group: list[Transfer]) -> None:
    """One start and one done in the place of all halves of a group."""
    halves = [i for t in group for i in t]
    own = set(halves)
    inputs = list(dict.fromkeys(x for i in halves for x in i.operands if x not in own))
    body = _body(c, group, inputs)
    of = tuple_shape([tuple_shape([x.shape for x in inputs]), body.root.shape])
    start = c.add(
        "async-start", *inputs, shape=of, called=(body,), async_execution_thread=c.execution_thread
    )
    done = c.add("async-done", start, shape=body.root.shape)
    start.metadata = done.metadata = group[0].receive.metadata
    for i in halves:
        for before in i.control_predecessors:
            if before not in own:
                start.add_control_predecessor(before)
        for after in i.control_successors:
            if after not in own:
                after.add_control_predecessor(done)
        i.drop_control_edges()
    for k, t in enumerate(group):
        for n, old in enumerate((t.received, t.sent)):
            c.replace(old, c.add("get-tuple-element", done, index=2 * k + n))
            c.erase(old)
        c.erase(t.send)
        c.erase(t.receive)


def _body(c: Computation, group: list[Transfer], inputs: list[Instruction]) -> Computation:
    """All transfers of a group, begun in one order and then awaited; what is received and that
    it was sent, for each."""
    assert c.module is not None, "passes run on modules"
    body = c.module.add_computation("wrapped_send_recv", thread=c.execution_thread)
    copies = {
        x: body.add("parameter", shape=x.shape, number=k, name=f"param_{k}")
        for k, x in enumerate(inputs)
    }
    in_order = [t[n] for n in range(4) for t in group]
    for i in in_order:
        operands = tuple([copies[x] for x in i.operands])
        copies[i] = body.append(i.opcode, i.attrs, operands, i.shape, i.name)
        copies[i].copy_annotations(i)
    for first, second in pairwise(in_order):
        copies[second].add_control_predecessor(copies[first])
    body.root = body.add("tuple", *[copies[x] for t in group for x in (t.received, t.sent)])
    return body
