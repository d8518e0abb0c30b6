"""Operations that act on each element alone."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import Accuracy, Int, enumeration
from hloom.ir.op import Operand, op

Direction = enumeration("direction", "EQ", "NE", "GE", "GT", "LE", "LT")
ComparisonType = enumeration("comparison type", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")


@op("abs")
class Abs:
    """out[i] = |x|; for complex types the magnitude, of the component type."""

    x: Operand


@op("acos")
class Acos:
    """out[i] = arccosine."""

    x: Operand
    result_accuracy: Accuracy = None


@op("acosh")
class Acosh:
    """out[i] = inverse hyperbolic cosine."""

    x: Operand
    result_accuracy: Accuracy = None


@op("asin")
class Asin:
    """out[i] = arcsine."""

    x: Operand
    result_accuracy: Accuracy = None


@op("asinh")
class Asinh:
    """out[i] = inverse hyperbolic sine."""

    x: Operand
    result_accuracy: Accuracy = None


@op("atanh")
class Atanh:
    """out[i] = inverse hyperbolic tangent."""

    x: Operand
    result_accuracy: Accuracy = None


@op("cbrt")
class Cbrt:
    """out[i] = cube root."""

    x: Operand
    result_accuracy: Accuracy = None


@op("ceil")
class Ceil:
    """out[i] = smallest integer not below x."""

    x: Operand


@op("count-leading-zeros")
class CountLeadingZeros:
    """out[i] = number of zero bits above the highest one bit."""

    x: Operand


@op("cosine")
class Cosine:
    """out[i] = cos x, x in radians."""

    x: Operand
    result_accuracy: Accuracy = None


@op("cosh")
class Cosh:
    """out[i] = hyperbolic cosine."""

    x: Operand
    result_accuracy: Accuracy = None


@op("erf")
class Erf:
    """out[i] = error function, 2/sqrt(pi) * integral of exp(-t*t) from 0 to x."""

    x: Operand
    result_accuracy: Accuracy = None


@op("exponential")
class Exponential:
    """out[i] = e ** x."""

    x: Operand
    result_accuracy: Accuracy = None


@op("exponential-minus-one")
class ExponentialMinusOne:
    """out[i] = e ** x - 1, accurate near 0."""

    x: Operand
    result_accuracy: Accuracy = None


@op("floor")
class Floor:
    """out[i] = largest integer not above x."""

    x: Operand


@op("imag")
class Imag:
    """out[i] = imaginary part; 0 for real types."""

    x: Operand


@op("is-finite")
class IsFinite:
    """out[i] = whether x is neither infinite nor NaN; pred."""

    x: Operand


@op("log")
class Log:
    """out[i] = natural logarithm."""

    x: Operand
    result_accuracy: Accuracy = None


@op("log-plus-one")
class LogPlusOne:
    """out[i] = log(1 + x), accurate near 0."""

    x: Operand
    result_accuracy: Accuracy = None


@op("logistic")
class Logistic:
    """out[i] = 1 / (1 + e ** -x)."""

    x: Operand
    result_accuracy: Accuracy = None


@op("negate")
class Negate:
    """out[i] = -x; two's complement for integers."""

    x: Operand


@op("not")
class Not:
    """out[i] = bitwise complement; logical for pred."""

    x: Operand


@op("popcnt")
class Popcnt:
    """out[i] = number of one bits."""

    x: Operand


@op("real")
class Real:
    """out[i] = real part."""

    x: Operand


@op("round-nearest-afz")
class RoundNearestAfz:
    """out[i] = nearest integer, halves away from zero."""

    x: Operand


@op("round-nearest-even")
class RoundNearestEven:
    """out[i] = nearest integer, halves to even."""

    x: Operand


@op("rsqrt")
class Rsqrt:
    """out[i] = 1 / sqrt(x)."""

    x: Operand
    result_accuracy: Accuracy = None


@op("sign")
class Sign:
    """out[i] = -1, 0 or 1 as x is below, at or above 0 (keeps -0 and NaN); x/|x| for complex."""

    x: Operand


@op("sine")
class Sine:
    """out[i] = sin x, x in radians."""

    x: Operand
    result_accuracy: Accuracy = None


