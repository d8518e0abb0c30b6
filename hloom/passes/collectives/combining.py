"""What the combiners share: which collectives may become one, and the one that they become.

Collectives with one key and one depth are combined. The depth is the number of collectives with
that key on the longest way to it, along data and control edges; every way between two of them goes
to a greater depth, so what is combined at one depth never comes to depend on itself. After each
key depths are counted anew, because what was combined brought new edges.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.sharding import Sharding
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.expansion import read_elements_directly
from hloom.types.shape import tuple_shape

EXPOSED = "exposed_collective"
"""The frontend attribute of a collective that no computation hides, as
`collective-combiner-annotator` says."""


@dataclass(frozen=True)
class Combiner(ComputationPass):
    """Combine collectives of one opcode, at most so many bytes and operands in each."""

    opcode: ClassVar[str]

    combine_threshold_in_bytes: int = 30 * 1024 * 1024
    """A combined collective reads at most so many bytes."""
    combine_threshold_count: int = 256
    """... and so many arrays."""
    only_exposed: bool = False
    """Only collectives that no computation hides, by the notes of
    `collective-combiner-annotator`."""

    @abstractmethod
    def key(self, i: Instruction) -> Hashable:
        """What those that become one must share, besides what `combined_key` adds."""

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        count = fired.total()
        while self.combine_all(c, fired):
            pass
        return [c] if fired.total() > count else []

    def combine_all(self, c: Computation, fired: Counter[str]) -> bool:
        """One round over all keys; whether something was combined."""
        by_key: dict[Hashable, list[Instruction]] = {}
        for i in c.in_order():
            if i.opcode == self.opcode and is_combinable(i) and self.wants(i):
                by_key.setdefault((combined_key(i), self.key(i)), []).append(i)
        before = fired.total()
        for alike in by_key.values():
            if len(alike) < 2:
                continue
            for level in self.levels(c, alike):
                for batch in self.batches(level):
                    if len(batch) > 1:
                        combine(c, batch)
                        fired["combined"] += len(batch)
        return fired.total() > before

    def wants(self, i: Instruction) -> bool:
        """Whether a collective is to be combined, if it can be."""
        return not self.only_exposed or EXPOSED in (i.frontend_attributes or ())

    def levels(self, c: Computation, alike: list[Instruction]) -> list[list[Instruction]]:
        """Those of one depth together, in program order."""
        counted, depth = set(alike), dict[Instruction, int]()
        levels: dict[int, list[Instruction]] = {}
        for i in c.in_order():
            deepest = 0
            for x in (*i.operands, *i.control_predecessors):
                deepest = max(deepest, depth[x])
            if i in counted:
                deepest += 1
                levels.setdefault(deepest, []).append(i)
            depth[i] = deepest
        return list(levels.values())

    def batches(self, level: list[Instruction]) -> list[list[Instruction]]:
        """Neighbours together, as long as they stay within the thresholds."""
        batches: list[list[Instruction]] = []
        bytes_in, count_in = 0, 0
        for i in level:
            size, count = sum(x.shape.size_bytes for x in i.operands), len(i.operands)
            fits = (
                bytes_in + size <= self.combine_threshold_in_bytes
                and count_in + count <= self.combine_threshold_count
            )
            if not batches or not fits:
                batches.append([])
                bytes_in, count_in = 0, 0
            batches[-1].append(i)
            bytes_in, count_in = bytes_in + size, count_in + count
        return batches


def is_combinable(i: Instruction) -> bool:
    """Whether nobody fixed the layouts of a collective of arrays of known sizes."""
    if not i.operands or getattr(i.attrs, "constrain_layout", False):
        return False
    if any(not x.shape.is_array or x.shape.is_dynamic for x in i.operands):
        return False
    return not i.shape.is_dynamic


def combined_key(i: Instruction) -> Hashable:
    """What any two collectives must share to become one."""
    return (
        i.attrs.channel_id is None,
        i.sharding is None,
        i.backend_config,
        i.frontend_attributes.text if i.frontend_attributes else None,
    )


def combine(c: Computation, batch: list[Instruction]) -> Instruction:
    """Put one collective in the place of several; what waited for one of them waits for it."""
    first = batch[0]
    operands = tuple([x for i in batch for x in i.operands])
    shapes = [s for i in batch for s in (i.shape.elements if i.shape.is_tuple else (i.shape,))]
    combined = c.append(
        first.opcode, first.attrs, operands, tuple_shape(shapes), first.opcode, first.called
    )
    combined.copy_annotations(first)
    if first.sharding is not None:
        combined.sharding = Sharding.tuple_of(*[i.sharding for i in batch])
    for i in batch:
        before, after = i.control_predecessors, i.control_successors
        i.drop_control_edges()
        for x in before:
            combined.add_control_predecessor(x)
        for x in after:
            x.add_control_predecessor(combined)
    number = 0
    for i in batch:
        parts = []
        for _ in i.operands:
            parts.append(c.add("get-tuple-element", combined, index=number))
            number += 1
        new = c.add("tuple", *parts) if i.shape.is_tuple else parts[0]
        new.copy_annotations(i)
        new.backend_config = None
        c.replace(i, new)
        c.erase(i)
        if new.opcode == "tuple":
            new.shape = i.shape
            read_elements_directly(new)
            for x in parts:
                if not x.users and not x.is_root:
                    c.erase(x)
    return combined
