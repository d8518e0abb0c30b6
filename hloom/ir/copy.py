"""Copies computations and modules, and says whether two are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.text.async_form import is_async_wrapper, same_wrapper

Replacement = dict[Instruction, Instruction]


def copy_instructions(
    order: Iterable[Instruction],
    into: Computation,
    new_for_old: Replacement,
    callees: dict[Computation, Computation] | None = None,
) -> None:
    """Append copies of instructions; `new_for_old` maps what they read, and grows by them.

    Calls go to `callees[c]` where given, else to the same computation; a fusion has a body of its
    own, so that is copied.
    """
    module, copying = into.module, list(order)
    for i in copying:
        operands = tuple([new_for_old[x] for x in i.operands])
        called = tuple([callees.get(c, c) for c in i.called]) if callees else i.called
        if i.opcode == "fusion" and called == i.called and module is not None:
            called = tuple([copy_computation(c, module)[0] for c in called])
        copied = into.append(i.opcode, i.attrs, operands, i.shape, i.name, called)
        copied.copy_annotations(i)
        new_for_old[i] = copied
    # What stood in `new_for_old` before, as arguments do for parameters, is in an order already.
    for i in copying:
        for before in i.control_predecessors:
            if before in new_for_old:
                new_for_old[i].add_control_predecessor(new_for_old[before])


def copy_computation(
    c: Computation,
    into: Module,
    name: str | None = None,
    callees: dict[Computation, Computation] | None = None,
) -> tuple[Computation, Replacement]:
    """A copy of a computation, in a module, and which instruction became which."""
    copied = into.add_computation(name or c.name, thread=c.execution_thread)
    copied.backend_config = c.backend_config
    new_for_old: Replacement = {}
    copy_instructions(c.in_order(), copied, new_for_old, callees)
    copied.reorder(new_for_old[i] for i in c.instructions)
    copied.root = new_for_old[c.root]
    return copied, new_for_old


def separate_callers(
    c: Computation, copied: Callable[[], Computation], opcodes: Set[str] | None = None
) -> int:
    """Let each place at which its callers (of some opcodes) name `c` name a copy, but for the
    first; how many copies were made."""
    copies, is_kept = 0, False
    for caller in sorted(c.callers, key=lambda i: i.id):
        if opcodes is not None and caller.opcode not in opcodes:
            continue
        called = list(caller.called)
        for k, x in enumerate(called):
            if x is not c:
                continue
            if is_kept:
                called[k] = copied()
                copies += 1
            is_kept = True
        if called != list(caller.called):
            caller.set_called(tuple(called))
    return copies


def copy_module(
    module: Module, schedule: Mapping[Computation, list[Instruction]] | None = None
) -> Module:
    """A module of its own, equal to this one, sharing only immutable parts; with another
    schedule, of this module's instructions, where one is given."""
    copied = Module(module.name)
    kept_fields = {
        "computations",
        "entry_or_none",
        "schedule",
        "_next_id",
        "_names",
        "carried",
        "name",
    }
    for key, value in vars(module).items():
        if key not in kept_fields:
            setattr(copied, key, value)
    copied.carried = dict(module.carried)
    callees: dict[Computation, Computation] = {}
    instructions: Replacement = {}
    for c in module.computations_in_order():
        callees[c], new_for_old = copy_computation(c, copied, c.name, callees)
        instructions.update(new_for_old)
    copied.computations = dict.fromkeys(callees[c] for c in module.computations)
    for old, new in callees.items():
        new.name = old.name
    if module.entry_or_none is not None:
        copied.entry = callees[module.entry]
    schedule = schedule or module.schedule
    if schedule is not None:
        copied.schedule = {
            callees[c]: [instructions[i] for i in order] for c, order in schedule.items()
        }
    return copied


def difference(a: Module, b: Module) -> str | None:
    """The first thing in which two modules differ, None when they are equal.

    Names, program order, annotations and every attribute count; ids do not, nor the names inside
    computations that the short form of async operations hides.
    """
    for key in vars(a):
        if key in ("computations", "entry_or_none", "schedule", "_next_id", "_names", "carried"):
            continue
        value_a, value_b = getattr(a, key), getattr(b, key)
        if key == "entry_layout" and value_a != value_b:
            value_a, value_b = a.program_shape.text, b.program_shape.text
        if value_a != value_b:
            return f"{key}: {value_a} and {value_b}"
    hidden = {c for m in (a, b) for c in m.computations if is_async_wrapper(c)}
    names_a, names_b = [
        [c.name for c in m.computations_in_order() if c not in hidden] for m in (a, b)
    ]
    if sorted(names_a) != sorted(names_b):
        return f"computations {sorted(set(names_a) ^ set(names_b))}"
    if a.entry.name != b.entry.name:
        return f"entry %{a.entry.name} and %{b.entry.name}"
    by_name = {c.name: c for c in b.computations}
    for c in a.computations:
        if c in hidden:
            continue
        if difference_ := _computation_difference(c, by_name[c.name], hidden):
            return f"%{c.name}: {difference_}"
    return _schedule_difference(a, b, hidden)


def _schedule_difference(a: Module, b: Module, hidden: set[Computation]) -> str | None:
    if (a.schedule is None) != (b.schedule is None):
        return "one module is scheduled, the other is not"
    if a.schedule is None or b.schedule is None:
        return None
    orders = [
        {c.name: [i.name for i in o] for c, o in (m.schedule or {}).items() if c not in hidden}
        for m in (a, b)
    ]
    return None if orders[0] == orders[1] else "schedules differ"


def _computation_difference(a: Computation, b: Computation, hidden: set[Computation]) -> str | None:
    if a.execution_thread != b.execution_thread:
        return f"threads {a.execution_thread} and {b.execution_thread}"
    if a.backend_config != b.backend_config:
        return f"backend configs {a.backend_config} and {b.backend_config}"
    if a.root.name != b.root.name:
        return f"roots %{a.root.name} and %{b.root.name}"
    if a.names.keys() != b.names.keys():
        return f"instructions {sorted(a.names.keys() ^ b.names.keys())[:4]}"
    for i in a.instructions:
        if difference_ := _instruction_difference(i, b.names[i.name], hidden):
            return f"%{i.name}: {difference_}"
    return None


def _instruction_difference(a: Instruction, b: Instruction, hidden: set[Computation]) -> str | None:
    for key in (
        "opcode",
        "shape",
        "attrs",
        "metadata",
        "sharding",
        "frontend_attributes",
        "backend_config",
        "extra",
    ):
        if getattr(a, key) != getattr(b, key):
            return f"{key}: {getattr(a, key)} and {getattr(b, key)}"
    if hidden.issuperset(a.called + b.called) and len(a.called) == len(b.called) == 1:
        if not same_wrapper(a.called[0], b.called[0]):
            return f"wrapped operations: {a.called[0].root!r} and {b.called[0].root!r}"
        lists = ("operands", "control_predecessors")
    else:
        lists = ("operands", "called", "control_predecessors")
    for key in lists:
        names_a, names_b = [[x.name for x in getattr(i, key)] for i in (a, b)]
        if names_a != names_b:
            return f"{key}: {names_a} and {names_b}"
    return None
