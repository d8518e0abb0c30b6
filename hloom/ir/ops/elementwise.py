"""Operations that act on each element of one array alone."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import elementwise as infer
from hloom.ir.infer.compare import retyped
from hloom.ir.kinds import Accuracy, Int
from hloom.ir.op import Operand, op
from hloom.ir.traits import (
    ANY_PRECISION,
    CHANGES_LAYOUT,
    DISCONTINUOUS,
    ELEMENTWISE,
    MIXES_FLOATS,
    RETYPES,
    SHAPE_IN_TEXT,
    TRANSCENDENTAL,
)
from hloom.types.dtype import PRED
from hloom.types.shape import Shape


class FloatFunction:
    """A function of floating-point elements."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are floats."""
        return infer.unary(x, infer.is_float, "floating-point")


class ComplexFunction(FloatFunction):
    """A function of floating-point or complex elements."""

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are floats or complex."""
        return infer.unary(x, infer.is_float_or_complex, "floating-point or complex")


class IntegerFunction(FloatFunction):
    """A function of integer elements."""

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are integers."""
        return infer.unary(x, infer.is_integer, "integer")


class ComplexPart(FloatFunction):
    """A real part of floating-point or complex elements."""

    def shape(self, x: Shape) -> Shape:
        """The dimensions of x; of a complex type the type of its parts."""
        return infer.component(x, infer.is_float_or_complex, "floating-point or complex")


@op("abs", ELEMENTWISE)
class Abs:
    """out[i] = |x|; for complex types the magnitude, of the component type."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The dimensions of x; of a complex type the type of its parts."""
        return infer.component(x, infer.is_signed_or_complex, "signed or complex")


@op("acos", ELEMENTWISE, TRANSCENDENTAL)
class Acos(ComplexFunction):
    """out[i] = arccosine."""

    result_accuracy: Accuracy = None


@op("acosh", ELEMENTWISE, TRANSCENDENTAL)
class Acosh(ComplexFunction):
    """out[i] = inverse hyperbolic cosine."""

    result_accuracy: Accuracy = None


@op("asin", ELEMENTWISE, TRANSCENDENTAL)
class Asin(ComplexFunction):
    """out[i] = arcsine."""

    result_accuracy: Accuracy = None


@op("asinh", ELEMENTWISE, TRANSCENDENTAL)
class Asinh(ComplexFunction):
    """out[i] = inverse hyperbolic sine."""

    result_accuracy: Accuracy = None


@op("atanh", ELEMENTWISE, TRANSCENDENTAL)
class Atanh(ComplexFunction):
    """out[i] = inverse hyperbolic tangent."""

    result_accuracy: Accuracy = None


@op("cbrt", ELEMENTWISE, TRANSCENDENTAL)
class Cbrt(FloatFunction):
    """out[i] = cube root."""

    result_accuracy: Accuracy = None


@op("ceil", ELEMENTWISE, DISCONTINUOUS)
class Ceil(FloatFunction):
    """out[i] = smallest integer not below x."""


@op("count-leading-zeros", ELEMENTWISE)
class CountLeadingZeros(IntegerFunction):
    """out[i] = number of zero bits above the highest one bit."""


@op("cosine", ELEMENTWISE, TRANSCENDENTAL)
class Cosine(ComplexFunction):
    """out[i] = cos x, x in radians."""

    result_accuracy: Accuracy = None


@op("cosh", ELEMENTWISE, TRANSCENDENTAL)
class Cosh(ComplexFunction):
    """out[i] = hyperbolic cosine."""

    result_accuracy: Accuracy = None


@op("erf", ELEMENTWISE, TRANSCENDENTAL)
class Erf(FloatFunction):
    """out[i] = error function, 2/sqrt(pi) * integral of exp(-t*t) from 0 to x."""

    result_accuracy: Accuracy = None


@op("exp2", ELEMENTWISE, TRANSCENDENTAL)
class Exp2(ComplexFunction):
    """out[i] = 2 ** x."""

    result_accuracy: Accuracy = None


@op("exponential", ELEMENTWISE, TRANSCENDENTAL)
class Exponential(ComplexFunction):
    """out[i] = e ** x."""

    result_accuracy: Accuracy = None


@op("exponential-minus-one", ELEMENTWISE, TRANSCENDENTAL)
class ExponentialMinusOne(ComplexFunction):
    """out[i] = e ** x - 1, accurate near 0."""

    result_accuracy: Accuracy = None


