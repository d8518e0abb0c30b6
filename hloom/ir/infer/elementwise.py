"""Operations on each element alone: operands have one shape, which the result has too."""

from collections.abc import Callable

from hloom.ir.infer.compare import (
    compatible_ignoring_precision,
    compatible_ignoring_type,
    expect_array,
    higher_precision,
    must_match,
    retyped,
    same_kind,
    with_more_dynamic,
)
from hloom.ir.op import ShapeError
from hloom.types.dtype import C64, C128, F32, F64, PRED, DType
from hloom.types.shape import UNBOUNDED, Shape, shape


def is_float(t: DType) -> bool:
    return t.is_floating


def is_float_or_complex(t: DType) -> bool:
    return t.is_floating or t.is_complex


def is_integer(t: DType) -> bool:
    return t.is_integral


def is_integer_or_pred(t: DType) -> bool:
    return t.is_integral or t is PRED


def is_number(t: DType) -> bool:
    return t.is_integral or t.is_floating or t.is_complex


def is_signed_or_complex(t: DType) -> bool:
    return t.is_signed_int or t.is_floating or t.is_complex


def is_not_pred(t: DType) -> bool:
    return t is not PRED


def is_anything(t: DType) -> bool:
    return True


def unary(x: Shape, admits: Callable[[DType], bool], type_words: str) -> Shape:
    """The result of a function of one array whose element type `admits` lets pass."""
    if not x.dtype.is_array_element:
        expect_array(x, "the operand")
    if not admits(x.dtype):
        raise ShapeError(f"the operand must have {type_words} elements, not {x.bare}")
    return x.bare


def component(x: Shape, admits: Callable[[DType], bool], type_words: str) -> Shape:
    """As `unary`; the result of a complex operand has its component type."""
    unary(x, admits, type_words)
    return retyped(x, x.dtype.component) if x.dtype.is_complex else x.bare


def binary(
    x: Shape,
    y: Shape,
    admits: Callable[[DType], bool] = is_anything,
    type_words: str = "",
) -> Shape:
    """The result of a function of two arrays of one shape; there is no implicit broadcast."""
    if not x.dtype.is_array_element or not y.dtype.is_array_element:
        expect_array(x, "the first operand")
        expect_array(y, "the second operand")
    if not admits(x.dtype) or not admits(y.dtype):
        raise ShapeError(f"operands must have {type_words} elements, not {x.bare} and {y.bare}")
    if x.bare is y.bare:
        return x.bare
    if not same_kind(x.dtype, y.dtype):
        raise ShapeError(f"operands have different element types: {x.bare} and {y.bare}")
    if not compatible_ignoring_type(x, y):
        raise ShapeError(
            f"operands have different shapes: {x.bare} and {y.bare} "
            "(there is no implicit broadcast)"
        )
    result = with_more_dynamic(x, y)
    if not result.is_static and UNBOUNDED in result.dims:
        result = _narrower(x, y)
    return retyped(result, higher_precision(x.dtype, y.dtype))


def _narrower(x: Shape, y: Shape) -> Shape:
    """Of two compatible shapes, each dimension where it is known best."""
    dims, dynamic = [], []
    for k, (a, b) in enumerate(zip(x.dims, y.dims, strict=True)):
        known = y if a == UNBOUNDED else x
        dims.append(b if a == UNBOUNDED else a)
        other = x.is_dynamic_dim(k) and y.is_dynamic_dim(k)
        dynamic.append(known.is_dynamic_dim(k) if UNBOUNDED in (a, b) else other)
    return shape(x.dtype, dims, None, dynamic)


def complex_of(x: Shape, y: Shape) -> Shape:
    result = binary(x, y, is_float, "floating-point")
    if x.dtype is F32 and y.dtype is F32:
        return retyped(result, C64)
    if x.dtype is F64 and y.dtype is F64:
        return retyped(result, C128)
    raise ShapeError(f"complex numbers are made of f32 or f64, not {x.bare} and {y.bare}")


def compare_types(operand: DType, type_: str | None) -> None:
    """Raise when values of this element type cannot be compared in this way. The order of integers
    is total: JAX says so from 0.11 on."""
    if type_ is None or (type_ == "TOTALORDER" and (operand.is_integral or operand.is_pred)):
        return
    if operand.is_floating:
        allowed = ("FLOAT", "TOTALORDER")
    elif operand.is_complex:
        allowed = ("FLOAT",)
    else:
        allowed = ("SIGNED",) if operand.is_signed_int else ("UNSIGNED",)
    if type_ not in allowed:
        raise ShapeError(f"{operand} values are compared as {' or '.join(allowed)}, not as {type_}")


