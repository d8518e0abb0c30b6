"""Convolution."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import conv as infer
from hloom.ir.infer.dot import check_dimensions
from hloom.ir.kinds import DimLabels, Int, Precisions, Raw, WindowKind, enumeration
from hloom.ir.op import Operand, op
from hloom.ir.traits import ANY_PRECISION, CHANGES_LAYOUT, CONTRACTS, MIXES_FLOATS
from hloom.ir.values.window import Window
from hloom.types.shape import Shape

ConvolutionKind = enumeration("convolution kind", "fprop", "dgrad", "wgrad")


@op("convolution", CONTRACTS, CHANGES_LAYOUT, MIXES_FLOATS, ANY_PRECISION)
class Convolution:
    """Sliding dot products of the window rhs over lhs; dim_labels names the dimensions of lhs,
    rhs and out. Between the elements of an lhs moved apart (lhs_dilate) and around it are zeros.
    The interpreter multiplies them, so that a NaN or infinite weight makes NaN there; native code
    does so where it reads them, and often reads none (padding that a whole tile of rows sees, or
    all places of a window but one). XLA:CPU multiplies those of padding, and with feature groups
    those between elements.
    """

    lhs: Operand
    rhs: Operand
    window: WindowKind = Window(())
    dim_labels: DimLabels
    feature_group_count: Int = 1
    batch_group_count: Int = 1
    operand_precision: Precisions = ()
    convolution_kind: ConvolutionKind = None
    sparsity_config: Raw = None

    def shape(self, lhs: Shape, rhs: Shape) -> Shape:
        """Batch of lhs, output features of rhs, and as many window positions as fit in each spatial
        dimension; the input features of rhs are those of lhs / feature_group_count.
        """
        return infer.convolution(
            lhs,
            rhs,
            self.window,
            self.dim_labels,
            self.feature_group_count,
            self.batch_group_count,
        )

    def check(self, declared: Shape, lhs: Shape, rhs: Shape) -> None:
        check_dimensions(declared, self.shape(lhs, rhs))
