"""All-reduces whose results a loop stacks, one slot in each step.

Every slot of a region of the output is written once, by a whole all-reduce, and read by nobody
before the loop ends: then the region may as well be reduced as a whole, afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

from hloom.analysis.trip_count import counters, source, trip_count
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ASSOCIATIVE, RESHAPES
from hloom.ir.values.slices import Slices
from hloom.passes.collectives.groups import reduction_of, widens
from hloom.passes.collectives.loop_results import (
    element_readers,
    is_read_by_conditions,
    set_result,
    unread_element,
)
from hloom.types.dtype import S32
from hloom.types.literal import Literal
from hloom.types.shape import Shape, shape

STACKED = opcodes(ASSOCIATIVE, without=("and", "or", "xor"))
"""Reductions that are moved."""
_NAMES = opcodes(RESHAPES)

Region = tuple[tuple[int, int], ...]
"""From where to where, in each dimension."""


class StackedUpdate(NamedTuple):
    """`collective` reduces what is written into a region of element `k` of the state."""

    k: int
    collective: Instruction
    region: Region
    output: Shape

    @property
    def size_bytes(self) -> int:
        """Bytes of the stack, in the type in which it is reduced."""
        return self.reduced.size_bytes

    @property
    def reduced(self) -> Shape:
        return shape(self.collective.shape.dtype, [b - a for a, b in self.region])


def stacked_update(
    body: Computation, loops: list[Instruction], i: Instruction
) -> StackedUpdate | None:
    """What an all-reduce of a body is stacked into, where that can be reduced after the loop."""
    if i.opcode != "all-reduce" or reduction_of(i) not in STACKED:
        return None
    write = written_by(i)
    if write is None:
        return None
    chain = updates_of(body, write)
    if chain is None:
        return None
    k, writes = chain
    if is_read_by_conditions(loops, k):
        return None
    steps = common_steps(loops)
    if steps is None:
        return None
    regions = {w: region_of(w, body, *steps) for w in writes}
    own = regions.pop(write)
    if own is None or any(r is None or overlap(own, r) for r in regions.values()):
        return None
    return StackedUpdate(k, i, own, write.shape)


def written_by(i: Instruction) -> Instruction | None:
    """The dynamic-update-slice that writes a value, maybe in another form or a wider type."""
    while not i.is_root and len(i.users) == 1:
        (reader,) = i.users
        if reader.has_control_edges:
            return None
        if reader.opcode == "dynamic-update-slice":
            return reader if list(reader.operands).index(i) == 1 else None
        is_name = reader.opcode in _NAMES and reader.shape.dtype is i.shape.dtype
        if not is_name and not (reader.opcode == "convert" and widens(i.shape, reader.shape)):
            return None
        i = reader
    return None


def updates_of(body: Computation, write: Instruction) -> tuple[int, list[Instruction]] | None:
    """The element of the state that a write goes to, and all writes to it in a step."""
    last = write
    while len(last.users) == 1 and not last.is_root:
        (reader,) = last.users
        if reader.opcode != "dynamic-update-slice" or reader.operands[0] is not last:
            break
        if list(reader.operands).count(last) != 1:
            return None
        last = reader
    k = unread_element(body, last)
    if k is None:
        return None
    writes, x = [], last
    while x.opcode == "dynamic-update-slice":
        if x is not last and len(x.users) != 1:
            return None
        writes.append(x)
        x = x.operands[0]
    readers = element_readers(body.parameters[0], k)
    if readers != [x] or len(x.users) != 1 or x.is_root:
        return None
    return k, writes


def common_steps(loops: list[Instruction]) -> tuple[set[int], int] | None:
    """Which elements of the state count 0, 1, 2, ..., and how often all loops go round."""
    counts = {trip_count(loop).count for loop in loops}
    if len(counts) != 1:
        return None
    (count,) = counts
    if not count:
        return None
    counted = [{k for k, by in counters(loop).items() if by == (0, 1)} for loop in loops]
    elements = set.intersection(*counted)
    return (elements, count) if elements else None


def region_of(write: Instruction, body: Computation, elements: set[int], count: int):
    """Where a write goes in the course of the loop; None where slots are not written one by one,
    in a row."""
    out, update, *starts = write.operands
    region, stacked = [], 0
    for at, size, whole in zip(starts, update.shape.dims, out.shape.dims, strict=True):
        span = span_of(at, body, elements, count)
        if span is None:
            return None
        low, high, moves = span
        if moves and size != 1:
            return None
        stacked += moves
        if low < 0 or high + size - 1 > whole:
            return None  # clamped
        region.append((low, high + size - 1))
    return tuple(region) if stacked == 1 else None


def span_of(
    at: Instruction, body: Computation, elements: set[int], count: int
) -> tuple[int, int, bool] | None:
    """The least start, the greatest plus one, and whether it goes through all between."""
    at = source(at)
    if at.opcode == "constant":
        value = constant(at)
        return None if value is None else (value, value + 1, False)
    if is_counter(at, body, elements):
        return 0, count, True
    if at.opcode == "subtract":
        high, x = (source(o) for o in at.operands)
        value = constant(high)
        if value is not None and is_counter(x, body, elements):
            return value - count + 1, value + 1, True
    return None


def is_counter(i: Instruction, body: Computation, elements: set[int]) -> bool:
    return (
        i.opcode == "get-tuple-element"
        and i.operands[0] is body.parameters[0]
        and i.attrs.index in elements
    )


def constant(i: Instruction) -> int | None:
    if i.opcode != "constant" or i.attrs.literal.is_elided or i.shape.size != 1:
        return None
    return int(i.attrs.literal.first()) if i.shape.dtype.is_integral else None


def overlap(x: Region, y: Region) -> bool:
    return all(a < d and c < b for (a, b), (c, d) in zip(x, y, strict=True))


def move_stacked(body: Computation, loops: list[Instruction], update: StackedUpdate) -> None:
    """Reduce the stack after each loop, and nothing in its steps."""
    i, region, output = update.collective, update.region, update.output
    whole = all(r == (0, n) for r, n in zip(region, output.dims, strict=True))
    for loop in loops:
        c = loop.parent
        element = c.add("get-tuple-element", loop, index=update.k)
        x = element
        if not whole:
            x = c.add("slice", x, slice=Slices.of(*((a, b, 1) for a, b in region)))
        reduced = update.reduced.with_default_layouts()
        if x.shape.dtype is not reduced.dtype:
            x = c.add("convert", x, shape=reduced)
        new = c.append(i.opcode, i.attrs, (x,), x.shape, i.opcode, i.called)
        new.copy_annotations(i)
        new.sharding = None
        if new.shape.dtype is not output.dtype:
            new = c.add(
                "convert", new, shape=shape(output.dtype, reduced.dims).with_default_layouts()
            )
        if not whole:
            starts = [
                c.add("constant", literal=(n := Literal.of(a, S32)), shape=n.shape)
                for a, _ in region
            ]
            new = c.add("dynamic-update-slice", element, new, *starts)
            new.shape = output
        set_result(loop, update.k, element, new)
    body.replace(i, i.operands[0])
    body.erase(i)
