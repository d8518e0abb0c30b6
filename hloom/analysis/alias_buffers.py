"""Which positions must share one buffer, and where that goes wrong.

Values that an in-place operation, a loop, a conditional or a donated parameter makes share storage
are merged into buffers whether they fit or not. Two values of one buffer that are alive together
*interfere*; after copy insertion none do.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.analysis.alias import in_place_pairs
from hloom.analysis.alias_ranges import intervals
from hloom.analysis.alias_share import CanShare, Contacts, Interval
from hloom.analysis.alias_tree import Index, Value, at
from hloom.analysis.alias_values import PairRule, ValueFlow
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module


@dataclass(frozen=True, slots=True)
class Interference:
    """Two values that must share a buffer and are alive together from `time` on."""

    first: Value
    second: Value
    time: int


class AliasAnalysis:
    """The buffers of a module with a flat call graph, in the order of its schedule, or in program
    order where it has none."""

    def __init__(
        self,
        module: Module,
        *,
        pairs: PairRule = in_place_pairs,
        can_share: CanShare | None = None,
    ) -> None:
        schedule = module.schedule or {c: c.in_order() for c in module.computations}
        self.flow = ValueFlow(module, pairs, schedule)
        self._contacts = Contacts(self.flow, can_share)
        self._members: dict[Value, list[Value]] = {v: [v] for v in self.flow.values}
        for e in self.flow.edges:
            target = e.target or self._aliased_parameter(e.index)
            if target is not None:
                self._merge(e.source, target)

    def _aliased_parameter(self, index: Index) -> Value | None:
        aliases = self.flow.module.input_output_alias
        for e in aliases.entries if aliases else ():
            n = len(e.output_shape_index)
            if index[:n] == e.output_shape_index:
                tree = self.flow.trees[self.flow.module.entry.parameters[e.parameter_number]]
                return at(tree, e.parameter_shape_index + index[n:])
        return None

    def _merge(self, a: Value, b: Value) -> None:
        small, large = sorted((self._members[a], self._members[b]), key=len)
        if small is large:
            return
        large += small
        for v in small:
            self._members[v] = large

    def buffer(self, i: Instruction, index: Index = ()) -> list[Value]:
        """The values of the buffer at one array of an instruction's result."""
        return self._members[self.flow.at(i, index)]

    def share(self, *places: tuple[Instruction, Index]) -> bool:
        """Whether all these places are one buffer."""
        return len({id(self.buffer(i, index)) for i, index in places}) == 1

    def buffers(self) -> list[list[Value]]:
        """Every buffer once, in the order of its first value."""
        return list({id(m): m for m in self._members.values()}.values())

    def interference(self) -> list[Interference]:
        """What is alive together in one buffer, but must not be."""
        found: list[Interference] = []
        for members in self.buffers():
            if len(members) > 1:
                found += self._within(members)
        return found

    def _within(self, members: list[Value]) -> list[Interference]:
        found: list[Interference] = []
        for v in members:
            if v.kind == "constant" or (v.kind == "parameter" and not self._is_given(v)):
                found.append(Interference(v, next(x for x in members if x is not v), 0))
        ranges: list[Interval] = sorted(
            ((s, e, v) for v in members for s, e in intervals(v)), key=lambda r: r[:2]
        )
        last: Interval | None = None
        for r in ranges:
            if last is not None and last[1] > r[0] and not self._contacts.allowed(last, r):
                found.append(Interference(last[2], r[2], r[0] // 3))
            if last is None or r[1] > last[1] or self._contacts.allowed(last, r):
                last = r
        return found

    def _is_given(self, v: Value) -> bool:
        """Whether the caller gives this parameter away."""
        module, part = self.flow.module, (v.instruction.attrs.number, v.index)
        aliases, donors = module.input_output_alias, module.buffer_donors
        entries = aliases.entries if aliases else ()
        given = [(e.parameter_number, e.parameter_shape_index) for e in entries]
        given += list(donors.entries) if donors else []
        return any(n == part[0] and part[1][: len(p)] == p for n, p in given)
