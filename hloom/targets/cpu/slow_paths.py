"""What runs through a general and slower path than its kind of operation has, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hloom.analysis.cost import instruction_cost
from hloom.analysis.trip_count import trip_count
from hloom.base.diagnostics import HloError
from hloom.base.faults import Culprit
from hloom.codegen.depthwise_shape import geometry
from hloom.codegen.grouped_shape import grouped_shape
from hloom.codegen.tile import Body
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.program.thunks.custom_call import Interpreter
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.routine import Function, Routine
from hloom.program.thunks.thunk import walk
from hloom.targets.cpu.lower.families import anchor_of, product_of
from hloom.targets.cpu.lowering import Lowering
from hloom.targets.cpu.planned import Planned


class SlowPath(NamedTuple):
    """An instruction, the path it takes, and why no faster one."""

    instruction: Instruction
    path: str
    why: str


def slow_paths(
    plan: Planned, device: Device, left_out: frozenset[Culprit] = frozenset()
) -> list[SlowPath]:
    """All of a planned module, in the order of its thunks, without what is left out for its
    faults; what cannot run at all comes last."""
    module, assignment = plan.module, plan.buffer_assignment
    lowering = Lowering(module, plan.order, assignment, device, left_out, faults=[])
    instructions = {i.name: i for i in assignment.trees}
    try:
        thunks = lowering.sequence(module.entry)
    except HloError as error:
        i = next((x for x in instructions.values() if f"%{x.name}" in str(error)), None)
        return [SlowPath(i or module.entry.root, "cannot run", error.message)]
    paths: list[SlowPath] = []
    unproved = {kernel.name: count for kernel, count in lowering.masked}
    for t in walk(thunks):
        i = instructions.get(t.name)
        if i is None:
            continue
        if isinstance(t, Kernel) and t.symbol in unproved:
            why = f"{unproved[t.symbol]} accesses are not proved to stay inside their buffers"
            paths.append(SlowPath(i, "masked", why))
        if isinstance(t, Interpreter):
            paths.append(SlowPath(i, "interpreter", "no code could be made of it"))
        elif isinstance(t, Routine):
            paths += _routine(t, i)
        elif isinstance(t, Kernel):
            paths += _kernel(t, i, device)
        elif i.opcode == "while":
            paths += _loop(i, lowering)
    return paths


def _loop(i: Instruction, lowering: Lowering) -> Iterator[SlowPath]:
    if trip_count(i).count is None:
        why = f"its condition is computed before every turn: {trip_count(i).why}"
        yield SlowPath(i, "loop of unknown length", why)
    if i in lowering.stepwise:
        why = f"it is not one kernel: {lowering.stepwise[i]}"
        yield SlowPath(i, "loop step by step", why)


def _routine(t: Routine, i: Instruction) -> Iterator[SlowPath]:
    if any(isinstance(x, Function) for x in t.arguments):
        why = (
            f"the comparator {i.called[0].name} is called for each pair: it does not compare keys "
            "one after the other"
        )
        yield SlowPath(i, "sort by comparator", why)
    elif i.opcode == "custom-call":
        yield SlowPath(i, "host function", f"{i.attrs.custom_call_target} is not compiled by hloom")


def _kernel(t: Kernel, i: Instruction, device: Device) -> Iterator[SlowPath]:
    yield from _product(i, device)
    body = i.called[0].instructions if i.opcode == "fusion" else (i,)
    for x in body:
        if x.opcode == "gather":
            yield SlowPath(x, "element by element", "each element is looked up by itself")
    if i.opcode == "scatter" and t.steps == 1:
        yield SlowPath(i, "one thread", "updates of one place must not run at once")
    elif t.steps == 1 and t.cost_ns > device.costs.concurrency_gain_ns and i.opcode != "while":
        why = f"its grid has one step, of about {t.cost_ns / 1000:,.0f} us"
        yield SlowPath(i, "one thread", why)


def _product(i: Instruction, device: Device) -> Iterator[SlowPath]:
    if i.opcode not in ("fusion", "dot", "convolution"):
        return
    body = Body.of(i)
    anchor = anchor_of(body)
    if anchor is None:  # small products in a loop fusion: as fast as they can be
        return
    if anchor.opcode == "convolution" and (
        geometry(anchor, device) is not None or grouped_shape(anchor, device) is not None
    ):
        return
    product = product_of(anchor, {x for x, _ in body.leaves}, device)
    if product is None:
        if instruction_cost(anchor, {}).flops >= device.costs.inner_product_flops:
            yield SlowPath(anchor, "loops", "it cannot be said as a product of matrices")
    elif (
        body.roots[0][0].shape.size != anchor.shape.size
        and product.flops >= device.costs.inner_product_flops
    ):
        yield SlowPath(anchor, "loops", "what follows it in the fusion changes the size")
