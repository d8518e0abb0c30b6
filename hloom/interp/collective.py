"""Meanings of collectives: what the devices of a group make of each other's values.

Each yields a `Meet` and is sent what every member gave; `lockstep.py` lets the devices find each
other. A program evaluated alone has one device, and every group is that device. Reductions fold
in group order.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.async_ import contexts, started_result
from hloom.interp.context import EvalContext, Meet
from hloom.interp.elementwise_number import narrowed, widened
from hloom.interp.registry import MEANING
from hloom.interp.values import EvalValue, zero
from hloom.ir.instruction import Instruction
from hloom.ir.meaning import without_meaning
from hloom.ir.values.group_modes import device_groups, device_pairs, group_mode
from hloom.ir.widened_fold import widened_fold

WIDE_FOLDS = {"add": np.add, "multiply": np.multiply}
Waiting = Generator[Meet, Any, EvalValue]


@MEANING.of("partition-id")
def partition_id(i: Instruction, context: EvalContext) -> EvalValue:
    return np.array(context.device.partition, np.uint32)


@MEANING.of("replica-id")
def replica_id(i: Instruction, context: EvalContext) -> EvalValue:
    return np.array(context.device.replica, np.uint32)


def _mode(i: Instruction) -> str:
    mode = group_mode(i.attrs)
    if mode is None:
        raise EvalError("use_global_device_ids needs a channel_id")
    return mode


def members(i: Instruction, context: EvalContext) -> tuple[int, ...] | None:
    """The global ids of this device's group, in order; None when it is in no group.

    A device that runs alone is always a group of one.
    """
    device = context.device
    me = device.global_id
    if device.device_count == 1:
        return (me,)
    groups = device_groups(
        i.attrs.replica_groups, _mode(i), device.replica_count, device.partition_count
    )
    for group in groups:
        if me in group:
            if max(group) >= device.device_count:
                raise EvalError(f"group {group} names devices beyond {device.device_count}")
            return group
    return None


def own_group(i: Instruction, context: EvalContext) -> tuple[int, ...]:
    """As `members`, where being in no group is an error."""
    group = members(i, context)
    if group is None:
        raise EvalError(f"{context.device} is in none of the replica groups")
    return group


def _result(i: Instruction, arrays: list[np.ndarray]) -> EvalValue:
    """One array, or a tuple where the shape is one."""
    return tuple(arrays) if i.shape.is_tuple else arrays[0]


def _reduced(i: Instruction, context: EvalContext, parts: list[np.ndarray]) -> np.ndarray:
    """to_apply folded over the arrays, element by element, in order; sums and products of floats
    below 32 bits in f32, rounded once."""
    parts = _evened(parts)
    total = parts[0]
    opcode = widened_fold(i.called[0])
    if opcode is not None and len(parts) > 1:
        dtype = i.called[0].root.shape.dtype
        total = widened(total, dtype)
        for part in parts[1:]:
            total = WIDE_FOLDS[opcode](total, widened(part, dtype))
        return narrowed(total, dtype)
    for part in parts[1:]:
        total = context.vectorised(i.called[0], total, part)
    return total


def _evened(parts: list[np.ndarray], axis: int | None = None) -> list[np.ndarray]:
    """Arrays of run-time size with the elements that all of them have; along `axis` as they are."""
    if len({x.shape for x in parts}) == 1:
        return parts
    least = [min(sizes) for sizes in zip(*[x.shape for x in parts])]
    kept_slices = [slice(None if d == axis else n) for d, n in enumerate(least)]
    return [x[tuple(kept_slices)] for x in parts]


@MEANING.of("all-reduce", "all-reduce-start")
def all_reduce(i: Instruction, context: EvalContext, *inputs: np.ndarray) -> Waiting:
    group = own_group(i, context)
    operands_of = yield Meet(i, i, group, inputs)
    return _result(
        i, [_reduced(i, context, [operands_of[d][k] for d in group]) for k in range(len(inputs))]
    )


@MEANING.of("all-reduce-done")
def all_reduce_done(i: Instruction, context: EvalContext, x: EvalValue) -> EvalValue:
    return x


@MEANING.of("reduce-scatter")
def reduce_scatter(i: Instruction, context: EvalContext, *inputs: np.ndarray) -> Waiting:
    group = own_group(i, context)
    operands_of = yield Meet(i, i, group, inputs)
    place = group.index(context.device.global_id)
    axis = i.attrs.dimensions[0]
    results = []
    for k, own in enumerate(inputs):
        _check_divides(own, axis, len(group))
        pieces = [np.split(operands_of[d][k], len(group), axis)[place] for d in group]
        results.append(_reduced(i, context, pieces))
    return _result(i, results)


def _check_divides(array: np.ndarray, axis: int, count: int) -> None:
    if array.shape[axis] % count:
        raise EvalError(
            f"dimension {axis} of size {array.shape[axis]} is not cut evenly by {count} devices"
        )


@MEANING.of("all-gather")
def all_gather(i: Instruction, context: EvalContext, *inputs: np.ndarray) -> Waiting:
    return _result(i, (yield from _gathered(i, context, inputs)))


@MEANING.of("all-gather-start")
def all_gather_start(i: Instruction, context: EvalContext, *inputs: np.ndarray) -> Waiting:
    """(inputs, outputs), each a tuple where there are several."""
    results = yield from _gathered(i, context, inputs)
    if i.shape.elements and i.shape.elements[0].is_tuple:
        return (inputs, tuple(results), *contexts(i))
    return (inputs[0], results[0], *contexts(i))


def _gathered(
    i: Instruction, context: EvalContext, inputs: tuple[np.ndarray, ...]
) -> Generator[Meet, Any, list[np.ndarray]]:
    group = own_group(i, context)
    operands_of = yield Meet(i, i, group, inputs)
    axis = i.attrs.dimensions[0]
    parts = [_evened([operands_of[d][k] for d in group], axis) for k in range(len(inputs))]
    return [np.concatenate(each, axis) for each in parts]


@MEANING.of("all-gather-done", "collective-permute-done")
def second_half(i: Instruction, context: EvalContext, x: EvalValue) -> EvalValue:
    return started_result(x)


@MEANING.of("all-to-all")
def all_to_all(i: Instruction, context: EvalContext, *inputs: np.ndarray) -> Waiting:
    """Array form: equal parts along a dimension are exchanged; tuple form: the inputs are."""
    group = own_group(i, context)
    operands_of = yield Meet(i, i, group, inputs)
    place = group.index(context.device.global_id)
    if i.shape.is_tuple:
        if len(inputs) != len(group):
            raise EvalError(f"{len(inputs)} inputs for a group of {len(group)} devices")
        return tuple(operands_of[d][place] for d in group)
    axis = i.attrs.dimensions[0] if i.attrs.dimensions else 0
    _check_divides(inputs[0], axis, len(group))
    return np.concatenate(
        [np.split(operands_of[d][0], len(group), axis)[place] for d in group], axis
    )


@MEANING.of("collective-broadcast")
def collective_broadcast(i: Instruction, context: EvalContext, *inputs: np.ndarray) -> Waiting:
    """Devices in no group get zeros. Of several roots that differ, each device reads its own."""
    group = members(i, context)
    data, roots = _data_and_roots(i, inputs)
    if group is None:
        return _result(i, [zero(x.shape) for x in i.operands[: len(data)]])
    operands_of = yield Meet(i, i, group, inputs)
    _check_roots(roots, group)
    return _result(i, [operands_of[group[root]][k] for k, root in enumerate(roots)])


@MEANING.of("collective-reduce")
def collective_reduce(i: Instruction, context: EvalContext, *inputs: np.ndarray) -> Waiting:
    """Zeros on all but the root. Of several roots that differ, each device goes by its own."""
    group = own_group(i, context)
    _, roots = _data_and_roots(i, inputs)
    operands_of = yield Meet(i, i, group, inputs)
    _check_roots(roots, group)
    me = context.device.global_id
    results = []
    for k, root in enumerate(roots):
        total = _reduced(i, context, [operands_of[d][k] for d in group])
        results.append(total if group[root] == me else np.zeros_like(total))
    return _result(i, results)


def _data_and_roots(
    i: Instruction, inputs: tuple[np.ndarray, ...]
) -> tuple[tuple[np.ndarray, ...], list[int]]:
    """What is sent, and for each the place of its root in the group."""
    if i.attrs.has_dynamic_root:
        return inputs[:-1], inputs[-1].tolist()
    return inputs, [0] * len(inputs)


def _check_roots(roots: list[int], group: tuple[int, ...]) -> None:
    for root in roots:
        if not 0 <= root < len(group):
            raise EvalError(f"root {root} is none of the {len(group)} devices of the group")


@MEANING.of("ragged-all-to-all")
def ragged_all_to_all(i: Instruction, context: EvalContext, *operands: np.ndarray) -> Waiting:
    """Offsets and sizes hold the same number of updates for each device of the group, in group
    order; output offsets are those in the receiver's output, as the sender knows them."""
    if (error := without_meaning(i)) is not None:
        raise EvalError(error.message)
    group = own_group(i, context)
    operands_of = yield Meet(i, i, group, operands)
    place = group.index(context.device.global_id)
    out = operands[1].copy()
    for d in group:
        x, _, input_offsets, send_sizes, output_offsets, _ = operands_of[d]
        starts, sizes, targets = (
            a.reshape(len(group), -1)[place] for a in (input_offsets, send_sizes, output_offsets)
        )
        for start, size, target in zip(starts.tolist(), sizes.tolist(), targets.tolist()):
            if size < 0 or start < 0 or target < 0 or start + size > len(x):
                raise EvalError(f"device {d} sends rows {start} to {start + size} of {len(x)}")
            if target + size > len(out):
                raise EvalError(f"device {d} writes rows {target} to {target + size} of {len(out)}")
            out[target : target + size] = x[start : start + size]
    return out


