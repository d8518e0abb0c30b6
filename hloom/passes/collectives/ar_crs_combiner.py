"""An all-reduce, linear operations, and an all-reduce among other devices as one among all.

Partitions first sum what they computed together; their sum, scaled, is then summed over replicas.
The first sum can wait for the second one, if what is between takes a sum to the sum: reshapes,
slices, conversions that widen, and products with one number that all the devices have.
"""

from __future__ import annotations

from dataclasses import replace

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES
from hloom.ir.values.group_modes import Groups
from hloom.passes.collectives.all_reduce_folder import folded
from hloom.passes.collectives.groups import (
    devices_of,
    in_mode,
    is_plain,
    module_of,
    reduction_of,
    sole_reader,
    widens,
)
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove, is_one_number
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register

_LINEAR = opcodes(RESHAPES, also=("transpose", "slice", "copy", "negate"))


@register
class ArCrsCombiner(CollectiveMotion):
    """Replace all-reduce(f(all-reduce(x))), f linear, by all-reduce(f(x)) among all of both."""

    name = "ar-crs-combiner"
    opcodes = frozenset(["all-reduce"])
    what = "combined"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        outer = devices_of(i) if is_plain(i) and reduction_of(i) == "add" else None
        if outer is None or not _is_number(i):
            return None
        between, first = _between(i)
        inner = devices_of(first) if first is not None else None
        if first is None or inner is None or not between:
            return None
        groups = folded(inner, outer, counts=True)
        written = None if groups is None else in_mode(groups, i.attrs, module_of(i))
        if groups is None or written is None or not _are_linear(between, first, groups):
            return None
        x, was = first.operands[0], first
        for f in between:
            x, was = b.like(f, *[x if o is was else o for o in f.operands]), f
        new = b.like(i, x)
        new.attrs = replace(new.attrs, replica_groups=written)
        return CollectiveMove(i, new, [*reversed(between), first])


def _is_number(i: Instruction) -> bool:
    return i.shape.dtype.is_floating or i.shape.dtype.is_integral


def _between(i: Instruction) -> tuple[list[Instruction], Instruction | None]:
    """What stands between an all-reduce and the one before, in order, and that one."""
    between: list[Instruction] = []
    x = i.operands[0]
    while True:
        if sole_reader(x) is None or x.has_control_edges or not x.shape.is_array:
            return between, None
        if x.opcode == "all-reduce":
            is_sum = is_plain(x) and reduction_of(x) == "add"
            return between[::-1], x if is_sum and x.shape.dtype is x.operands[
                0
            ].shape.dtype else None
        between.append(x)
        if x.opcode in _LINEAR or x.opcode == "convert":
            x = x.operands[0]
        elif x.opcode == "multiply" and x.shape.dtype.is_floating:
            wide = [o for o in x.operands if o.shape.rank or o.opcode == "all-reduce"]
            varying = [o for o in wide if o.opcode != "broadcast" or o.operands[0].shape.rank]
            if len(varying) != 1:
                return between, None
            x = varying[0]
        else:
            return between, None


def _are_linear(between: list[Instruction], x: Instruction, groups: Groups) -> bool:
    """Whether all that is between takes a sum over these devices to the sum."""
    for f in between:
        if f.opcode == "convert" and not widens(x.shape, f.shape):
            return False
        if f.opcode == "multiply":
            others = [o for o in f.operands if o is not x]
            if len(others) != 1 or not is_one_number(others[0], groups):
                return False
        elif f.opcode != "convert" and f.shape.dtype is not x.shape.dtype:
            return False
        x = f
    return True
