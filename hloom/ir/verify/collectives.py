"""Collectives and the devices of the module: groups, shards, and source-target pairs."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from hloom.base.diagnostics import VerifyError
from hloom.ir.infer.collective import shard_count
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.group_modes import (
    CROSS_PARTITION,
    CROSS_REPLICA,
    CROSS_REPLICA_AND_PARTITION,
    FLATTENED,
    group_mode,
    ids_in_mode,
)
from hloom.ir.verify.rules import VerifyOptions, broken
from hloom.types.shape import Shape

# Operations with groups; whether the groups must be of one size.
GROUPED = {
    "all-gather": True,
    "all-gather-start": True,
    "all-reduce": False,
    "all-reduce-start": False,
    "all-to-all": True,
    "collective-reduce": False,
    "ragged-all-to-all": True,
    "reduce-scatter": True,
}
PERMUTES = ("collective-permute", "collective-permute-start")


def check_collectives(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """Rules that need the module's replica and partition counts."""
    reference: Instruction | None = None
    for c in module.computations:
        for i in c.instructions:
            opcode = i.opcode
            if opcode in GROUPED:
                yield from _check_grouped(i, module)
                if opcode.startswith("all-reduce"):
                    reference = reference or i
                    if reference.attrs.constrain_layout != i.attrs.constrain_layout:
                        yield broken(
                            "all-reduce",
                            f"%{reference.name} and this all-reduce differ in constrain_layout",
                            i,
                        )
            elif opcode == "collective-broadcast":
                yield from _check_broadcast(i, module)
            elif opcode in PERMUTES:
                yield from _check_pairs(i, module)
                yield from _check_in_place(i)


def _check_grouped(i: Instruction, module: Module) -> Iterator[VerifyError]:
    a = i.attrs
    mode = group_mode(a)
    if mode is None:
        yield broken("group-mode", "use_global_device_ids needs a channel_id", i)
        return
    groups = a.replica_groups
    if groups.is_empty:
        if mode == FLATTENED:
            yield broken("group-mode", "global device ids need replica_groups", i)
            return
    else:
        wrong = _wrong_groups(groups, GROUPED[i.opcode])
        if not wrong:
            wrong = _wrong_count(groups, mode, module)
        if wrong:
            yield broken("groups", f"replica_groups={groups.text}: {wrong}", i)
            return
    if i.opcode == "all-reduce" and a.channel_id is not None and a.channel_id <= 0:
        yield broken("all-reduce", f"channel_id={a.channel_id} must be positive", i)
    yield from _check_shards(i, _subgroup_size(groups, mode, module))


def _check_broadcast(i: Instruction, module: Module) -> Iterator[VerifyError]:
    """Groups need not hold every device: those that are in none keep zeros."""
    groups = i.attrs.replica_groups
    mode = group_mode(i.attrs)
    devices = 0 if mode is None else ids_in_mode(mode, module.replica_count, module.num_partitions)
    seen: set[int] = set()
    for d in (d for g in groups.groups for d in g):
        wrong = f"id {d} is negative" if d < 0 else f"id {d} is repeated" if d in seen else None
        if wrong is None and 1 < devices <= d:
            wrong = f"id {d} is not one of {devices} devices"
        if wrong:
            yield broken("groups", f"replica_groups={groups.text}: {wrong}", i)
            return
        seen.add(d)


@lru_cache(maxsize=1024)
def _wrong_groups(groups: Any, uniform: bool) -> str | None:
    sizes = {len(g) for g in groups.groups}
    if 0 in sizes:
        return "a group is empty"
    ids = [d for g in groups.groups for d in g]
    seen: set[int] = set()
    for d in ids:
        if not 0 <= d < len(ids):
            return f"id {d} is not in 0..{len(ids) - 1}"
        if d in seen:
            return f"id {d} is repeated"
        seen.add(d)
    if uniform and len(sizes) > 1:
        return "groups differ in size"
    return None


def _wrong_count(groups: Any, mode: str, module: Module) -> str | None:
    """A module that says nothing of its devices (a count of 1) allows any number of ids."""
    expected = ids_in_mode(mode, module.replica_count, module.num_partitions)
    count = sum(len(g) for g in groups.groups)
    if expected not in (1, count):
        return f"{count} ids, but {expected} are needed in mode {mode}"
    return None


def _subgroup_size(groups: Any, mode: str, module: Module) -> int:
    if mode == FLATTENED:
        return len(groups.groups[0])
    if mode == CROSS_PARTITION:
        return module.num_partitions if groups.is_empty else len(groups.groups[0])
    size = module.replica_count if groups.is_empty else len(groups.groups[0])
    return size * module.num_partitions if mode == CROSS_REPLICA_AND_PARTITION else size


