"""Loops as passes on collectives edit them: a body that one or more loops run, what goes into its
state and what is read of it afterwards."""

from __future__ import annotations

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.types.shape import tuple_shape


def loops_of(body: Computation) -> list[Instruction]:
    """The loops that run a body, where nothing else calls it, and each names it once."""
    loops = list(body.callers)
    if any(i.opcode != "while" or i.called[1] is not body for i in loops):
        return []
    if any(count != 1 for count in body.callers.values()):
        return []
    return loops


def is_taken_apart(body: Computation, loops: list[Instruction]) -> bool:
    """Whether the state is a tuple that body and conditions read element by element."""
    if body.root.opcode != "tuple" or body.root is body.parameters[0]:
        return False
    states = [body.parameters[0], *(i.called[0].parameters[0] for i in loops)]
    return all(u.opcode == "get-tuple-element" for s in states for u in s.users) and not any(
        s.is_root for s in states
    )


def element_readers(state: Instruction, k: int) -> list[Instruction]:
    """The get-tuple-elements of an element."""
    return [u for u in state.users if u.opcode == "get-tuple-element" and u.attrs.index == k]


def is_read_by_conditions(loops: list[Instruction], k: int) -> bool:
    return any(element_readers(i.called[0].parameters[0], k) for i in loops)


def unread_element(body: Computation, i: Instruction) -> int | None:
    """The element of the state that `i` is in the next step, where nothing else reads `i`."""
    root = body.root
    if set(i.users) != {root} or list(root.operands).count(i) != 1:
        return None
    return root.operands.index(i)


def initial_element(loop: Instruction, k: int) -> Instruction:
    """What an element of the state begins as."""
    init = loop.operands[0]
    if init.opcode == "tuple":
        return init.operands[k]
    return loop.parent.add("get-tuple-element", init, index=k)


def set_initial(loop: Instruction, k: int, value: Instruction) -> None:
    """Let an element of the state begin as another value."""
    c, init = loop.parent, loop.operands[0]
    parts = [value if n == k else initial_element(loop, n) for n in range(len(init.shape.elements))]
    elements = list(loop.shape.elements)
    if not elements[k].compatible(value.shape):
        elements[k] = value.shape
    of = tuple_shape(elements)
    new = c.append("tuple", OPS["tuple"].attrs(), tuple(parts), of, "tuple")
    if init.opcode == "tuple":
        new.metadata, new.sharding = init.metadata, init.sharding
    loop.set_operands((new,))
    if init.opcode == "tuple" and not init.users and not init.is_root:
        if not init.has_control_edges:
            c.erase(init)


def set_result(loop: Instruction, k: int, element: Instruction, value: Instruction) -> None:
    """Let readers of element `k` of a loop's result read another value, but for `element`, a
    get-tuple-element that the value is made of."""
    c = loop.parent
    whole: Instruction | None = None
    for reader in list(loop.users):
        if reader is element or reader is whole:
            continue
        if reader.opcode == "get-tuple-element":
            if reader.attrs.index != k:
                continue
            if not reader.has_control_edges:
                c.replace(reader, value)
                c.erase(reader)
                continue
        whole = whole or _rebuilt(loop, k, value)
        reader.replace_operand(loop, whole)
    if loop.is_root:
        c.root = whole or _rebuilt(loop, k, value)


def _rebuilt(loop: Instruction, k: int, value: Instruction) -> Instruction:
    """The result of a loop as a tuple made anew, with another element."""
    c = loop.parent
    parts = [
        value if n == k else c.add("get-tuple-element", loop, index=n)
        for n in range(len(loop.shape.elements))
    ]
    elements = list(loop.shape.elements)
    if not elements[k].compatible(value.shape):
        elements[k] = value.shape
    of = tuple_shape(elements)
    new = c.append("tuple", OPS["tuple"].attrs(), tuple(parts), of, "tuple")
    new.metadata, new.sharding = loop.metadata, loop.sharding
    return new


def retype(loop: Instruction, body: Computation, k: int, shape) -> None:
    """Give an element of the state another shape in loop, body and condition."""
    elements = list(loop.shape.elements)
    elements[k] = shape
    whole = tuple_shape(elements)
    for x in (loop, body.root, body.parameters[0], loop.called[0].parameters[0]):
        x.shape = whole
