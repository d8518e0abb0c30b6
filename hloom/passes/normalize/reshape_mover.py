"""Reshapes and transposes sink below elementwise operations.

An operation all of whose operands are the same rearrangement (or look the same however they are
rearranged: fills) works on the sources, and the result is rearranged once. A value that is
reached from an operand through several reshapes counts as a source too, so that no cancelling
pair is left. What moves is decided before anything is changed, so one run makes no chain of moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.expansion import Expansion, put_in_place
from hloom.passes.expand.map_inliner import BY_ELEMENT
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register
from hloom.types.shape import shape

MOST_CONSTANT_ELEMENTS = 64
"""Larger constants are not looked at."""
MOST_RESHAPES = 8
"""One behind the other that are looked through."""
Dims = tuple[int, ...]


def _is_fill(x: Instruction) -> bool:
    """Whether all elements are one: a broadcast of a scalar or a constant that repeats."""
    if x.opcode == "broadcast":
        return x.operands[0].shape.rank == 0
    if x.opcode != "constant" or x.shape.size > MOST_CONSTANT_ELEMENTS:
        return False
    literal = x.attrs.literal
    return not literal.is_elided and x.shape.size > 0 and literal.is_all_equal


def _source(x: Instruction, dims: Dims) -> Instruction | None:
    """The value of these sizes that `x` is a reshape of."""
    for _ in range(MOST_RESHAPES):
        if x.opcode != "reshape" or x.shape.is_dynamic:
            return None
        x = x.operands[0]
        if x.shape.dims == dims:
            return None if x.shape.is_dynamic else x
    return None


def sources(i: Instruction) -> list[Instruction | None] | None:
    """What an operation would work on instead, None standing for a fill; None when it stays."""
    dims = i.shape.dims
    if i.shape.is_dynamic or any(o.shape.dims != dims for o in i.operands):
        return None
    movers = [o for o in i.operands if not _is_fill(o)]
    if not movers or movers[0].opcode not in ("reshape", "transpose"):
        return None
    if movers[0].opcode == "transpose":
        order = movers[0].attrs.dimensions
        if any(o.opcode != "transpose" or o.attrs.dimensions != order for o in movers):
            return None
        return [None if _is_fill(o) else o.operands[0] for o in i.operands]
    for first in movers:
        if first.opcode != "reshape":
            return None
        source_dims = first.operands[0].shape.dims
        if source_dims == dims:
            return None
        sources_ = [None if _is_fill(o) else _source(o, source_dims) for o in i.operands]
        if all(f is not None or _is_fill(o) for f, o in zip(sources_, i.operands, strict=True)):
            return sources_
    return None


def _fill_of(b: Expansion, x: Instruction, dims: Dims) -> Instruction:
    if x.opcode == "broadcast":
        return b.spread(x.operands[0], dims)
    return b.full(x.attrs.literal.first(), x.shape.dtype, dims)


def moved(b: Expansion, i: Instruction, sources_: list[Instruction | None]) -> Instruction:
    """The operation on its sources, rearranged afterwards."""
    mover = next(o for o, f in zip(i.operands, sources_, strict=True) if f is not None)
    dims = next(f for f in sources_ if f is not None).shape.dims
    operands = [
        _fill_of(b, o, dims) if f is None else f for o, f in zip(i.operands, sources_, strict=True)
    ]
    of = shape(i.shape.dtype, dims).with_default_layouts()
    result = b.like(i, *operands, shape=of)
    result.sharding = None
    if mover.opcode == "transpose":
        return b.transposed(result, mover.attrs.dimensions)
    return b.reshaped(result, i.shape.dims)


@register
class ReshapeMover(ComputationPass):
    """Move reshapes and transposes from the operands of elementwise operations to the result."""

    name = "reshape-mover"
    breaks = (no_dead_code,)

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        movable = [
            (i, sources_)
            for i in c.instructions
            if i.opcode in BY_ELEMENT
            and i.shape.rank
            and i.opcode != "bitcast-convert"
            and (sources_ := sources(i)) is not None
        ]
        moved_sources: dict[Instruction, Instruction] = {}  # a source may have been moved itself
        for i, sources_ in movable:
            b = Expansion(c, {})
            now = [None if f is None else moved_sources.get(f, f) for f in sources_]
            moved_sources[i] = put_in_place(b, i, moved(b, i, now))
            fired["moved"] += 1
            yield c