def _check_shards(i: Instruction, size: int) -> Iterator[VerifyError]:
    x = i.operands[0].shape if i.operands else None
    if x is None or not x.is_array:
        return
    opcode, a = i.opcode, i.attrs
    if opcode in ("all-gather", "all-gather-start", "reduce-scatter"):
        part = _first_result(i)
        if part is None or not part.is_array or not x.is_array or part.rank != x.rank:
            return
        small, large = (part, x) if opcode == "reduce-scatter" else (x, part)
        shards = shard_count(small, large, a.dimensions)
        if shards is not None and size not in (1, shards):
            yield broken(
                "shards",
                f"{large.bare} is {shards} times {small.bare}, but {size} devices take part",
                i,
            )
    elif opcode == "all-to-all":
        if a.dimensions is None:
            if len(i.operands) != size:
                yield broken(
                    "shards", f"{len(i.operands)} operands, but {size} devices take part", i
                )
        elif x.dims[a.dimensions[0]] % size and x.dims[a.dimensions[0]] >= 0:
            yield broken(
                "shards", f"{x.bare} cannot be cut along {a.dimensions[0]} into {size} parts", i
            )


def _first_result(i: Instruction) -> Shape | None:
    shape = i.shape
    if i.opcode == "all-gather-start":
        if not shape.is_tuple or len(shape.elements) < 2:
            return None
        shape = shape.elements[1]
    if len(i.operands) == 1:
        return shape
    return shape.elements[0] if shape.is_tuple and shape.elements else None


def _check_pairs(i: Instruction, module: Module) -> Iterator[VerifyError]:
    pairs = i.attrs.source_target_pairs
    cross_replica = group_mode(i.attrs) == CROSS_REPLICA
    limit = module.replica_count if cross_replica else module.num_partitions
    if limit == 1:
        limit = max((max(p) + 1 for p in pairs), default=1)
    allowed = _writes_per_device(i)
    for what, devices in (
        ("source", [s for s, _ in pairs]),
        ("target", [t for _, t in pairs]),
    ):
        counts: dict[int, int] = {}
        for d in devices:
            if not 0 <= d < limit:
                yield broken("pairs", f"{what} {d} is not one of {limit} devices", i)
                return
            counts[d] = counts.get(d, 0) + 1
            if counts[d] > allowed:
                yield broken("pairs", f"{what} {d} appears more than {allowed} times", i)
                return


def _writes_per_device(i: Instruction) -> int:
    """In place, a device may take part once for each offset."""
    if not i.attrs.slice_sizes or len(i.operands) != 4:
        return 1
    offsets = i.operands[2].shape
    if offsets.is_tuple and not i.operands[0].shape.is_array and offsets.elements:
        offsets = offsets.elements[0]
    return max(1, len(offsets.elements))


def _check_in_place(i: Instruction) -> Iterator[VerifyError]:
    if not i.attrs.slice_sizes or len(i.operands) != 4:
        return
    source, target, source_at, target_at = (x.shape for x in i.operands)
    if source.is_array != target.is_array:
        yield broken("in-place", f"{source.bare} cannot be moved into {target.bare}", i)
        return
    ranks = {s.rank for s in source.leaves()}
    if wrong := [sizes for sizes in i.attrs.slice_sizes if len(sizes) not in ranks]:
        yield broken("in-place", f"{wrong[0]} are not sizes for {source.bare}", i)
        return
    for buffers, offsets in ((source, source_at), (target, target_at)):
        if buffers.is_array:
            parts = [(buffers, offsets)]
        elif not offsets.is_tuple or len(offsets.elements) != len(buffers.elements):
            yield broken("in-place", f"{offsets.bare} has not one offset for each buffer", i)
            return
        else:
            parts = list(zip(buffers.elements, offsets.elements))
        for buffer, offset in parts:
            if not _is_offset(buffer, offset):
                yield broken("in-place", f"{offset.bare} is no offset into {buffer.bare}", i)
                return


def _is_offset(buffer: Shape, offset: Shape) -> bool:
    """An offset is a tuple of as many scalars as the buffer has dimensions, or several such."""
    if not offset.is_tuple:
        return False
    if all(e.is_array for e in offset.elements):
        return len(offset.elements) == buffer.rank
    return all(e.is_tuple and len(e.elements) == buffer.rank for e in offset.elements)
