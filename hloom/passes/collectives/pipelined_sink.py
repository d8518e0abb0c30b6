"""Collectives whose results are read after a loop only, made there for all steps at once: see
`collective_pipeliner`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.passes.collectives.loop_results import is_read_by_conditions
from hloom.passes.collectives.peeling import CountedLoop, erase_unread, shape_of_stack
from hloom.passes.collectives.stacked_updates import (
    Region,
    common_steps,
    overlap,
    region_of,
    updates_of,
)
from hloom.types.literal import Literal
from hloom.types.shape import shape

if TYPE_CHECKING:
    from hloom.passes.collectives.collective_pipeliner import CollectivePipeliner

_RENAMES = frozenset(["reshape", "bitcast"])
_BY_ELEMENT = opcodes(ELEMENTWISE, also=("copy", "opt-barrier"))


class _Sunk:
    """A collective, what brings its result into form, and the write of it."""

    def __init__(
        self, collective: Instruction, forms: list[Instruction], write: Instruction, k: int
    ) -> None:
        self.collective, self.forms, self.write, self.k = collective, forms, write, k


def sink_forward(p: CollectivePipeliner, loop: CountedLoop) -> int:
    """Make a loop stack what it would communicate, and communicate it afterwards; how many
    collectives moved."""
    count, carried = 0, 0
    for i in loop.body.in_order():
        if not p.wants(i):
            continue
        sunk = _sunk(p, loop, i)
        if sunk is None:
            continue
        region = _region(loop, sunk)
        size = loop.count * i.operands[0].shape.size_bytes
        if region is None or not p.is_within(count + 1, carried + size):
            continue
        _sink(loop, sunk, region)
        carried += size
        count += 1
    return count


def _sunk(p: CollectivePipeliner, loop: CountedLoop, i: Instruction) -> _Sunk | None:
    """What a collective is written into, where only the loop's readers see it."""
    forms, x = [], i
    while not x.is_root and len(x.users) == 1:
        (reader,) = x.users
        if reader.opcode == "dynamic-update-slice":
            is_update = [k for k, o in enumerate(reader.operands) if o is x] == [1]
            if not is_update or reader.has_control_edges:
                return None
            chain = updates_of(loop.body, reader)
            if chain is None or is_read_by_conditions([loop.loop], chain[0]):
                return None
            return _Sunk(i, forms, reader, chain[0])
        if not p.is_on_the_way(reader) or not _is_stacked(reader, x):
            return None
        forms.append(reader)
        x = reader
    return None


def _is_stacked(form: Instruction, x: Instruction) -> bool:
    """Whether an operation on a value can be one on many, one behind the other."""
    if form.opcode in _RENAMES:
        return form.shape.dtype is x.shape.dtype
    if form.opcode == "transpose":
        return True
    if form.opcode not in _BY_ELEMENT or list(form.operands).count(x) != 1:
        return False
    return all(o is x or _is_one_number(o) for o in form.operands)


def _is_one_number(i: Instruction) -> bool:
    """Whether it is a constant number, or one repeated."""
    if i.opcode == "broadcast":
        i = i.operands[0]
    return i.opcode == "constant" and i.shape.size == 1


def _region(loop: CountedLoop, sunk: _Sunk) -> tuple[Region, int] | None:
    """Where all steps together write, and along which dimension; None where it is not slot by
    slot, or other writes go there too."""
    steps, chain = common_steps([loop.loop]), updates_of(loop.body, sunk.write)
    if steps is None or chain is None:
        return None
    regions = {w: region_of(w, loop.body, *steps) for w in chain[1]}
    own = regions.pop(sunk.write)
    if own is None or any(r is None or overlap(own, r) for r in regions.values()):
        return None
    sizes = sunk.write.operands[1].shape.dims
    axes = [
        d
        for d, at in enumerate(sunk.write.operands[2:])
        if at.opcode != "constant" and own[d][1] - own[d][0] == loop.count
    ]
    return (own, axes[0]) if len(axes) == 1 and sizes[axes[0]] == 1 else None


