"""Maxima and minima of floats, folded as those of integers.

Of two floats the larger one takes five instructions where the machine has none that brings NaN
through and knows 0 from -0. The bits of a float, those below the sign turned over where it is set,
are integers in the order of the numbers, -0 below 0. NaN of either sign stand beyond the infinities
at both ends; an offset makes them wrap around, all to the end that wins. So a number costs three
instructions of which none waits for another, and a comparison one; of 16 bits twice as many fit
into a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.codegen.elements import Elements
from hloom.device.device import Device
from hloom.kernel.kernel import Value
from hloom.types.dtype import BF16, F16, F32, S16, S32, DType

# A device whose maximum of floats is not dearer than so many cheap operations needs no keys.
PLAIN_WEIGHT = 1.0
KEYS = {F32: S32, BF16: S16, F16: S16}
"""The integers of types whose largest exponents are those of infinities and NaN."""


@dataclass(frozen=True)
class ExtremeKeys:
    """Which values of a fold are folded as integers: the type of the floats of each, or None."""

    kinds: tuple[str, ...]
    floats: tuple[DType | None, ...]

    def types(self, types: Sequence[DType]) -> list[DType]:
        """Of what is folded, of values of these types."""
        return [x if of is None else KEYS[of] for of, x in zip(self.floats, types, strict=True)]

    def of(self, begin: int, count: int) -> ExtremeKeys:
        """Those of some of the values."""
        end = begin + count
        return ExtremeKeys(self.kinds[begin:end], self.floats[begin:end])

    def keys(self, e: Elements, values: Sequence[Value]) -> list[Value]:
        """What is folded."""
        pairs = zip(self.kinds, self.floats, values, strict=True)
        return [x if of is None else _key(e, kind, of, x) for kind, of, x in pairs]

    def floats_of(self, e: Elements, values: Sequence[Value]) -> list[Value]:
        """The values of what was folded; NaN are some NaN."""
        pairs = zip(self.kinds, self.floats, values, strict=True)
        return [x if of is None else _float(e, kind, of, x) for kind, of, x in pairs]


def extreme_keys(
    device: Device, kinds: Sequence[str] | None, types: Sequence[DType]
) -> ExtremeKeys | None:
    """How a fold by these operations becomes one of integers; None where it does not."""
    if kinds is None or device.costs.extreme_weight <= PLAIN_WEIGHT:
        return None
    floats = [
        of if kind in ("maximum", "minimum") and of in KEYS else None
        for kind, of in zip(kinds, types, strict=True)
    ]
    return ExtremeKeys(tuple(kinds), tuple(floats)) if any(floats) else None


def _key(e: Elements, kind: str, of: DType, x: Value) -> Value:
    b = e.builder
    bits = b.unary("bitcast-convert", x, KEYS[of])
    return b.binary("add", _turned(e, bits), b.constant(bits.dtype, _offset(kind, of), bits.shape))


def _float(e: Elements, kind: str, of: DType, key: Value) -> Value:
    b = e.builder
    turned = b.binary("subtract", key, b.constant(key.dtype, _offset(kind, of), key.shape))
    return b.unary("bitcast-convert", _turned(e, turned), of)


def _offset(kind: str, of: DType) -> int:
    """What brings the infinity that loses to the end of the integers."""
    beyond = (1 << of.mantissa_bits) - 1
    return -beyond if kind == "maximum" else beyond


def _turned(e: Elements, bits: Value) -> Value:
    """The bits below the sign turned over where it is set: its own inverse."""
    b, of = e.builder, bits.dtype
    sign = b.binary("shift-right-arithmetic", bits, b.constant(of, of.bits - 1, bits.shape))
    below = b.binary("and", sign, b.constant(of, (1 << (of.bits - 1)) - 1, bits.shape))
    return b.binary("xor", bits, below)
