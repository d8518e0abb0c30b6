"""Collectives: who meets, and what moves.

The groups of a collective are written out in devices here, so that the runtime only looks them up.
What combines values is a kernel like any other (`collective_fold.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.ir.async_chain import async_start_of
from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import device_groups, device_pairs, group_mode
from hloom.passes.expand.async_simplifier import chain_end, wrapped_collective
from hloom.program.slice import BufferSlice
from hloom.program.thunks.async_call import AsyncDone, AsyncStart
from hloom.program.thunks.async_copy import CopyDone, CopyStart
from hloom.program.thunks.collective import (
    Collective,
    CollectiveDone,
    CollectiveStart,
    Operation,
    Rows,
)
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.device_number import PartitionId, ReplicaId
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lower.collective_fold import FOLDING, folds
from hloom.targets.cpu.lower.sort import require_row_major
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering, unsupported
from hloom.types.dtype import S32
from hloom.types.shape import Shape, shape
from hloom.types.sizes import size_bytes

Groups = tuple[tuple[int, ...], ...]


# -- who meets


def groups_of(i: Instruction) -> Groups:
    """The groups of a collective in devices: replica * partitions + partition."""
    module = i.parent.module
    assert module is not None
    counts = module.replica_count, module.num_partitions
    groups = device_groups(i.attrs.replica_groups, _mode(i), *counts)
    _check_devices(i, [d for g in groups for d in g], counts[0] * counts[1])
    return groups


def pairs_of(i: Instruction) -> tuple[tuple[int, int], ...]:
    """The source-target pairs of a permute in devices."""
    module = i.parent.module
    assert module is not None
    counts = module.replica_count, module.num_partitions
    pairs = device_pairs(i.attrs.source_target_pairs, _mode(i), *counts)
    _check_devices(i, [d for pair in pairs for d in pair], counts[0] * counts[1])
    return pairs


def _mode(i: Instruction) -> str:
    mode = group_mode(i.attrs)
    if mode is None:
        raise unsupported(i, "has use_global_device_ids, and no channel_id")
    return mode


def _check_devices(i: Instruction, named: Sequence[int], count: int) -> None:
    if any(not 0 <= d < count for d in named):
        raise unsupported(i, f"names device {max(named)} of {count}")


def joined_by(pairs: Sequence[tuple[int, int]], count: int) -> Groups:
    """The devices that pairs join, in groups: only these meet, so others may be elsewhere."""
    group = list(range(count))

    def first(d: int) -> int:
        while group[d] != d:
            d = group[d]
        return d

    for source, target in pairs:
        a, b = sorted((first(source), first(target)))
        group[b] = a
    members: dict[int, list[int]] = {}
    for d in range(count):
        members.setdefault(first(d), []).append(d)
    return tuple([tuple(g) for g in members.values()])


# -- what moves


def _rows(of: Shape, axis: int, pieces: int = 1) -> Rows:
    """How an array is cut in so many pieces along a dimension."""
    outer = prod(of.dims[:axis])
    return Rows(outer, size_bytes(of) // max(outer * pieces, 1))


def _whole(of: Shape) -> Rows:
    return Rows(1, size_bytes(of))


def _piece(of: Shape, axis: int, pieces: int) -> Shape:
    """What is folded at a time where an array is cut along a dimension: one row."""
    return shape(of.dtype, (prod(of.dims[axis:]) // pieces,))


def _one_size(i: Instruction, groups: Groups) -> int:
    sizes = {len(g) for g in groups}
    if len(sizes) != 1:
        raise unsupported(i, "cuts arrays by the size of its groups, which are not all the same")
    return sizes.pop()


def _axis(i: Instruction) -> int:
    return i.attrs.dimensions[0] if i.attrs.dimensions else 0


def operation_of(cpu: Lowering, i: Instruction) -> Operation:
    """What a collective, or the first half of one, does."""
    exchange = i.opcode.removesuffix("-start").removeprefix("collective-")
    if exchange == "permute":
        return _permutation(cpu, i)
    groups = groups_of(i)
    data = [x.shape for x in i.operands]
    numbers: tuple[int, ...] = ()
    arrays = [_whole(s) for s in data]
    rows = data
    if exchange in ("broadcast", "reduce") and i.attrs.has_dynamic_root:
        arrays, rows, numbers = arrays[:-1], rows[:-1], (1,)
    elif exchange == "all-gather":
        arrays = [_rows(s, _axis(i)) for s in data]
    elif exchange == "reduce-scatter":
        count = _one_size(i, groups)
        arrays = [_rows(s, _axis(i), count) for s in data]
        rows = [_piece(s, _axis(i), count) for s in data]
    elif exchange == "all-to-all" and i.shape.is_tuple:
        exchange = "all-to-all-tuple"
    elif exchange == "all-to-all":
        arrays = [_rows(s, _axis(i), _one_size(i, groups)) for s in data]
    elif exchange == "ragged-all-to-all":
        arrays, numbers = arrays[:1], _ragged(data)
    folds_ = folds(cpu, i, exchange, groups, rows) if exchange in FOLDING else ()
    return Operation(cpu.operation_number(), exchange, groups, tuple(arrays), folds_, numbers)


def _ragged(data: Sequence[Shape]) -> tuple[int, ...]:
    """Bytes of a row, rows of both arrays, how many offsets there are, their width."""
    x, output, offsets = data[:3]
    row = size_bytes(shape(x.dtype, x.dims[1:]))
    return row, x.dims[0], output.dims[0], prod(offsets.dims), offsets.dtype.size_bytes


def _permutation(cpu: Lowering, i: Instruction) -> Operation:
    pairs = pairs_of(i)
    module = i.parent.module
    assert module is not None
    groups = joined_by(pairs, module.replica_count * module.num_partitions)
    flat = [d for pair in pairs for d in pair]
    number = cpu.operation_number()
    if not i.attrs.slice_sizes:
        arrays = [_whole(leaf) for x in i.operands for leaf in x.shape.leaves()]
        return Operation(number, "permute", groups, tuple(arrays), (), tuple(flat))
    numbers = (*_slices(i), *flat)
    return Operation(number, "permute-slices", groups, (Rows(1, 0),), (), numbers)


def _slices(i: Instruction) -> list[int]:
    """The slices of a permute in place: which arrays, where their starts stand, and sizes."""
    source, output, taken_at, written_at = (x.shape for x in i.operands)
    inputs, outputs = list(source.leaves()), list(output.leaves())
    first = len(inputs) + len(outputs)
    starts = _starts(taken_at, output.is_tuple, first)
    written = _starts(written_at, output.is_tuple, first + len(list(taken_at.leaves())))
    if any(leaf.dtype is not S32 for x in i.operands[2:] for leaf in x.shape.leaves()):
        raise unsupported(i, "takes its starts from s32 scalars only")
    sizes = iter(i.attrs.slice_sizes)
    words: list[int] = [sum(map(len, starts))]
    for k, (x, out) in enumerate(zip(inputs, outputs, strict=True)):
        for of_input, of_output in zip(starts[k], written[k], strict=True):
            item = max(out.dtype.size_bytes, 1)
            words += [k, k, of_input, of_output, item, out.rank, *x.dims, *out.dims, *next(sizes)]
    return words


def _starts(of: Shape, several: bool, first: int) -> list[list[int]]:
    """For each array the number of the scalar that the start of each of its slices begins with;
    the first scalar has the number `first`."""
    rows_: list[list[int]] = []
    for part in of.elements if several else (of,):
        row = []
        for start in part.elements if part.elements and part.elements[0].is_tuple else (part,):
            row.append(first)
            first += len(list(start.leaves()))
        rows_.append(row)
    return rows_


# -- thunks


def _slices_of(
    cpu: Lowering, i: Instruction, part: tuple[int, ...] = ()
) -> tuple[BufferSlice, ...]:
    within = i.shape.subshape(part)
    return tuple(
        [cpu.slice(i, (*part, *index)) for index, leaf in within.subshapes() if leaf.is_array]
    )


def _operands(cpu: Lowering, i: Instruction) -> tuple[BufferSlice, ...]:
    """Where the operands of a collective stand, all checked to be what can be moved."""
    for x in (i, *i.operands):
        if any(leaf.is_dynamic for leaf in x.shape.leaves()):
            raise unsupported(i, "moves arrays of run-time size")
    require_row_major(i)
    return tuple([s for x in i.operands for s in _slices_of(cpu, x)])


@CPU_LOWERS.of(
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "collective-reduce",
    "ragged-all-to-all",
    "reduce-scatter",
)
def at_once(cpu: Lowering, i: Instruction) -> list[Thunk]:
    operands = _operands(cpu, i)
    return [Collective(i.name, operation_of(cpu, i), operands, _slices_of(cpu, i))]


@CPU_LOWERS.of("all-gather-start", "all-reduce-start", "collective-permute-start")
def begun(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """The first half; all of it where the second cannot be seen from here, as when a loop hands
    it to the next iteration."""
    results = _slices_of(cpu, i, () if i.opcode == "all-reduce-start" else (1,))
    return [_first_half(cpu, i, i, results, has_done=_is_awaited_here(i))]


def _is_awaited_here(start: Instruction) -> bool:
    """Whether one done reads a start, and else nobody more than its operands."""
    done = start.opcode.replace("-start", "-done")
    dones = [u for u in start.users if u.opcode == done]
    others = [u for u in start.users if u.opcode != done]
    passes_on = any(u.opcode != "get-tuple-element" or u.attrs.index for u in others)
    return len(dones) == 1 and not start.is_root and not passes_on


def _first_half(
    cpu: Lowering,
    start: Instruction,
    collective: Instruction,
    results: tuple[BufferSlice, ...],
    has_done: bool,
) -> Thunk:
    operation, operands = operation_of(cpu, collective), _operands(cpu, collective)
    if not has_done:
        return Collective(start.name, operation, operands, results)
    begun = cpu.started[start] = CollectiveStart(start.name, operation, operands, results)
    return begun


@CPU_LOWERS.of("all-gather-done", "all-reduce-done", "collective-permute-done")
def awaited(cpu: Lowering, i: Instruction) -> list[Thunk]:
    start = cpu.started.get(i.operands[0])
    if start is None:
        return []  # all was done at the start
    return [CollectiveDone(i.name, start.operation, start.operands, start.results)]


@CPU_LOWERS.of("partition-id")
def partition_id(cpu: Lowering, i: Instruction) -> list[Thunk]:
    return [PartitionId(i.name, 1, cpu.module.num_partitions, cpu.slice(i))]


@CPU_LOWERS.of("replica-id")
def replica_id(cpu: Lowering, i: Instruction) -> list[Thunk]:
    m = cpu.module
    return [ReplicaId(i.name, m.num_partitions, m.replica_count, cpu.slice(i))]


@CPU_LOWERS.of("async-start")
def begun_wrapped(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """A start: of a collective of its operands, or of anything else.

    What takes long and needs nothing of what stands before the done runs beside it: who waits for
    whom is seen by the memory they use (`codegen/runs.py`).
    """
    inside = wrapped_collective(i)
    if inside is None:
        thread = i.attrs.async_execution_thread
        return [AsyncStart(i.name, cpu.sequence(i.called[0]), thread)]
    end = chain_end(i)
    has_done = end is not None and not end[0]
    return [_first_half(cpu, i, inside, _slices_of(cpu, inside), has_done)]


@CPU_LOWERS.of("async-done")
def awaited_wrapped(cpu: Lowering, i: Instruction) -> list[Thunk]:
    start = async_start_of(i)
    if start is None or wrapped_collective(start) is not None:
        return awaited(cpu, i)
    operands = tuple([s for x in start.operands for s in _slices_of(cpu, x)])
    return [AsyncDone(i.name, start.name, operands, _slices_of(cpu, i))]


@CPU_LOWERS.of("copy-start")
def copied(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """The first half of a copy; all of it where nobody in sight awaits it."""
    source, target = cpu.slice(i.operands[0]), cpu.slice(i, (0,))
    kind = CopyStart if _is_awaited_here(i) else Copy
    return [kind(i.name, source, target)]


@CPU_LOWERS.of("copy-done")
def copy_awaited(cpu: Lowering, i: Instruction) -> list[Thunk]:
    start = i.operands[0]
    if start.opcode != "copy-start" or not _is_awaited_here(start):
        return []  # all was done at the start
    return [CopyDone(i.name, start.name, cpu.slice(start.operands[0]), cpu.slice(i))]


@CPU_LOWERS.of("async-update")
def passed_on(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """What was done at the start is there."""
    return []
