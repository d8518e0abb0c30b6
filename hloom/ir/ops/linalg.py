"""Linear algebra."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import linalg as infer
from hloom.ir.kinds import Bool, enumeration
from hloom.ir.op import Operand, op
from hloom.ir.traits import CHANGES_LAYOUT, LAYOUT_OF_OPERAND
from hloom.types.shape import Shape

TransposeA = enumeration("transpose", "TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


@op("cholesky", LAYOUT_OF_OPERAND, CHANGES_LAYOUT)
class Cholesky:
    """The triangular factor of each symmetric positive definite matrix; NaN where there is none."""

    a: Operand
    lower: Bool = False

    def shape(self, a: Shape) -> Shape:
        """The shape of a, whose last two dimensions are equal."""
        return infer.cholesky(a)


@op("triangular-solve", CHANGES_LAYOUT)
class TriangularSolve:
    """x with op(a) x = b, or x op(a) = b when not left_side, a triangular."""

    a: Operand
    b: Operand
    left_side: Bool = False
    lower: Bool = False
    unit_diagonal: Bool = False
    transpose_a: TransposeA = "TRANSPOSE_INVALID"

    def shape(self, a: Shape, b: Shape) -> Shape:
        """The shape of b; a is square and shares its batch dimensions."""
        return infer.triangular_solve(a, b, self.left_side, self.transpose_a)
