"""What passes on collectives ask of one: who takes part, and what it reduces by."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import ASSOCIATIVE
from hloom.ir.values.group_modes import (
    CROSS_PARTITION,
    CROSS_REPLICA,
    FLATTENED,
    Groups,
    device_groups,
    group_mode,
    ids_in_mode,
)
from hloom.ir.values.groups import ReplicaGroups
from hloom.types.shape import Shape

REDUCTIONS = opcodes(ASSOCIATIVE)
IDEMPOTENT = opcodes(ASSOCIATIVE, without=("add", "multiply", "xor"))
"""Reductions that a second helping of the same value does not change."""


def module_of(i: Instruction) -> Module:
    module = i.parent.module
    assert module is not None, "passes run on modules"
    return module


def devices_of(i: Instruction) -> Groups | None:
    """The groups of a collective in global ids, each in group order; None where the module does
    not say how many devices there are, or groups leave some out."""
    module, mode = module_of(i), group_mode(i.attrs)
    replicas, partitions = module.replica_count, module.num_partitions
    if mode is None or replicas * partitions < 2:
        return None
    groups = device_groups(i.attrs.replica_groups, mode, replicas, partitions)
    if sorted(d for g in groups for d in g) != list(range(replicas * partitions)):
        return None
    return groups


def written_ids(i: Instruction) -> Groups:
    """The groups as they are written; where nothing is, one group of all ids there are."""
    groups = i.attrs.replica_groups.groups
    if groups:
        return groups
    module, mode = module_of(i), group_mode(i.attrs)
    if mode is None:
        return ()
    return (tuple(range(ids_in_mode(mode, module.replica_count, module.num_partitions))),)


def group_key(i: Instruction) -> Hashable:
    """Equal for two collectives exactly when the same devices meet in the same order, and both have
    a channel or none; which channel says nothing."""
    has_channel, devices = i.attrs.channel_id is not None, devices_of(i)
    if devices is not None:
        return (has_channel, frozenset(devices))
    return (has_channel, group_mode(i.attrs), i.attrs.replica_groups.groups)


def in_mode(groups: Groups, attrs: Any, module: Module) -> ReplicaGroups | None:
    """Groups of global ids as they are written under the attributes of a collective; None where
    its mode cannot say them."""
    mode = group_mode(attrs)
    replicas, partitions = module.replica_count, module.num_partitions
    if mode is None:
        return None
    if mode == FLATTENED:
        return ReplicaGroups(groups)
    if mode == CROSS_REPLICA:
        ids = [tuple(d // partitions for d in g) for g in groups if g[0] % partitions == 0]
    elif mode == CROSS_PARTITION:
        ids = [tuple(d % partitions for d in g) for g in groups if g[0] < partitions]
    else:
        ids = [tuple(d // partitions for d in g[::partitions]) for g in groups]
    written = ReplicaGroups(tuple(ids))
    said = device_groups(written, mode, replicas, partitions)
    return written if frozenset(said) == frozenset(groups) else None


def reduction_of(i: Instruction) -> str | None:
    """The opcode that a collective reduces by, where that is all its computation does."""
    return binary_opcode(i.called[0]) if i.called else None


def binary_opcode(c: Computation) -> str | None:
    """The commutative opcode of a computation `opcode(a, b)` of its two parameters."""
    root = c.root
    if root.opcode not in REDUCTIONS or len(c.parameters) != 2:
        return None
    is_both = set(root.operands) == set(c.parameters)
    is_one_type = all(x.shape.dtype is root.shape.dtype for x in root.operands)
    return root.opcode if is_both and is_one_type else None


def reduction_key(i: Instruction) -> Hashable:
    """Equal where two collectives reduce alike."""
    opcode = reduction_of(i)
    return (opcode, i.called[0].root.shape.dtype) if opcode else i.called


def is_plain(i: Instruction) -> bool:
    """Whether a collective may be rewritten: of one array, whose layout nobody fixed, of a size
    known beforehand, with no order to keep, on a channel that others may have, too."""
    channel = getattr(i.attrs, "channel_id", None)
    return (
        len(i.operands) == 1
        and i.shape.is_array
        and not i.shape.is_dynamic
        and not i.operands[0].shape.is_dynamic
        and not getattr(i.attrs, "constrain_layout", False)
        and not i.has_control_edges
        and (channel is None or channel > 0)
    )


def positions(groups: Groups) -> dict[int, tuple[int, int]]:
    """Each device's group and its place in that."""
    return {d: (g, k) for g, group in enumerate(groups) for k, d in enumerate(group)}


def sole_reader(i: Instruction) -> Instruction | None:
    """The one instruction that reads a value which is not returned."""
    if i.is_root or len(i.users) != 1:
        return None
    return next(iter(i.users))


def group_size(groups: Sequence[Sequence[int]]) -> int | None:
    """How many are in each group; None where that differs."""
    sizes = {len(g) for g in groups}
    return sizes.pop() if len(sizes) == 1 else None


def widens(x: Shape, y: Shape) -> bool:
    """Whether every number of one float type is one of the other."""
    if not (x.dtype.is_floating and y.dtype.is_floating):
        return False
    return x.dtype is y.dtype or (
        x.dtype.exponent_bits <= y.dtype.exponent_bits
        and x.dtype.mantissa_bits <= y.dtype.mantissa_bits
    )


def keeps_layouts(module: Module) -> bool:
    """Whether the layouts of all-reduces are fixed: where one's are, all are, those of new ones,
    too."""
    known = (
        i.attrs for i in module.instructions() if i.opcode in ("all-reduce", "all-reduce-start")
    )
    return any(a.constrain_layout for a in islice(known, 1))


def share_host(devices: Iterable[int], per_host: int) -> bool:
    """Whether devices are of one host, where each has so many, of consecutive ids."""
    return len({d // max(per_host, 1) for d in devices}) <= 1
