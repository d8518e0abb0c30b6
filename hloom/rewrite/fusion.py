"""Keeping fusions whole: a fusion has no operand that its body does not read."""

from __future__ import annotations

from dataclasses import replace

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction


def drop_unread_operands(body: Computation) -> bool:
    """Drop the parameters of a fusion's body that nothing reads, and the operands they stand for.

    Only for a body with one caller, a fusion without aliased outputs; True if something went.
    The operands may be unread afterwards; that is for dead code elimination.
    """
    unread = {p.attrs.number for p in body.parameters if not p.users and p is not body.root}
    if not unread or sum(body.callers.values()) != 1:
        return False
    fusion: Instruction = next(iter(body.callers))
    if fusion.opcode != "fusion" or fusion.attrs.output_to_operand_aliasing:
        return False
    read_parameters = [p for p in body.parameters if p.attrs.number not in unread]
    if len(read_parameters) != len(fusion.operands) - len(unread):
        return False
    operands = tuple(x for k, x in enumerate(fusion.operands) if k not in unread)
    for p in [p for p in body.parameters if p.attrs.number in unread]:
        body.erase(p)
    for number, p in enumerate(read_parameters):
        if p.attrs.number != number:
            p.attrs = replace(p.attrs, number=number)
    fusion.set_operands(operands)
    return True
