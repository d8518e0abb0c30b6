"""Operations that act on each element of one array alone."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import elementwise as infer
from hloom.ir.infer.compare import retyped
from hloom.ir.kinds import Accuracy, Int
from hloom.ir.op import Operand, op
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


@op("abs")
class Abs:
    """out[i] = |x|; for complex types the magnitude, of the component type."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The dimensions of x; of a complex type the type of its parts."""
        return infer.component(x, infer.is_signed_or_complex, "signed or complex")


@op("acos")
class Acos(ComplexFunction):
    """out[i] = arccosine."""

    result_accuracy: Accuracy = None


@op("acosh")
class Acosh(ComplexFunction):
    """out[i] = inverse hyperbolic cosine."""

    result_accuracy: Accuracy = None


@op("asin")
class Asin(ComplexFunction):
    """out[i] = arcsine."""

    result_accuracy: Accuracy = None


@op("asinh")
class Asinh(ComplexFunction):
    """out[i] = inverse hyperbolic sine."""

    result_accuracy: Accuracy = None


@op("atanh")
class Atanh(ComplexFunction):
    """out[i] = inverse hyperbolic tangent."""

    result_accuracy: Accuracy = None


@op("cbrt")
class Cbrt(FloatFunction):
    """out[i] = cube root."""

    result_accuracy: Accuracy = None


@op("ceil")
class Ceil(FloatFunction):
    """out[i] = smallest integer not below x."""


@op("count-leading-zeros")
class CountLeadingZeros(IntegerFunction):
    """out[i] = number of zero bits above the highest one bit."""


@op("cosine")
class Cosine(ComplexFunction):
    """out[i] = cos x, x in radians."""

    result_accuracy: Accuracy = None


@op("cosh")
class Cosh(ComplexFunction):
    """out[i] = hyperbolic cosine."""

    result_accuracy: Accuracy = None


@op("erf")
class Erf(FloatFunction):
    """out[i] = error function, 2/sqrt(pi) * integral of exp(-t*t) from 0 to x."""

    result_accuracy: Accuracy = None


@op("exp2")
class Exp2(ComplexFunction):
    """out[i] = 2 ** x."""

    result_accuracy: Accuracy = None


@op("exponential")
class Exponential(ComplexFunction):
    """out[i] = e ** x."""

    result_accuracy: Accuracy = None


@op("exponential-minus-one")
class ExponentialMinusOne(ComplexFunction):
    """out[i] = e ** x - 1, accurate near 0."""

    result_accuracy: Accuracy = None


@op("floor")
class Floor(FloatFunction):
    """out[i] = largest integer not above x."""


@op("imag")
class Imag(ComplexPart):
    """out[i] = imaginary part; 0 for real types."""


@op("is-finite")
class IsFinite:
    """out[i] = whether x is neither infinite nor NaN; pred."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The dimensions of x, as pred."""
        return retyped(infer.unary(x, infer.is_float, "floating-point"), PRED)


@op("log")
class Log(ComplexFunction):
    """out[i] = natural logarithm."""

    result_accuracy: Accuracy = None


@op("log2")
class Log2(ComplexFunction):
    """out[i] = logarithm to base 2."""

    result_accuracy: Accuracy = None


@op("log-plus-one")
class LogPlusOne(ComplexFunction):
    """out[i] = log(1 + x), accurate near 0."""

    result_accuracy: Accuracy = None


@op("logistic")
class Logistic(ComplexFunction):
    """out[i] = 1 / (1 + e ** -x)."""

    result_accuracy: Accuracy = None


@op("negate")
class Negate:
    """out[i] = -x; two's complement for integers."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are numbers."""
        return infer.unary(x, infer.is_number, "integer, floating-point or complex")


@op("not")
class Not:
    """out[i] = bitwise complement; logical for pred."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are integers or pred."""
        return infer.unary(x, infer.is_integer_or_pred, "integer or pred")


@op("popcnt")
class Popcnt(IntegerFunction):
    """out[i] = number of one bits."""


@op("real")
class Real(ComplexPart):
    """out[i] = real part."""


@op("round-nearest-afz")
class RoundNearestAfz(FloatFunction):
    """out[i] = nearest integer, halves away from zero."""


@op("round-nearest-even")
class RoundNearestEven(FloatFunction):
    """out[i] = nearest integer, halves to even."""


@op("rsqrt")
class Rsqrt(ComplexFunction):
    """out[i] = 1 / sqrt(x)."""

    result_accuracy: Accuracy = None


@op("sign")
class Sign:
    """out[i] = -1, 0 or 1 as x is below, at or above 0 (keeps -0 and NaN); x/|x| for complex."""

    x: Operand

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are signed or complex."""
        return infer.unary(x, infer.is_signed_or_complex, "signed or complex")


@op("sine")
class Sine(ComplexFunction):
    """out[i] = sin x, x in radians."""

    result_accuracy: Accuracy = None


@op("sinh")
class Sinh(ComplexFunction):
    """out[i] = hyperbolic sine."""

    result_accuracy: Accuracy = None


@op("sqrt")
class Sqrt(ComplexFunction):
    """out[i] = square root."""

    result_accuracy: Accuracy = None


@op("tan")
class Tan(ComplexFunction):
    """out[i] = tangent, x in radians."""

    result_accuracy: Accuracy = None


@op("tanh")
class Tanh(ComplexFunction):
    """out[i] = hyperbolic tangent."""

    result_accuracy: Accuracy = None


@op("reduce-precision")
class ReducePrecision:
    """out[i] = x[i] rounded to a float of so many exponent and mantissa bits, kept in x's type."""

    x: Operand
    exponent_bits: Int
    mantissa_bits: Int

    def shape(self, x: Shape) -> Shape:
        """The shape of x, whose elements are floats."""
        return infer.reduce_precision(x, self.exponent_bits, self.mantissa_bits)
