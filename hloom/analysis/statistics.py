"""What is in a module: counts, sizes, communication, loops, and what is largest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hloom.analysis.cost import (
    NO_WORK,
    NOTHING,
    Cost,
    ModuleCost,
    instruction_cost,
    module_cost,
)
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes, opcodes_where
from hloom.ir.traits import COLLECTIVE, CONTROL_FLOW, TRANSFER
from hloom.types.sizes import moved_bytes

_COMMUNICATES = opcodes_where(
    lambda op: COLLECTIVE in op.traits or (TRANSFER in op.traits and op.done_of is None)
)
_CONTROL = opcodes(CONTROL_FLOW)


@dataclass
class CollectiveCount:
    """All collectives of one opcode over one kind of groups."""

    opcode: str
    groups: str
    """`4 groups of 8`, or the pairs of a permutation."""
    count: int = 0
    runs: float = 0
    """How often they run as the module runs once."""
    bytes: float = 0
    """Bytes of the operands, all runs together, on one device."""


@dataclass
class Opcode:
    """All instructions of one opcode."""

    opcode: str
    count: int = 0
    runs: float = 0
    cost: Cost = NOTHING
    """Of all runs, without what is called as a program of its own."""


@dataclass
class Loop:
    """One while, and how often it runs."""

    instruction: Instruction
    count: int | None
    why: str
    runs: float
    """How often the loop itself is started."""


@dataclass
class Statistics:
    """What `hloom stats` shows."""

    module: Module
    cost: ModuleCost
    opcodes: list[Opcode] = field(default_factory=list)
    collectives: list[CollectiveCount] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    biggest: list[Instruction] = field(default_factory=list)
    computations: list[tuple[Computation, float, Cost]] = field(default_factory=list)
    """Computations that run as programs, how often, and one run of each."""
    custom_calls: Counter[str] = field(default_factory=Counter)
    parameter_bytes: int = 0
    output_bytes: int = 0
    constant_bytes: int = 0

    @property
    def intensity(self) -> float:
        """Arithmetic operations a byte moved."""
        total = self.cost.total
        return total.flops / total.bytes if total.bytes else 0.0

    @property
    def unknown_loops(self) -> list[Loop]:
        return [loop for loop in self.loops if loop.count is None]


def module_statistics(module: Module, biggest: int = 10) -> Statistics:
    """Count a module; `biggest` is how many of the largest values to keep."""
    cost = module_cost(module)
    statistics = Statistics(module, cost)
    opcodes: dict[str, Opcode] = {}
    collectives: dict[tuple[str, str], CollectiveCount] = {}
    values: list[tuple[int, Instruction]] = []
    for c in module.computations:
        runs = cost.executions.get(c, 0.0)
        for i in c.instructions:
            entry = opcodes.setdefault(i.opcode, Opcode(i.opcode))
            entry.count += 1
            entry.runs += runs
            if runs and i.opcode not in _CONTROL:
                entry.cost += instruction_cost(i, cost.per_computation).times(runs)
            if i.opcode in _COMMUNICATES:
                _add_collective(collectives, i, runs)
            elif i.opcode == "custom-call":
                statistics.custom_calls[i.attrs.custom_call_target] += 1
            elif i.opcode == "constant":
                statistics.constant_bytes += moved_bytes(i.shape)
            # Inside a fusion or a reducer nothing is stored.
            stored = i.opcode not in NO_WORK or i.opcode == "constant"
            stored |= i.opcode == "parameter" and c.is_entry
            if runs and stored and not i.shape.is_tuple:
                values.append((moved_bytes(i.shape), i))
    for loop, trips in cost.loops.items():
        runs = cost.executions.get(loop.parent, 0.0)
        statistics.loops.append(Loop(loop, trips.count, trips.why, runs))
    statistics.opcodes = sorted(opcodes.values(), key=lambda o: (-o.count, o.opcode))
    statistics.collectives = sorted(collectives.values(), key=lambda c: -c.bytes)
    values.sort(key=lambda pair: -pair[0])
    statistics.biggest = [i for _, i in values[:biggest]]
    statistics.computations = sorted(
        ((c, n, cost.per_computation[c]) for c, n in cost.executions.items() if n),
        key=lambda row: -row[1] * row[2].flops,
    )
    statistics.parameter_bytes = sum(moved_bytes(p.shape) for p in module.entry.parameters)
    statistics.output_bytes = moved_bytes(module.entry.root.shape)
    return statistics


def _add_collective(
    collectives: dict[tuple[str, str], CollectiveCount], i: Instruction, runs: float
) -> None:
    groups = groups_text(i)
    entry = collectives.setdefault((i.opcode, groups), CollectiveCount(i.opcode, groups))
    entry.count += 1
    entry.runs += runs
    entry.bytes += runs * sum(moved_bytes(x.shape) for x in i.operands)


def groups_text(i: Instruction) -> str:
    """How the devices are grouped, in words."""
    pairs = getattr(i.attrs, "source_target_pairs", None)
    if pairs:
        return f"{len(pairs)} pairs"
    groups = getattr(i.attrs, "replica_groups", None)
    if groups is None:
        return ""
    if groups.is_empty:
        return "all devices"
    count, size = groups.group_count, groups.group_size
    of = f"of {size}" if size is not None else "of several sizes"
    return f"{count} group{'s' * (count != 1)} {of}"
