"""How long a loop takes that is to become one kernel, and after how many steps to look up.

A kernel cannot be told to stop, so one that may run for long is left now and then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from hloom.analysis.trip_count import WHOLE, trip_count
from hloom.base.guarding import GUARDING
from hloom.codegen.cumulative import cumulative_work, is_cumulative
from hloom.codegen.elements import SIMPLE
from hloom.codegen.elements_data import MOVED
from hloom.codegen.gemm_tiling import LEAST_NEAR_ROWS
from hloom.codegen.tile import Body
from hloom.codegen.walk import domain
from hloom.codegen.work import body_work
from hloom.device.costs import Costs
from hloom.device.device import Device
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import S32, S64, Value
from hloom.program.slice import ALIGNMENT, BufferSlice
from hloom.types.shape import Shape

# Kernels return after about so long, to be called again: who stops a program waits no longer.
LONG_NS = 2e7
# So many steps at least and at most, whatever they are thought to take.
LEAST_STEPS, MOST_STEPS = 16, 1 << 20
# The opcodes that are written in line like fusions.
LOOPS = SIMPLE | (MOVED - {"bitcast", "dynamic-reshape"}) | {"copy", "reduce", "map", "fusion"}
LOOPS |= {"dot", "reduce-window"}


# Loops of more instructions than this are not worth one huge function.
MOST_INSTRUCTIONS = 600


@dataclass(frozen=True)
class LastStep:
    """A counter among the carried registers, and what it must stay below."""

    number: int
    end: Value
    """In one call of the kernel."""
    bound: Value
    """In all."""


class Decline(Exception):
    """The loop does not fit in one kernel; the text says why."""


class Overlap(Exception):
    """The byte of the condition stands where the loop keeps values of its own."""


def is_huge(computations: Sequence[Computation]) -> bool:
    """Whether a loop is too long to be one function."""
    return count(computations) > MOST_INSTRUCTIONS


def steps_at_once(i: Instruction, costs: Costs) -> int | None:
    """After how many steps of a loop the program should look whether to stop; None where all
    steps together are short, or where the state itself says whether to go on."""
    if i.called[0].root.opcode in ("get-tuple-element", "parameter"):
        return None
    one_ns, is_bounded = _step_ns(i.called, costs)
    trips = trip_count(i).count
    if is_bounded and trips is not None and trips * one_ns <= LONG_NS:
        return None
    if not is_bounded:
        return LEAST_STEPS
    return max(LEAST_STEPS, min(MOST_STEPS, int(LONG_NS / one_ns)))


def last_step(
    b: KernelBuilder, loop: Instruction, carried: Mapping[tuple[int, ...], Value], steps: int
) -> LastStep | None:
    """Where a loop is left after so many steps, if a counter of its own among the carried
    registers says when it ends: then nothing else has to be counted."""
    counter = trip_count(loop).counter
    if counter is None or counter.start > counter.bound:
        return None
    index = () if counter.element == WHOLE else (counter.element,)
    if index not in carried:
        return None
    start = carried[index]
    dtype, most = start.dtype, steps * counter.step
    if dtype not in (S32, S64) or max(most, counter.bound - counter.start) >> (dtype.bits - 1):
        return None
    bound = b.constant(dtype, counter.bound)
    ahead = b.binary("minimum", b.binary("subtract", bound, start), b.constant(dtype, most))
    return LastStep(list(carried).index(index), b.binary("add", start, ahead), bound)


def spare_byte(state: Iterable[BufferSlice]) -> BufferSlice | None:
    """A byte that nobody uses while a loop runs: one of those that fill up the place of something
    small that it carries; None where there is none."""
    for place in state:
        if place.allocation.kind == "temp" and place.end % ALIGNMENT and not GUARDING:
            return BufferSlice(place.allocation, place.end, 1)
    return None


def loop_ns(i: Instruction, costs: Costs) -> float:
    """A guess of what one call of the kernel takes, which returns after LONG_NS at the latest."""
    one_ns, is_bounded = _step_ns(i.called, costs)
    trips = trip_count(i).count
    return LONG_NS if trips is None or not is_bounded else min(trips * one_ns, LONG_NS)


def _step_ns(computations: Sequence[Computation], costs: Costs) -> tuple[float, bool]:
    """A guess of the nanoseconds of one step, and whether loops within have known ends."""
    total, is_bounded = 1.0, True
    for c in computations:
        for i in c.instructions:
            if i.opcode in ("while", "conditional"):
                trips = trip_count(i).count if i.opcode == "while" else 1
                inner_ns, inner = _step_ns(i.called, costs)
                is_bounded = is_bounded and inner and trips is not None
                total += inner_ns * (trips or 1)
            elif i.opcode in LOOPS:
                total += body_ns(Body.of(i), costs)
    return total, is_bounded


def body_ns(body: Body, costs: Costs) -> float:
    """A guess of the nanoseconds of a body that is written in line."""
    elements = sum(prod(domain(*r)[0]) for r in body.roots)
    return costs.inline_ns + costs.steps_ns(elements, body_element_work(body, costs))


def body_element_work(body: Body, costs: Costs) -> float:
    """What there is to do for each element of the roots."""
    if is_cumulative(body):
        return cumulative_work(body.roots[0][0], costs)
    return body_work(body.instructions, [r for r, _ in body.roots], costs)


def is_matrix_product(x: Instruction, device: Device) -> bool:
    """Whether a product has a kernel of its own that keeps sums of several rows in registers, and
    is worth the call: written in line every row would read all of the other operand."""
    if x.opcode != "dot" or x.attrs.lhs_batch_dims or not x.shape.dtype.is_floating:
        return False
    a = x.attrs
    depth = prod([x.operands[0].shape.dims[d] for d in a.lhs_contracting_dims])
    rows = x.operands[0].shape.size // max(depth, 1)
    columns = x.operands[1].shape.size // max(depth, 1)
    return (
        rows >= LEAST_NEAR_ROWS
        and 4 * columns >= device.compute.vector_bytes
        and 2 * x.shape.size * depth >= device.costs.loop_matrix_flops
    )


def count(computations: Sequence[Computation]) -> int:
    """Instructions of computations, those of fusions and loops inside them too."""
    total = 0
    for c in computations:
        for i in c.instructions:
            total += 1
            if i.opcode in ("while", "conditional", "fusion"):
                total += count(i.called)
    return total


def fits_register(s: Shape) -> bool:
    """Whether a value is carried in a register: one element of a type that registers keep as it
    is. Narrow floats are wider there, so their rounding needs memory."""
    return s.size == 1 and not s.dynamic and (s.dtype.bits >= 32 or not s.dtype.is_floating)
