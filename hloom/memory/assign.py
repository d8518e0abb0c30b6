"""Buffer assignment: from a module with its copies, and its order, to a place for every value.

1. What must share a buffer does (`groups.py`; a conflict means that copy insertion did not run).
2. Results overwrite operands that die, where the sharing rule allows it.
3. Buffers of parameters, constants and outputs are where the caller has them; of all others some
   stand in outputs that are not written yet (`idle_outputs.py`), and the rest is packed by a heap,
   into one block for each memory space.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hloom.analysis.alias import in_place_pairs
from hloom.analysis.alias_ranges import intervals
from hloom.analysis.alias_share import CanShare
from hloom.analysis.alias_spaces import NO_SPACES, EntrySpaces
from hloom.analysis.alias_tree import LogicalBuffer, Tree, leaves
from hloom.analysis.alias_values import Dataflow, PairRule
from hloom.base.diagnostics import HloError
from hloom.device.device import MemorySpace
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.memory.groups import BufferGroup, Groups
from hloom.memory.heap import best_fit as _best_fit  # noqa: F401  (registers itself)
from hloom.memory.heap import first_fit as _first_fit  # noqa: F401
from hloom.memory.heap.buffer_interval import HEAPS, BufferInterval, live_bytes
from hloom.memory.idle_outputs import in_idle_outputs
from hloom.plan.branches import BranchPlan
from hloom.plan.buffer_assignment import AssignedValue, BufferAssignment, SliceTree
from hloom.plan.order import Order
from hloom.program.slice import ALIGNMENT, Allocation, BufferSlice
from hloom.types.aligned import aligned_copy, is_settled
from hloom.types.literal import Literal
from hloom.types.shape import Shape

LARGEST = 5
"""Values that an error names."""


@dataclass(frozen=True, slots=True)
class AssignOptions:
    """How buffers are assigned. `can_share` None: the default rule of `analysis/alias_share.py`."""

    can_share: CanShare | None = None
    pairs: PairRule = in_place_pairs
    heap: str = "best-fit"
    alignment: int = ALIGNMENT
    share_operands: bool = True
    """Whether results may overwrite operands that they need not, and temporaries stand in outputs
    that are not written yet."""
    spaces: EntrySpaces = NO_SPACES
    """Of the caller's arrays."""
    memories: tuple[MemorySpace, ...] = ()
    """How much each memory space holds, and where allocations begin in it; one that is not named,
    or of no size, holds anything."""
    apart: bool = False
    """Whether each temporary buffer is an allocation of its own, which a guard can stand behind."""
    branches: BranchPlan | None = None
    """What is to run side by side, and has places of its own."""


def assign_buffers(
    module: Module, order: Order, options: AssignOptions | None = None
) -> BufferAssignment:
    """A place for every value of a module with a flat call graph that runs in an order.

    Raises `HloError` when something that runs has no order, or is called twice, or when copies are
    missing.
    """
    options = options or AssignOptions()
    flow = Dataflow(module, order, options.pairs, options.spaces)
    groups = Groups(flow, options.can_share, options.spaces, options.branches)
    failed = groups.join_edges(apart=False)  # copies are in where they keep branches apart
    if failed:
        e = failed[0]
        raise HloError(
            f"{e.source!r} and its {e.kind} target would be alive together in one buffer",
            instruction=f"%{e.site.name}",
            rule="interference",
            hint="run hloom.memory.copies.insert_copies first",
        )
    if options.share_operands:
        share_operands(groups)
    return _Assignment(groups, options).result()


def share_operands(groups: Groups) -> int:
    """Let results overwrite operands that die; how many do."""
    flow, shared = groups.flow, 0
    group, can_share = groups.group, groups.can_share
    for time, i in enumerate(flow.steps):
        if i is None or not i.operands:
            continue
        tree = flow.trees[i]
        for index, y in leaves(tree) if type(tree) is tuple else (((), tree),):
            if y is None or y.kind != "computed" or y.instruction is not i:
                continue
            for number, operand in enumerate(i.operands):
                x = flow.trees[operand]
                if type(x) is not LogicalBuffer or x.bytes != y.bytes or not _dies(x, time):
                    continue
                if group[x] is group[y]:
                    break
                if can_share(i, number, index) and groups.join(group[x], group[y]):
                    shared += 1
                    break
    return shared


def _dies(x: LogicalBuffer, time: int) -> bool:
    """Whether a value may be needed for the last time at this time."""
    return x.uses[-1] == time or x.kind == "state" or len(x.births) > 1


