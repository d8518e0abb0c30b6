"""What goes on beside kernels begins as soon as it can and is awaited where it is needed.

The order with the least memory ends what it has begun at once. So starts of collectives go up to
their operands, and dones down to their first readers; what only names a part of a value goes along.
What they read and write is kept for longer: where that is more than a limit, those that have waited
longest stay there.

Copies into another memory space are awaited late, too. Copies out of one are not, and none begins
earlier: such spaces are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hloom.analysis.alias_spaces import moved_to
from hloom.ir.async_chain import async_start_of
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.op import OPS
from hloom.plan.order import Order
from hloom.types.shape import Shape
from hloom.types.sizes import size_bytes

NAMES: Final = ("get-tuple-element", "bitcast")
"""What goes along with a start or a done."""


def overlapped(order: Order, most_bytes: float) -> Order:
    """The order with starts early and dones late, which keep at most so many bytes for longer."""
    for c, steps in order.steps.items():
        starts = [i for i in steps if _is_collective_start(i)]
        dones = [i for i in steps if _is_late(i)]
        if starts:
            steps = _early(steps, set(starts), most_bytes)
        if dones:
            steps = _late(steps, set(dones), most_bytes)
        order.steps[c] = steps
    return order


def _is_collective_start(i: Instruction) -> bool:
    started = OPS[i.opcode].start_of
    if i.opcode == "async-start":
        return i.called[0].root.opcode in COLLECTIVES
    return started is not None and started in COLLECTIVES


def _is_late(i: Instruction) -> bool:
    """Whether it awaits a collective, or a copy into another memory space."""
    if OPS[i.opcode].done_of is None:
        return False
    start = async_start_of(i) if i.opcode == "async-done" else i.operands[0]
    if start is None:
        return False
    return bool(moved_to(start)) or _is_collective_start(start)


def _bytes(shapes: Iterable[Shape]) -> int:
    return sum([size_bytes(s) for shape in shapes for s in shape.leaves() if s.is_array])


class _Waiting:
    """Instructions that are put down later, the longest ones first, and the bytes they keep."""

    def __init__(self, most_bytes: float) -> None:
        self.of: dict[Instruction, int] = {}
        self._bytes = 0
        self._most = most_bytes

    def add(self, i: Instruction, bytes_: int) -> None:
        self.of[i] = bytes_
        self._bytes += bytes_

    def drop(self, i: Instruction) -> None:
        self._bytes -= self.of.pop(i, 0)

    def over(self) -> Iterator[Instruction]:
        """Those that wait longest, while all keep too much."""
        while self._bytes > self._most:
            yield next(iter(self.of))

    def rest(self) -> Iterator[Instruction]:
        """Those that wait, until none does."""
        while self.of:
            yield next(iter(self.of))


def _early(
    steps: list[Instruction], starts: set[Instruction], most_bytes: float
) -> list[Instruction]:
    """Starts right behind what they need; from the end on, so that each waits to be put down."""
    waiting = _Waiting(most_bytes)
    needed_by: dict[Instruction, list[Instruction]] = {}
    reverse: list[Instruction] = []

    def put(i: Instruction) -> None:
        """Put down an instruction, and before it (that is, behind it) all that needs it."""
        for reader in needed_by.pop(i, ()):
            if reader in waiting.of:
                put(reader)
        waiting.drop(i)
        reverse.append(i)

    for i in reversed(steps):
        is_name = i in needed_by and i.opcode in NAMES and not i.control_successors
        if i not in starts and not is_name:
            put(i)
            continue
        waiting.add(i, _bytes([i.shape]) if i in starts else 0)
        for x in (*i.operands, *i.control_predecessors):
            needed_by.setdefault(x, []).append(i)
        for longest in waiting.over():
            put(longest)
    for longest in waiting.rest():
        put(longest)
    return reverse[::-1]


def _late(
    steps: list[Instruction], dones: set[Instruction], most_bytes: float
) -> list[Instruction]:
    """Dones right before their first readers."""
    waiting = _Waiting(most_bytes)
    late: list[Instruction] = []

    def put(i: Instruction) -> None:
        for x in (*i.operands, *i.control_predecessors):
            if x in waiting.of:
                put(x)
        waiting.drop(i)
        late.append(i)

    for i in steps:
        is_name = i.opcode in NAMES and i.operands[0] in waiting.of and not i.control_predecessors
        if i not in dones and not is_name:
            put(i)
            continue
        waiting.add(i, 0 if is_name else _bytes([x.shape for x in i.operands]))
        for longest in waiting.over():
            put(longest)
    for longest in waiting.rest():  # the root, or what nobody reads
        put(longest)
    return late
