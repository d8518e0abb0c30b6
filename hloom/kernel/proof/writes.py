"""Proof that no two steps of a grid write one element, and that every element is written.

The places that each store to a buffer writes are resolved into digits (`digits.py`); those of all
stores together must tile the buffer (`tiling.py`).
"""

from __future__ import annotations

from math import gcd
from typing import Any

from hloom.kernel.kernel import Kernel, Param
from hloom.kernel.proof.bounds import Access, Bounds
from hloom.kernel.proof.cases import Demand, InCases, Unresolved
from hloom.kernel.proof.digits import Form
from hloom.kernel.proof.linear import Linear, Symbol
from hloom.kernel.proof.search import Narrowed, at_least_zero
from hloom.kernel.proof.tiling import Box, Digit, covers


def unproved_writes(kernel: Kernel, bounds: Bounds) -> list[str]:
    """A sentence for each parameter of which it is not proved that every element is written, or
    that no two steps write the same, and for each that is to be read only and is written."""
    unproved = []
    by_buffer: dict[Any, list[Access]] = {}
    for store in bounds.stores:
        by_buffer.setdefault(store.op.operands[0], []).append(store)
    for param in kernel.params:
        if param.role == "in":
            if param.value in by_buffer:
                unproved.append(f"{param.name} is only to be read, and is written")
            continue
        if not param.size or 0 in kernel.grid:
            continue
        why = unproved_of(param, by_buffer.get(param.value, []), bounds)
        if why:
            unproved.append(f"{param.name}: {why}")
    return unproved


def unproved_of(param: Param, stores: list[Access], bounds: Bounds) -> str:
    """Why the writes to a parameter are not known to be right; nothing if they are."""
    everywhere = param.role == "out"
    grid = axes_of(bounds)
    if not everywhere and not grid:
        return ""
    if len(stores) == 1 and is_numbering(stores[0], grid, param.size):
        return ""
    exact = Resolver(grid, True)
    why = ""
    for store in stores if everywhere else ():
        try:
            exact.store(store)
        except Unresolved as error:
            why = str(error)
    if everywhere and not covers(exact.boxes, param.size):
        return f"not proved that every element is written once: {why or exact.boxes}"
    if not grid or (everywhere and not why):
        return ""
    for exactly, fixed, bounded in APART:
        apart = Resolver(grid, exactly, fixed, bounded)
        try:
            for store in stores:
                apart.store(store)
        except Unresolved as error:
            if exactly:
                continue
            return str(error)
        if len(apart.shifts) < 2 and covers(apart.boxes, 1 << 62, False):
            return ""
        if len(apart.shifts) > 1 and apart_by_residue(apart.boxes, apart.shifts):
            return ""
        why = why if exactly else f"{apart.boxes}"
    return f"not proved that steps write different elements: {why}"


APART = (
    (False, True, False),
    (False, False, False),
    (True, True, False),  # numbers that begin or end within a row
    (False, True, True),
)
"""Ways to resolve places of which it is asked only whether two steps write one: exactly or with
more of them, whether data that is the same for all steps is put aside, whether sums are taken for
all numbers between their bounds."""


def apart_by_residue(boxes: list[Box], shifts: set[frozenset[Any]]) -> bool:
    """Whether steps write different elements although data moves the boxes, each by its own: all
    of it moves by whole rows, and each step has its own part of every row."""
    row = gcd(*[c for shift in shifts for _, c in shift])
    residues = []
    for b in boxes:
        digits = tuple([d for d in b.digits if d.stride % row or d.owner is not None])
        part = Box(b.start % row, digits, b.step)
        if part.start + part.extent > row:
            return False
        residues.append(part)
    return covers(residues, row, False)


def plain_digits(offset: Linear, grid: set[Symbol]) -> tuple[int, list[Digit]] | None:
    """Where an offset begins, and its digits, if it is a sum of independent indices that tells
    each step from the others by its own; None for all others."""
    first, axes, digits = offset.const, 0, []
    for s, c in offset.terms.items():
        origin = s.origin
        kind = origin[0] if origin else "data"
        if s.facts or (kind == "loop" and (origin[1].terms or origin[2].terms)):
            return None
        owner = None
        if s in grid:
            axes += 1
            owner = (s, 1, None, c, s.low)
        elif kind not in ("grid", "lane", "loop"):
            return None
        first += c * s.low
        digits.append(Digit(c * s.step, s.count, owner))
    return (first, digits) if axes == len(grid) else None


