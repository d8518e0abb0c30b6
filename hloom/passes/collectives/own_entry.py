"""A number that is another one on every device: an entry of a table, at the device's id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import Groups
from hloom.passes.collectives.groups import positions
from hloom.passes.expand.expansion import Expansion
from hloom.types.dtype import PRED, S32, U32, DType
from hloom.types.literal import Literal
from hloom.types.shape import shape


def own_entry(b: Expansion, values: Sequence[int], dtype: DType) -> Instruction:
    """The scalar `values[d]` on the device of global id d."""
    if len(set(values)) == 1:
        return b.scalar(values[0], dtype)
    table = Literal.of(np.asarray(values).astype(dtype.numpy), shape(dtype, (len(values),)))
    entries = b.emit("constant", literal=table, shape=table.shape)
    entry = b.emit("dynamic-slice", entries, device_id(b), dynamic_slice_sizes=(1,))
    return b.reshaped(entry, ())


def device_id(b: Expansion) -> Instruction:
    """The global id of the device, u32."""
    replicas, partitions = b.module.replica_count, b.module.num_partitions
    if replicas == 1:
        return b.emit("partition-id")
    if partitions == 1:
        return b.emit("replica-id")
    first = b.multiply(b.emit("replica-id"), b.scalar(partitions, U32))
    return b.add(first, b.emit("partition-id"))


def place_in_group(b: Expansion, groups: Groups, times: int = 1) -> Instruction:
    """The device's place in its group, times a number, s32."""
    place = positions(groups)
    return own_entry(b, [place[d][1] * times for d in range(len(place))], S32)


def is_one_of(b: Expansion, devices: Sequence[int], count: int) -> Instruction:
    """Whether this is one of some devices, pred."""
    chosen = set(devices)
    return own_entry(b, [int(d in chosen) for d in range(count)], PRED)
