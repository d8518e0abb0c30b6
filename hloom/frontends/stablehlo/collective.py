# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Communication between devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.frontends.stablehlo.attributes import boolean, has, integer, table
from hloom.frontends.stablehlo.bindings import ir, stablehlo, viewed
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.frontends.stablehlo.shardings import axis_of
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.groups import NO_GROUPS, AnyGroups, MeshReplicaGroups, ReplicaGroups
from hloom.types.dtype import U32
from hloom.types.shape import shape


def channel(op: Any) -> int | None:
    """The channel's number; None where the replicas alone communicate."""
    if not has(op, "channel_handle"):
        return None
    number = viewed(op.attributes["channel_handle"], "ChannelHandle").handle
    return number if number > 0 else None


def groups(scope: Scope, op: Any) -> AnyGroups:
    """The groups, written as a table in which -1 fills short rows, or by axes of a mesh."""
    if not has(op, "replica_groups"):
        return NO_GROUPS
    attribute = op.attributes["replica_groups"]
    if isinstance(attribute, ir.DenseElementsAttr):
        rows = np.array(attribute).tolist()
        lists = tuple(tuple(n for n in row if n >= 0) for row in rows)
        return ReplicaGroups(tuple(row for row in lists if row)) if any(lists) else NO_GROUPS
    axes: Any = stablehlo.ReplicaGroupMeshAxesAttr(attribute)
    mesh = scope.program.shardings.mesh(axes.mesh)
    return MeshReplicaGroups(mesh, tuple(axis_of(a, mesh) for a in axes.axes))


def common(scope: Scope, op: Any, *, has_global: bool = True) -> dict[str, Any]:
    """What all collectives say of who takes part."""
    fields: dict[str, Any] = {"replica_groups": groups(scope, op), "channel_id": channel(op)}
    if has_global:
        fields["use_global_device_ids"] = boolean(op, "use_global_device_ids")
    return fields


def _exchanged(
    scope: Scope,
    op: Any,
    opcode: str,
    called: tuple[Computation, ...] = (),
    **fields: Any,
) -> Instruction | list[Instruction]:
    """A collective of all operands at once: a result for each."""
    instruction = scope.emit(opcode, scope.operands(op), scope.tuple_or_one(op), called, **fields)
    return scope.elements(instruction, len(op.results))


@IMPORT.of("stablehlo.all_gather")
def all_gather(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    dimension = integer(op, "all_gather_dim")
    return _exchanged(scope, op, "all-gather", dimensions=(dimension,), **common(scope, op))


@IMPORT.of("stablehlo.all_reduce")
def all_reduce(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    fold = scope.computation_of(op.regions[0])
    return _exchanged(scope, op, "all-reduce", (fold,), **common(scope, op))


@IMPORT.of("stablehlo.cross-replica-sum")
def cross_replica_sum(scope: Scope, op: Any) -> Instruction:
    """An all-reduce that adds."""
    (x,) = scope.operands(op)
    fold = scope.combiner("add", x.shape.dtype)
    return scope.emit("all-reduce", (x,), x.shape, (fold,), replica_groups=groups(scope, op))


@IMPORT.of("stablehlo.reduce_scatter")
def reduce_scatter(scope: Scope, op: Any) -> Instruction:
    fold = scope.computation_of(op.regions[0])
    return scope.emit(
        "reduce-scatter",
        scope.operands(op),
        scope.result_shape(op),
        (fold,),
        dimensions=(integer(op, "scatter_dimension"),),
        **common(scope, op),
    )


@IMPORT.of("stablehlo.all_to_all")
def all_to_all(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    """Equal parts along one dimension, put together along another.

    HLO splits and joins along the same dimension; for two different ones the parts become a
    dimension of their own, which is exchanged and then moved.
    """
    operands = scope.operands(op)
    split, concat = integer(op, "split_dimension"), integer(op, "concat_dimension")
    count = integer(op, "split_count")
    fields = common(scope, op, has_global=False)
    if split == concat:
        return _exchanged(scope, op, "all-to-all", dimensions=(split,), **fields)
    made_all = []
    for x, result in zip(operands, op.results, strict=True):
        parts = _parted(scope, x, split, count)
        sent = scope.emit("all-to-all", (parts,), parts.shape, dimensions=(split,), **fields)
        made_all.append(_joined(scope, sent, split, concat, scope.shape(result)))
    return made_all[0] if len(made_all) == 1 else made_all


def _parted(scope: Scope, x: Instruction, split: int, count: int) -> Instruction:
    """x with dimension `split` cut into (parts, size of a part)."""
    dims = list(x.shape.dims)
    dims[split : split + 1] = [count, dims[split] // count]
    return scope.emit("reshape", (x,), shape(x.shape.dtype, dims).with_default_layouts())


def _joined(scope: Scope, parts: Instruction, split: int, concat: int, result: Any) -> Instruction:
    """The parts, which are dimension `split`, moved before the dimension they are joined in."""
    rank = parts.shape.rank
    rest = [d for d in range(rank) if d != split]
    order = [*rest[:concat], split, *rest[concat:]]
    moved = scope.add("transpose", parts, dimensions=tuple(order))
    return scope.emit("reshape", (moved,), result)


@IMPORT.of("stablehlo.collective_permute")
def collective_permute(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    pairs = table(op, "source_target_pairs")
    return _exchanged(
        scope, op, "collective-permute", source_target_pairs=pairs, channel_id=channel(op)
    )


@IMPORT.of("stablehlo.collective_broadcast")
def collective_broadcast(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    fields = common(scope, op, has_global=False)
    if "has_dynamic_root" in op.attributes:
        fields["has_dynamic_root"] = bool(op.attributes["has_dynamic_root"].value)
    return _exchanged(scope, op, "collective-broadcast", **fields)


@IMPORT.of("stablehlo.collective_reduce")
def collective_reduce(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    fold = scope.computation_of(op.regions[0])
    dynamic = boolean(op, "has_dynamic_root")
    fields = common(scope, op)
    return _exchanged(scope, op, "collective-reduce", (fold,), has_dynamic_root=dynamic, **fields)


@IMPORT.of("stablehlo.replica_id")
def replica_id(scope: Scope, op: Any) -> Instruction:
    return scope.emit("replica-id", (), shape(U32))


@IMPORT.of("stablehlo.partition_id")
def partition_id(scope: Scope, op: Any) -> Instruction:
    return scope.emit("partition-id", (), shape(U32))
