"""What collectives mean on arrays of bounds with run-time sizes; rules as in `dynamic_rules.py`.

Devices may have arrays of different sizes. What moves whole takes its sizes along; who is sent
nothing has zeros up to the bounds. Where elements of several devices meet (folded together, or
side by side in a gathered array), those count that all of the group have.
"""

from __future__ import annotations

from typing import Any

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import keeps_layouts
from hloom.passes.expand.dynamic_rules import RULES, again, concatenate_into, values
from hloom.passes.expand.dynamic_values import Masks, Sized, Sizes
from hloom.passes.expand.expansion import refuse
from hloom.types.dtype import S32

_GROUPS = ("replica_groups", "channel_id", "use_global_device_ids")


def _packed(m: Masks, sizes: list[Instruction]) -> Instruction:
    """Scalars as one array."""
    return m.b.joined([m.b.reshaped(size, (1,)) for size in sizes], 0)


def _scalar(m: Masks, packed: Instruction, k: int) -> Instruction:
    return m.b.reshaped(m.b.sliced(packed, 0, k, k + 1), ())


def _unpacked(m: Masks, packed: Instruction, operands: list[Sized]) -> list[Sizes]:
    """The sizes of each operand, of all of them in one array."""
    unpacked, k = [], 0
    for x in operands:
        unpacked.append({d: _scalar(m, packed, k + n) for n, d in enumerate(x.sizes)})
        k += len(x.sizes)
    return unpacked


def _groups(i: Instruction) -> dict[str, Any]:
    """Who takes part, as attributes of another collective of the same kind of groups."""
    fields = {name: getattr(i.attrs, name, None) for name in _GROUPS}
    return {name: value for name, value in fields.items() if value is not None}


def _least(m: Masks, i: Instruction, operands: list[Sized]) -> list[Sizes]:
    """For each operand the least sizes that a member of the group has."""
    sizes = [size for x in operands for size in x.sizes.values()]
    if not sizes:
        return [{} for _ in operands]
    combiner = m.b.combiner("minimum", S32)
    fixed = keeps_layouts(m.b.module)
    packed = m.b.emit(
        "all-reduce", _packed(m, sizes), called=(combiner,), constrain_layout=fixed, **_groups(i)
    )
    return _unpacked(m, packed, operands)


def _sized(m: Masks, i: Instruction, new: Instruction, sizes: list[Sizes]) -> Sized:
    """The results of a collective with their sizes."""
    if not i.shape.is_tuple:
        return Sized(new, sizes[0])
    return Sized(new, {}, [Sized(m.b.element(new, k), s) for k, s in enumerate(sizes)])


@RULES.of("all-reduce", "collective-reduce", "reduce-scatter")
def folded(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """The garbage of others is folded into garbage."""
    if i.opcode == "reduce-scatter" and any(i.attrs.dimensions[0] in x.sizes for x in operands):
        raise refuse(
            i,
            "no code is made for a reduce-scatter along a dimension of run-time size",
            "dynamic-shape",
            "scatter another dimension, or all-reduce and take a part",
        )
    if getattr(i.attrs, "has_dynamic_root", False):
        data = operands[:-1]
    else:
        data = operands
    return _sized(m, i, again(m, i, *values(operands)), _least(m, i, data))


@RULES.of("all-gather")
def gathered(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    axis = i.attrs.dimensions[0]
    across = [Sized(x.value, {d: s for d, s in x.sizes.items() if d != axis}) for x in operands]
    sizes = _least(m, i, across)
    gathered_ = again(m, i, *values(operands))
    if not any(axis in x.sizes for x in operands):
        return _sized(m, i, gathered_, sizes)
    results = []
    for k, x in enumerate(operands):
        whole = m.b.element(gathered_, k) if i.shape.is_tuple else gathered_
        results.append(_close_up(m, i, x, whole, sizes[k]))
    if not i.shape.is_tuple:
        return results[0]
    return Sized(m.b.tuple(*[x.value for x in results]), {}, results)


def _close_up(m: Masks, i: Instruction, x: Sized, whole: Instruction, across: Sizes) -> Sized:
    """What members gave, up to the bound of each, with the room between taken out."""
    axis = i.attrs.dimensions[0]
    if axis not in x.sizes:
        return Sized(whole, across)
    bound = x.value.shape.dims[axis]
    if bound == 0:
        return Sized(whole, {**across, axis: m.number(0)})
    count = whole.shape.dims[axis] // bound
    own = m.b.reshaped(x.sizes[axis], (1,))
    ends = m.b.emit(
        "all-gather",
        own,
        dimensions=(0,),
        shape=own.shape.with_dims((count,)),
        **_groups(i),
    )
    pieces = []
    for k in range(count):
        piece = m.b.sliced(whole, axis, k * bound, (k + 1) * bound)
        pieces.append(Sized(piece, {axis: _scalar(m, ends, k)}))
    closed, end = concatenate_into(m, whole.shape, axis, pieces)
    return Sized(closed, {**across, axis: end})


@RULES.of("collective-permute", "collective-broadcast")
def moved(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """How much less than the bound there is moves along: nobody sends 0, so the bound."""
    if getattr(i.attrs, "slice_sizes", ()) or getattr(i.attrs, "has_dynamic_root", False):
        raise refuse(
            i,
            f"no code is made for {i.opcode} on arrays of run-time size by run-time numbers",
            "dynamic-shape",
            "move whole arrays, between devices that are known",
        )
    b, moved_ = m.b, again(m, i, *values(operands))
    bounds = [m.number(x.value.shape.dims[d]) for x in operands for d in x.sizes]
    if not bounds:
        return _sized(m, i, moved_, [{} for _ in operands])
    sizes = [size for x in operands for size in x.sizes.values()]
    lacking = b.subtract(_packed(m, bounds), _packed(m, sizes))
    sent = b.computation.append(i.opcode, i.attrs, (lacking,), lacking.shape, i.opcode, ())
    b.added.append(sent)
    packed = b.subtract(_packed(m, bounds), sent)
    return _sized(m, i, moved_, _unpacked(m, packed, operands))


@RULES.of("all-to-all")
def exchanged(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    """In the form of a tuple: each operand goes to a member, and so do its sizes."""
    exchanged_ = again(m, i, *values(operands))
    dims = [d for d in range(operands[0].value.shape.rank) if any(d in x.sizes for x in operands)]
    if not i.shape.is_tuple or not dims:
        return Sized(exchanged_)
    sizes = [_packed(m, [m.size(x, d) for d in dims]) for x in operands]
    sent = m.b.emit("all-to-all", *sizes, **_groups(i))
    all_sizes = []
    for k in range(len(operands)):
        packed = m.b.element(sent, k)
        all_sizes.append({d: _scalar(m, packed, n) for n, d in enumerate(dims)})
    return _sized(m, i, exchanged_, all_sizes)
