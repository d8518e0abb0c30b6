"""Groups of values that share one buffer, and whether two groups can become one.

A group keeps the intervals in which any of its values is alive, disjoint and sorted, with the
value that is alive. Two groups may join when no two values are alive together. One contact is
allowed: an operation may write where it reads an operand for the last time, if it must (an
in-place pair) or if the rule of `analysis/alias_share.py` lets it.

The order in which groups join does not matter as long as all joins succeed: a part of a group
without conflicts has none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from hloom.analysis.alias_ranges import intervals
from hloom.analysis.alias_share import CanShare, Contacts, Interval
from hloom.analysis.alias_spaces import NO_SPACES, EntrySpaces
from hloom.analysis.alias_tree import Edge, LogicalBuffer, at, leaves
from hloom.analysis.alias_values import Dataflow
from hloom.memory.beside import NOWHERE, Beside, Touches, merged
from hloom.plan.branches import BranchPlan

Fixed = tuple[str, object, tuple[int, ...]]
"""A buffer that is not ours to place: ("parameter", number, index) or ("output", 0, index)."""


class BufferGroup:
    """Values in one buffer. `fixed` when the caller says where it is."""

    __slots__ = ("bytes", "fixed", "intervals", "members", "read_only", "space", "touches")

    def __init__(self, members: list[LogicalBuffer], intervals: list[Interval], size: int) -> None:
        self.members = members
        self.intervals = intervals
        self.bytes = size
        self.fixed: Fixed | None = None
        self.read_only = False
        self.space = members[0].space
        """Groups of different memory spaces never join."""
        self.touches: Touches = NOWHERE
        """By which branches."""


def _key(interval: Interval) -> int:
    return interval[0]


def _end(interval: Interval) -> int:
    return interval[1]


class Groups:
    """All groups of a module; starts with one for each value, and one for each output part that
    the caller gets in a buffer of its own."""

    def __init__(
        self,
        flow: Dataflow,
        can_share: CanShare | None = None,
        spaces: EntrySpaces = NO_SPACES,
        branches: BranchPlan | None = None,
    ) -> None:
        self.flow = flow
        self.spaces = spaces
        self.beside = Beside(flow, branches) if branches else None
        self.contacts = Contacts(flow, can_share)
        self.can_share = self.contacts.can_share
        self.group: dict[LogicalBuffer, BufferGroup] = {}
        self.same = self.contacts.same
        self.donated = donated_parts(flow)
        for v in flow.values:
            self.group[v] = g = BufferGroup([v], [(s, e, v) for s, e in intervals(v)], v.bytes)
            if v.kind == "constant":
                g.read_only = True
            elif v.kind == "parameter":
                part = (v.instruction.attrs.number, v.index)
                g.fixed = ("parameter", *part)
                g.read_only = part not in self.donated
            if self.beside is not None:
                g.touches = self.beside.touches(v)
        self.outputs: dict[tuple[int, ...], LogicalBuffer] = {}
        """By index of an output part: what stands for the caller's buffer of it."""
        self._make_outputs()

    def _make_outputs(self) -> None:
        aliased = {out: part for part, out in self.donated.items() if out is not None}
        entry = self.flow.module.entry
        for e in self.flow.edges:
            if e.kind != "output":
                continue
            part = aliased.get(e.index)
            if part is not None:
                parameter = entry.parameters[part[0]]
                self.outputs[e.index] = at(self.flow.trees[parameter], part[1])
                continue
            v = self.outputs[e.index] = LogicalBuffer(-1, e.site, e.index, e.source.bytes, "output")
            v.space = self.spaces.results.get(e.index, 0)
            self.group[v] = g = BufferGroup([v], [], v.bytes)
            g.fixed = ("output", 0, e.index)

    def join_edges(self, apart: bool = True) -> list[Edge]:
        """Join what every edge says must be one buffer; the edges where that cannot be. `apart`:
        nor where it would make what runs side by side wait."""
        failed: list[Edge] = []
        for e in self.flow.edges:
            target = e.target or self.outputs[e.index]
            if not self.join(self.group[e.source], self.group[target], apart):
                failed.append(e)
        return failed

    def join(self, a: BufferGroup, b: BufferGroup, apart: bool = True) -> bool:
        """Make one group of two if no two values in them are alive together."""
        if a is b:
            return True
        if a.read_only or b.read_only or (a.fixed and b.fixed) or a.space != b.space:
            return False
        if (a.fixed and b.bytes > a.bytes) or (b.fixed and a.bytes > b.bytes):
            return False
        if apart and self._in_the_way(a.touches, b.touches):
            return False
        if len(a.intervals) < len(b.intervals):
            a, b = b, a
        contacts: list[tuple[list[Interval], int, int]] = []
        if not self._fits(a.intervals, b.intervals, contacts):
            return False
        for ranges, k, end in contacts:
            start, _, v = ranges[k]
            ranges[k] = (start, end, v)
        self._absorb(a, b)
        return True

    def join_copy(self, source: LogicalBuffer, copy: LogicalBuffer) -> bool:
        """Let a copy be one with what it copies, if their groups have room for that.

        The two hold the same bytes, so they may be alive together; nothing else may.
        """
        source = self.same.get(source, source)
        a, b = self.group[source], self.group[copy]
        if a.bytes != b.bytes or a.space != b.space or (a.fixed and b.fixed and a is not b):
            return False
        if a.read_only or b.read_only:
            if b.read_only or len(b.members) > 1 or b.fixed:
                return False
        copied = b.touches
        if self.beside is not None and len(b.members) == 1:
            copied = self.beside.reads(copy)  # it will not be written any more
        if a is not b and self._in_the_way(a.touches, copied):
            return False
        before = self.same.get(copy)
        self.contacts.let_go(copy, source)
        joined = self._joined(a, b, source, copy)
        if joined is None:
            self.contacts.let_go(copy, before)
            return False
        if a is not b:
            self._absorb(a, b, joined)
        else:
            a.intervals = joined
        return True

    def _joined(
        self, a: BufferGroup, b: BufferGroup, source: LogicalBuffer, copy: LogicalBuffer
    ) -> list[Interval] | None:
        """The intervals of two groups, where a copy in the second is what it copies, in the first;
        None if they have no room for that. Only what is alive with the smaller one is looked at:
        chains of loops make one group of thousands of intervals, with copies between all loops."""

        def named(intervals: list[Interval]) -> list[Interval]:
            return [(s, e, source if v is copy else v) for s, e, v in intervals]

        if a is b:
            return named(a.intervals)
        large, small = a.intervals, b.intervals
        if is_second := len(large) < len(small):
            large, small = small, large
        low = high = 0
        if small:
            low = bisect_right(large, small[0][0], key=_end)
            high = bisect_left(large, small[-1][1], lo=low, key=_key)
        both = [small, large[low:high]] if is_second else [large[low:high], small]
        together = sorted(named(both[0] + both[1]), key=_key)
        if (joined := self._merged(together, source, a.read_only)) is None:
            return None
        left, right = large[:low], large[high:]
        return [*named(left), *joined, *named(right)] if is_second else left + joined + right

    def _merged(
        self, together: list[Interval], source: LogicalBuffer, is_read_only: bool
    ) -> list[Interval] | None:
        """Intervals in one buffer without what two have in common: those of the source, and where
        one begins as another ends. None if others meet; in memory that is only read they may."""
        joined: list[Interval] = []
        for interval in together:
            if joined and joined[-1][1] > interval[0]:
                last = joined[-1]
                if last[2] is interval[2]:
                    joined[-1] = (last[0], max(last[1], interval[1]), source)
                    continue
                if is_read_only:
                    continue
                if not self.contacts.allowed(last, interval):
                    return None
                joined[-1] = (last[0], interval[0], last[2])
            joined.append(interval)
        return joined

    def _in_the_way(self, a: Touches, b: Touches) -> bool:
        """Whether one buffer for both would make what runs side by side wait."""
        return self.beside is not None and self.beside.in_the_way(a, b)

    def _absorb(self, a: BufferGroup, b: BufferGroup, joined: list[Interval] | None = None) -> None:
        """Make one group of two; `joined`: its intervals, where they are known."""
        a.touches = merged(a.touches, b.touches)
        if joined is not None:
            a.intervals = joined
        elif len(b.intervals) * 8 < len(a.intervals):
            for interval in b.intervals:
                insort(a.intervals, interval, key=_key)
        else:
            a.intervals = sorted(a.intervals + b.intervals, key=_key)
        if len(a.members) < len(b.members):
            a.members, b.members = b.members, a.members
            for v in a.members:
                self.group[v] = a
        a.members += b.members
        for v in b.members:
            self.group[v] = a
        a.bytes = max(a.bytes, b.bytes)
        if b.fixed:
            a.fixed = b.fixed

    def _fits(
        self,
        large: list[Interval],
        small: list[Interval],
        contacts: list[tuple[list[Interval], int, int]],
    ) -> bool:
        count = len(large)
        for k, (start, end, _) in enumerate(small):
            position = bisect_right(large, start, key=_key) - 1
            if position >= 0 and large[position][1] > start:
                if not self.contacts.allowed(large[position], small[k]):
                    return False
                contacts.append((large, position, start))
            position += 1
            while position < count and large[position][0] < end:
                if not self.contacts.allowed(small[k], large[position]):
                    return False
                contacts.append((small, k, large[position][0]))
                position += 1
        return True


def donated_parts(
    flow: Dataflow,
) -> dict[tuple[int, tuple[int, ...]], tuple[int, ...] | None]:
    """(parameter number, index) of each array that the caller gives away, and the index of the
    output that is returned in it, if one is."""
    module = flow.module
    donors: dict[tuple[int, tuple[int, ...]], tuple[int, ...] | None] = {}
    entry = module.entry
    root = flow.trees[entry.root]
    entries = list(module.input_output_alias.entries) if module.input_output_alias else []
    for e in entries:
        source = at(flow.trees[entry.parameters[e.parameter_number]], e.parameter_shape_index)
        result = at(root, e.output_shape_index)
        for (p, x), (q, y) in zip(leaves(source), leaves(result)):
            if x is None or y is None:
                continue
            part, out = (e.parameter_number, e.parameter_shape_index + p), e.output_shape_index + q
            out_shape = entry.root.shape.subshape(out)
            donors[part] = out if x.shape.same(out_shape, ignore_layout=True) else None
    for number, index in module.buffer_donors.entries if module.buffer_donors else ():
        for p, x in leaves(at(flow.trees[entry.parameters[number]], index)):
            if x is not None:
                donors.setdefault((number, index + p), None)
    return donors
