"""Floats of 16 bits that are what memory would hold, though kernels compute with more digits.

Where a function jumps, further digits decide: of 2.9999, which f16 holds as 3, the floor is 2;
`x == max(x)` is nowhere true if the maximum comes from memory and x does not; 300 squared, infinite
in f16, is finite. So what such a function reads is rounded, and not for it alone:

    where(y >= 3, sqrt(y - 3), 0)  =>  r = reduce-precision(y); where(r >= 3, sqrt(r - 3), 0)

may only choose roots of what is positive. Every reader sees the rounded number, in whatever kernel
it is computed: `reduce-precision` to the digits of its own type changes no value of that type, and
tells kernels where further digits end. All else keeps them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.order import is_applied
from hloom.ir.traits import (
    CHOOSES,
    CONTRACTS,
    CONTROL_FLOW,
    DISCONTINUOUS,
    ELEMENTWISE,
    IDEMPOTENT,
    JOINS,
    MOVES,
    RESHAPES,
    RETYPES,
)
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.pass_ import register
from hloom.types.dtype import F32, DType

STEPS = opcodes(DISCONTINUOUS)
PASSES_ON = opcodes(
    CHOOSES, IDEMPOTENT, JOINS, MOVES, RESHAPES, also=("abs", "clamp", "convert", "negate")
)
"""What gives an element of an operand, or the same number with another sign or in another type."""
WHOLE = opcodes(DISCONTINUOUS, without=("compare", "is-finite", "remainder"))
"""Of a number that its type holds these have a result that it holds."""
COMPUTES = opcodes(
    ELEMENTWISE,
    CONTRACTS,
    also=("iota", "reduce", "reduce-window"),
    without=(*PASSES_ON, *WHOLE, *opcodes(RETYPES), "reduce-precision"),
)
"""What may have more digits than its type."""
PROGRAMS = opcodes(CONTROL_FLOW, also=("fusion", "custom-call"))
"""What calls computations that read memory."""


class Read(NamedTuple):
    """A number that decides; perhaps only whether it is above, at or below zero. Rounding keeps
    the sign, but of what is less than half the least number."""

    x: Instruction
    at_zero: bool


@register
class DiscontinuityRounding(ComputationPass):
    """Round what kernels compute in 16-bit floats where comparisons, floor and the like read it."""

    name = "discontinuity-rounding"

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        if c.is_fusion or is_applied(c):
            return ()
        to_round = _to_round(c)
        for x in to_round:
            readers, t = list(x.users), x.shape.dtype
            r = c.add(
                "reduce-precision",
                x,
                shape=x.shape,
                exponent_bits=t.exponent_bits,
                mantissa_bits=t.mantissa_bits,
            )
            r.metadata = x.metadata
            for reader in readers:
                reader.replace_operand(x, r)
            if c.root is x:
                c.root = r
        fired["rounded"] += len(to_round)
        return (c,) if to_round else ()


def _to_round(c: Computation) -> list[Instruction]:
    """What is computed and decides where a function jumps, itself or as what another passes on."""
    work = [x for i in c.instructions for x in _decides(i)]
    known: set[Read] = set()
    half: dict[Instruction, None] = {}
    while work:
        read = work.pop()
        x, dtype = read.x, read.x.shape.dtype
        if read in known or not (x.shape.is_array and dtype.is_floating):
            continue
        known.add(read)
        if x.opcode in PASSES_ON:
            work += [Read(y, read.at_zero) for y in x.operands]
        elif dtype.is_half and _computes(x) and (not read.at_zero or _asks_at_zero(dtype)):
            half[x] = None
    return list(half)


def _computes(x: Instruction) -> bool:
    if x.opcode == "get-tuple-element":
        return x.operands[0].opcode in COMPUTES
    return x.opcode in COMPUTES


def _decides(i: Instruction) -> list[Read]:
    """Whose further digits may decide what an operation gives."""
    if not i.operands:
        return []
    if i.called and i.opcode not in PROGRAMS:  # a comparator, or what finds the largest
        inside = [read for c in i.called for x in c.instructions for read in _decides(x)]
        return [Read(x, all(r.at_zero for r in inside)) for x in i.operands] if inside else []
    if i.opcode not in STEPS and not _drops_digits(i):
        return []
    to_pred = i.opcode == "convert" and i.shape.dtype.is_pred
    at_zero = i.opcode == "sign" or to_pred or any(_is_zero(x) for x in i.operands)
    return [Read(x, at_zero) for x in i.operands]


def _drops_digits(i: Instruction) -> bool:
    """Whether it rounds to other numbers than those of 16 bits."""
    if i.opcode == "convert":
        t = i.shape.dtype
        return not t.is_complex and (not t.is_floating or t.size_bytes == 1)
    if i.opcode != "reduce-precision":
        return False
    own = i.operands[0].shape.dtype
    return own.mantissa_bits > i.attrs.mantissa_bits or own.exponent_bits > i.attrs.exponent_bits


def _asks_at_zero(t: DType) -> bool:
    """Whether what is not zero may round to it: with fewer exponents than are computed with."""
    return t.exponent_bits < F32.exponent_bits


def _is_zero(x: Instruction) -> bool:
    while x.opcode == "broadcast":
        x = x.operands[0]
    return x.opcode == "constant" and x.shape.rank == 0 and not x.attrs.literal.array.any()
