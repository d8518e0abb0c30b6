"""Collectives of one device: a device that talks to itself keeps what it has.

Runs on modules for one device, where every group is that device, and on collectives whose groups
have one member each. Sends, receives and what moves by run-time offsets are left to the runtime.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes, opcodes_where
from hloom.ir.traits import COLLECTIVE, DEVICE_ID
from hloom.ir.values.group_modes import group_mode, ids_in_mode
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import U32
from hloom.types.limits import zero
from hloom.types.shape import Shape

_STARTS = opcodes_where(lambda op: COLLECTIVE in op.traits and op.start_of is not None)
_DONES = opcodes_where(lambda op: op.done_of in _STARTS)
_IDS = opcodes(DEVICE_ID)


def _has_one_device(i: Instruction) -> bool:
    module = i.parent.module
    return module is not None and module.replica_count * module.num_partitions == 1


def _is_alone(i: Instruction) -> bool:
    """Whether every group of a collective is one device."""
    if _has_one_device(i):
        return True
    groups = getattr(i.attrs, "replica_groups", None)
    if groups is None or groups.is_empty:
        return False
    # Ids of replicas with a channel stand for all partitions of a replica.
    mixed = getattr(i.attrs, "channel_id", None) is not None and hasattr(
        i.attrs, "use_global_device_ids"
    )
    module = i.parent.module
    if mixed and not i.attrs.use_global_device_ids and module and module.num_partitions > 1:
        return False
    return groups.group_size == 1


def _reaches_all(i: Instruction) -> bool:
    """Whether every device is in a group, which only a broadcast leaves open."""
    module, groups, mode = i.parent.module, i.attrs.replica_groups, group_mode(i.attrs)
    if groups.is_empty or module is None or mode is None:
        return True
    count = ids_in_mode(mode, module.replica_count, module.num_partitions)
    return set(range(count)) <= {d for g in groups.groups for d in g}


def _shaped(b: Expansion, values: Sequence[Instruction], of: Shape) -> Instruction:
    return b.tuple(*values) if of.is_tuple else values[0]


def _zeros(b: Expansion, of: Shape) -> Instruction:
    if of.is_tuple:
        return b.tuple(*(_zeros(b, part) for part in of.elements))
    return b.full(zero(of.dtype), of.dtype, of.dims)


@register
class DegenerateCollectiveElimination(Expander):
    """Replace collectives of one device by their operands, and its ids by 0."""

    name = "degenerate-collective-elimination"
    opcodes = opcodes_where(
        lambda op: bool(op.traits & {COLLECTIVE, DEVICE_ID}) or op.done_of in _STARTS
    )

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.opcode in _IDS:
            return self.identity(b, i)
        if i.opcode in _DONES:
            return self.done(b, i)
        if i.opcode in ("collective-permute", "collective-permute-start"):
            return self.permuted(b, i) if _has_one_device(i) else None
        if i.opcode == "ragged-all-to-all" or not _is_alone(i):
            return None
        if i.opcode == "all-gather-start":
            result = _shaped(b, i.operands, i.shape.elements[1])
            source = _shaped(b, i.operands, i.shape.elements[0])
            return b.tuple(source, result, *(_zeros(b, s) for s in i.shape.elements[2:]))
        if i.opcode == "collective-broadcast" and not _reaches_all(i):
            return None  # who is in no group gets zeros
        data = i.operands
        if getattr(i.attrs, "has_dynamic_root", False):
            data = data[:-1]
        return _shaped(b, data, i.shape)

    def identity(self, b: Expansion, i: Instruction) -> Instruction | None:
        module = b.module
        count = module.replica_count if i.opcode == "replica-id" else module.num_partitions
        return b.scalar(0, U32) if count == 1 else None

    def done(self, b: Expansion, i: Instruction) -> Instruction | None:
        start = i.operands[0]
        if start.opcode in _STARTS:
            return None  # the start stayed
        return start if i.opcode == "all-reduce-done" else b.element(start, 1)

    def permuted(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.attrs.slice_sizes:
            return None
        stays = (0, 0) in i.attrs.source_target_pairs
        if not stays and not all(o.shape.is_static for o in i.operands):
            return None  # how large what nobody sends is, dynamic-padder says
        values = [o if stays else _zeros(b, o.shape) for o in i.operands]
        if i.opcode == "collective-permute":
            return _shaped(b, values, i.shape)
        source, result, *rest = i.shape.elements
        return b.tuple(
            _shaped(b, i.operands, source),
            _shaped(b, values, result),
            *(_zeros(b, s) for s in rest),
        )
