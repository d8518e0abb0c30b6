"""Contractions."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import dot as infer
from hloom.ir.kinds import AlgorithmKind, Dims, Precisions
from hloom.ir.op import Operand, op
from hloom.ir.traits import ANY_PRECISION, CHANGES_LAYOUT, CONTRACTS, MIXES_FLOATS, SHAPE_IN_TEXT
from hloom.types.shape import Shape


@op("dot", CONTRACTS, CHANGES_LAYOUT, MIXES_FLOATS, ANY_PRECISION)
class Dot:
    """out[batch, m, n] = sum over the contracting dimensions of lhs[batch, m, k] * rhs[batch, k,
    n].
    """

    lhs: Operand
    rhs: Operand
    lhs_batch_dims: Dims = ()
    lhs_contracting_dims: Dims = ()
    rhs_batch_dims: Dims = ()
    rhs_contracting_dims: Dims = ()
    operand_precision: Precisions = ()
    algorithm: AlgorithmKind = None

    def shape(self, lhs: Shape, rhs: Shape) -> Shape:
        """Batch dimensions, then the free ones of lhs, then those of rhs; batch and contracting
        dimensions have the same sizes on both sides.
        """
        return infer.dot(self, lhs, rhs)

    def check(self, declared: Shape, lhs: Shape, rhs: Shape) -> None:
        infer.check_dimensions(declared, infer.dot(self, lhs, rhs))


@op("ragged-dot", CONTRACTS, CHANGES_LAYOUT, MIXES_FLOATS, ANY_PRECISION)
class RaggedDot:
    """A dot whose ragged lhs dimension is cut into groups of group_sizes; each group meets its
    own slice of rhs (or makes its own slice of out).
    """

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

    def shape(self, lhs: Shape, rhs: Shape, group_sizes: Shape) -> Shape:
        """As of dot; rhs has a group dimension, or the result has it in front when the contracting
        dimension is the ragged one.
        """
        return infer.ragged_dot(self, lhs, rhs, group_sizes)

    def check(self, declared: Shape, lhs: Shape, rhs: Shape, group_sizes: Shape) -> None:
        infer.check_dimensions(declared, infer.ragged_dot(self, lhs, rhs, group_sizes))


@op("scaled-dot", CONTRACTS, SHAPE_IN_TEXT, CHANGES_LAYOUT, MIXES_FLOATS, ANY_PRECISION)
class ScaledDot:
    """The dot of lhs * lhs_scale and rhs * rhs_scale, each scale repeated over blocks."""

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

    def shape(self, lhs: Shape, rhs: Shape, lhs_scale: Shape, rhs_scale: Shape) -> Shape:
        """As of dot; the sizes of each scale divide those of what it scales."""
        return infer.scaled_dot(self, lhs, rhs, lhs_scale, rhs_scale)

    def check(
        self, declared: Shape, lhs: Shape, rhs: Shape, lhs_scale: Shape, rhs_scale: Shape
    ) -> None:
        infer.check_dimensions(declared, infer.scaled_dot(self, lhs, rhs, lhs_scale, rhs_scale))
