"""Orders."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import Bool, Dims, Int
from hloom.ir.op import Called, Operand, Operands, op


@op("sort")
class Sort:
    """The inputs reordered together along dimensions[0] so that to_apply (less than) holds between neighbours."""

    inputs: Operands
    dimensions: Dims
    is_stable: Bool = False
    to_apply: Called


@op("topk")
class Topk:
    """(values, s32 indices) of the k largest (smallest) elements of the last dimension, in order, lower index first."""

    x: Operand
    k: Int
    largest: Bool = True
    is_stable: Bool = False
