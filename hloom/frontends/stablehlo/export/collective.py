"""Communication between devices."""

from __future__ import annotations

from hloom.frontends.stablehlo.export.reduce import plain
from hloom.frontends.stablehlo.export.registry import Declined, export
from hloom.frontends.stablehlo.export.text import integer, table
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction
from hloom.ir.values.groups import ReplicaGroups

COMMON = "channel_id replica_groups use_global_device_ids"


def common(i: Instruction) -> dict[str, str]:
    """Who takes part; groups that are not a table of equal rows are left to HLO text."""
    a = i.attrs
    if not isinstance(a.replica_groups, ReplicaGroups):
        raise Declined
    rows = a.replica_groups.groups
    width = max(map(len, rows), default=0)
    filled = [(*row, *(-1 for _ in range(width - len(row)))) for row in rows]
    fields = {"replica_groups": table(filled)}
    if getattr(a, "use_global_device_ids", False):
        fields["use_global_device_ids"] = ""
    return fields | channel(a.channel_id)


def channel(number: int | None) -> dict[str, str]:
    if number is None:
        return {}
    if number <= 0:
        raise Declined
    return {"channel_handle": f"#stablehlo.channel_handle<handle = {number}, type = 1>"}


@export("all-gather", handles=f"{COMMON} dimensions")
def all_gather(w: Writer, i: Instruction) -> None:
    plain(i)
    fields = {"all_gather_dim": integer(i.attrs.dimensions[0]), **common(i)}
    w.simple(i, "stablehlo.all_gather", fields)


@export("all-reduce", handles=COMMON)
def all_reduce(w: Writer, i: Instruction) -> None:
    plain(i)
    w.simple(i, "stablehlo.all_reduce", common(i), w.region(i.called[0]))


@export("reduce-scatter", handles=f"{COMMON} dimensions")
def reduce_scatter(w: Writer, i: Instruction) -> None:
    if i.shape.is_tuple:
        raise Declined
    fields = {"scatter_dimension": integer(i.attrs.dimensions[0]), **common(i)}
    w.simple(i, "stablehlo.reduce_scatter", fields, w.region(i.called[0]))


@export("all-to-all", handles="channel_id replica_groups dimensions")
def all_to_all(w: Writer, i: Instruction) -> None:
    count = i.attrs.replica_groups.group_size
    if i.attrs.dimensions is None or i.shape.is_tuple or not count:
        raise Declined
    along = integer(i.attrs.dimensions[0])
    fields = {"split_dimension": along, "concat_dimension": along, "split_count": integer(count)}
    w.simple(i, "stablehlo.all_to_all", {**fields, **common(i)})


@export("collective-permute", handles="channel_id source_target_pairs")
def collective_permute(w: Writer, i: Instruction) -> None:
    if i.shape.is_tuple or len(i.operands) > 1:
        raise Declined
    pairs = i.attrs.source_target_pairs
    fields = {"source_target_pairs": table(pairs) if pairs else "dense<> : tensor<0x2xi64>"}
    w.simple(i, "stablehlo.collective_permute", {**fields, **channel(i.attrs.channel_id)})


@export("collective-broadcast", handles="channel_id replica_groups")
def collective_broadcast(w: Writer, i: Instruction) -> None:
    if i.shape.is_tuple:
        raise Declined
    w.simple(i, "stablehlo.collective_broadcast", common(i))


@export("replica-id")
def replica_id(w: Writer, i: Instruction) -> None:
    w.simple(i, "stablehlo.replica_id")


@export("partition-id")
def partition_id(w: Writer, i: Instruction) -> None:
    w.simple(i, "stablehlo.partition_id")