@MEANING.of("collective-permute")
def collective_permute(i: Instruction, context: EvalContext, *inputs: EvalValue) -> Waiting:
    return _shaped(i.shape.is_tuple, (yield from _permuted(i, context, inputs)))


@MEANING.of("collective-permute-start")
def collective_permute_start(i: Instruction, context: EvalContext, *inputs: EvalValue) -> Waiting:
    """(inputs, outputs, contexts...), tuples where there are several."""
    results = yield from _permuted(i, context, inputs)
    parts = i.shape.elements
    if i.attrs.slice_sizes:
        return (inputs[0], _shaped(parts[1].is_tuple, results), *contexts(i))
    return (
        _shaped(parts[0].is_tuple, list(inputs)),
        _shaped(parts[1].is_tuple, results),
        *contexts(i),
    )


def _shaped(is_tuple: bool, arrays: list[Any]) -> EvalValue:
    return tuple(arrays) if is_tuple else arrays[0]


def _permuted(
    i: Instruction, context: EvalContext, inputs: tuple[EvalValue, ...]
) -> Generator[Meet, Any, list[Any]]:
    """What each of the operands becomes here.

    Only devices joined by pairs meet, so that others may be elsewhere.
    """
    device = context.device
    me = device.global_id
    if device.device_count == 1:
        pairs: tuple[tuple[int, int], ...] = tuple(
            p for p in i.attrs.source_target_pairs if p == (0, 0)
        )
    else:
        pairs = device_pairs(
            i.attrs.source_target_pairs, _mode(i), device.replica_count, device.partition_count
        )
        if any(not 0 <= d < device.device_count for pair in pairs for d in pair):
            raise EvalError(f"a source-target pair names a device beyond {device.device_count}")
    operands_of = yield Meet(i, i, joined(pairs, me), inputs)
    source = next((s for s, t in pairs if t == me), None)
    if i.attrs.slice_sizes:
        return _permuted_in_place(i, inputs, None if source is None else operands_of[source])
    if source is None:
        return [zero(x.shape) for x in i.operands]
    return list(operands_of[source])