@op("floor", ELEMENTWISE, DISCONTINUOUS)
class Floor(FloatFunction):
    """out[i] = largest integer not above x."""


@op("imag", RETYPES, ELEMENTWISE)
class Imag(ComplexPart):
    """out[i] = imaginary part; 0 for real types."""


@op("is-finite", ELEMENTWISE, DISCONTINUOUS, ANY_PRECISION)
class IsFinite:
    """out[i] = whether x is neither infinite nor NaN; pred."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The dimensions of x, as pred."""
        return retyped(infer.unary(x, infer.is_float, "floating-point"), PRED)


@op("log", ELEMENTWISE, TRANSCENDENTAL)
class Log(ComplexFunction):
    """out[i] = natural logarithm."""

    result_accuracy: Accuracy = None


@op("log2", ELEMENTWISE, TRANSCENDENTAL)
class Log2(ComplexFunction):
    """out[i] = logarithm to base 2."""

    result_accuracy: Accuracy = None


@op("log-plus-one", ELEMENTWISE, TRANSCENDENTAL)
class LogPlusOne(ComplexFunction):
    """out[i] = log(1 + x), accurate near 0."""

    result_accuracy: Accuracy = None


@op("logistic", ELEMENTWISE, TRANSCENDENTAL)
class Logistic(ComplexFunction):
    """out[i] = 1 / (1 + e ** -x)."""

    result_accuracy: Accuracy = None


@op("negate", ELEMENTWISE)
class Negate:
    """out[i] = -x; two's complement for integers."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are numbers."""
        return infer.unary(x, infer.is_number, "integer, floating-point or complex")


@op("not", ELEMENTWISE)
class Not:
    """out[i] = bitwise complement; logical for pred."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are integers or pred."""
        return infer.unary(x, infer.is_integer_or_pred, "integer or pred")


@op("popcnt", ELEMENTWISE)
class Popcnt(IntegerFunction):
    """out[i] = number of one bits."""


@op("real", RETYPES, ELEMENTWISE)
class Real(ComplexPart):
    """out[i] = real part."""


@op("round-nearest-afz", ELEMENTWISE, DISCONTINUOUS)
class RoundNearestAfz(FloatFunction):
    """out[i] = nearest integer, halves away from zero."""


@op("round-nearest-even", ELEMENTWISE, DISCONTINUOUS)
class RoundNearestEven(FloatFunction):
    """out[i] = nearest integer, halves to even."""


@op("rsqrt", ELEMENTWISE, TRANSCENDENTAL)
class Rsqrt(ComplexFunction):
    """out[i] = 1 / sqrt(x)."""

    result_accuracy: Accuracy = None


@op("sign", ELEMENTWISE, DISCONTINUOUS)
class Sign:
    """out[i] = -1, 0 or 1 as x is below, at or above 0 (keeps -0 and NaN); x/|x| for complex."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are signed or complex."""
        return infer.unary(x, infer.is_signed_or_complex, "signed or complex")


@op("sine", ELEMENTWISE, TRANSCENDENTAL)
class Sine(ComplexFunction):
    """out[i] = sin x, x in radians."""

    result_accuracy: Accuracy = None


@op("sinh", ELEMENTWISE, TRANSCENDENTAL)
class Sinh(ComplexFunction):
    """out[i] = hyperbolic sine."""

    result_accuracy: Accuracy = None


@op("sqrt", ELEMENTWISE, TRANSCENDENTAL)
class Sqrt(ComplexFunction):
    """out[i] = square root."""

    result_accuracy: Accuracy = None


@op("tan", ELEMENTWISE, TRANSCENDENTAL)
class Tan(ComplexFunction):
    """out[i] = tangent, x in radians."""

    result_accuracy: Accuracy = None


@op("tanh", ELEMENTWISE, TRANSCENDENTAL)
class Tanh(ComplexFunction):
    """out[i] = hyperbolic tangent."""

    result_accuracy: Accuracy = None


@op("reduce-precision", ELEMENTWISE, SHAPE_IN_TEXT, CHANGES_LAYOUT, MIXES_FLOATS)
class ReducePrecision:
    """out[i] = x[i] rounded to a float of so many exponent and mantissa bits, kept in x's type."""

    x: Operand
    exponent_bits: Int
    mantissa_bits: Int

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are floats."""
        return infer.reduce_precision(x, self.exponent_bits, self.mantissa_bits)
