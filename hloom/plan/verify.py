"""Checks a buffer assignment: every slice in bounds and in its memory space, no two values alive
together in one byte."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.module import Module
from hloom.plan.buffer_assignment import AssignedValue, BufferAssignment


def violations(module: Module, assignment: BufferAssignment) -> Iterator[VerifyError]:
    """Everything that is wrong with where the values of a module stand."""
    for v in assignment.values:
        assigned = v.slice
        inside = 0 <= assigned.offset <= assigned.end <= assigned.allocation.size_bytes
        if not inside:
            yield _error(
                v, f"{assigned} is outside {assigned.allocation.size_bytes} bytes", "bounds"
            )
        if assigned.allocation not in assignment.allocations:
            yield _error(
                v, f"allocation {assigned.allocation.index} is not of this assignment", "bounds"
            )
        if assigned.allocation.space != v.space:
            expected, space = f"S({v.space})", f"S({assigned.allocation.space})"
            yield _error(v, f"has to be in {expected}, and is in {space}", "memory-space")
    yield from _outputs(module, assignment)
    yield from _conflicts(assignment)


def check_buffer_assignment(module: Module, assignment: BufferAssignment) -> None:
    """Raise the first violation, if there is one."""
    for error in violations(module, assignment):
        raise error


def _error(v: AssignedValue, message: str, rule: str) -> VerifyError:
    return VerifyError(message, instruction=v.name, rule=rule)


def _outputs(module: Module, assignment: BufferAssignment) -> Iterator[VerifyError]:
    """Each part of the result is where the caller looks for it."""
    root = module.entry.root
    for index, assigned in assignment.leaves(root):
        a = assigned.allocation
        is_own = a.kind == "output" and a.shape_index == index
        is_given = a.kind == "parameter" and a.is_donated and a.output_index == index
        if assigned.offset or not (is_own or is_given):
            yield VerifyError(
                f"output {list(index)} is in {a.kind} {assigned}",
                instruction=f"%{root.name}",
                rule="output-place",
            )


def _conflicts(assignment: BufferAssignment) -> Iterator[VerifyError]:
    """A sweep over time; what is alive is kept in order of address."""
    events: list[tuple[int, int, int]] = []
    for k, v in enumerate(assignment.values):
        a = v.slice.allocation
        if a.kind == "constant" or not v.slice.size_bytes:
            continue
        if a.is_read_only and v.instruction.opcode != "parameter":
            yield _error(v, f"written to {a.kind} {a.index}, which is read only", "read-only")
        for start, end in v.alive:
            if start < end:
                events += [(end, 0, k), (start, 1, k)]
    events.sort()
    alive: list[tuple[int, int, int, int]] = []
    for _, begins, k in events:
        v = assignment.values[k]
        key = (v.slice.allocation.index, v.slice.offset, v.slice.end, k)
        position = bisect_left(alive, key)
        if not begins:
            del alive[position]
            continue
        for other in (alive[position - 1] if position else None, *alive[position : position + 1]):
            if other and other[0] == key[0] and other[1] < key[2] and key[1] < other[2]:
                name = assignment.values[other[3]].name
                yield _error(v, f"shares bytes of {v.slice} with {name}", "overlap")
        insort(alive, key)
