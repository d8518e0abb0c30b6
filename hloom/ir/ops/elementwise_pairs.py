"""Operations that act on the matching elements of several arrays, and conversions."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import elementwise as infer
from hloom.ir.infer.compare import retyped
from hloom.ir.kinds import enumeration
from hloom.ir.op import Operand, op
from hloom.ir.traits import (
    ANY_PRECISION,
    ASSOCIATIVE,
    CHANGES_LAYOUT,
    COMMUTATIVE,
    DISCONTINUOUS,
    ELEMENTWISE,
    IDEMPOTENT,
    JOINS,
    RETYPES,
    TRANSCENDENTAL,
)
from hloom.types.dtype import PRED
from hloom.types.shape import Shape

Direction = enumeration("direction", "EQ", "NE", "GE", "GT", "LE", "LT")
ComparisonType = enumeration("comparison type", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")


class AnyPair:
    """A function of two arrays of any one type."""

    x: Operand
    y: Operand

    def shape(self, x: Shape, y: Shape) -> Shape:
        """The one shape of x and y; nothing is broadcast implicitly."""
        return infer.binary(x, y)


class ArithmeticPair(AnyPair):
    """A function of two arrays of one type, which is not pred."""

    def shape(self, x: Shape, y: Shape) -> Shape:
        """The one shape of x and y, whose elements are not pred; no implicit broadcast."""
        return infer.binary(x, y, infer.is_not_pred, "arithmetic")


class LogicalPair(AnyPair):
    """A bitwise function of two arrays of integers or pred."""

    def shape(self, x: Shape, y: Shape) -> Shape:
        """The one shape of x and y, whose elements are integers or pred."""
        return infer.binary(x, y, infer.is_integer_or_pred, "integer or pred")


@op("add", ELEMENTWISE, COMMUTATIVE, ASSOCIATIVE)
class Add(AnyPair):
    """out[i] = x + y; or for pred."""


@op("and", ELEMENTWISE, COMMUTATIVE, ASSOCIATIVE, IDEMPOTENT)
class And(LogicalPair):
    """out[i] = bitwise and; logical for pred."""


@op("atan2", ELEMENTWISE, TRANSCENDENTAL)
class Atan2(AnyPair):
    """out[i] = angle of the point (y, x): atan2(x operand first, y second)."""

    def shape(self, x: Shape, y: Shape) -> Shape:
        """The one shape of x and y, whose elements are floats or complex numbers."""
        return infer.binary(x, y, infer.is_float_or_complex, "float or complex")


@op("complex", RETYPES, ELEMENTWISE, ANY_PRECISION)
class Complex:
    """out[i] = x + iy from two real arrays."""

    x: Operand
    y: Operand

    def shape(self, x: Shape, y: Shape) -> Shape:
        """The one shape of x and y, c64 for f32 and c128 for f64."""
        return infer.complex_of(x, y)


@op("divide", ELEMENTWISE)
class Divide(ArithmeticPair):
    """out[i] = x / y; integers truncate toward zero, division by zero gives all ones (-1), MIN /
    -1 gives MIN.
    """


@op("maximum", ELEMENTWISE, COMMUTATIVE, ASSOCIATIVE, IDEMPOTENT)
class Maximum(AnyPair):
    """out[i] = larger of the two; NaN wins. Complex numbers by real, then by imaginary part."""


@op("minimum", ELEMENTWISE, COMMUTATIVE, ASSOCIATIVE, IDEMPOTENT)
class Minimum(AnyPair):
    """out[i] = smaller of the two; NaN wins. Complex numbers by real, then by imaginary part."""


@op("mulhi", ELEMENTWISE, COMMUTATIVE)
class Mulhi(AnyPair):
    """out[i] = high half of the full integer product."""


@op("multiply", ELEMENTWISE, COMMUTATIVE, ASSOCIATIVE)
class Multiply(AnyPair):
    """out[i] = x * y; and for pred."""


@op("or", ELEMENTWISE, COMMUTATIVE, ASSOCIATIVE, IDEMPOTENT)
class Or(LogicalPair):
    """out[i] = bitwise or; logical for pred."""


@op("power", ELEMENTWISE, TRANSCENDENTAL)
class Power(ArithmeticPair):
    """out[i] = x ** y."""


@op("remainder", ELEMENTWISE, DISCONTINUOUS)
class Remainder(ArithmeticPair):
    """out[i] = remainder of truncating division, sign of x; x when an integer y is 0."""


@op("shift-left", ELEMENTWISE)
class ShiftLeft(ArithmeticPair):
    """out[i] = x << y; 0 when y is not below the width."""


@op("shift-right-arithmetic", ELEMENTWISE)
class ShiftRightArithmetic(ArithmeticPair):
    """out[i] = x >> y keeping the sign; all sign bits when y is not below the width."""


@op("shift-right-logical", ELEMENTWISE)
class ShiftRightLogical(ArithmeticPair):
    """out[i] = x >> y filling zeros; 0 when y is not below the width."""


@op("subtract", ELEMENTWISE)
class Subtract(ArithmeticPair):
    """out[i] = x - y."""


@op("xor", ELEMENTWISE, COMMUTATIVE, ASSOCIATIVE)
class Xor(LogicalPair):
    """out[i] = bitwise exclusive or; logical for pred."""


@op("compare", ELEMENTWISE, DISCONTINUOUS)
class Compare:
    """out[i] = x[i] DIRECTION y[i], as pred; TOTALORDER orders -NaN < -inf < ... < -0 < 0 < ...
    < NaN.
    """

    x: Operand
    y: Operand
    direction: Direction
    type: ComparisonType = None

    def shape(self, x: Shape, y: Shape) -> Shape:
        """The one shape of x and y, as pred; type fits their element type."""
        result = infer.binary(x, y)
        infer.compare_types(y.dtype, self.type)
        return retyped(result, PRED)


@op("clamp", ELEMENTWISE)
class Clamp:
    """out[i] = min(max(x[i], low), high); low and high have x's shape or are scalars."""

    low: Operand
    x: Operand
    high: Operand

    def shape(self, low: Shape, x: Shape, high: Shape) -> Shape:
        """The shape of x; low and high are scalars or have it too."""
        return infer.clamp(low, x, high)


