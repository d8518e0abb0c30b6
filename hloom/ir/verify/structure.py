"""Is the graph well formed: owners, operands, users, callers, roots, parameters, no cycles."""

from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, OpDef, ShapeError
from hloom.ir.verify.rules import broken
from hloom.types.mesh import too_many_devices

MOST_LEAVES = 1 << 20
"""Tuples of tuples of the same shape grow without bound; other rules look at every leaf."""


def check_structure(module: Module) -> Iterator[VerifyError]:
    """The rules every other rule relies on."""
    if module.entry_or_none is None:
        yield broken("entry", f"module {module.name} has no entry computation")
        return
    if module.entry_or_none not in module.computations:
        yield broken("entry", "the entry computation is not in the module", module.entry_or_none)
        return
    for what in ("replica_count", "num_partitions"):
        if getattr(module, what) < 1:
            yield broken("devices", f"{what}={getattr(module, what)} is no number of devices")
            return
    if wrong := too_many_devices(module.replica_count * module.num_partitions):
        yield broken("devices", wrong)
        return
    sound = True
    names: set[str] = set()
    for c in module.computations:
        if c.module is not module:
            sound = False
            yield broken("owner", "the computation belongs to another module", c)
        if c.name in names:
            sound = False
            yield broken("names", "two computations have this name", c)
        names.add(c.name)
        for error in _check_computation(c, module):
            sound = False
            yield error
    if sound:
        yield from _check_callers(module)
        yield from _check_order(module)


def _check_computation(c: Computation, module: Module) -> Iterator[VerifyError]:
    root = c._root
    if root is None or root not in c.instructions:
        yield broken("root", "the computation has no root among its instructions", c)
    yield from _check_parameters(c)
    if len(c.names) != len(c.instructions):
        yield broken("names", "the table of names is not that of the instructions", c)
    read = used = 0
    for i in c.instructions:
        if i.parent is not c:
            yield broken("owner", f"it is listed in computation %{c.name} as well", i)
            continue
        if c.names.get(i.name) is not i:
            yield broken("names", "another instruction has this name", i)
        if i.shape.leaf_count > MOST_LEAVES:
            yield broken("shape", f"a tuple of {i.shape.leaf_count} leaves is too large to read", i)
        op = OPS.get(i.opcode)
        if op is None:
            yield broken("opcode", f"no operation is called {i.opcode!r}", i)
            continue
        wrong = _wrong_counts(i, op)
        if wrong is not None:
            yield wrong
        operands = i.operands
        if operands:
            read += len(set(operands)) if len(operands) > 1 else 1
            for x in operands:
                if x.parent is not c or x not in c.instructions:
                    yield broken("operands", f"operand %{x.name} is not in this computation", i)
                elif i not in x.users:
                    yield broken("users", f"operand %{x.name} does not know this user", i)
        used += len(i.users)
        for callee in i.called:
            if callee not in module.computations:
                yield broken("called", f"computation %{callee.name} is not in the module", i)
        if i.control_predecessors or i.control_successors:
            yield from _check_control(i, c)
    if read != used:
        yield from _find_false_users(c)


def _wrong_counts(i: Instruction, op: OpDef) -> VerifyError | None:
    if op.variadic is None:
        if len(i.operands) != len(op.operands):
            return broken(
                "operand-count", f"{op.name} takes {len(op.operands)} operands, got "
                f"{len(i.operands)}", i
            )  # fmt: skip
    elif len(i.operands) < len(op.operands) - 1:
        try:
            op.check_operand_count(len(i.operands))
        except ShapeError as error:
            return broken("operand-count", str(error), i)
    if len(i.called) != len(op.called) and not op.called_variadic:
        return broken("called", f"{op.name} calls {len(op.called)}, not {len(i.called)}", i)
    return None


def _check_parameters(c: Computation) -> Iterator[VerifyError]:
    listed = [i for i in c.instructions if i.opcode == "parameter"]
    if len(listed) != len(c.parameters) or set(listed) != set(c.parameters):
        yield broken("parameters", "the table of parameters is not that of the instructions", c)
        return
    for position, p in enumerate(c.parameters):
        number = p.attrs.number
        if number != position:
            twice = position and number == c.parameters[position - 1].attrs.number
            what = "is used twice" if twice else f"comes where {position} is missing"
            yield broken("parameters", f"parameter number {number} {what}", p)
            return


def _check_control(i: Instruction, c: Computation) -> Iterator[VerifyError]:
    for x in i.control_predecessors:
        if x not in c.instructions:
            yield broken("control", f"control predecessor %{x.name} is elsewhere", i)
        elif i not in x.control_successors:
            yield broken("control", f"%{x.name} does not know this control successor", i)
    for x in i.control_successors:
        if x not in c.instructions:
            yield broken("control", f"control successor %{x.name} is elsewhere", i)
        elif i not in x.control_predecessors:
            yield broken("control", f"%{x.name} does not know this control predecessor", i)


def _find_false_users(c: Computation) -> Iterator[VerifyError]:
    """Only reached when there are more users than readers, so it may take its time."""
    for i in c.instructions:
        for user in i.users:
            if user not in c.instructions or i not in user.operands:
                yield broken("users", f"%{user.name} is said to use it and does not", i)


def _check_callers(module: Module) -> Iterator[VerifyError]:
    calls: dict[Computation, dict[Instruction, int]] = {c: {} for c in module.computations}
    for c in module.computations:
        for i in c.instructions:
            for callee in i.called:
                counts = calls[callee]
                counts[i] = counts.get(i, 0) + 1
    for c, counts in calls.items():
        if counts != c.callers:
            stale = [i.name for i in c.callers if i not in counts]
            missing = [i.name for i in counts if i not in c.callers]
            yield broken(
                "callers", f"callers are wrong: stale {stale[:5]}, missing {missing[:5]}", c
            )


def _check_order(module: Module) -> Iterator[VerifyError]:
    for c in module.computations:
        try:
            c.in_order()
        except ValueError as error:
            yield broken("cycle", str(error), c)
    try:
        module.computations_in_order()
    except ValueError as error:
        yield broken("recursion", str(error))
    if module.entry.is_fusion:
        yield broken("entry", "the entry computation is the body of a fusion", module.entry)
