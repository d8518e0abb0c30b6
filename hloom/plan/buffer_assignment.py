"""Buffer assignment: which bytes of which allocation each value of a module has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hloom.base.diagnostics import UsageError
from hloom.ir.instruction import Instruction
from hloom.program.slice import Allocation, BufferSlice

Index = tuple[int, ...]
SliceTree = Any
"""A `BufferSlice`, a tuple of slice trees, or None for what has no bytes (tokens)."""


@dataclass(frozen=True, slots=True)
class AssignedValue:
    """One value: computed by which instruction, how large, when alive, where, and why there.

    `alive` are half-open intervals on the time line of the schedule, in thirds of a step: an
    instruction at time t runs in [3t, 3t + 2).
    """

    instruction: Instruction
    index: Index
    alive: tuple[tuple[int, int], ...]
    slice: BufferSlice
    note: str = ""
    space: int = 0
    """The memory space that it has to be in."""

    @property
    def name(self) -> str:
        i = self.instruction
        part = "{" + ",".join(map(str, self.index)) + "}" if self.index else ""
        return f"%{i.parent.name}/%{i.name}{part}"


@dataclass(slots=True)
class BufferAssignment:
    """What buffer assignment decided. Made by `memory.assign`; ask with `slice`."""

    allocations: list[Allocation]
    trees: dict[Instruction, SliceTree]
    """The slices of each instruction of the entry and of whatever control flow calls."""
    values: list[AssignedValue] = field(default_factory=list)
    live_bytes: int = 0
    """The most bytes of the temp block that are alive at one time: the least it could have."""

    def slice(self, instruction: Instruction, shape_index: Index = ()) -> BufferSlice:
        """Where one array of an instruction's result stands.

        Raises `UsageError` for a tuple, a token, or an instruction that has no buffer (one inside
        a fusion).
        """
        tree: SliceTree = self.trees.get(instruction)
        try:
            for k in shape_index:
                tree = tree[k]
        except (IndexError, TypeError):
            tree = None
        if not isinstance(tree, BufferSlice):
            raise UsageError(
                f"there is no buffer at index {list(shape_index)}",
                instruction=f"%{instruction.name}",
                hint="only arrays of the entry, of loops, branches and calls have one",
            )
        return tree

    def leaves(self, instruction: Instruction) -> list[tuple[Index, BufferSlice]]:
        """Every array of an instruction's result with its slice; none for a token."""
        return list(_leaves(self.trees[instruction], ()))

    def of_kind(self, kind: str) -> list[Allocation]:
        """The allocations of one kind, in order."""
        return [a for a in self.allocations if a.kind == kind]

    @property
    def temp_bytes(self) -> int:
        """Bytes of the arena."""
        return sum(a.size_bytes for a in self.allocations if a.kind == "temp")

    def bytes_of(self, kind: str) -> int:
        """Bytes of all allocations of one kind."""
        return sum(a.size_bytes for a in self.allocations if a.kind == kind)


def _leaves(tree: SliceTree, index: Index) -> Iterator[tuple[Index, BufferSlice]]:
    if isinstance(tree, BufferSlice):
        yield index, tree
    elif tree is not None:
        for k, part in enumerate(tree):
            yield from _leaves(part, (*index, k))
