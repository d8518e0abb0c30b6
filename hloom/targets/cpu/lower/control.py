"""Loops and choices."""

from __future__ import annotations

from hloom.analysis.trip_count import trip_count
from hloom.base.faults import Culprit, Fault, blame
from hloom.ir.instruction import Instruction
from hloom.program.thunks.conditional import Conditional
from hloom.program.thunks.thunk import Thunk
from hloom.program.thunks.while_ import While
from hloom.targets.cpu.lower.interchange import interchanged
from hloom.targets.cpu.lower.loop_steps import Decline
from hloom.targets.cpu.lower.whole_loop import whole_loop
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering

WHOLE_LOOP = "whole-loop"


@CPU_LOWERS.of("while")
def while_(cpu: Lowering, i: Instruction) -> list[Thunk]:
    whole = _in_one_kernel(cpu, i)
    if whole is not None:
        return whole
    condition, body = i.called
    pred = cpu.slice(condition.root)
    # A condition that does something is run, whatever is known of its answer.
    effects = any(x.has_side_effect for x in condition.instructions)
    count = None if effects else trip_count(i).count
    leaves = [index for index, leaf in i.shape.subshapes() if leaf.is_array]
    carried = tuple([cpu.slice(i, index) for index in leaves])
    return [While(i.name, cpu.sequence(condition), pred, cpu.sequence(body), count, carried)]


def _in_one_kernel(cpu: Lowering, i: Instruction) -> list[Thunk] | None:
    """The loop as one kernel; None where it is none, or that family is left out."""
    if cpu.is_left_out(WHOLE_LOOP, i):
        return None
    try:
        return _kernels(cpu, i)
    except Decline as why:
        cpu.stepwise[i] = str(why)
        return None
    except Exception as error:
        culprit = Culprit("kernel", WHOLE_LOOP, i.name)
        blame(error, culprit)
        if cpu.faults is None or isinstance(error, RecursionError):
            raise
        cpu.faults.append(Fault.of(error, culprit, f"loop {i.name} runs step by step"))
        return None


def _kernels(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """The loop as kernels that hold all iterations; `Decline` says why neither way is for it."""
    try:
        return interchanged(cpu, i)
    except Decline as why:
        reason = str(why)
    try:
        return whole_loop(cpu, i)
    except Decline as why:
        raise Decline(f"{why}; nor is each element for itself: {reason}") from None


@CPU_LOWERS.of("conditional")
def conditional(cpu: Lowering, i: Instruction) -> list[Thunk]:
    selector = i.operands[0]
    branches = tuple([cpu.sequence(c) for c in i.called])
    names = tuple([c.name for c in i.called])
    is_pred = selector.shape.dtype.is_pred
    return [Conditional(i.name, cpu.slice(selector), is_pred, branches, names)]
