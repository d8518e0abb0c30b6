"""The custom call `Eigh`, by which XLA's builders ask for eigenvectors of Hermitian matrices.

TensorFlow and PyTorch/XLA write it: of `[.., n, n]`, with the result `([.., n, n], [.., n])`,
vectors as columns and real values. Its text says "lower, sort, most sweeps, tolerance".
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction

TARGET = "Eigh"


def is_eigh(i: Instruction) -> bool:
    """Whether this is such a call, with the operand and the results of one."""
    if i.opcode != "custom-call" or i.attrs.custom_call_target != TARGET or len(i.operands) != 1:
        return False
    x, parts = i.operands[0].shape, i.shape.elements if i.shape.is_tuple else ()
    if len(parts) != 2 or any(s.is_dynamic or not s.is_array for s in (x, *parts)):
        return False
    if x.rank < 2 or x.dims[-1] != x.dims[-2] or x.dtype.bits < 16:
        return False
    vectors, values = parts
    return (
        (x.dtype.is_floating or x.dtype.is_complex)
        and (vectors.dtype, vectors.dims) == (x.dtype, x.dims)
        and (values.dtype, values.dims) == (x.dtype.component, x.dims[:-1])
    )


def words(i: Instruction) -> list[str]:
    """What the call says, one by one."""
    text = i.backend_config.raw if i.backend_config is not None else ""
    return [word.strip() for word in text.split(",")]


def reads_lower(i: Instruction) -> bool:
    """Whether the lower triangle is read, as the call says; it is where nothing is said."""
    return words(i)[0] != "0"
