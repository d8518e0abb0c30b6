"""Thunks and custom calls as plain lists for JSON, both ways: a letter for the kind, its fields.

Slices and blobs are written once, in tables, and named by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hloom.program.call_site import CallBuffer, CallSite
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.thunks.control import Call, Conditional, While
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.routine import Argument, Function, Numbers, Pointers, Routine, Text
from hloom.program.thunks.thunk import Thunk


class Writer:
    """Collects the tables while thunks are written."""

    def __init__(self) -> None:
        self.slices: list[tuple[int, int, int]] = []
        """Allocation, offset and size of each."""
        self.blobs: list[bytes] = []
        self._numbers: dict[tuple[int, int, int], int] = {}

    def slice(self, s: BufferSlice) -> int:
        """The number of a slice."""
        key = (s.allocation.index, s.offset, s.size_bytes)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.slices)
            self.slices.append(key)
        return number

    def blob(self, data: bytes) -> int:
        """The number of some bytes."""
        self.blobs.append(data)
        return len(self.blobs) - 1

    def thunks(self, thunks: Iterable[Thunk]) -> list[list[Any]]:
        """A sequence of thunks."""
        return [self._thunk(t) for t in thunks]

    def call_site(self, c: CallSite) -> list[Any]:
        """A custom call."""
        operands, results = ([self._buffer(b) for b in x] for x in (c.operands, c.results))
        return [c.name, c.target, c.is_typed, c.config, operands, results]

    def _buffer(self, b: CallBuffer) -> list[Any]:
        return [b.dtype, b.dims, None if b.slice is None else self.slice(b.slice)]

    def _slices(self, slices: Iterable[BufferSlice]) -> list[int]:
        return [self.slice(s) for s in slices]

    def _thunk(self, t: Thunk) -> list[Any]:
        if isinstance(t, Kernel):
            arguments = self._slices(t.arguments)
            return ["k", t.name, t.symbol, arguments, list(t.writes), t.steps, t.cost_ns]
        if isinstance(t, Copy):
            return ["c", t.name, self.slice(t.source), self.slice(t.target)]
        if isinstance(t, While):
            condition, body = self.thunks(t.condition), self.thunks(t.body)
            return ["w", t.name, condition, self.slice(t.pred), body, t.trip_count]
        if isinstance(t, Conditional):
            branches = [self.thunks(b) for b in t.branches]
            return ["i", t.name, self.slice(t.selector), t.is_pred, branches, list(t.names)]
        if isinstance(t, Call):
            return ["s", t.name, self.thunks(t.called)]
        if isinstance(t, Routine):
            arguments = [self._argument(a) for a in t.arguments]
            reads, writes = self._slices(t.reads), self._slices(t.writes)
            return ["r", t.name, t.what, t.symbol, arguments, reads, writes]
        raise TypeError(f"no saved form of a {t.kind} thunk")

    def _argument(self, a: Argument) -> Any:
        if a is None or isinstance(a, int):
            return a
        if isinstance(a, BufferSlice):
            return ["s", self.slice(a)]
        if isinstance(a, Numbers):
            return ["n", list(a.values)]
        if isinstance(a, Pointers):
            return ["p", [None if s is None else self.slice(s) for s in a.slices]]
        if isinstance(a, Function):
            return ["f", a.symbol]
        return ["t", self.blob(a.data)]


class Reader:
    """Makes thunks of the lists again. Wrong lists raise ValueError, TypeError or IndexError."""

    def __init__(
        self,
        allocations: Sequence[Allocation],
        slices: Iterable[Sequence[int]],
        blobs: Sequence[memoryview],
    ) -> None:
        by_index = {a.index: a for a in allocations}
        self._slices = [BufferSlice(by_index[a], offset, size) for a, offset, size in slices]
        self._blobs = blobs
        for s in self._slices:
            if not 0 <= s.offset <= s.end <= s.allocation.size_bytes:
                raise ValueError(f"the slice {s} leaves its allocation")

    def slice(self, number: int) -> BufferSlice:
        """The slice of this number."""
        return self._slices[number]

    def thunks(self, rows: Iterable[list[Any]]) -> tuple[Thunk, ...]:
        """A sequence of thunks."""
        return tuple([self._thunk(*row) for row in rows])

    def call_site(self, row: list[Any]) -> CallSite:
        """A custom call."""
        name, target, is_typed, config, operands, results = row
        return CallSite(
            name,
            target,
            is_typed,
            config,
            tuple([self._buffer(*b) for b in operands]),
            tuple([self._buffer(*b) for b in results]),
        )

    def _buffer(self, dtype: int, dims: list[int], number: int | None) -> CallBuffer:
        return CallBuffer(dtype, tuple(dims), None if number is None else self._slices[number])

    def _thunk(self, kind: str, name: str, *rest: Any) -> Thunk:
        table = self._slices
        if kind == "k":
            symbol, arguments, writes, steps, cost_ns = rest
            places = tuple([table[s] for s in arguments])
            return Kernel(name, symbol, places, tuple(writes), steps, cost_ns)
        if kind == "c":
            source, target = rest
            return Copy(name, table[source], table[target])
        if kind == "w":
            condition, pred, body, trip_count = rest
            return While(name, self.thunks(condition), table[pred], self.thunks(body), trip_count)
        if kind == "i":
            selector, is_pred, branches, names = rest
            inside = tuple([self.thunks(b) for b in branches])
            return Conditional(name, table[selector], is_pred, inside, tuple(names))
        if kind == "s":
            (called,) = rest
            return Call(name, self.thunks(called))
        if kind == "r":
            what, symbol, arguments, reads, writes = rest
            return Routine(
                name,
                what,
                symbol,
                tuple([self._argument(a) for a in arguments]),
                tuple([table[s] for s in reads]),
                tuple([table[s] for s in writes]),
            )
        raise ValueError(f"no kind of thunk {kind!r}")

    def _argument(self, a: Any) -> Argument:
        if a is None or isinstance(a, int):
            return a
        kind, value = a
        if kind == "s":
            return self._slices[value]
        if kind == "n":
            return Numbers(tuple(value))
        if kind == "p":
            return Pointers(tuple([None if s is None else self._slices[s] for s in value]))
        if kind == "f":
            return Function(value)
        if kind == "t":
            return Text(bytes(self._blobs[value]))
        raise ValueError(f"no kind of argument {kind!r}")
