"""What passes on while loops ask of the state: which elements never change, who reads them."""

from __future__ import annotations

from hloom.ir.instruction import Instruction


def can_be_taken_apart(loop: Instruction) -> bool:
    """Whether the state is a tuple that is made and read element by element in computations of
    the loop's own."""
    condition, body = loop.called
    if not loop.shape.is_tuple or body.root.opcode != "tuple" or condition is body:
        return False
    if any(sum(c.callers.values()) != 1 or c.is_entry for c in (condition, body)):
        return False
    if loop.operands[0].opcode != "tuple":
        return False
    readers = [*condition.parameters[0].users, *body.parameters[0].users]
    return all(u.opcode == "get-tuple-element" for u in readers)


def can_carry_more(loop: Instruction) -> bool:
    """Whether elements may be added to the state: it can be taken apart, all readers of the result
    take an element, and nothing is said of the state as a whole."""
    if loop.is_root or not can_be_taken_apart(loop):
        return False
    if any(u.opcode != "get-tuple-element" for u in loop.users):
        return False
    return not any(i.extra or i.sharding for i in (loop, *loop.called[1].parameters))


def elements_read(state: Instruction) -> dict[int, list[Instruction]]:
    """The get-tuple-elements of a value by index."""
    readers: dict[int, list[Instruction]] = {}
    for u in state.users:
        if u.opcode == "get-tuple-element":
            readers.setdefault(u.attrs.index, []).append(u)
    return readers


def unchanged_elements(loop: Instruction) -> list[int]:
    """Which elements the body hands on as it got them."""
    body = loop.called[1]
    state = body.parameters[0]
    return [
        k
        for k, x in enumerate(body.root.operands)
        if x.opcode == "get-tuple-element" and x.operands[0] is state and x.attrs.index == k
    ]