@op("sinh")
class Sinh:
    """out[i] = hyperbolic sine."""

    x: Operand
    result_accuracy: Accuracy = None


@op("sqrt")
class Sqrt:
    """out[i] = square root."""

    x: Operand
    result_accuracy: Accuracy = None


@op("tan")
class Tan:
    """out[i] = tangent, x in radians."""

    x: Operand
    result_accuracy: Accuracy = None


@op("tanh")
class Tanh:
    """out[i] = hyperbolic tangent."""

    x: Operand
    result_accuracy: Accuracy = None


@op("reduce-precision")
class ReducePrecision:
    """out[i] = x[i] rounded to a float of so many exponent and mantissa bits, kept in x's type."""

    x: Operand
    exponent_bits: Int
    mantissa_bits: Int


@op("add")
class Add:
    """out[i] = x + y; or for pred."""

    x: Operand
    y: Operand


@op("and")
class And:
    """out[i] = bitwise and; logical for pred."""

    x: Operand
    y: Operand


@op("atan2")
class Atan2:
    """out[i] = angle of the point (y, x): atan2(x operand first, y second)."""

    x: Operand
    y: Operand


@op("complex")
class Complex:
    """out[i] = x + iy from two real arrays."""

    x: Operand
    y: Operand


@op("divide")
class Divide:
    """out[i] = x / y; integers truncate toward zero, division by zero gives all ones (-1), MIN / -1 gives MIN."""

    x: Operand
    y: Operand


@op("maximum")
class Maximum:
    """out[i] = larger of the two; NaN wins."""

    x: Operand
    y: Operand


@op("minimum")
class Minimum:
    """out[i] = smaller of the two; NaN wins."""

    x: Operand
    y: Operand


@op("mulhi")
class Mulhi:
    """out[i] = high half of the full integer product."""

    x: Operand
    y: Operand


@op("multiply")
class Multiply:
    """out[i] = x * y; and for pred."""

    x: Operand
    y: Operand


@op("or")
class Or:
    """out[i] = bitwise or; logical for pred."""

    x: Operand
    y: Operand


@op("power")
class Power:
    """out[i] = x ** y."""

    x: Operand
    y: Operand


@op("remainder")
class Remainder:
    """out[i] = remainder of truncating division, sign of x; x when an integer y is 0."""

    x: Operand
    y: Operand


@op("shift-left")
class ShiftLeft:
    """out[i] = x << y; 0 when y is not below the width."""

    x: Operand
    y: Operand


@op("shift-right-arithmetic")
class ShiftRightArithmetic:
    """out[i] = x >> y keeping the sign; all sign bits when y is not below the width."""

    x: Operand
    y: Operand


@op("shift-right-logical")
class ShiftRightLogical:
    """out[i] = x >> y filling zeros; 0 when y is not below the width."""

    x: Operand
    y: Operand


@op("subtract")
class Subtract:
    """out[i] = x - y."""

    x: Operand
    y: Operand


@op("xor")
class Xor:
    """out[i] = bitwise exclusive or; logical for pred."""

    x: Operand
    y: Operand


@op("compare")
class Compare:
    """out[i] = x[i] DIRECTION y[i], as pred; TOTALORDER orders -NaN < -inf < ... < -0 < 0 < ... < NaN."""

    x: Operand
    y: Operand
    direction: Direction
    type: ComparisonType = None


@op("clamp")
class Clamp:
    """out[i] = min(max(x[i], low), high); low and high have x's shape or are scalars."""

    low: Operand
    x: Operand
    high: Operand


@op("select")
class Select:
    """out[i] = on_true[i] if predicate[i] else on_false[i]; predicate has their shape or is a scalar."""

    predicate: Operand
    on_true: Operand
    on_false: Operand


@op("convert")
class Convert:
    """out[i] = x[i] as another element type: floats round to nearest even, to integers truncate and saturate, NaN to 0."""

    x: Operand


@op("bitcast-convert")
class BitcastConvert:
    """The bits of x read as another element type; a minor dimension appears or goes when widths differ."""

    x: Operand


@op("stochastic-convert")
class StochasticConvert:
    """out[i] = x[i] as a narrower type, rounded up with the probability given by the dropped bits; random is unsigned of x's width."""

    x: Operand
    random: Operand
