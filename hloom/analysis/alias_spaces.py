"""In which memory space each value of a module is.

While passes run, no shape speaks of spaces: they would have to be kept by whatever rewrites a
value. A value that must be in a space is moved there by a custom call, which no pass looks into, or
by a copy in two halves (`memory/spaces.py` puts them in); parameters and results are where the
caller has them. All else follows here: what is only computed for a value of some space is computed
there at once, a loop's state is where it begins, and what branches give is where the first one has
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hloom.ir.instruction import Instruction

if TYPE_CHECKING:
    from hloom.analysis.alias_tree import LogicalBuffer
    from hloom.analysis.alias_values import Dataflow

Index = tuple[int, ...]
MOVE: Final = "MoveToMemorySpace"
"""The custom call; which space it is stands in its backend_config, as in that of a copy-start."""


@dataclass(frozen=True)
class EntrySpaces:
    """The memory spaces of the caller's arrays, where they are not the default one."""

    parameters: dict[tuple[int, Index], int] = field(default_factory=dict)
    """By number and index."""
    results: dict[Index, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.parameters or self.results)


NO_SPACES: Final = EntrySpaces()


def moved_to(i: Instruction) -> int | None:
    """The memory space that an instruction moves its operand to; None if it does not.

    Of a copy in two halves the first one says it.
    """
    is_move = i.opcode == "custom-call" and i.attrs.custom_call_target == MOVE
    if not is_move and not (i.opcode == "copy-start" and i.backend_config):
        return None
    return int(i.backend_config.raw)


def _moved(flow: Dataflow, i: Instruction) -> LogicalBuffer:
    """What a move makes."""
    return flow.trees[i][0] if i.opcode == "copy-start" else flow.trees[i]


def settle(flow: Dataflow, entry: EntrySpaces) -> None:
    """Give every value of a flow its space."""
    moves = [i for i in flow.steps if i is not None and moved_to(i) is not None]
    if not moves and not entry:
        return
    bound: set[LogicalBuffer] = set()
    for v in flow.values:
        if v.kind == "parameter":
            v.space = entry.parameters.get((v.instruction.attrs.number, v.index), 0)
    for i in moves:
        v = _moved(flow, i)
        v.space = moved_to(i) or 0
        bound.add(v)
    starts: dict[LogicalBuffer, LogicalBuffer] = {}
    demands: list[tuple[int, LogicalBuffer, LogicalBuffer | int]] = []
    for e in flow.edges:
        if e.kind == "init" or (e.kind == "branch" and not e.branch):
            assert e.target is not None
            starts[e.target] = _copied(flow, e.source)
        if e.kind == "output":
            demands.append((e.time, e.source, entry.results.get(e.index, 0)))
        elif e.target is not None:
            demands.append((e.time, e.source, e.target))
    for v in sorted(starts, key=lambda v: v.births[0][0]):
        v.space = starts[v].space
    for i in moves:
        source = flow.trees[i.operands[0]]
        demands.append((flow.time_of[i], source, _moved(flow, i)))
    for time, source, target in sorted(demands, key=lambda w: -w[0]):
        if source.kind != "computed" or source in bound or any(u != time for u in source.uses):
            continue
        source.space = target if isinstance(target, int) else target.space


def _copied(flow: Dataflow, v: LogicalBuffer) -> LogicalBuffer:
    """What a value is a copy of: a copy that is no move stays in the space."""
    while v.kind == "computed" and v.instruction.opcode == "copy" and not v.index:
        v = flow.trees[v.instruction.operands[0]]
    return v
