"""What branches of a conditional end with is done once, behind it; what only they read, in them.

A branch hands its results on through memory, and what it ends with cannot be fused with what reads
them. So an operation that every branch computes last, in one form, moves behind the conditional,
and the branches hand on what it reads: where that is no more bytes, or where the only reader undoes
it (a conversion, and one back). Operands that all branches take from the same value outside, and
equal scalars, are not handed on at all.

    conditional(p, {f(x), f(y)})  =>  f(conditional(p, {x, y}))

What moves the other way, and when, says `into_branches.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE, RESHAPES
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.control.into_branches import (
    smaller_reader,
    unread_operand,
    with_operand_inside,
    with_reader_inside,
)
from hloom.passes.expand.expansion import Expansion
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.types.shape import Shape, tuple_shape

MOVABLE = opcodes(ELEMENTWISE, RESHAPES, also=("transpose", "reverse", "broadcast", "slice", "dot"))
"""What is the same work behind a conditional as in it: no concatenation and no scatter, which
write in place of what a branch returns."""

SPREAD = opcodes(RESHAPES, also=("broadcast",))
"""What is made again of what is known outside."""


@register
class ConditionalCodeMotion(ComputationPass):
    """Move what all branches of a conditional end with behind it, and into them what only they read
    or what makes less of their results."""

    name = "conditional-code-motion"
    breaks = (no_dead_code,)

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        changed: dict[Computation, None] = {}
        for i in [i for i in c.instructions if i.opcode == "conditional"]:
            while i is not None and _is_open(i):
                if (ends := _common_ends(i)) is not None:
                    name, new = ends.ends[0].opcode, _moved(i, ends)
                elif (reader := smaller_reader(i)) is not None:
                    name, new = f"{reader.opcode} into branches", with_reader_inside(i, reader)
                elif (operand := unread_operand(i)) is not None:
                    name, new = f"{operand.opcode} into branches", with_operand_inside(i, operand)
                else:
                    break
                changed.update(dict.fromkeys((c, *new.called)))
                fired[name] += 1
                i = new
        return changed


@dataclass
class _Ends:
    """The last operation of each branch for one leaf of the result."""

    leaf: int
    ends: list[Instruction]
    handed_on: list[int]
    """Its operands that are not known outside."""


def _is_open(i: Instruction) -> bool:
    """Whether results may be taken apart: nobody else calls its branches, and all readers take an
    element of a flat tuple."""
    for c in i.called:
        if sum(c.callers.values()) != 1 or c.root.has_control_edges:
            return False
        if i.shape.is_tuple and c.root.opcode != "tuple":
            return False
    if i.has_control_edges or i.sharding is not None or not i.called:
        return False
    if not i.shape.is_tuple:
        return i.shape.is_array
    is_flat = all(s.is_array for s in i.shape.elements)
    return is_flat and not i.is_root and all(u.opcode == "get-tuple-element" for u in i.users)


def _leaves(i: Instruction) -> list[tuple[Instruction, ...]]:
    """Of each branch what it returns."""
    return [c.root.operands if i.shape.is_tuple else (c.root,) for c in i.called]


def _common_ends(i: Instruction) -> _Ends | None:
    """An operation with which all branches end, and which is better done behind them."""
    for leaf, ends in enumerate(zip(*_leaves(i), strict=True)):
        first = ends[0]
        if first.opcode not in MOVABLE or not all(_is_same(first, x) for x in ends):
            continue
        if not all(_is_only_returned(i, x) for x in ends):
            continue
        operands = enumerate(zip(*[x.operands for x in ends]))
        handed_on = [k for k, of in operands if not _is_outside(i, of)]
        size = sum(first.operands[k].shape.size_bytes for k in handed_on)
        if size <= first.shape.size_bytes or _is_undone(i, leaf, first):
            return _Ends(leaf, list(ends), handed_on)
    return None


def _is_same(x: Instruction, y: Instruction) -> bool:
    shapes = [o.shape for o in x.operands] == [o.shape for o in y.operands]
    same = x.opcode == y.opcode and x.attrs == y.attrs and x.shape == y.shape
    return same and shapes and not (y.called or y.has_control_edges or y.sharding is not None)


def _is_only_returned(i: Instruction, x: Instruction) -> bool:
    """Whether nothing but the result of its branch holds it, once."""
    if not i.shape.is_tuple:
        return not x.users
    return list(x.users) == [x.parent.root] and x.parent.root.operands.count(x) == 1


def _is_outside(i: Instruction, of: Sequence[Instruction]) -> bool:
    """Whether these values of all branches are one that is known outside."""
    first = of[0]
    if _value(i, of) is not None or _is_scalar(of):
        return True
    is_spread = first.opcode in SPREAD and all(_is_same(first, x) for x in of)
    return is_spread and _is_outside(i, [x.operands[0] for x in of])


def _is_scalar(of: Sequence[Instruction]) -> bool:
    """Whether all are the same constant of one number."""
    if not all(x.opcode == "constant" and x.shape.rank == 0 for x in of):
        return False
    return len({x.attrs.literal.array.tobytes() for x in of}) == 1


def _value(i: Instruction, of: Sequence[Instruction]) -> Instruction | None:
    """What all branches are given for these values of theirs, if it is one value."""
    values = {_given(x, operand) for x, operand in zip(of, i.operands[1:], strict=True)}
    value = values.pop() if len(values) == 1 else None
    return value if value is not None and value.shape == of[0].shape else None


def _built(b: Expansion, i: Instruction, of: Sequence[Instruction]) -> Instruction:
    """That value outside."""
    value = _value(i, of)
    if value is not None:
        return value
    if _is_scalar(of):
        return b.constant(of[0].attrs.literal)
    return b.like(of[0], _built(b, i, [x.operands[0] for x in of]))


def _given(x: Instruction, operand: Instruction) -> Instruction | None:
    """What the caller of a branch has for a value in it."""
    if x.opcode == "parameter":
        return operand
    if x.opcode != "get-tuple-element" or x.operands[0].opcode != "parameter":
        return None
    return operand.operands[x.attrs.index] if operand.opcode == "tuple" else None


def _is_undone(i: Instruction, leaf: int, end: Instruction) -> bool:
    """Whether a conversion is read by one back only."""
    readers = list(i.users)
    if i.shape.is_tuple:
        readers = [u for e in i.users if e.attrs.index == leaf for u in e.users]
    of = end.operands[0].shape if end.operands else None
    is_back = [u.opcode == "convert" and of is not None and u.shape == of for u in readers]
    return end.opcode == "convert" and bool(is_back) and all(is_back)


def _moved(i: Instruction, motion: _Ends) -> Instruction:
    """The conditional that hands on what the ends read, which are behind it."""
    is_array = not i.shape.is_tuple and len(motion.handed_on) == 1
    leaves = _leaves(i)
    rest = [k for k in range(len(leaves[0])) if k != motion.leaf]
    shape = _hand_on(i, motion, rest, is_array)
    b = Expansion(i.parent, {})
    new = b.emit("conditional", *i.operands, called=i.called, shape=shape)
    new.copy_annotations(i)
    count = len(shape.elements) if shape.is_tuple else 1
    elements = [new] if is_array else [b.element(new, k) for k in range(count)]
    handed = dict(zip(motion.handed_on, elements[len(rest) :], strict=True))
    operands = [
        handed[k] if k in handed else _built(b, i, of)
        for k, of in enumerate(zip(*[x.operands for x in motion.ends]))
    ]
    end = b.like(motion.ends[0], *operands)
    _replace(i, motion.leaf, end, dict(zip(rest, elements)))
    for c in new.called:
        remove_dead_instructions(c)
    return new


def _hand_on(i: Instruction, motion: _Ends, rest: Sequence[int], is_array: bool) -> Shape:
    """Let each branch return what its end reads; the shape of the result."""
    for c, of, end in zip(i.called, _leaves(i), motion.ends, strict=True):
        handed = [end.operands[k] for k in motion.handed_on]
        c.root = handed[0] if is_array else c.add("tuple", *[of[k] for k in rest], *handed)
    shapes = [[x.shape for x in c.root.operands] for c in i.called]
    return i.called[0].root.shape if is_array else tuple_shape(shapes[0])


def _replace(i: Instruction, leaf: int, end: Instruction, others: dict[int, Instruction]) -> None:
    """Let all readers of a conditional read the new values, and remove it."""
    c = i.parent
    if not i.shape.is_tuple:
        c.replace(i, end)
    for e in list(i.users):
        c.replace(e, end if e.attrs.index == leaf else others[e.attrs.index])
        c.erase(e)
    i.set_called(())
    c.erase(i)
