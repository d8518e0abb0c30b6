"""stochastic-convert as arithmetic in f64, which holds all values and random numbers exactly.

The result is one of the two neighbours of x in the target type: the one away from zero where the
random number, as a fraction of its range, is below the part that was cut off.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.facts import without
from hloom.passes.pass_ import register
from hloom.types.dtype import F64, S64, DType
from hloom.types.shape import shape

_BIAS = 1023
_MANTISSA = 52


def _signed(b: Expansion, magnitude: Instruction, like: Instruction) -> Instruction:
    """The magnitude with the sign of `like` (of zeros too)."""
    dims = like.shape.dims
    top = b.full(-(1 << 63), S64, dims)
    sign = b.and_(b.emit("bitcast-convert", like, shape=shape(S64, dims)), top)
    bits = b.emit("bitcast-convert", magnitude, shape=shape(S64, dims))
    return b.emit("bitcast-convert", b.or_(bits, sign), shape=shape(F64, dims))


def _step(b: Expansion, x: Instruction, target: DType) -> Instruction:
    """The distance between the neighbours of |x| in the target type, a power of two."""
    dims = x.shape.dims
    by = b.full(_MANTISSA, S64, dims)
    bits = b.emit("bitcast-convert", b.abs(x), shape=shape(S64, dims))
    exponent = b.shift_right_logical(bits, by)
    least = b.full(1 - target.exponent_bias + _BIAS, S64, dims)
    exponent = b.maximum(exponent, least)
    exponent = b.subtract(exponent, b.full(target.mantissa_bits, S64, dims))
    exponent = b.maximum(exponent, b.full(1, S64, dims))
    return b.emit("bitcast-convert", b.shift_left(exponent, by), shape=shape(F64, dims))


@register
class StochasticConvertDecomposer(Expander):
    """Write stochastic-convert as a choice between the two neighbouring values."""

    name = "stochastic-convert-decomposer"
    gives = (without("stochastic-convert"),)
    opcodes = frozenset(["stochastic-convert"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.shape.is_dynamic:
            return None
        x, random = i.operands
        dims, target = x.shape.dims, i.shape.dtype
        wide = b.converted(x, F64)
        scale = b.full(0.5**random.shape.dtype.bits, F64, dims)
        threshold = b.multiply(b.converted(random, F64), scale)
        if target.is_integral:
            whole = _signed(b, b.floor(b.abs(wide)), wide)
            up = b.compared(threshold, b.abs(b.subtract(wide, whole)), "LT")
            moved = b.add(whole, _signed(b, b.converted(up, F64), wide))
            return b.converted(moved, target)
        step = _step(b, wide, target)
        low = b.multiply(b.floor(b.divide(b.abs(wide), step)), step)
        part = b.divide(b.subtract(b.abs(wide), low), step)
        away = b.compared(threshold, part, "LT")
        chosen = _signed(b, b.select(away, b.add(low, step), low), wide)
        return b.converted(b.select(b.emit("is-finite", wide), chosen, wide), target)
