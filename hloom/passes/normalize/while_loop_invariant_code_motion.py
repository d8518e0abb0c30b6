"""What a loop computes anew each time from values that never change is computed before it.

The value becomes one more element of the state, handed on unchanged. Single numbers made of few
and what only moves or repeats data stay: carrying them costs as much as making them; they move
along where something dearer needs them. So does what is larger than all it is made of, but for
what devices gather of one another: that is received once, where it is all no larger than what the
loop carries anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.op import OPS, opcodes
from hloom.ir.traits import (
    ASYNC,
    CONTROL_FLOW,
    DEVICE_ID,
    FORWARDS,
    HANDS_OPERANDS,
    PLUMBING,
    RESHAPES,
    STRIDED,
)
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.facts import loops_own_bodies
from hloom.passes.normalize.loop_state import can_carry_more, unchanged_elements
from hloom.passes.pass_ import register
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.types.shape import tuple_shape

_FREE = opcodes(
    STRIDED, RESHAPES, also=("constant", "get-tuple-element"), without=("dynamic-slice",)
)
"""What costs nothing to make again inside a kernel."""
_NEVER = opcodes(
    PLUMBING,
    CONTROL_FLOW,
    HANDS_OPERANDS,
    FORWARDS,
    ASYNC,
    DEVICE_ID,
    also=("custom-call", "copy", "after-all"),
    without=("constant",),
)

FEW = 16


def _is_movable(i: Instruction) -> bool:
    if i.opcode in _NEVER or i.has_control_edges or not i.shape.is_array or i.shape.is_dynamic:
        return False
    return not i.has_side_effect


def _is_small(i: Instruction) -> bool:
    """Whether it is a single number made of few: cheaper made again than carried."""
    return i.shape.size <= 1 and all(o.shape.size <= FEW for o in i.operands if o.shape.is_array)


def invariants(loop: Instruction) -> tuple[dict[Instruction, int | None], list[Instruction]]:
    """What the body computes from unchanged elements (each such element with its index), and
    which of it is worth carrying: the values that the rest of the body reads."""
    body = loop.called[1]
    state, same = body.parameters[0], set(unchanged_elements(loop))
    known: dict[Instruction, int | None] = {}
    for i in body.in_order():
        if i.opcode == "get-tuple-element" and i.operands[0] is state:
            if i.attrs.index in same:
                known[i] = i.attrs.index
        elif _is_movable(i) and all(o in known for o in i.operands):
            known[i] = None
    worth = []
    left = state.shape.size_bytes
    for i, index in known.items():
        if index is not None or i.opcode in _FREE or _is_small(i):
            continue
        arrays = [o.shape.size_bytes for o in i.operands if o.shape.is_array]
        if arrays and i.shape.size_bytes > sum(arrays):
            if i.opcode not in COLLECTIVES or i.shape.size_bytes > left:
                continue
            left -= i.shape.size_bytes
        if i.is_root or any(u not in known or u.opcode in _FREE for u in i.users):
            worth.append(i)
    return known, worth


def hoist(loop: Instruction, known: dict, worth: list[Instruction]) -> None:
    """Compute `worth` before the loop and carry it."""
    init, body, outer = loop.operands[0], loop.called[1], loop.parent
    moved: dict[Instruction, Instruction] = {}
    for target in worth:
        stack = [target]
        while stack:
            i = stack[-1]
            if i in moved:
                stack.pop()
                continue
            if known[i] is not None:
                moved[i] = init.operands[known[i]]
                continue
            waiting = [o for o in i.operands if o not in moved]
            if waiting:
                stack.extend(waiting)
                continue
            operands = tuple(moved[o] for o in i.operands)
            hoisted = outer.append(i.opcode, i.attrs, operands, i.shape, i.name, i.called)
            hoisted.copy_annotations(i)
            moved[i] = hoisted
    first = len(init.operands)
    grow(loop, [moved[i] for i in worth])
    attrs, state = OPS["get-tuple-element"].attrs, body.parameters[0]
    handed_on = []
    for k, i in enumerate(worth, start=first):
        g = body.append("get-tuple-element", attrs(index=k), (state,), i.shape, "hoisted")
        handed_on.append(g)
        body.replace(i, g)
    root = body.root
    body.root = body.append(
        "tuple", root.attrs, (*root.operands, *handed_on), state.shape, root.name
    )
    body.erase(root)


def grow(loop: Instruction, more: list[Instruction]) -> None:
    """Widen what goes into a loop, its parameters and its result by these elements."""
    init = loop.operands[0]
    whole = (*init.operands, *more)
    shape = tuple_shape([*loop.shape.elements, *(x.shape for x in more)])
    wider = loop.parent.append("tuple", init.attrs, whole, shape, init.name)
    loop.set_operands((wider,))
    if not init.users and not init.is_root and not init.has_control_edges:
        loop.parent.erase(init)
    loop.shape = shape
    loop.sharding = None
    for c in loop.called:
        c.parameters[0].shape = shape
        c.parameters[0].sharding = None


@register
class WhileLoopInvariantCodeMotion(ComputationPass):
    """Compute before a loop what its body computes from values that never change."""

    name = "while-loop-invariant-code-motion"
    opcodes = frozenset(["while"])
    needs = (loops_own_bodies,)

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        changed: dict[Computation, None] = {}
        for loop in [i for i in c.instructions if i.opcode == "while"]:
            if not can_carry_more(loop):
                continue
            known, worth = invariants(loop)
            if not worth:
                continue
            hoist(loop, known, worth)
            fired["hoisted"] += len(worth)
            changed.update(dict.fromkeys((c, *loop.called)))
        for x in changed:
            remove_dead_instructions(x)
        return changed
