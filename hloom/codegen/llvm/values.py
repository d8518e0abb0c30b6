"""What LLVM text computes with: values, their types, and constants as exact text.

A value is a name and a type. A uniform constant is a value whose name is the constant itself, so
that it is written into every instruction that uses it and needs no line of its own. Floats are
written as bits, which no reader rounds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from functools import cache, lru_cache

from hloom.base.diagnostics import HloError

LLVM_NAME = {
    "i1": "i1",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "i128": "i128",
    "f16": "half",
    "bf16": "bfloat",
    "f32": "float",
    "f64": "double",
    "ptr": "ptr",
}
"""LLVM's word for each kind of scalar."""

BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "i128": 128,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "ptr": 64,
}
"""Width of a scalar of each kind."""

INTEGER_OF_BITS = {1: "i1", 8: "i8", 16: "i16", 32: "i32", 64: "i64", 128: "i128"}
FLOATS = frozenset(["f16", "bf16", "f32", "f64"])


class V:
    """A value of a function: a scalar (lanes 1) or a vector of `lanes` scalars of one kind.

    `name` is `%v7`, or the text of a constant. `depth` is how many scopes (loops, branches) are
    open where it is defined; 0 for constants and arguments. `value` is the number that every lane
    of a uniform constant holds, else None.
    """

    __slots__ = ("depth", "kind", "lanes", "name", "type", "value")

    def __init__(
        self,
        name: str,
        kind: str,
        lanes: int = 1,
        depth: int = 0,
        value: int | float | None = None,
        type: str | None = None,
    ) -> None:
        self.name, self.kind, self.lanes, self.depth, self.value = name, kind, lanes, depth, value
        self.type = type or type_text(kind, lanes)

    def __repr__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def typed(self) -> str:
        """Type and name, as an operand of an instruction that does not imply the type."""
        return f"{self.type} {self.name}"


@cache
def type_text(kind: str, lanes: int) -> str:
    """The LLVM type: `float`, `<16 x float>`."""
    word = LLVM_NAME.get(kind)
    if word is None or lanes < 1:
        raise HloError(f"no LLVM type of kind {kind!r} with {lanes} lanes", rule="llvm-type")
    return word if lanes == 1 else f"<{lanes} x {word}>"


def wrapped(kind: str, value: int) -> int:
    """The integer that `value` is modulo two to the width, read as signed (i1: 0 or 1)."""
    bits = BITS[kind]
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def float_bits(kind: str, value: float) -> int:
    """The bits of `value` rounded to nearest even to a float kind; overflow gives infinity."""
    if kind == "f64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if kind == "bf16":
        single = float_bits("f32", value)
        if math.isnan(value):
            return (single >> 16) | 0x40
        return (single + 0x7FFF + ((single >> 16) & 1)) >> 16
    code, integer = ("f", "I") if kind == "f32" else ("e", "H")
    try:
        return struct.unpack("<" + integer, struct.pack("<" + code, value))[0]
    except OverflowError:
        infinite = math.copysign(math.inf, value)
        return struct.unpack("<" + integer, struct.pack("<" + code, infinite))[0]


def scalar_text(kind: str, value: int | float) -> str:
    """The text of a scalar constant: `-5`, `0x3FF0000000000000`, `0xR3F80`."""
    if kind == "f64" or kind == "f32":
        # LLVM writes a float as the double of the same value.
        rounded = value
        if kind == "f32" and value == value:
            rounded = struct.unpack("<f", struct.pack("<I", float_bits(kind, value)))[0]
        return f"0x{float_bits('f64', rounded):016X}"
    if kind == "f16":
        return f"0xH{float_bits(kind, value):04X}"
    if kind == "bf16":
        return f"0xR{float_bits(kind, value):04X}"
    if kind == "ptr":
        if value:
            raise HloError("the only constant pointer is null", rule="llvm-constant")
        return "null"
    if kind == "i1":
        return "true" if value else "false"
    return str(wrapped(kind, int(value)))


def constant(kind: str, value: int | float, lanes: int = 1) -> V:
    """The value whose lanes all are `value`, rounded to the kind."""
    if type(value) is int and kind not in FLOATS:
        return _integer(kind, value, lanes)
    return _constant(kind, value, lanes)


def _constant(kind: str, value: int | float, lanes: int) -> V:
    if kind not in LLVM_NAME:
        raise HloError(f"no LLVM type of kind {kind!r}", rule="llvm-type")
    text = scalar_text(kind, value)
    if lanes > 1:
        text = f"splat ({LLVM_NAME[kind]} {text})"
    if kind not in FLOATS:
        value = wrapped(kind, int(value))
    return V(text, kind, lanes, 0, value)


_integer = lru_cache(maxsize=4096)(_constant)
"""Offsets and lengths, of which kernels have the same ones again and again."""


def constant_vector(kind: str, values: Iterable[int | float]) -> V:
    """The vector of these values, one per lane (a scalar of one value)."""
    values = list(values)
    if len(values) == 1:
        return constant(kind, values[0])
    word = LLVM_NAME[kind]
    inside = ", ".join(f"{word} {scalar_text(kind, value)}" for value in values)
    return V(f"<{inside}>", kind, len(values))