def joined(pairs: tuple[tuple[int, int], ...], me: int) -> tuple[int, ...]:
    """All devices reached from this one along pairs in either direction, itself included."""
    members, grew = {me}, True
    while grew:
        grew = False
        for pair in pairs:
            if (pair[0] in members) != (pair[1] in members):
                members.update(pair)
                grew = True
    return tuple(sorted(members))


def _permuted_in_place(
    i: Instruction, own: tuple[EvalValue, ...], sent: tuple[EvalValue, ...] | None
) -> list[Any]:
    """Operands input, output, input starts, output starts: slices of the source's input are
    written into this device's output. A device that is no target keeps its output."""
    if len(own) != 4:
        raise EvalError(f"the in-place form takes 4 operands, not {len(own)}")
    outputs = list(own[1]) if isinstance(own[1], tuple) else [own[1]]
    if sent is None:
        return outputs
    inputs = list(sent[0]) if isinstance(sent[0], tuple) else [sent[0]]
    several = isinstance(own[1], tuple)
    sizes = iter(i.attrs.slice_sizes)
    results = []
    for k, (x, out) in enumerate(zip(inputs, outputs)):
        starts = _slice_starts(sent[2][k] if several else sent[2])
        targets = _slice_starts(own[3][k] if several else own[3])
        written = out.copy()
        for start, target in zip(starts, targets):
            size = next(sizes)
            written[_window(target, size, out.shape)] = x[_window(start, size, x.shape)]
        results.append(written)
    return results


def _slice_starts(starts: EvalValue) -> list[list[int]]:
    """One start per slice: a tuple of scalars is one, a tuple of those several."""
    if starts and isinstance(starts[0], tuple):
        return [[int(x) for x in one] for one in starts]
    return [[int(x) for x in starts]]


def _window(start: list[int], size: tuple[int, ...], dims: tuple[int, ...]) -> tuple[slice, ...]:
    """The slice at a start clamped so that it lies inside, as dynamic-slice does."""
    if len(start) != len(dims) or len(size) != len(dims):
        raise EvalError(
            f"slice of size {size} at {tuple(start)} in an array of {len(dims)} dimensions"
        )
    clamped = [max(0, min(s, d - n)) for s, n, d in zip(start, size, dims)]
    return tuple(slice(s, s + n) for s, n in zip(clamped, size))
