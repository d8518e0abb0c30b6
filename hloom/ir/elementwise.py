"""Elementwise operations of whole arrays of one type, from their declarations.

The languages and tools that have every such operation (kernels, random instances) ask here and list
none: what is declared in `ops/elementwise*.py` is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from hloom.ir.op import OPS, OpDef, ShapeError, opcode_table, opcodes_where
from hloom.ir.traits import ELEMENTWISE
from hloom.types.dtype import C64, F32, PRED, S32, DType
from hloom.types.shape import shape

OF_CLASS = {"f": F32, "c": C64, "i": S32, "p": PRED}
"""A type of each class: f(loat), c(omplex), i(nteger), p(red)."""


def _of_operands(count: int) -> Callable[[OpDef], bool]:
    """Whether the result follows from so many operands, nothing else being said."""

    def holds(declared: OpDef) -> bool:
        return (
            ELEMENTWISE in declared.traits
            and declared.infers
            and declared.empty is not None
            and declared.operand_count == count
        )

    return holds


UNARY = opcodes_where(_of_operands(1))
BINARY = opcodes_where(_of_operands(2))


@lru_cache(maxsize=1024)
def result_type(opcode: str, dtype: DType) -> DType:
    """The element type of the result on operands of one type.

    Raises `ShapeError` where the operation is not defined for it.
    """
    declared = OPS[opcode]
    one = shape(dtype, ())
    return declared.infer(declared.empty, (one,) * len(declared.operands)).dtype


def _classes(declared: OpDef) -> str | None:
    if declared.name not in UNARY and declared.name not in BINARY:
        return None
    defined = ""
    for letter, dtype in OF_CLASS.items():
        try:
            result_type(declared.name, dtype)
        except ShapeError:
            continue
        defined += letter
    return defined


CLASSES = opcode_table(_classes)
"""The classes of types that the shape rule of each admits, such as "fc"."""
