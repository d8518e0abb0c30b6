"""Contractions."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import AlgorithmKind, Dims, Precisions
from hloom.ir.op import Operand, op


@op("dot")
class Dot:
    """out[batch, m, n] = sum over the contracting dimensions of lhs[batch, m, k] * rhs[batch, k, n]."""

    lhs: Operand
    rhs: Operand
    lhs_batch_dims: Dims = ()
    lhs_contracting_dims: Dims = ()
    rhs_batch_dims: Dims = ()
    rhs_contracting_dims: Dims = ()
    operand_precision: Precisions = ()
    algorithm: AlgorithmKind = None


@op("ragged-dot")
class RaggedDot:
    """A dot whose ragged lhs dimension is cut into groups of group_sizes; each group meets its own slice of rhs (or makes its own slice of out)."""

    lhs: Operand
    rhs: Operand
    group_sizes: Operand
    lhs_batch_dims: Dims = ()
    lhs_contracting_dims: Dims = ()
    rhs_batch_dims: Dims = ()
    rhs_contracting_dims: Dims = ()
    lhs_ragged_dims: Dims = ()
    rhs_group_dims: Dims = ()
    operand_precision: Precisions = ()


@op("scaled-dot")
class ScaledDot:
    """The dot of lhs * lhs_scale and rhs * rhs_scale, each scale repeated over blocks (IR-09)."""

    lhs: Operand
    rhs: Operand
    lhs_scale: Operand
    rhs_scale: Operand
    lhs_batch_dims: Dims = ()
    lhs_contracting_dims: Dims = ()
    rhs_batch_dims: Dims = ()
    rhs_contracting_dims: Dims = ()
    operand_precision: Precisions = ()
    algorithm: AlgorithmKind = None
