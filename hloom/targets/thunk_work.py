"""What each thunk of a program computes and moves: asked of the optimised graph, by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

from hloom.analysis.cost import Cost, ModuleCost, bytes_moved, instruction_cost, module_cost
from hloom.device.costs import Costs
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTRACTS
from hloom.program.thunks.thunk import Thunk, walk
from hloom.targets.stages import Stages

MATRIX = opcodes(CONTRACTS)
SINGLE = "f32"
WINDOW_FOLDS = 3


@dataclass(frozen=True)
class RunWork:
    """Of one run of a thunk."""

    operations: dict[str, float]
    """Arithmetic by element type, transcendental functions not counted."""
    transcendentals: float
    functions: float
    """All that is dearer than an addition, in additions (`Costs.weight`)."""
    moved: dict[int, float]
    """Bytes read and written, by memory space."""
    written: float
    """Of these, what is written."""
    outside: float
    """Of these, arguments and constants: nothing within the program has used them before."""
    is_matrix: bool
    """Whether a matrix unit can do the work."""

    @property
    def dtype(self) -> str:
        """The type of most operations."""
        return max(self.operations, key=lambda d: self.operations[d], default=SINGLE)

    @property
    def bytes(self) -> float:
        return sum(self.moved.values())


class ThunkWork:
    """The work of each thunk of a program."""

    def __init__(self, stages: Stages, costs: Costs) -> None:
        self._costs = costs
        self._instructions = {i.name: i for i in stages.buffer_assignment.trees}
        self.whole: ModuleCost = module_cost(stages.module, costs)
        self.footprint = sum([a.size_bytes for a in stages.program.allocations])
        """Bytes of all memory that the program uses."""
        self._parts = Counter(t.name for t in walk(stages.program.thunks))

    def __call__(self, t: Thunk) -> RunWork:
        """Of one run of a thunk; what an instruction does is shared alike by its thunks."""
        i = self._instructions.get(t.name)
        cost = self._least_cost(i) if i is not None else Cost()
        share = 1 / self._parts[t.name]
        moved = self._moved(t, i)
        written = sum([use.slice.size_bytes for use in t.uses() if use.writes])
        return RunWork(
            {_dtype(i): cost.flops * share},
            cost.transcendentals * share,
            cost.functions * share,
            moved,
            min(written, sum(moved.values())),
            self._outside(t, sum(moved.values())),
            _is_matrix(i),
        )

    def _outside(self, t: Thunk, moved: float) -> float:
        slices = [u.slice for u in t.uses()]
        outside = [s.size_bytes for s in slices if s.allocation.kind in ("parameter", "constant")]
        return moved * sum(outside) / max(sum([s.size_bytes for s in slices]), 1)

    def _cost(self, i: Instruction) -> Cost:
        return instruction_cost(i, self.whole.per_computation, None, self._costs)

    def _least_cost(self, i: Instruction) -> Cost:
        """The cost of an instruction, but that of window folds as the best way makes them: three
        applications for each element and dimension, however long the window (van Herk)."""
        cost = self._cost(i)
        for x in _inside(i) if i.opcode != "while" else ():
            if x.opcode != "reduce-window":
                continue
            sizes = [d.size for d in x.attrs.window.dimensions if d.size > 1]
            least, wide = WINDOW_FOLDS * len(sizes), prod(sizes) - 1
            if wide > least:
                cost += self._cost(x).times(least / wide - 1)
        return cost

    def _moved(self, t: Thunk, i: Instruction | None) -> dict[int, float]:
        """Less than a thunk may touch where it takes or changes a part."""
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
    """The type whose rate counts: of the first operand of a product, which may be narrower than all
    else, or of the first floats there are."""
    if i is None:
        return SINGLE
    inside = _inside(i)
    products = [x for x in inside if x.opcode in MATRIX]
    first = products[0] if products else i
    for shape in (*(x.shape for x in first.operands), first.shape):
        if shape.is_array and (products or shape.dtype.is_floating):
            return shape.dtype.name
    return SINGLE


def _is_matrix(i: Instruction | None) -> bool:
    return i is not None and any(x.opcode in MATRIX for x in _inside(i))


def _inside(i: Instruction) -> list[Instruction]:
    """The instructions that one kernel computes: of a fusion, or of a loop that is a kernel."""
    if i.opcode not in ("fusion", "while"):
        return [i]
    inner: list[Instruction] = []
    left: list[Computation] = list(i.called)
    for c in left:
        for x in c.instructions:
            inner += _inside(x)
    return inner
