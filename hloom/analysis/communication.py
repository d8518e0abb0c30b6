"""What the devices of a program send to one another: bytes of each collective, among whom, for
which line of the source.

Bytes are those that one device receives in all runs of an instruction, by the algorithm that needs
fewest: of an all-reduce each device gets 2 (n - 1) / n of its size, of a reduce-scatter or an
all-to-all (n - 1) / n of its operand, of an all-gather n - 1 times its operand. Of a permute the
busiest device counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hloom.analysis.cost import module_cost
from hloom.analysis.mesh_names import MeshNames
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes, opcodes_where
from hloom.ir.text.readable import Readable
from hloom.ir.traits import COLLECTIVE, TRANSFER
from hloom.ir.values.group_modes import device_groups, device_pairs, group_mode
from hloom.types.mesh import MeshAxes
from hloom.types.sizes import moved_bytes

COMMUNICATES = opcodes_where(
    lambda op: (COLLECTIVE in op.traits or TRANSFER in op.traits) and op.done_of is None
)
_TRANSFERS = opcodes(TRANSFER)


@dataclass(frozen=True, slots=True)
class Communication:
    """One collective of a program."""

    instruction: Instruction
    kind: str
    """Its opcode, without `-start`."""
    axis: str
    """Among which devices: axes of the mesh, where they are known."""
    members: tuple[int, ...]
    """One of its largest groups, in global ids; of a permute its first pair."""
    runs: float
    """How often it runs as the program runs once."""
    bytes: float
    """What a device receives in one run."""
    place: str
    """`file.py:12`; empty where nothing is said."""

    @property
    def total_bytes(self) -> float:
        """In all runs."""
        return self.bytes * self.runs

    @property
    def message_bytes(self) -> float:
        """What one device has or gets, whichever is more: what `collective_ns` asks for."""
        operands = sum([moved_bytes(x.shape) for x in self.instruction.operands])
        return operands * len(self.members) if self.kind == "all-gather" else operands


def communications(module: Module, mesh: MeshAxes | None = None) -> list[Communication]:
    """Every collective that runs, in the order of the program."""
    runs = module_cost(module).executions
    names = MeshNames(mesh, module.replica_count * module.num_partitions)
    place = Readable(module).place
    rows: list[Communication] = []
    for c in module.computations_in_order():
        times = runs.get(c, 0.0)
        for i in c.instructions if times else ():
            if i.opcode in COMMUNICATES:
                rows.append(communication(i, module, names, times, place))
    return rows


def communication(
    i: Instruction,
    module: Module,
    names: MeshNames,
    runs: float,
    place: Callable[[Instruction], str] = lambda _: "",
) -> Communication:
    """What one collective moves."""
    kind = i.opcode.removesuffix("-start")
    operands = float(sum([moved_bytes(x.shape) for x in i.operands]))
    if kind in _TRANSFERS:
        here = operands if kind == "send" else float(moved_bytes(i.shape))
        return Communication(i, kind, "a channel", (0, 1), runs, here, place(i))
    mode = group_mode(i.attrs) or "cross_partition"
    counts = (module.replica_count, module.num_partitions)
    written = getattr(i.attrs, "source_target_pairs", None)
    if written is not None:
        pairs = device_pairs(written, mode, *counts)
        moved = [p for p in pairs if p[0] != p[1]]
        size = operands if moved else 0.0
        axis = names.of_pairs(pairs)
        return Communication(i, kind, axis, (moved or [(0,)])[0], runs, size, place(i))
    groups = device_groups(i.attrs.replica_groups, mode, *counts)
    widest = max(groups, key=len, default=())
    received = received_bytes(kind, operands, len(widest))
    return Communication(i, kind, names.of_groups(groups), widest, runs, received, place(i))


def received_bytes(kind: str, operand_bytes: float, members: int) -> float:
    """What a device receives of a collective of so many, of operands of so many bytes each."""
    if members < 2:
        return 0.0
    share = (members - 1) / members
    match kind:
        case "all-gather":
            return operand_bytes * (members - 1)
        case "all-reduce" | "collective-reduce":
            return 2 * operand_bytes * share
        case "reduce-scatter" | "all-to-all" | "ragged-all-to-all":
            return operand_bytes * share
        case _:
            return operand_bytes


@dataclass(slots=True)
class Traffic:
    """Communication of one kind, along one axis, or of one line."""

    name: str
    count: int = 0
    runs: float = 0.0
    bytes: float = 0.0
    ns: float = 0.0
    exposed_ns: float = 0.0


def summed(
    rows: Sequence[Communication],
    name: Callable[[Communication], str],
    ns: dict[Instruction, tuple[float, float]] | None = None,
) -> list[Traffic]:
    """Rows put together by what they are called, most bytes first; `ns`: how long each takes in all
    runs, and how much of that nothing hides."""
    by_name: dict[str, Traffic] = {}
    for row in rows:
        of = by_name.setdefault(name(row), Traffic(name(row)))
        of.count += 1
        of.runs += row.runs
        of.bytes += row.total_bytes
        time, exposed = (ns or {}).get(row.instruction, (0.0, 0.0))
        of.ns += time
        of.exposed_ns += exposed
    return sorted(by_name.values(), key=lambda t: (-t.bytes, t.name))
