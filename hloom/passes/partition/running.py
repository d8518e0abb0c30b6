"""Windows over all that is before an element (running sums, products, largest and smallest), along
a cut dimension: each device runs over its own part, and adds what those before it have in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloom.ir.instruction import Instruction
from hloom.ir.values.window import Window
from hloom.passes.partition.assignment import Chosen
from hloom.passes.partition.moves import local
from hloom.passes.partition.partitioner import Walk
from hloom.passes.partition.reduce import fold_of
from hloom.passes.partition.reshard import neutral_number
from hloom.types.dtype import S32


def running_dimension(i: Instruction) -> int | None:
    """The one dimension of which each window of an instruction has all that is before its element,
    or behind it."""
    windows = i.attrs.window.dimensions
    wide = [d for d, w in enumerate(windows) if not w.is_trivial]
    if len(wide) != 1:
        return None
    return wide[0] if windows[wide[0]].runs_over(i.operands[0].shape.dims[wide[0]]) else None


def running(
    walk: Walk, i: Instruction, parts: Sequence[Instruction], chosen: Chosen, d: int
) -> Instruction:
    """The part of the result; `d`: the dimension along which it runs."""
    b, of, axes = walk.b, i.operands[0].shape, chosen.operands[0].dims[d]
    opcode, windows = fold_of(i.called[0]), list(i.attrs.window.dimensions)
    assert opcode is not None, "only known folds are cut"
    neutral = b.scalar(neutral_number(opcode, of.dtype), of.dtype)
    x, initial = b.masked(parts[0], of, chosen.operands[0], (d,), neutral), parts[1]
    each, is_backward = x.shape.dims[d], windows[d].padding_high > 0
    pads = (0, each - 1) if is_backward else (each - 1, 0)
    windows[d] = replace(windows[d], size=each, padding_low=pads[0], padding_high=pads[1])
    window = Window(tuple(windows))
    own = b.emit_like(i, [x, neutral], local(walk, i, chosen), window=window)
    last = 0 if is_backward else each - 1
    totals = b.all_gather(b.sliced(own, d, last, last + 1), d, axes)
    tiles = (totals.shape.dims[d],)
    me = b.spread(b.of_device(walk.mesh.indices(axes)), tiles)
    counted = b.compared(b.iota(S32, tiles, 0), me, "GT" if is_backward else "LT")
    dims = totals.shape.dims
    kept = b.select(b.spread(counted, dims, (d,)), totals, b.spread(neutral, dims))
    others = tuple([k for k in range(own.shape.rank) if k != d])
    before = b.emit(
        "reduce",
        kept,
        initial,
        dimensions=(d,),
        called=(b.combiner(opcode, of.dtype),),
        shape=own.shape.with_dims(tuple([own.shape.dims[k] for k in others])),
    )
    return b.emit(opcode, own, b.spread(before, own.shape.dims, others))