def _sink(loop: CountedLoop, sunk: _Sunk, region: tuple[Region, int]) -> None:
    """Stack the operand in the body; communicate and write after the loop."""
    c, body, i, write = loop.loop.parent, loop.body, sunk.collective, sunk.write
    own, axis = region
    readers, x = list(loop.loop.users), i.operands[0]
    k, whole = sunk.k, shape_of_stack(loop.count, x)
    zero = c.add("constant", literal=(z := Literal.of(0, x.shape.dtype)), shape=z.shape)
    empty = c.add("broadcast", zero, dimensions=(), shape=whole)
    (stack,) = loop.grow([empty])
    slot = _slot(body, write.operands[2 + axis], own[axis][0])
    row = body.add(
        "reshape", x, shape=shape(x.shape.dtype, (1, *x.shape.dims)).with_default_layouts()
    )
    starts = [slot, *[_number(body, 0, slot.shape.dtype)] * x.shape.rank]
    stacked = body.add("dynamic-update-slice", stack, row, *starts)
    stacked.shape = stack.shape
    body.replace(write, write.operands[0])
    old = list(body.root.operands)
    loop.hand_on([*old, stacked])
    erase_unread(body, [i, *sunk.forms, write])
    results = loop.results()
    whole = _after(c, sunk, results[-1], loop.count)
    ends = results[: len(old)]
    ends[k] = _written(c, whole, results[k], write, own, axis)
    loop.end_with(readers, ends)
    erase_unread(c, [])


def _slot(body: Computation, at: Instruction, low: int) -> Instruction:
    """The place in the stack of what is written at `at`."""
    return body.add("subtract", at, _number(body, low, at.shape.dtype)) if low else at


def _number(c: Computation, value: int, dtype) -> Instruction:
    literal = Literal.of(value, dtype)
    return c.add("constant", literal=literal, shape=literal.shape)


def _after(c: Computation, sunk: _Sunk, x: Instruction, count: int) -> Instruction:
    """The collective of the stack, and its form."""
    i = sunk.collective
    attrs = i.attrs
    if getattr(attrs, "dimensions", None):
        attrs = replace(attrs, dimensions=tuple([d + 1 for d in attrs.dimensions]))
    x = c.append(i.opcode, attrs, (x,), shape_of_stack(count, i), i.opcode, i.called)
    x.copy_annotations(i)
    x.sharding = None
    was = i
    for form in sunk.forms:
        of = shape_of_stack(count, form)
        if form.opcode in _RENAMES:
            new = c.add("reshape", x, shape=of)
        elif form.opcode == "transpose":
            order = (0, *[d + 1 for d in form.attrs.dimensions])
            new = c.add("transpose", x, dimensions=order)
            new.shape = of
        else:
            operands = [x if o is was else _repeated(c, o, count, form) for o in form.operands]
            new = c.append(form.opcode, form.attrs, tuple(operands), of, form.opcode)
        new.metadata = form.metadata
        was, x = form, new
    return x


def _repeated(c: Computation, i: Instruction, count: int, form: Instruction) -> Instruction:
    """A constant number beside a value of many."""
    one = i.operands[0] if i.opcode == "broadcast" else i
    literal = Literal.of(one.attrs.literal.first(), one.shape.dtype)
    number = c.add("constant", literal=literal, shape=literal.shape)
    if i.shape.rank == 0 and form.shape.rank:  # clamp takes numbers as bounds
        return number
    return c.add("broadcast", number, dimensions=(), shape=shape_of_stack(count, i))


def _written(
    c: Computation, x: Instruction, into: Instruction, write: Instruction, own: Region, axis: int
) -> Instruction:
    """The stack as a region of the buffer."""
    rank = write.shape.rank
    others = [d for d in range(rank) if d != axis]
    order = [d + 1 for d in others]
    order.insert(axis, 0)
    # Dimensions of the stack: steps, then the update's, of which `axis` is 1 long.
    order_all = [*order, axis + 1]
    if order_all != list(range(rank + 1)):
        x = c.add("transpose", x, dimensions=tuple(order_all))
    dims = [b - a for a, b in own]
    of = shape(write.shape.dtype, dims).with_default_layouts()
    x = c.add("reshape", x, shape=of)
    starts = [_number(c, a, write.operands[2].shape.dtype) for a, _ in own]
    new = c.add("dynamic-update-slice", into, x, *starts)
    new.shape = write.shape
    return new