@op("select", ELEMENTWISE, JOINS)
class Select:
    """out[i] = on_true[i] if predicate[i] else on_false[i]; predicate has their shape or is a
    scalar.
    """

    predicate: Operand
    on_true: Operand
    on_false: Operand

    def shape(self, predicate: Shape, on_true: Shape, on_false: Shape) -> Shape:
        """The one shape of on_true and on_false; predicate is pred[] or has their dimensions."""
        return infer.select(predicate, on_true, on_false)


@op("convert", RETYPES, ELEMENTWISE, ANY_PRECISION)
class Convert:
    """out[i] = x[i] as another element type: floats round to nearest even, to integers truncate
    and saturate, NaN to 0.
    """

    x: Operand

    def check(self, declared: Shape, x: Shape) -> None:
        """The dimensions of x, with any element type."""
        infer.check_convert(declared, x)


@op("bitcast-convert", RETYPES, ELEMENTWISE, CHANGES_LAYOUT, ANY_PRECISION)
class BitcastConvert:
    """The bits of x read as another element type; a minor dimension appears or goes when widths
    differ.
    """

    x: Operand

    def check(self, declared: Shape, x: Shape) -> None:
        """The dimensions of x; a last dimension of (wide bits / narrow bits) comes when the type
        becomes narrower, and goes when it becomes wider.
        """
        infer.check_bitcast_convert(declared, x)


@op("stochastic-convert", ELEMENTWISE, ANY_PRECISION)
class StochasticConvert:
    """out[i] = x[i] as a narrower type, rounded up with the probability given by the dropped
    bits; random is unsigned of x's width.
    """

    x: Operand
    random: Operand

    def check(self, declared: Shape, x: Shape, random: Shape) -> None:
        """The dimensions of x; random has them too, unsigned and as wide as x's floats."""
        infer.check_stochastic_convert(declared, x, random)