def clamp(low: Shape, x: Shape, high: Shape) -> Shape:
    for s, what in ((low, "low"), (x, "x"), (high, "high")):
        expect_array(s, f"operand {what} of clamp")
    if not same_kind(low.dtype, x.dtype) or not same_kind(high.dtype, x.dtype):
        raise ShapeError(f"clamp needs one element type, not {low.bare}, {x.bare} and {high.bare}")
    for bound in (low, high):
        if bound.dims and not compatible_ignoring_precision(bound, x):
            raise ShapeError(
                f"clamp needs bounds that are scalars or of the shape of x, not "
                f"{low.bare}, {x.bare} and {high.bare}"
            )
    return x.bare


def select(predicate: Shape, on_true: Shape, on_false: Shape) -> Shape:
    named = (predicate, "predicate"), (on_true, "on_true"), (on_false, "on_false")
    for s, what in named:
        expect_array(s, f"operand {what} of select")
    if on_true.bare is not on_false.bare:
        if not compatible_ignoring_precision(on_true, on_false):
            raise ShapeError(
                f"both choices must have one shape, not {on_true.bare} and {on_false.bare}"
            )
    if predicate.dtype is not PRED:
        raise ShapeError(f"the predicate must have pred elements, not {predicate.bare}")
    if not predicate.dims:
        if on_true.bare is on_false.bare:
            return on_true.bare
    elif not (
        compatible_ignoring_type(predicate, on_true)
        and compatible_ignoring_type(predicate, on_false)
    ):
        raise ShapeError(
            f"the predicate {predicate.bare} must be a scalar or have the shape of the "
            f"choices, {on_true.bare} and {on_false.bare}"
        )
    result = with_more_dynamic(on_true, on_false)
    if predicate.dims:
        result = with_more_dynamic(result, predicate)
    return retyped(result, higher_precision(on_true.dtype, on_false.dtype))


def check_convert(declared: Shape, x: Shape) -> None:
    expect_array(x, "the operand of convert")
    expect_array(declared, "the result of convert")
    if not compatible_ignoring_type(declared, x):
        raise ShapeError(f"convert keeps the dimensions, but {x.bare} becomes {declared.bare}")


def check_stochastic_convert(declared: Shape, x: Shape, random: Shape) -> None:
    expect_array(x, "the operand of stochastic-convert")
    expect_array(random, "the random bits of stochastic-convert")
    expect_array(declared, "the result of stochastic-convert")
    if not random.dtype.is_unsigned_int:
        raise ShapeError(f"the random bits must be unsigned integers, not {random.bare}")
    if not x.dtype.is_floating:
        raise ShapeError(f"stochastic-convert needs floating-point elements, not {x.bare}")
    if x.dtype.bits != random.dtype.bits:
        raise ShapeError(
            f"the random bits must be as wide as the operand, not {random.bare} for {x.bare}"
        )
    if x.dims != random.dims or x.dynamic != random.dynamic:
        raise ShapeError(f"operand and random bits differ: {x.bare} and {random.bare}")
    if not compatible_ignoring_type(declared, x):
        raise ShapeError(f"the shape is {declared.bare} but must have the sizes of {x.bare}")


def check_bitcast_convert(declared: Shape, x: Shape) -> None:
    expect_array(x, "the operand of bitcast-convert")
    expect_array(declared, "the result of bitcast-convert")
    old, new = x.dtype, declared.dtype
    if old.is_complex != new.is_complex:
        raise ShapeError(f"bits of complex numbers stay complex, but {x.bare} becomes {new}")
    if max(old.bits, new.bits) % min(old.bits, new.bits):
        raise ShapeError(f"{old} has {old.bits} bits and {new} {new.bits}: neither divides")
    dims, dynamic = list(x.dims), list(x.dynamic) or [False] * len(x.dims)
    if old.bits > new.bits:
        dims.append(old.bits // new.bits)
        dynamic.append(False)
    elif old.bits < new.bits:
        ratio = new.bits // old.bits
        if not dims or dims[-1] != ratio:
            raise ShapeError(
                f"bitcast-convert to {new} needs a last dimension of {ratio}, not {x.bare}"
            )
        dims.pop()
        dynamic.pop()
    must_match(declared, shape(new, dims, None, dynamic))


def reduce_precision(x: Shape, exponent_bits: int, mantissa_bits: int) -> Shape:
    result = unary(x, is_float, "floating-point")
    if exponent_bits < 1:
        raise ShapeError(f"a float needs at least 1 exponent bit, not {exponent_bits}")
    if mantissa_bits < 0:
        raise ShapeError(f"a float cannot have {mantissa_bits} mantissa bits")
    return result
