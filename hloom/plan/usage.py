"""What a plan says of memory: how much, for what, when; a row for every value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from hloom.plan.buffer_assignment import AssignedValue, BufferAssignment
from hloom.program.slice import Allocation


@dataclass(frozen=True)
class MemoryUse:
    """The memory of one run of a program, in bytes.

    `arguments` are the caller's, `outputs` what is handed back and was not an argument, `aliased`
    the outputs that are returned in the buffer of an argument.
    """

    allocations: list[Allocation]
    plan: Callable[[], BufferAssignment] = field(repr=False, compare=False)
    """Makes the plan, which the sums do not need: a program from the cache comes without."""

    @cached_property
    def buffer_assignment(self) -> BufferAssignment:
        """The plan."""
        return self.plan()

    @property
    def arguments(self) -> int:
        return self._sum("parameter")

    @property
    def outputs(self) -> int:
        return self._sum("output")

    @property
    def constants(self) -> int:
        return self._sum("constant")

    @property
    def temp(self) -> int:
        """The arena of everything else."""
        return self._sum("temp")

    @property
    def aliased(self) -> int:
        return sum([a.size_bytes for a in self.allocations if a.output_index is not None])

    def _sum(self, kind: str) -> int:
        return sum([a.size_bytes for a in self.allocations if a.kind == kind])

    @property
    def by_space(self) -> dict[int, int]:
        """Everything at once, in each memory space."""
        sizes: dict[int, int] = {}
        for a in self.allocations:
            sizes[a.space] = sizes.get(a.space, 0) + a.size_bytes
        return sizes

    @property
    def peak(self) -> int:
        """Everything at once: what the process has to have."""
        return self.arguments + self.outputs + self.constants + self.temp

    @property
    def live(self) -> int:
        """The most bytes of temporaries alive at one time: the least that `temp` could be."""
        return self.buffer_assignment.live_bytes

    @property
    def values(self) -> list[AssignedValue]:
        """Every value: when it is alive, where it stands, and why there."""
        return self.buffer_assignment.values

    @cached_property
    def timeline(self) -> list[tuple[int, int]]:
        """(time, bytes of temporaries alive from there on), where that changes.

        Times are thirds of a step; steps count the instructions in the order in which they run.
        """
        changes: dict[int, int] = {}
        for v in self.buffer_assignment.values:
            if v.slice.allocation.kind == "temp":
                for start, end in v.alive:
                    changes[start] = changes.get(start, 0) + v.slice.size_bytes
                    changes[end] = changes.get(end, 0) - v.slice.size_bytes
        steps, total = [], 0
        for time in sorted(changes):
            if changes[time]:
                total += changes[time]
                steps.append((time, total))
        return steps

    def largest(self, count: int) -> list[AssignedValue]:
        """The values that take most, of those in the arena or handed back."""
        own = [
            v
            for v in self.buffer_assignment.values
            if v.slice.allocation.kind in ("temp", "output")
        ]
        return sorted(own, key=lambda v: -v.slice.size_bytes)[:count]

    def rows(self) -> Iterator[dict[str, object]]:
        """The table of values as plain data."""
        for v in self.buffer_assignment.values:
            a = v.slice.allocation
            yield {
                "value": v.name,
                "opcode": v.instruction.opcode,
                "bytes": v.slice.size_bytes,
                "kind": a.kind,
                "allocation": a.index,
                "space": a.space,
                "offset": v.slice.offset,
                "alive": [list(interval) for interval in v.alive],
                "why": v.note,
            }

    def as_dict(self) -> dict[str, int]:
        """The sums as plain data (`live`, which needs the plan, is not among
        them), and what of all that is in which other memory space."""
        names = ("arguments", "outputs", "aliased", "constants", "temp", "peak")
        sums = {name: getattr(self, name) for name in names}
        others = {f"S({k})": size for k, size in sorted(self.by_space.items()) if k}
        return {**sums, **others}

    def __str__(self) -> str:
        return ", ".join([f"{name} {size:,}" for name, size in self.as_dict().items()]) + " bytes"
