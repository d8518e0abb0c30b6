"""Checks a plan: every place in bounds and in its memory space, no two values alive together in
one byte."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.module import Module
from hloom.plan.places import PlacedValue, Places


def violations(module: Module, places: Places) -> Iterator[VerifyError]:
    """Everything that is wrong with the places of a module."""
    for v in places.values:
        place = v.place
        inside = 0 <= place.offset <= place.end <= place.allocation.size_bytes
        if not inside:
            yield _error(v, f"{place} is outside {place.allocation.size_bytes} bytes", "bounds")
        if place.allocation not in places.allocations:
            yield _error(v, f"allocation {place.allocation.index} is not of this plan", "bounds")
        if place.allocation.space != v.space:
            wanted, space = f"S({v.space})", f"S({place.allocation.space})"
            yield _error(v, f"has to be in {wanted}, and is in {space}", "memory-space")
    yield from _outputs(module, places)
    yield from _conflicts(places)


def check_places(module: Module, places: Places) -> None:
    """Raise the first violation, if there is one."""
    for error in violations(module, places):
        raise error


def _error(v: PlacedValue, message: str, rule: str) -> VerifyError:
    return VerifyError(message, instruction=v.name, rule=rule)


def _outputs(module: Module, places: Places) -> Iterator[VerifyError]:
    """Each part of the result is where the caller looks for it."""
    root = module.entry.root
    for index, place in places.leaves(root):
        a = place.allocation
        is_own = a.kind == "output" and a.shape_index == index
        is_given = a.kind == "parameter" and a.is_donated and a.output_index == index
        if place.offset or not (is_own or is_given):
            yield VerifyError(
                f"output {list(index)} is in {a.kind} {place}",
                instruction=f"%{root.name}",
                rule="output-place",
            )


def _conflicts(places: Places) -> Iterator[VerifyError]:
    """A sweep over time; what is alive is kept in order of address."""
    events: list[tuple[int, int, int]] = []
    for k, v in enumerate(places.values):
        a = v.place.allocation
        if a.kind == "constant" or not v.place.size_bytes:
            continue
        if a.is_read_only and v.instruction.opcode != "parameter":
            yield _error(v, f"written to {a.kind} {a.index}, which is read only", "read-only")
        for start, end in v.alive:
            if start < end:
                events += [(end, 0, k), (start, 1, k)]
    events.sort()
    alive: list[tuple[int, int, int, int]] = []
    for _, begins, k in events:
        v = places.values[k]
        key = (v.place.allocation.index, v.place.offset, v.place.end, k)
        position = bisect_left(alive, key)
        if not begins:
            del alive[position]
            continue
        for other in (alive[position - 1] if position else None, *alive[position : position + 1]):
            if other and other[0] == key[0] and other[1] < key[2] and key[1] < other[2]:
                name = places.values[other[3]].name
                yield _error(v, f"shares bytes of {v.place} with {name}", "overlap")
        insort(alive, key)
