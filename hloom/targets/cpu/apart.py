"""Memory assigned anew, where what it shares keeps long steps from running side by side.

A program is planned for steps one after another, in the least memory, and nearly always stays so.
Where `codegen/branches.py` finds that cores idle because of shared memory alone, a copy of it gets
places for these branches, and takes its part if it needs little more memory and is quicker by the
costs of the device; else it all stays, and the decision says which memory is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hloom.analysis.alias_spaces import EntrySpaces
from hloom.base.clock import StageClock
from hloom.base.diagnostics import HloError
from hloom.base.faults import blamed
from hloom.codegen.branches import Proposal, proposals, refusal
from hloom.codegen.runs import WAITS, Decision
from hloom.ir.module import Module
from hloom.plan.branches import BranchPlan
from hloom.plan.buffer_assignment import BufferAssignment
from hloom.plan.order import Order
from hloom.program.thunks.thunk import sequence_elapsed_ns
from hloom.targets.cpu.planned import Lowered, Prepared

if TYPE_CHECKING:
    from hloom.targets.cpu.target import CpuTarget

NO_ROOM = "memory-space"
"""What assignment says of a plan that a memory space has no room for; without it, it has."""

NEEDS = "each step needs what the one before computes"


def kept_apart(
    target: CpuTarget,
    first: Lowered,
    spaces: EntrySpaces,
    clock: StageClock,
    whole: Module | None = None,
) -> Lowered:
    """The same program with memory for more of it side by side; as it was where that is no gain."""
    units = target.device.compute.units
    refused: dict[str, str] = {}
    for lanes in (2 * units, units):
        with clock.stage("runs"), blamed("step", "runs"):
            proposals = _proposals(target, first, lanes)
        if not proposals:
            break
        second, why = _attempt(target, first, proposals, spaces, clock, whole)
        if second is not None:
            return second
        refused = {p.where: refusal(p, why) for p in proposals}
    decisions = [
        d if d.runs or not d.is_open else d.because(refused.get(d.where) or _needs(d))
        for d in first.decisions
    ]
    return replace(first, decisions=decisions)


def _needs(d: Decision) -> str:
    """Why steps wait that do so for what others compute, not for their memory."""
    return NEEDS if d.why == WAITS else f"{d.why}: the others need what they compute"


def _proposals(target: CpuTarget, first: Lowered, lanes: int) -> list[Proposal]:
    by_name = {c.name: steps for c, steps in first.plan.order.steps.items()}
    device = target.concurrency_device
    return proposals(first.decisions, first.lowering.made_by, by_name, device, lanes)


def _attempt(
    target: CpuTarget,
    first: Lowered,
    proposals: Sequence[Proposal],
    spaces: EntrySpaces,
    clock: StageClock,
    whole: Module | None,
) -> tuple[Lowered | None, str]:
    """The program with memory for what is asked; None, and why not."""
    with clock.stage("copy"):
        module = first.plan.order.scheduled(first.plan.module)
        order = Order(module.schedule or {})
        module.schedule = None
    plan: BranchPlan = {p.computation: p.branches for p in proposals}
    try:
        prepared = Prepared(module, order, spaces, first.plan.records)
        placed = target.placed(prepared, clock, plan)
    except HloError as error:
        if error.rule != NO_ROOM:
            raise
        return None, f"for which there is no room ({error.message})"
    device = target.concurrency_device
    before, now = _bytes(first.plan.buffer_assignment), _bytes(placed.buffer_assignment)
    more = max(device.costs.concurrency_memory * max(before, 1), device.costs.concurrency_bytes)
    if now - before > more:
        return None, f"in {now - before:,} bytes more, where {more:,.0f} are allowed"
    second = target.lowered(placed, clock, whole)
    saved = _elapsed(target, first) - _elapsed(target, second)
    if saved < device.costs.concurrency_gain_ns:
        return None, "but other places are shared then"
    took = {p.where for p in proposals}
    decisions = [
        d.because(f"{d.why}, in {now - before:,} bytes more") if d.where in took else d
        for d in second.decisions
    ]
    return replace(second, decisions=decisions), ""


def _bytes(assignment: BufferAssignment) -> int:
    return sum([a.size_bytes for a in assignment.allocations])


def _elapsed(target: CpuTarget, lowered: Lowered) -> float:
    device = target.device
    return sequence_elapsed_ns(lowered.thunks, device.costs, device.compute.units)
