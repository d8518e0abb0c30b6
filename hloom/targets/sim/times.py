"""How long each thunk of a program takes on a device that is not here, in nanoseconds."""

from __future__ import annotations

from collections import Counter

from hloom.analysis.cost import Cost, bytes_moved, instruction_cost, module_cost
from hloom.device.device import Device
from hloom.device.timing import copy_ns, kernel_ns, routine_ns
from hloom.ir.instruction import Instruction
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import Thunk, walk
from hloom.program.thunks.while_ import While
from hloom.targets.sim.streams import spaces
from hloom.targets.stages import Stages

MATRIX = frozenset(("dot", "convolution"))
UNKNOWN_TRIPS = 10
"""Of a loop that may run as long as it likes: only for choosing streams."""


class ThunkTimes:
    """Asks the optimised graph what the instruction of a thunk computes, and the device for the
    time of that and of the bytes that the thunk touches."""

    def __init__(self, stages: Stages, device: Device) -> None:
        self.device = device
        self._instructions = {i.name: i for i in stages.places.trees}
        self._bodies = module_cost(stages.module).per_computation
        self._parts = Counter(t.name for t in walk(stages.program.thunks))
        self._known: dict[Thunk, float] = {}

    def __call__(self, t: Thunk) -> float:
        """The time of a thunk, what is inside it included."""
        found = self._known.get(t)
        if found is None:
            found = self._known[t] = self._of(t)
        return found

    def _of(self, t: Thunk) -> float:
        if isinstance(t, Copy):
            return copy_ns(self.device, t.target.size_bytes, *spaces(t))
        if isinstance(t, While):
            condition, body = [sum(map(self, n.thunks)) for n in t.nested()]
            n = UNKNOWN_TRIPS if t.trip_count is None else t.trip_count
            return n * body + (0 if t.trip_count is not None else (n + 1) * condition)
        if nested := t.nested():
            return max([sum(map(self, n.thunks)) for n in nested])
        i = self._instructions.get(t.name)
        moved = self._moved(t, i)
        if isinstance(t, Kernel):
            cost = instruction_cost(i, self._bodies) if i is not None else Cost()
            operations = (cost.flops + cost.transcendentals) / self._parts[t.name]
            return kernel_ns(self.device, operations, moved, _dtype(i), _is_matrix(i))
        return routine_ns(self.device, moved)

    def _moved(self, t: Thunk, i: Instruction | None) -> dict[int, float]:
        """The bytes that a thunk moves, by memory space: less than it may touch where it takes or
        changes a part."""
        moved: dict[int, float] = {}
        for use in t.uses():
            space = use.slice.allocation.space
            moved[space] = moved.get(space, 0.0) + use.slice.size_bytes
        total = sum(moved.values())
        if i is None or not total:
            return moved
        part = min(1.0, bytes_moved(i) / total)
        return {space: size * part for space, size in moved.items()}


def _dtype(i: Instruction | None) -> str:
    """The type whose rate counts: of the first operand, which products and sums are made of."""
    for shape in (*(x.shape for x in i.operands), i.shape) if i is not None else ():
        if shape.is_array and shape.dtype.is_floating:
            return shape.dtype.name
    return "f32"


def _is_matrix(i: Instruction | None) -> bool:
    """Whether a matrix unit can do the work."""
    if i is None:
        return False
    inside = i.called[0].instructions if i.opcode == "fusion" else (i,)
    return any(x.opcode in MATRIX for x in inside)