class _Assignment:
    """Turns groups into allocations and slices."""

    def __init__(self, groups: Groups, options: AssignOptions) -> None:
        self.groups = groups
        self.flow = groups.flow
        self.options = options
        self.allocations: list[Allocation] = []
        self.home: dict[int, tuple[Allocation, int]] = {}
        """By id of a group: its allocation and offset."""

    def result(self) -> BufferAssignment:
        self._fixed()
        self._constants()
        live = self._temp()
        self._check_sizes()
        slices: dict[LogicalBuffer, BufferSlice] = {}
        for v in self.flow.values:
            allocation, offset = self.home[id(self.groups.group[v])]
            slices[v] = BufferSlice(allocation, offset, v.bytes)
        trees: dict[Instruction, SliceTree] = {}
        for i, tree in self.flow.trees.items():
            trees[i] = slices[tree] if type(tree) is LogicalBuffer else _sliced(tree, slices)
        notes, alive = self._notes(), self._alive()
        values = [
            AssignedValue(
                v.instruction,
                v.index,
                tuple(alive.get(v) or intervals(v)),
                slices[v],
                notes.get(v, ""),
                v.space,
            )
            for v in self.flow.values
        ]
        return BufferAssignment(self.allocations, trees, values, live)

    def _allocate(self, size: int, kind: str, **more: object) -> Allocation:
        allocation = Allocation(len(self.allocations), size, kind, **more)  # pyright: ignore
        self.allocations.append(allocation)
        return allocation

    def _fixed(self) -> None:
        """Parameters, then outputs, in the order of their parts."""
        flow, groups = self.flow, self.groups
        for p in flow.module.entry.parameters:
            number = p.attrs.number
            for index, v in leaves(flow.trees[p]):
                if v is None:
                    continue
                part = (number, index)
                allocation = self._allocate(
                    v.bytes,
                    "parameter",
                    parameter_number=number,
                    shape_index=index,
                    output_index=groups.donated.get(part),
                    is_donated=part in groups.donated,
                    space=v.space,
                )
                self.home[id(groups.group[v])] = allocation, 0
        for index, v in groups.outputs.items():
            g = groups.group[v]
            if id(g) not in self.home:
                allocation = self._allocate(v.bytes, "output", shape_index=index, space=v.space)
                self.home[id(g)] = allocation, 0

    def _constants(self) -> None:
        for v in self.flow.values:
            if v.kind == "constant":
                data = literal_bytes(_part(v.instruction.attrs.literal, v.index), v.shape)
                allocation = self._allocate(v.bytes, "constant", data=data)
                self.home[id(self.groups.group[v])] = allocation, 0

    def _temp(self) -> int:
        """Pack what is left, one block for each memory space; the most bytes alive at one time."""
        left: dict[int, BufferGroup] = {}
        for v in self.flow.values:
            g = self.groups.group[v]
            if id(g) not in self.home:
                left[id(g)] = g
        if self.options.apart:
            for key, g in left.items():
                self.home[key] = self._allocate(g.bytes, "temp", space=g.space), 0
            return sum(g.bytes for g in left.values())
        return sum([self._pack(k, left) for k in sorted({g.space for g in left.values()})])

    def _pack(self, space: int, left: dict[int, BufferGroup]) -> int:
        """Pack the groups of one memory space; the most bytes alive at one time."""
        memory = self._memory(space)
        own = {key: g for key, g in left.items() if g.space == space}
        blocks = [self._block(g) for g in own.values()]
        alignment = max(self.options.alignment, memory.alignment_bytes if memory else 1)
        outputs = self._own_outputs(space)
        idle = in_idle_outputs(blocks, [b for _, b in outputs], alignment)
        keys = list(own)
        for k, place in idle.items():
            self.home[keys[k]] = outputs[place.output][0], place.offset
        rest = [k for k in range(len(blocks)) if k not in idle]
        blocks = [blocks[k] for k in rest]
        packing = HEAPS[self.options.heap](blocks, alignment)
        temp = self._allocate(packing.total_bytes, "temp", space=space)
        for k, offset in zip(rest, packing.offsets, strict=True):
            self.home[keys[k]] = temp, offset
        return live_bytes(blocks, alignment)

    def _own_outputs(self, space: int) -> list[tuple[Allocation, BufferInterval]]:
        """The outputs in a memory space that the caller gets in buffers of their own, and when
        they are in use."""
        if not self.options.share_operands:
            return []
        outputs: list[tuple[Allocation, BufferInterval]] = []
        for v in self.groups.outputs.values():
            g = self.groups.group[v]
            allocation = self.home[id(g)][0]
            if allocation.kind == "output" and g.space == space and g.bytes:
                outputs.append((allocation, self._block(g)))
        return outputs

    def _block(self, g: BufferGroup) -> BufferInterval:
        """A group as heaps see it."""
        beside = self.groups.beside
        touched = beside.concurrent_users(g.touches) if beside else {}
        return BufferInterval(g.bytes, _merged_intervals(g), touched)

    def _memory(self, space: int) -> MemorySpace | None:
        """What is known of a memory space."""
        return next((m for m in self.options.memories if m.id == space), None)

    def _check_sizes(self) -> None:
        """Raise where the allocations of a memory space are more than it holds."""
        sizes: dict[int, int] = {}
        for a in self.allocations:
            sizes[a.space] = sizes.get(a.space, 0) + a.size_bytes
        for space, size in sorted(sizes.items()):
            memory = self._memory(space)
            if memory is None or not memory.size_bytes or size <= memory.size_bytes:
                continue
            inside = [v for v in self.flow.values if v.space == space]
            largest = sorted(inside, key=lambda v: -v.bytes)[:LARGEST]
            names = ", ".join([f"%{v.instruction.name} {v.bytes:,}" for v in largest])
            raise HloError(
                f"memory space S({space}) {memory.name} has {memory.size_bytes:,} bytes, and "
                f"{self.flow.module.name} needs {size:,} in it; the largest values: {names}",
                rule="memory-space",
                hint="keep less there at a time, or choose a device with more of it",
            )

    def _alive(self) -> dict[LogicalBuffer, list[tuple[int, int]]]:
        """When values of groups are alive, cut off where something was written over them."""
        spans: dict[LogicalBuffer, list[tuple[int, int]]] = {}
        for g in {id(g): g for g in self.groups.group.values()}.values():
            for start, end, v in g.intervals:
                spans.setdefault(v, []).append((start, end))
        return spans

    def _notes(self) -> dict[LogicalBuffer, str]:
        """Why a value shares its buffer, in the order of birth."""
        first: dict[int, LogicalBuffer] = {}
        notes: dict[LogicalBuffer, str] = {}
        for v in self.flow.values:
            g = self.groups.group[v]
            if v.kind == "state":
                notes[v] = "loop state"
            elif v.kind == "merge":
                notes[v] = "meeting of branches"
            elif v.instruction.opcode == "copy":
                notes[v] = "copy"
            if other := first.get(id(g)):
                note = f"in the buffer of %{other.instruction.name}"
                notes[v] = f"{notes[v]}, {note}" if v in notes else note
            else:
                first[id(g)] = v
        for index, v in self.groups.outputs.items():
            for x in self.groups.group[v].members:
                if x.id >= 0:
                    text = f"in output {{{','.join(map(str, index))}}}"
                    notes[x] = f"{notes[x]}, {text}" if x in notes else text
        return notes


