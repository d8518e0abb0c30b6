"""Loops that run never or once go; elements of the state that never change are read directly.

Of two elements that start alike and are set alike only the first is read afterwards. What nobody
reads any more is removed by `module-dce`. All duplicates of a loop are found before one is
rewritten, so the work is linear in the size of the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.analysis.trip_count import trip_count
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.expansion import Expansion, put_in_place
from hloom.passes.facts import loops_own_bodies
from hloom.passes.normalize.conditional_to_select import copied
from hloom.passes.normalize.loop_state import (
    can_be_taken_apart,
    elements_read,
    unchanged_elements,
)
from hloom.passes.pass_ import register
from hloom.rewrite.laid_out import laid_out


def _has_effects(c: Computation) -> bool:
    return any(i.has_side_effect for i in c.instructions)


def short_loop(b: Expansion, loop: Instruction) -> Instruction | None:
    """What a loop of no or one iteration returns; None for any other."""
    condition, body = loop.called
    if _has_effects(condition):
        return None
    count = trip_count(loop).count
    x = loop.operands[0]
    if count == 0:
        return b.tuple(*x.operands) if x.opcode == "tuple" else x
    if count != 1 or any(i.has_control_edges for i in body.instructions):
        return None
    new_root = laid_out(b.computation, copied(b, body, x), loop.shape, b.added)
    return b.tuple(*new_root.operands) if new_root.opcode == "tuple" else new_root


def read_unchanged_directly(loop: Instruction) -> int:
    """Let readers of unchanged elements after the loop read what went in; how many did."""
    init, parent = loop.operands[0], loop.parent
    read = elements_read(loop)
    count = 0
    for k in unchanged_elements(loop):
        for g in read.get(k, ()):
            if g.shape is init.operands[k].shape and not g.has_control_edges:
                parent.replace(g, init.operands[k])
                parent.erase(g)
                count += 1
    return count


def merge_duplicates(loop: Instruction) -> int:
    """Let readers of an element that equals an earlier one read that; how many did."""
    condition, body = loop.called
    init, root = loop.operands[0], body.root
    same = set(unchanged_elements(loop))
    first: dict[tuple, int] = {}
    twins: dict[int, int] = {}
    for k, x in enumerate(init.operands):
        after = None if k in same else root.operands[k]
        twin = first.setdefault((x, after), k)
        if twin != k:
            twins[k] = twin
    if not twins:
        return 0
    count = 0
    attrs = OPS["get-tuple-element"].attrs
    for state in (condition.parameters[0], body.parameters[0], loop):
        read = elements_read(state)
        for k in twins:
            for g in read.get(k, ()):
                if all(u is root for u in g.users) and k in same and g.users:
                    continue  # only handed on
                twin = attrs(index=twins[k])
                fresh = g.parent.append("get-tuple-element", twin, (state,), g.shape, g.name)
                for u in list(g.users):
                    if u is root and k in same:
                        continue
                    u.replace_operand(g, fresh)
                    count += 1
                if g.is_root:
                    g.parent.root = fresh
                    count += 1
                if not fresh.users and not fresh.is_root:
                    g.parent.erase(fresh)
                elif not g.users and not g.is_root and not g.has_control_edges:
                    g.parent.erase(g)
    return count


@register
class WhileLoopSimplifier(ComputationPass):
    """Remove loops of no or one iteration, and reads of unchanged and duplicate state."""

    name = "while-loop-simplifier"
    opcodes = frozenset(["while"])
    needs = (loops_own_bodies,)

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        for loop in [i for i in c.instructions if i.opcode == "while"]:
            b = Expansion(c, {})
            new = short_loop(b, loop)
            if new is not None:
                put_in_place(b, loop, new)
                fired["short loop"] += 1
                yield c
                continue
            if not can_be_taken_apart(loop):
                continue
            unchanged, twins = read_unchanged_directly(loop), merge_duplicates(loop)
            fired["unchanged element"] += unchanged
            fired["duplicate element"] += twins
            if unchanged or twins:
                yield from (c, *loop.called)
