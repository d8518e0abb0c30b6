"""Collectives that move data in the narrowest form that it takes before or after.

What is converted to fewer bits behind a collective, after being scaled, clamped and the like, is
converted before it; what was widened before it is widened behind. Numbers that this takes are
those of all devices, or constants, so that nobody sees a difference.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import Groups, device_pairs, group_mode
from hloom.passes.collectives.groups import devices_of, is_plain, module_of, sole_reader
from hloom.passes.collectives.moving import (
    CollectiveMotion,
    CollectiveMove,
    again,
    applied,
    varying_operand,
)
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class CollectiveQuantizer(CollectiveMotion):
    """Move narrowing conversions before collectives that move data, and widening ones behind."""

    name = "collective-quantizer"
    opcodes = frozenset(["all-gather", "all-to-all", "collective-permute", "collective-broadcast"])
    what = "narrowed"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        groups = _groups(i)
        if groups is None:
            return None
        forms = _narrowing(i, groups)
        if forms:
            x, was = i.operands[0], i
            for form in forms:
                x, was = applied(b, form, was, x, x.shape.dims), form
            last = forms[-1]
            new = again(b, i, x, shape(last.shape.dtype, i.shape.dims))
            return CollectiveMove(last, new, [*reversed(forms[:-1]), i])
        forms = _widening(i, groups)
        if not forms:
            return None
        was = _source(forms[0], groups)
        x = again(b, i, was, shape(was.shape.dtype, i.shape.dims))
        for form in forms:
            x, was = applied(b, form, was, x, i.shape.dims), form
        return CollectiveMove(i, x, ())


def _groups(i: Instruction) -> Groups | None:
    """Who may hold what others had; None where that is not known, or some are sent nothing."""
    if not is_plain(i) or i.shape.dtype is not i.operands[0].shape.dtype:
        return None
    if i.opcode != "collective-permute":
        is_array = i.opcode != "all-to-all" or i.attrs.dimensions is not None
        return devices_of(i) if is_array else None
    module, mode = module_of(i), group_mode(i.attrs)
    count = module.replica_count * module.num_partitions
    if mode is None or i.attrs.slice_sizes or count < 2:
        return None
    pairs = device_pairs(
        i.attrs.source_target_pairs, mode, module.replica_count, module.num_partitions
    )
    return (tuple(range(count)),) if len({t for _, t in pairs}) == count else None


def _source(form: Instruction, groups: Groups) -> Instruction:
    x = varying_operand(form, groups)
    assert x is not None, "forms have one operand that varies"
    return x


def _narrowing(i: Instruction, groups: Groups) -> list[Instruction]:
    """What follows a collective up to where its value has the fewest bits."""
    forms: list[Instruction] = []
    x, narrowest, best = i, 0, i.shape.dtype.bits
    while (reader := sole_reader(x)) is not None and varying_operand(reader, groups) is x:
        if list(reader.operands).count(x) != 1:
            break
        forms.append(reader)
        x = reader
        if x.shape.dtype.bits < best:
            narrowest, best = len(forms), x.shape.dtype.bits
    return forms[:narrowest]


def _widening(i: Instruction, groups: Groups) -> list[Instruction]:
    """What precedes a collective since where its value had the fewest bits, in order."""
    forms: list[Instruction] = []
    x, narrowest, best = i.operands[0], 0, i.shape.dtype.bits
    while sole_reader(x) is not None:
        before = varying_operand(x, groups)
        if before is None or list(x.operands).count(before) != 1:
            break
        forms.append(x)
        x = before
        if x.shape.dtype.bits < best:
            narrowest, best = len(forms), x.shape.dtype.bits
    return forms[:narrowest][::-1]
