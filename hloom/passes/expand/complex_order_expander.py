"""What orders complex numbers, written with their parts.

StableHLO orders them by their real parts, and where these are equal by the imaginary ones; so do
`maximum`, `minimum`, `clamp` and `compare` of HLO here. A choice falls on the second operand where
a NaN is in the way.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register

_STRICT = {"GT": "GT", "GE": "GT", "LT": "LT", "LE": "LT"}


def _in_order(b: Expansion, direction: str, x: Instruction, y: Instruction) -> Instruction:
    """x DIRECTION y by both parts; a mask."""
    p, q = b.emit("real", x), b.emit("real", y)
    r, s = b.emit("imag", x), b.emit("imag", y)
    last = b.and_(b.compared(p, q, "EQ"), b.compared(r, s, direction))
    return b.or_(b.compared(p, q, _STRICT[direction]), last)


def _later(b: Expansion, x: Instruction, y: Instruction) -> Instruction:
    return b.select(_in_order(b, "GT", x, y), x, y)


def _earlier(b: Expansion, x: Instruction, y: Instruction) -> Instruction:
    return b.select(_in_order(b, "LT", x, y), x, y)


@register
class ComplexOrderExpander(Expander):
    """Write comparisons and choices of complex numbers with their real and imaginary parts."""

    name = "complex-order-expander"
    opcodes = frozenset(["clamp", "compare", "maximum", "minimum"])

    def wants(self, i: Instruction) -> bool:
        if not i.operands[0].shape.dtype.is_complex or i.operands[0].shape.is_dynamic:
            return False
        return i.opcode != "compare" or i.attrs.direction in _STRICT

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.opcode == "compare":
            return _in_order(b, i.attrs.direction, *i.operands)
        if i.opcode == "clamp":
            low, x, high = i.operands
            if x.shape.is_dynamic:
                return None
            low, high = (y if y.shape.dims else b.spread(y, x.shape.dims) for y in (low, high))
            return _earlier(b, _later(b, x, low), high)
        return (_later if i.opcode == "maximum" else _earlier)(b, *i.operands)
