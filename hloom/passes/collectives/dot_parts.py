"""Dots of parts of their operands: which dimensions go together, and what such a dot is."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expansion
from hloom.types.dtype import F32, DType
from hloom.types.shape import shape


def free_dimensions(dot: Instruction, side: int) -> dict[int, int]:
    """Of the dimensions of an operand that it alone has, those of the result."""
    a = dot.attrs
    taken = (
        {*a.lhs_batch_dims, *a.lhs_contracting_dims},
        {*a.rhs_batch_dims, *a.rhs_contracting_dims},
    )
    free = [
        [d for d in range(x.shape.rank) if d not in taken[k]] for k, x in enumerate(dot.operands)
    ]
    first = len(a.lhs_batch_dims) + (len(free[0]) if side else 0)
    return {d: first + k for k, d in enumerate(free[side])}


def operand_dimensions(dot: Instruction, o: int) -> list[tuple[int, int]]:
    """(operand, dimension) of a dimension of the result."""
    a = dot.attrs
    if o < len(a.lhs_batch_dims):
        return [(0, a.lhs_batch_dims[o]), (1, a.rhs_batch_dims[o])]
    return [
        (side, d) for side in (0, 1) for d, out in free_dimensions(dot, side).items() if out == o
    ]


def dot_of_parts(
    b: Expansion, i: Instruction, operands: Sequence[Instruction], dtype: DType
) -> Instruction:
    """The dot of parts of its operands."""
    a = i.attrs
    x, y = operands
    dims = [x.shape.dims[d] for d in (*a.lhs_batch_dims, *free_dimensions(i, 0))]
    dims += [y.shape.dims[d] for d in free_dimensions(i, 1)]
    return b.emit(
        "dot",
        x,
        y,
        lhs_batch_dims=a.lhs_batch_dims,
        lhs_contracting_dims=a.lhs_contracting_dims,
        rhs_batch_dims=a.rhs_batch_dims,
        rhs_contracting_dims=a.rhs_contracting_dims,
        operand_precision=a.operand_precision,
        algorithm=a.algorithm,
        shape=shape(dtype, dims),
    )


def sum_type(dtype: DType) -> DType:
    """What sums of many products are kept in."""
    return F32 if dtype.is_floating and dtype.bits < 32 else dtype


def is_number(dot: Instruction) -> bool:
    """Whether a dot is one of arrays of known sizes, of numbers that can be added."""
    if any(x.shape.is_dynamic for x in (*dot.operands, dot)) or dot.has_control_edges:
        return False
    return not dot.shape.dtype.is_pred
