"""Ragged all-to-alls over several hosts in two: among hosts, and then inside of them.

Of the devices of a group on one host, each one sends what is for another host to one device there,
its counterpart; that hands the slices on to its neighbours. So over the slow links every device
exchanges with one device of each host instead of all of them: fewer and longer messages, no more
bytes. Where a slice goes and how long it is travels beside it. The counterparts keep what they
hand on in slots as long as a slice can be, which is what this costs: memory, as much as the group
has devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.ir.instruction import Instruction
from hloom.ir.meaning import without_meaning
from hloom.ir.values.groups import ReplicaGroups
from hloom.passes.collectives.all_reduce_blueconnect import staged
from hloom.passes.collectives.groups import devices_of, in_mode, module_of
from hloom.passes.collectives.own_entry import place_in_group
from hloom.passes.collectives.ragged_all_to_all_decomposer import flat_counts
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import S64
from hloom.types.literal import Literal
from hloom.types.shape import shape


@register
class RaggedAllToAllMultiHostDecomposer(Expander):
    """Replace ragged all-to-alls over several hosts by one among hosts and one inside of each."""

    name = "ragged-all-to-all-multi-host-decomposer"
    opcodes = frozenset(["ragged-all-to-all"])

    num_devices_per_host: int = 8
    """Devices of consecutive ids that are near to each other."""

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        stages = _Stages.of(i, self.num_devices_per_host)
        x, out, *numbers = i.operands
        if stages is None or i.has_control_edges or not x.shape.size or not out.shape.size:
            return None
        if without_meaning(i):
            return None
        slices = numbers[0].shape.size
        if not slices or slices % stages.size or any(y.shape.is_dynamic for y in i.operands):
            return None
        starts, sizes, targets, received = [stages.by_host(b, flat_counts(b, n)) for n in numbers]
        # Among hosts: the slices of [host, device there], each into a slot of its own.
        slot = min(x.shape.dims[0], out.shape.dims[0])
        passed_sizes, passed_targets = [stages.exchanged(b, n) for n in (sizes, targets)]
        row = slices // stages.hosts
        own = b.multiply(b.converted(place_in_group(b, stages.across), S64), b.scalar(row, S64))
        within = b.emit("remainder", b.iota(S64, (slices,)), b.full(row, S64, (slices,)))
        slots = b.multiply(b.add(b.spread(own, (slices,)), within), b.full(slot, S64, (slices,)))
        passed = b.full(0, x.shape.dtype, (slices * slot, *x.shape.dims[1:]))
        passed = stages.sent(
            b, stages.written_across, x, passed, (starts, sizes, slots, passed_sizes)
        )
        # Inside of hosts: what came for each neighbour, by the host that it came from.
        order = np.arange(slices).reshape(stages.hosts, stages.local, -1).transpose(1, 0, 2)
        begins = b.emit(
            "constant",
            literal=Literal.of(order.reshape(-1) * slot, S64),
            shape=shape(S64, (slices,)),
        )
        rest = [stages.by_device(b, n) for n in (passed_sizes, passed_targets, received)]
        return stages.sent(b, stages.written_inside, passed, out, (begins, *rest))


@dataclass(frozen=True)
class _Stages:
    """The groups of a collective inside of hosts and across them."""

    of_collective: Instruction
    across: tuple[tuple[int, ...], ...]
    written_across: ReplicaGroups
    written_inside: ReplicaGroups
    places: tuple[int, ...]
    """Where a device of a host stands in the group, host by host."""
    hosts: int
    local: int

    @staticmethod
    def of(i: Instruction, per_host: int) -> _Stages | None:
        """None where there are no two stages, or groups list their hosts differently."""
        groups = devices_of(i)
        stages = staged(groups, per_host) if groups is not None else None
        if groups is None or stages is None:
            return None
        inside, across = stages
        local, hosts = len(inside[0]), len(across[0])
        places = set()
        for n, group in enumerate(groups):
            members = [d for host in inside[n * hosts : (n + 1) * hosts] for d in host]
            places.add(tuple([group.index(d) for d in members]))
        written = [in_mode(g, i.attrs, module_of(i)) for g in (across, inside)]
        if len(places) != 1 or written[0] is None or written[1] is None:
            return None
        return _Stages(i, across, written[0], written[1], places.pop(), hosts, local)

    @property
    def size(self) -> int:
        return self.hosts * self.local

    def by_host(self, b: Expansion, numbers: Instruction) -> Instruction:
        """A row of numbers, those for each device of a group together, host by host."""
        if self.places == tuple(range(self.size)):
            return numbers
        each = numbers.shape.size // self.size
        parts = [b.sliced(numbers, 0, k * each, (k + 1) * each) for k in self.places]
        return b.joined(parts, 0)

    def by_device(self, b: Expansion, numbers: Instruction) -> Instruction:
        """A row by [host, device there], device by device."""
        table = b.reshaped(numbers, (self.hosts, self.local, numbers.shape.size // self.size))
        return b.reshaped(b.transposed(table, (1, 0, 2)), numbers.shape.dims)

    def exchanged(self, b: Expansion, numbers: Instruction) -> Instruction:
        """What counterparts on all hosts say for this one."""
        return b.emit(
            "all-to-all",
            numbers,
            shape=numbers.shape,
            channel_id=self.of_collective.attrs.channel_id,
            replica_groups=self.written_across,
            dimensions=(0,),
        )

    def sent(
        self,
        b: Expansion,
        groups: ReplicaGroups,
        x: Instruction,
        out: Instruction,
        numbers: Sequence[Instruction],
    ) -> Instruction:
        """One stage; numbers are starts, sizes, targets and the sizes of what is received."""
        return b.emit(
            "ragged-all-to-all",
            x,
            out,
            *numbers,
            shape=out.shape,
            channel_id=self.of_collective.attrs.channel_id,
            replica_groups=groups,
            dimensions=self.of_collective.attrs.dimensions,
        )
