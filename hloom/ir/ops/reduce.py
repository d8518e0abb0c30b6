"""Operations that fold many elements into few."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import linalg
from hloom.ir.infer import window as infer
from hloom.ir.kinds import Bool, Dims, Float, Int, WindowKind
from hloom.ir.op import Called, Operand, Operands, op
from hloom.ir.traits import ANY_PRECISION, CHANGES_LAYOUT, LAYOUT_OF_OPERAND, MIXES_FLOATS
from hloom.ir.values.window import Window
from hloom.types.shape import Shape


@op("map")
class Map:
    """out[i] = to_apply(inputs[0][i], inputs[1][i], ...), to_apply on scalars."""

    inputs: Operands
    dimensions: Dims = ()
    to_apply: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """The one shape of the inputs, with the element type that to_apply returns."""
        return infer.map_(inputs, called)


@op("reduce", CHANGES_LAYOUT)
class Reduce:
    """n inputs then n initial values: fold to_apply over the elements along dimensions; a tuple
    when n > 1.
    """

    inputs: Operands
    dimensions: Dims = ()
    to_apply: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """The shape of each input without the dimensions; to_apply takes and returns scalars."""
        return infer.reduce(inputs, self.dimensions, called)


@op("reduce-window", MIXES_FLOATS)
class ReduceWindow:
    """n inputs then n initial values: fold to_apply over each window position (padding is the
    initial value).
    """

    inputs: Operands
    window: WindowKind = Window(())
    to_apply: Called

    def shape(self, *inputs: Shape, called: tuple) -> Shape:
        """In each dimension as many as there are window positions; to_apply takes and returns
        scalars.
        """
        return infer.reduce_window(inputs, self.window, called)


@op("scan", CHANGES_LAYOUT, ANY_PRECISION)
class Scan:
    """Inputs and initial carries: to_apply(slice, carry) -> (output slice, carry) along
    dimensions[0].
    """

    inputs: Operands
    dimensions: Dims
    num_carries: Int = 0
    is_reverse: Bool = False
    is_associative: Bool = False
    to_apply: Called

    def check(self, declared: Shape, *inputs: Shape, called: tuple) -> None:
        """As written: the outputs, then the carries, as to_apply returns them."""
        infer.check_scan(declared, inputs, self.dimensions, self.num_carries, called)


@op("select-and-scatter", LAYOUT_OF_OPERAND)
class SelectAndScatter:
    """For each window of x, the element chosen by select receives (by scatter) the matching
    element of source.
    """

    x: Operand
    source: Operand
    init: Operand
    window: WindowKind = Window(())
    select: Called
    scatter: Called

    def shape(self, x: Shape, source: Shape, init: Shape, called: tuple) -> Shape:
        """The shape of x; source has one element for each window position."""
        return infer.select_and_scatter(x, source, init, self.window, called)


@op("batch-norm-grad")
class BatchNormGrad:
    """Gradients (of x, of scale, of offset) of batch normalisation."""

    x: Operand
    scale: Operand
    mean: Operand
    variance: Operand
    grad_output: Operand
    epsilon: Float
    feature_index: Int

    def shape(
        self, x: Shape, scale: Shape, mean: Shape, variance: Shape, grad_output: Shape
    ) -> Shape:
        """(shape of x, a vector of the features, the same again)."""
        vectors = (scale, mean, variance)
        return linalg.batch_norm_grad(x, vectors, grad_output, self.feature_index)


@op("batch-norm-inference", LAYOUT_OF_OPERAND)
class BatchNormInference:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset along feature_index."""

    x: Operand
    scale: Operand
    offset: Operand
    mean: Operand
    variance: Operand
    epsilon: Float
    feature_index: Int

    def shape(self, x: Shape, scale: Shape, offset: Shape, mean: Shape, variance: Shape) -> Shape:
        """The shape of x; the vectors have one element for each feature."""
        vectors = (scale, offset, mean, variance)
        return linalg.batch_norm_inference(x, vectors, self.feature_index)


@op("batch-norm-training")
class BatchNormTraining:
    """(x normalised by its own mean and variance per feature, that mean, that variance)."""

    x: Operand
    scale: Operand
    offset: Operand
    epsilon: Float
    feature_index: Int

    def shape(self, x: Shape, scale: Shape, offset: Shape) -> Shape:
        """(shape of x, a vector of the features, the same again)."""
        return linalg.batch_norm_training(x, scale, offset, self.feature_index)
