"""Which attributes each op of a kernel has: one table for the printer, the reader, the verifier.

`for` and `constant` are not here: what they carry besides operands is part of their syntax.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from hloom.kernel.kernel import FOLDS

DIRECTIONS: Final = ("EQ", "NE", "LT", "LE", "GT", "GE")
"""What `compare` asks."""


class Attribute(NamedTuple):
    """One attribute: `kind` is 'int', 'ints', 'word' or 'flag'."""

    name: str
    kind: str
    words: tuple[str, ...] = ()
    default: Any = None
    """The value that text leaves out; None where it must be written."""


_AXIS = Attribute("axis", "int")
_FOLD = Attribute("kind", "word", tuple(sorted(FOLDS)))
_STRIDES = Attribute("strides", "ints", (), ())

ATTRIBUTES: Final[dict[str, tuple[Attribute, ...]]] = {
    "alloc": (Attribute("size", "int"),),
    "compare": (
        Attribute("direction", "word", DIRECTIONS),
        Attribute("order", "word", ("", "total"), ""),
    ),
    "concatenate": (_AXIS,),
    "iota": (_AXIS,),
    "load": (_STRIDES, Attribute("far", "flag", (), False)),
    "prefetch": (Attribute("ahead", "ints", (), (0,)), Attribute("nearest", "flag", (), False)),
    "reduce": (_AXIS, _FOLD),
    "reduce-precision": (Attribute("exponent_bits", "int"), Attribute("mantissa_bits", "int")),
    "scan": (_AXIS, _FOLD, Attribute("reverse", "flag", (), False)),
    "slice": (_AXIS, Attribute("start", "int"), Attribute("size", "int")),
    "store": (_STRIDES, Attribute("nontemporal", "flag", (), False)),
    "transpose": (Attribute("permutation", "ints"),),
}
"""From an opcode to its attributes in the order of text."""