def is_numbering(store: Access, grid: set[Symbol], size: int) -> bool:
    """Whether a store plainly writes each element once, and each step its own: each index counts
    in steps of what those below it count to."""
    plain = plain_digits(store.offset, grid) if is_plain(store) else None
    if plain is None or plain[0]:
        return False
    reached = 1
    for stride, count, _ in sorted(plain[1], key=_stride):
        if stride != reached:
            return False
        reached *= count
    return reached == size


def is_plain(store: Access) -> bool:
    """Whether a store happens in each step and iteration, none of which is special."""
    return store.always and not store.scope and not store.loops


def _stride(digit: Digit) -> int:
    return digit.stride


def axes_of(bounds: Bounds) -> set[Symbol]:
    """The axes of the grid that have several steps."""
    return {s for s in bounds.ranges.grid if s.high > s.low}


def part_boxes(param: Param, bounds: Bounds) -> list[Box] | str:
    """What a kernel writes of a parameter that others write too; or why that is not known."""
    resolver = Resolver(axes_of(bounds), True)
    try:
        for store in bounds.stores:
            if store.op.operands[0] is param.value:
                resolver.store(store)
    except Unresolved as error:
        return str(error)
    return resolver.boxes


MOST_CASES = 200
"""Cases of one store that are looked at."""


def boxes_of(x: Linear, demand: Demand, facts: list[Linear]) -> list[Box]:
    """The values of a number where facts hold, as the places that it would write."""
    resolver = Resolver(demand.grid, demand.everywhere, demand.fixed)
    resolver.case(x, facts, {})
    if any(resolver.shifts):
        raise Unresolved(f"digits of {x}, which data moves")
    return resolver.boxes


class Resolver:
    """The places that stores write, as boxes; `shifts` are the sums of data that move them."""

    def __init__(
        self, grid: set[Symbol], everywhere: bool, fixed: bool = False, bounded: bool = False
    ) -> None:
        self.demand = Demand(grid, everywhere, fixed, boxes_of, bounded=bounded)
        self.boxes: list[Box] = []
        self.shifts: set[frozenset[Any]] = set()
        self.cases = 0

    def store(self, store: Access) -> None:
        """Add the boxes of a store; `Unresolved` if they are not known."""
        if self.demand.everywhere and not store.always:
            raise Unresolved("data chooses whether an element is written")
        if is_plain(store) and (plain := plain_digits(store.offset, self.demand.grid)):
            self.boxes.append(Box.of(*plain))
            self.shifts.add(frozenset())
            return
        self.demand = self.demand._replace(loops=frozenset(store.loops))
        before = len(self.boxes)
        try:
            self.case(store.offset, list(store.scope), {})
        except Unresolved:
            del self.boxes[before:]
            raise

    def case(self, offset: Linear, facts: list[Linear], exchanged: dict[Symbol, Linear]) -> None:
        """Add the boxes of a store where facts hold and some symbols are known to be sums."""
        self.cases += 1
        if self.cases > MOST_CASES:
            raise Unresolved("too many cases of where is written")
        narrowed = Narrowed(facts + [f for s in offset.terms for f in s.facts])
        try:
            if narrowed.possible:
                self.resolve(offset, facts, exchanged)
        finally:
            narrowed.undo()

    def resolve(self, offset: Linear, facts: list[Linear], exchanged: dict[Symbol, Linear]) -> None:
        """As `case`, with the intervals of symbols as they are in it."""
        known = Form(self.demand, exchanged)
        try:
            split = known.expand(offset, facts)
        except InCases as cases:
            split = cases.split
        if split is not None:
            for more, s, value in split:
                if any(at_least_zero(fact.times(-1).shifted(-1), facts) for fact in more):
                    continue  # which contradicts what is known
                self.case(offset, facts + more, {**exchanged, s: value} if s else exchanged)
            return
        if known.is_empty:
            return
        fixed = {s for s in self.demand.grid if s.low == s.high}
        missing = [s for s in self.demand.grid - fixed if s not in known.axes]
        if missing:
            axis = missing[0].origin[1]
            raise Unresolved(f"steps along grid axis {axis} write the same elements")
        step = frozenset(known.step) | {(s, s.low) for s in fixed}
        self.boxes.append(Box.of(known.const, known.digits, step))
        self.shifts.add(frozenset(known.shift.items()))