def _sliced(tree: Tree, slices: dict[LogicalBuffer, BufferSlice]) -> SliceTree:
    if type(tree) is tuple:
        return tuple([_sliced(part, slices) for part in tree])
    return None if tree is None else slices[tree]


def _merged_intervals(g: BufferGroup) -> tuple[tuple[int, int], ...]:
    """The times a group is alive, touching ones made one."""
    merged: list[tuple[int, int]] = []
    for start, end, _ in g.intervals:
        if merged and merged[-1][1] >= start:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _part(literal: Literal, index: tuple[int, ...]) -> Literal:
    for k in index:
        literal = literal.elements[k]
    return literal


def literal_bytes(literal: Literal, shape: Shape) -> bytes | memoryview:
    """The bytes of a constant as they stand in memory: in the order of its layout, those of the
    literal itself where it has them so."""
    array = literal.array
    order = tuple(range(array.ndim))
    if shape.layout is not None and shape.layout.minor_to_major:
        order = tuple(reversed(shape.layout.minor_to_major))
    if array.transpose(order).flags.c_contiguous:
        array = literal.settled_array()
    array = array.transpose(order)
    if not is_settled(array):
        array = aligned_copy(array)
        array.flags.writeable = False
    return array.reshape(-1).view(np.uint8).data
