"""One step of a loop written out before or after it, and loops that get more state.

What the pipeliner asks of a loop: a counted one, whose state is a tuple that body and condition
read element by element, in computations of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hloom.analysis.trip_count import counters, trip_count
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_computation, copy_instructions
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, opcodes
from hloom.ir.traits import ASYNC, CONTROL_FLOW, PLUMBING
from hloom.ir.values.backend_config import BackendConfig
from hloom.passes.collectives.groups import module_of
from hloom.passes.collectives.halves import collective_of
from hloom.passes.normalize.loop_state import can_be_taken_apart
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.rewrite.laid_out import laid_out
from hloom.types.literal import Literal
from hloom.types.shape import shape, tuple_shape

_NO_FORM = opcodes(CONTROL_FLOW, ASYNC, PLUMBING, also=("custom-call",))
"""What brings no value into another form."""

Values = dict[Instruction, Instruction]


class CountedLoop:
    """A loop that runs its body `count` times, at least once."""

    def __init__(self, loop: Instruction, count: int) -> None:
        self.loop, self.count = loop, count
        self.condition, self.body = loop.called
        self.state = self.body.parameters[0]
        self.counters = {
            k: by for k, by in counters(loop).items() if _is_in_range(loop, k, *by, count)
        }
        """Which elements count, from where and by how much."""

    @staticmethod
    def of(loop: Instruction) -> CountedLoop | None:
        """None where the loop is none that can be pipelined."""
        if not can_be_taken_apart(loop) or loop.has_control_edges:
            return None
        count = trip_count(loop).count
        if not count or any(i.extra for i in (loop, *[c.parameters[0] for c in loop.called])):
            return None
        if any(i.has_side_effect for i in loop.called[0].instructions):
            return None
        return CountedLoop(loop, count)

    def element_of(self, i: Instruction) -> int | None:
        """The element of the state that `i` is at the beginning of a step."""
        is_one = i.opcode == "get-tuple-element" and i.operands[0] is self.state
        return i.attrs.index if is_one else None

    def initial(self) -> list[Instruction]:
        return list(self.loop.operands[0].operands)

    def next_values(self, step: int) -> dict[int, Instruction]:
        """What counters are in a step, as constants beside the loop."""
        values = {}
        for k, (start, by) in self.counters.items():
            literal = Literal.of(start + step * by, self.loop.shape.elements[k].dtype)
            values[k] = self.loop.parent.add("constant", literal=literal, shape=literal.shape)
        return values

    def written_out(
        self, parts: Sequence[Instruction], without: Iterable[Instruction] = ()
    ) -> Values:
        """One step beside the loop: the body's instructions with the state being `parts`, but for
        those of `without`; which value became which."""
        c, leave_out = self.loop.parent, set(without)
        new_for_old: Values = {}
        for i in self.body.instructions:
            k = self.element_of(i)
            if k is not None:
                new_for_old[i] = laid_out(c, parts[k], i.shape, [])
        leave_out.update(new_for_old, (self.state, self.body.root))
        order = [i for i in self.body.in_order() if i not in leave_out]
        copy_instructions(order, c, new_for_old)
        for i in order:
            own_bodies(new_for_old[i])
        return new_for_old

    def grow(self, more: Sequence[Instruction]) -> list[Instruction]:
        """More elements of the state, which begin so; what they are in the body, where the root
        has yet to hand them on."""
        loop, init = self.loop, self.loop.operands[0]
        first = len(init.operands)
        whole = tuple_shape([*loop.shape.elements, *(x.shape for x in more)])
        wider = loop.parent.append("tuple", init.attrs, (*init.operands, *more), whole, init.name)
        loop.set_operands((wider,))
        if not init.users and not init.is_root and not init.has_control_edges:
            loop.parent.erase(init)
        for x in (loop, self.state, self.condition.parameters[0]):
            x.shape, x.sharding = whole, None
        attrs = OPS["get-tuple-element"].attrs
        return [
            self.body.append("get-tuple-element", attrs(index=k), (self.state,), x.shape, "carried")
            for k, x in enumerate(more, start=first)
        ]

    def begin_with(self, parts: Sequence[Instruction]) -> None:
        """Let the state begin as these values."""
        loop, init = self.loop, self.loop.operands[0]
        new = loop.parent.append("tuple", init.attrs, tuple(parts), loop.shape, init.name)
        loop.set_operands((new,))
        if not init.users and not init.is_root and not init.has_control_edges:
            loop.parent.erase(init)

    def hand_on(self, parts: Sequence[Instruction]) -> None:
        """Let the body end with these values."""
        old = self.body.root
        root = self.body.append("tuple", old.attrs, tuple(parts), self.state.shape, old.name)
        root.metadata = old.metadata
        self.body.root = root
        self.body.erase(old)

    def results(self) -> list[Instruction]:
        """The elements of what the loop gives, read anew."""
        add = self.loop.parent.add
        count = len(self.loop.shape.elements)
        return [add("get-tuple-element", self.loop, index=k) for k in range(count)]

    def end_with(self, readers: Sequence[Instruction], parts: Sequence[Instruction]) -> None:
        """Let those who read the loop's result read these values instead."""
        c, is_root = self.loop.parent, self.loop.is_root
        whole: Instruction | None = None
        for reader in readers:
            is_element = reader.opcode == "get-tuple-element"
            if is_element and not reader.has_control_edges and not reader.extra:
                new = laid_out(c, parts[reader.attrs.index], reader.shape, [])
                c.replace(reader, new)
                c.erase(reader)
                continue
            whole = whole or c.add("tuple", *parts)
            reader.replace_operand(self.loop, whole)
        if is_root:
            c.root = whole or c.add("tuple", *parts)

    def state_count(self, count: int) -> None:
        """Let what is said of the trip count be true; the condition is the caller's affair."""
        config = self.loop.backend_config
        said = config.json if config is not None else None
        if isinstance(said, dict) and "known_trip_count" in said:
            new = {**said, "known_trip_count": {"n": str(count)}}
            self.loop.backend_config = BackendConfig.from_json(new)

    def end_before(self, count: int) -> bool:
        """Let the loop run only so many times, by a condition of its own; whether a counter was
        there to say it."""
        counter = next(((k, *by) for k, by in self.counters.items() if by[1]), None)
        if counter is None:
            return False
        k, start, by = counter
        module = module_of(self.loop)
        condition = module.add_computation(
            self.condition.name, thread=self.condition.execution_thread
        )
        state = condition.add("parameter", shape=self.loop.shape, number=0, name="state")
        at = condition.add("get-tuple-element", state, index=k)
        literal = Literal.of(start + count * by, at.shape.dtype)
        bound = condition.add("constant", literal=literal, shape=literal.shape)
        direction = "LT" if by > 0 else "GT"
        condition.root = condition.add("compare", at, bound, direction=direction)
        old = self.condition
        self.loop.set_called((condition, self.body))
        self.condition = condition
        module.remove_computation(old)
        self.state_count(count)
        return True


