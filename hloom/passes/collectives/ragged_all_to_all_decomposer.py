"""Ragged all-to-alls as dense ones, for machines whose exchanges are all of one size.

Every slice is sent as long as the whole array, which is the most that it can be; where it goes and
how much of it counts is exchanged beside it. The receiver scatters the rows that count. So the
bytes are those of the whole array for each slice: what this costs is why it is an option.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.meaning import without_meaning
from hloom.passes.collectives.groups import devices_of, group_size
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import S64
from hloom.types.shape import shape


@register
class RaggedAllToAllDecomposer(Expander):
    """Replace ragged all-to-alls by gathers, all-to-alls and a scatter."""

    name = "ragged-all-to-all-decomposer"
    opcodes = frozenset(["ragged-all-to-all"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        groups = devices_of(i)
        count = group_size(groups) if groups is not None else None
        x, out, *numbers = i.operands
        if count is None or not x.shape.dims or not x.shape.size or not out.shape.size:
            return None
        if any(y.shape.is_dynamic for y in i.operands) or i.has_control_edges or without_meaning(i):
            return None
        slices = numbers[0].shape.size
        if not slices or slices % count:
            return None
        starts, sizes, targets, _ = [flat_counts(b, n) for n in numbers]
        return _received(b, i, _sent(b, x, starts), (sizes, targets))


def flat_counts(b: Expansion, x: Instruction) -> Instruction:
    """Offsets or sizes as one row of s64."""
    return b.reshaped(b.converted(x, S64), (x.shape.size,))


def _rows_from(b: Expansion, starts: Instruction, rows: int) -> Instruction:
    """s64 `[slices, rows]`: the rows from each start on."""
    dims = (starts.shape.dims[0], rows)
    return b.add(b.spread(starts, dims, (0,)), b.iota(S64, dims, 1))


def _sent(b: Expansion, x: Instruction, starts: Instruction) -> Instruction:
    """For each slice as many rows as there are; what lies behind the end does not count."""
    rows, *rest = x.shape.dims
    slices = starts.shape.dims[0]
    at = b.reshaped(_rows_from(b, starts, rows), (slices * rows,))
    return b.emit(
        "gather",
        x,
        at,
        offset_dims=tuple(range(1, 1 + len(rest))),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, *rest),
    )


def _exchanged(b: Expansion, i: Instruction, x: Instruction) -> Instruction:
    """What the devices of the group send to this one, in group order."""
    return b.emit(
        "all-to-all",
        x,
        shape=x.shape,
        channel_id=i.attrs.channel_id,
        replica_groups=i.attrs.replica_groups,
        dimensions=(0,),
    )


def _received(
    b: Expansion,
    i: Instruction,
    sent: Instruction,
    counts: tuple[Instruction, Instruction],
) -> Instruction:
    """The output with the rows that count."""
    out = i.operands[1]
    sizes, targets = [_exchanged(b, i, n) for n in counts]
    slices = sizes.shape.dims[0]
    rows = sent.shape.dims[0] // slices
    dims = (slices, rows)
    counted = b.compared(b.iota(S64, dims, 1), b.spread(sizes, dims, (0,)), "LT")
    nowhere = b.full(out.shape.dims[0], S64, dims)
    at = b.select(counted, _rows_from(b, targets, rows), nowhere)
    return b.emit(
        "scatter",
        out,
        b.reshaped(at, (slices * rows,)),
        _exchanged(b, i, sent),
        called=(_second(b, out),),
        update_window_dims=tuple(range(1, out.shape.rank)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
    )


def _second(b: Expansion, like: Instruction):
    """The computation that takes what is new."""
    scalar = shape(like.shape.dtype)
    c = b.module.add_computation("second")
    c.add("parameter", shape=scalar, number=0, name="old")
    c.root = c.add("parameter", shape=scalar, number=1, name="new")
    return c
