"""When the result of an operation may overwrite an operand that dies there.

The default rule: the operation reads each element of the operand only at the index at which it
writes, and the elements of both are equally wide and laid out alike. It asks of kernels only that
they load, at one index (or tile), all operands before they store any result there.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.analysis.alias_fusion import is_elementwise, is_row_major, roots_of, same_index
from hloom.analysis.alias_spaces import moved_to
from hloom.analysis.alias_tree import LogicalBuffer, leaves
from hloom.analysis.alias_values import Dataflow
from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape

Index = tuple[int, ...]
CanShare = Callable[[Instruction, int, Index], bool]
"""(instruction, operand number, index into the result) -> may it overwrite that operand?"""


def same_place(operand: Shape, result: Shape, *, reshaped: bool = False) -> bool:
    """Whether element k of both stands at the same byte. `reshaped`: elements are counted in
    row-major order."""
    if not (operand.is_array and result.is_array):
        return False
    if operand.dtype.size_bytes != result.dtype.size_bytes or operand.dynamic != result.dynamic:
        return False
    if operand.dims == result.dims:
        return operand.layout is result.layout
    return (
        reshaped
        and not operand.dynamic
        and operand.size == result.size
        and is_row_major(operand)
        and is_row_major(result)
    )


class DefaultShare:
    """The default rule; remembers what it found out about fusions."""

    def __init__(self) -> None:
        self._fusions: dict[Instruction, int] = {}

    def __call__(self, i: Instruction, operand: int, output: Index) -> bool:
        x = i.operands[operand].shape
        opcode = i.opcode
        if opcode == "fusion":
            return self._fusion(i, operand, output)
        if output:
            return False
        if is_elementwise(opcode):
            return same_place(x, i.shape)
        if opcode == "reshape":
            return same_place(x, i.shape, reshaped=True)
        if opcode == "custom-call":
            return moved_to(i) is not None
        return False

    def _fusion(self, i: Instruction, operand: int, output: Index) -> bool:
        allowed = self._fusions.get(i)
        if allowed is None:
            allowed = self._fusions[i] = same_index(i)
        if not allowed >> operand & 1:
            return False
        root = roots_of(i).get(output)
        return root is not None and same_place(i.operands[operand].shape, root.shape, reshaped=True)


Interval = tuple[int, int, LogicalBuffer]
"""From, to, and what is alive."""


class Contacts:
    """Where an operation may write over what it reads for the last time: it must (an in-place
    pair), or the sharing rule lets it."""

    def __init__(self, flow: Dataflow, can_share: CanShare | None = None) -> None:
        self.flow = flow
        self.can_share = can_share or DefaultShare()
        self.same: dict[LogicalBuffer, LogicalBuffer] = {}
        """A copy that is to go, and the value that it copies."""
        self._copies: dict[LogicalBuffer, dict[LogicalBuffer, None]] = {}
        """The other way around."""
        self._initial: dict[Instruction, dict[LogicalBuffer | None, list[Index]]] = {}
        """By loop: which parts of its state begin as a value."""
        self._known: dict[tuple[int, LogicalBuffer, LogicalBuffer], bool] = {}

    def let_go(self, copy: LogicalBuffer, source: LogicalBuffer | None) -> None:
        """Say what a copy that is to go copies; None: it is not to go."""
        before = self.same.pop(copy, None)
        if before is not None:
            del self._copies[before][copy]
        if source is not None:
            self.same[copy] = source
            self._copies.setdefault(source, {})[copy] = None

    def allowed(self, first: Interval, second: Interval) -> bool:
        """Whether `second` begins where an operation reads `first` for the last time and may
        write over it."""
        start, end, x = first
        begin, _, y = second
        if end != begin + 2 or start >= begin:
            return False
        key = (begin, x, y)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._may_write_over(begin // 3, x, y)
        return known

    def _may_write_over(self, time: int, x: LogicalBuffer, y: LogicalBuffer) -> bool:
        flow = self.flow
        i = flow.steps[time]
        x = self.same.get(x, x)
        if i is None:
            # A loop begins: its state may be what it got.
            loop = y.instruction
            if y.kind != "state" or flow.started[loop] != time:
                return False
            initial = self._initial_parts(loop)
            parts = [p for v in (x, *self._copies.get(x, ())) for p in initial.get(v, ())]
            return parts == [y.index]
        if y.kind != "computed" or y.instruction is not i:
            return False
        pairs = {(p.operand, p.operand_index) for p in flow.pairs(i) if p.output_index == y.index}
        is_written = False
        for number, operand in enumerate(i.operands):
            for index, v in leaves(flow.trees[operand]):
                if v is None or self.same.get(v, v) is not x:
                    continue
                is_written = True
                if (number, index) not in pairs and (
                    index or not self.can_share(i, number, y.index)
                ):
                    return False
        return is_written

    def _initial_parts(self, loop: Instruction) -> dict[LogicalBuffer | None, list[Index]]:
        """Which parts of a loop's state begin as a value."""
        initial = self._initial.get(loop)
        if initial is None:
            initial = self._initial[loop] = {}
            for index, v in leaves(self.flow.trees[loop.operands[0]]):
                initial.setdefault(v, []).append(index)
        return initial