def _is_in_range(loop: Instruction, k: int, start: int, by: int, count: int) -> bool:
    """Whether a counter is a whole number of its type in every step, and behind the last."""
    dtype = loop.shape.elements[k].dtype
    if not dtype.is_integral:
        return False
    low, high = (-(1 << dtype.bits - 1), 1 << dtype.bits - 1)
    if not dtype.is_signed:
        low, high = 0, 1 << dtype.bits
    return all(low <= x < high for x in (start, start + count * by))


def own_bodies(i: Instruction) -> None:
    """Give what was copied bodies of its own."""
    if i.opcode == "fusion" or not i.called or i.opcode not in _WITH_BODIES:
        return
    module = module_of(i)
    i.set_called(tuple([_deep_copy(c, module) for c in i.called]))


_WITH_BODIES = opcodes(CONTROL_FLOW, also=("async-start",))


def _deep_copy(c: Computation, module: Module) -> Computation:
    callees = {
        x: _deep_copy(x, module)
        for i in c.instructions
        if i.opcode in _WITH_BODIES
        for x in i.called
    }
    return copy_computation(c, module, c.name, callees)[0]


def order_effects(loop: Instruction, values: Values, *, is_before: bool) -> None:
    """Let steps that were written out keep their place before or after the loop where they do
    more than compute values."""
    for old, x in values.items():
        if x.parent is not loop.parent or not old.has_side_effect or x is loop:
            continue
        first, second = (x, loop) if is_before else (loop, x)
        if not _depends(first, second):
            second.add_control_predecessor(first)


def _depends(x: Instruction, on: Instruction) -> bool:
    """Whether `x` waits for `on`."""
    stack, seen = [x], {x}
    while stack:
        i = stack.pop()
        for o in (*i.operands, *i.control_predecessors):
            if o is on:
                return True
            if o not in seen:
                seen.add(o)
                stack.append(o)
    return False


def renumber(module: Module, copies: Iterable[Instruction]) -> None:
    """Give copies of collectives, and of sends and receives between devices, channels that nobody
    has; those of one channel stay of one. Transfers with the host keep theirs."""
    used = [getattr(i.attrs, "channel_id", None) or 0 for i in module.instructions()]
    free, new = max(used) + 1, {}
    stack = list(copies)
    while stack:
        i = stack.pop()
        if i.opcode in _WITH_BODIES:
            stack.extend(x for c in i.called for x in c.instructions)
        channel = getattr(i.attrs, "channel_id", None)
        if channel is None or getattr(i.attrs, "is_host_transfer", False):
            continue
        if channel not in new:
            new[channel] = free + len(new)
        i.attrs = replace(i.attrs, channel_id=new[channel])


def is_form(i: Instruction) -> bool:
    """Whether an operation may lie between a collective and a buffer: it only computes, and only
    its value."""
    if i.opcode in COLLECTIVES or i.opcode in _NO_FORM or collective_of(i) is not None:
        return False
    is_known = i.shape.is_array and not i.shape.is_dynamic
    return is_known and not i.has_control_edges and not i.has_side_effect


def erase_unread(c: Computation, members: Iterable[Instruction]) -> None:
    """Erase members that nobody reads any more, collectives among them, and what they alone
    read."""
    for i in sorted(members, key=_number_in(c), reverse=True):
        if not i.users and not i.is_root and not i.has_control_edges:
            c.erase(i)
    remove_dead_instructions(c)


def _number_in(c: Computation):
    number = {i: k for k, i in enumerate(c.in_order())}
    return lambda i: number[i]


def shape_of_stack(count: int, x: Instruction):
    """So many of `x`, one behind the other."""
    return shape(x.shape.dtype, (count, *x.shape.dims)).with_default_layouts()
