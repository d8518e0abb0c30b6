"""Which operand an operation must overwrite with its result.

An *in-place pair* says that part `operand_index` of operand `operand` and part `output_index` of
the result must be one buffer. Whether that is possible at a given place (is the operand needed
later?) is another question: copy insertion makes it so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hloom.analysis.alias_fusion import fusion_pairs
from hloom.ir.instruction import Instruction

Index = tuple[int, ...]


class InPlacePair(NamedTuple):
    """Operand number, index into that operand, index into the result."""

    operand: int
    operand_index: Index
    output_index: Index


NO_PAIRS: tuple[InPlacePair, ...] = ()
FIRST = (InPlacePair(0, (), ()),)


def _declared(i: Instruction) -> tuple[InPlacePair, ...]:
    aliasing = i.attrs.output_to_operand_aliasing
    if not aliasing:
        return NO_PAIRS
    return tuple(
        InPlacePair(e.operand_index, e.operand_shape_index, e.output_shape_index)
        for e in aliasing.entries
    )


def _first(i: Instruction) -> tuple[InPlacePair, ...]:
    return FIRST


def _scatter(i: Instruction) -> tuple[InPlacePair, ...]:
    if not i.shape.is_tuple:
        return FIRST
    return tuple(InPlacePair(k, (), (k,)) for k in range(len(i.shape.elements)))


def _elementwise_collective(i: Instruction) -> tuple[InPlacePair, ...]:
    """Operand i with output i; an operand that stands twice cannot be overwritten twice."""
    if not i.shape.is_tuple:
        return FIRST
    return tuple(InPlacePair(k, (), (k,)) for k in range(len(i.operands)))


def _permute(i: Instruction) -> tuple[InPlacePair, ...]:
    """Only a permute with slice sizes, (input, output, input offsets, output offsets), writes
    into its second operand; a combined one may have four operands too."""
    if not i.attrs.slice_sizes or len(i.operands) != 4:
        return NO_PAIRS
    if not i.operands[1].shape.is_tuple:
        return (InPlacePair(1, (), (1,) if i.opcode.endswith("start") else ()),)
    prefix = (1,) if i.opcode.endswith("start") else ()
    parts = range(len(i.operands[1].shape.elements))
    return tuple(InPlacePair(1, (k,), (*prefix, k)) for k in parts)


def _fusion(i: Instruction) -> tuple[InPlacePair, ...]:
    declared = _declared(i)
    paired_outputs = {p.output_index for p in declared}
    used = {p.operand for p in declared}
    implied = [
        InPlacePair(number, (), index)
        for number, index in fusion_pairs(i)
        if index not in paired_outputs and number not in used
    ]
    return (*declared, *implied)


def _async(i: Instruction) -> tuple[InPlacePair, ...]:
    """Declared of the result of what is wrapped, which is element 1 of the start's shape; and what
    the one operation that is wrapped overwrites of its parameters."""
    declared = [
        p if p.output_index[:1] == (1,) else p._replace(output_index=(1, *p.output_index))
        for p in _declared(i)
    ]
    paired_operands = {(p.operand, p.operand_index) for p in declared}
    inner_pairs = [
        p for p in _wrapped(i.called[0].root) if (p.operand, p.operand_index) not in paired_operands
    ]
    return (*declared, *inner_pairs)


def _wrapped(root: Instruction) -> list[InPlacePair]:
    """What an operation on parameters does to them, in the numbers of the parameters."""
    if root.opcode == "while":
        parts = [p for p, of in root.shape.subshapes() if of.is_array or of.is_buffer]
        pairs = [InPlacePair(0, part, part) for part in parts]
    else:
        pairs = list(in_place_pairs(root))
    return [
        InPlacePair(x.attrs.number, p.operand_index, (1, *p.output_index))
        for p in pairs
        if (x := root.operands[p.operand]).opcode == "parameter"
    ]


_RULES: dict[str, Callable[[Instruction], tuple[InPlacePair, ...]]] = {
    "all-reduce-start": _elementwise_collective,
    "async-start": _async,
    "collective-permute": _permute,
    "collective-permute-start": _permute,
    "custom-call": _declared,
    "dynamic-update-slice": _first,
    "fusion": _fusion,
    "scatter": _scatter,
}
IN_PLACE_OPCODES = frozenset(_RULES)


def in_place_pairs(i: Instruction) -> tuple[InPlacePair, ...]:
    """The pairs that must share a buffer; targets that differ filter them."""
    rule = _RULES.get(i.opcode)
    return rule(i) if rule else NO_PAIRS
