"""Collectives that the program has itself: those among replicas mean the same in every partition,
those among partitions stand in regions that the program cut by itself."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.assignment import Loops, by_factors
from hloom.passes.partition.partitioner import Walk, as_it_is, partitions, refused_effect
from hloom.passes.partition.value import TiledValue


def _is_meant(walk: Walk, i: Instruction) -> bool:
    """Whether it is known which devices meet."""
    return bool(walk.region) or getattr(i.attrs, "channel_id", None) is None


@partitions("all-reduce", "collective-permute", "collective-broadcast")
def pointwise(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """Devices meet with those that have the same part."""
    if not _is_meant(walk, i):
        return refused_effect(walk, i)
    if not i.shape.is_array or len(i.operands) != 1 or i.shape.is_dynamic:
        return as_it_is(walk, i)
    return by_factors(walk, i, Loops.pointwise([i.operands[0].shape], [i.shape]))


@partitions(
    "all-gather", "all-to-all", "reduce-scatter", "ragged-all-to-all", "collective-reduce",
)  # fmt: skip
def moving(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    return as_it_is(walk, i) if _is_meant(walk, i) else refused_effect(walk, i)


@partitions("partition-id")
def partition_id(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """Where nothing says by which axes the program cuts here, it is by all: what is computed from
    it cannot be a result of the whole program."""
    walk.region = walk.region or frozenset(walk.mesh.axes)
    return as_it_is(walk, i)


@partitions("replica-id")
def replica_id(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    return as_it_is(walk, i)
