"""Questions that every shape rule asks: are two shapes compatible, are two types, is this an array.

Compatible means equal but for layouts and for which dimensions are dynamic; a dimension without
a bound (`?`) fits any size. Equal shapes are one object, so the usual answer costs one `is`.
"""

from collections.abc import Callable, Sequence

from hloom.ir.op import ShapeError
from hloom.types.dtype import TUPLE, DType
from hloom.types.shape import UNBOUNDED, Shape, shape

SameType = Callable[[DType, DType], bool]


def same_type(a: DType, b: DType) -> bool:
    """The same element type."""
    return a is b


def same_kind(a: DType, b: DType) -> bool:
    """The same element type, or two floats of whatever precision."""
    return a is b or (a.is_floating and b.is_floating)


def any_type(a: DType, b: DType) -> bool:
    """Any two array types; tokens, tuples and the like only themselves."""
    return a is b or (a.is_array_element and b.is_array_element)


def compatible(a: Shape, b: Shape) -> bool:
    """Equal but for layouts and dynamism."""
    if a.bare is b.bare:
        return True
    return not (a.is_static and b.is_static) and _alike(a, b, same_type)


def compatible_ignoring_precision(a: Shape, b: Shape) -> bool:
    """Compatible, floats of any precision counting as one type."""
    return a.bare is b.bare or _alike(a, b, same_kind)


def compatible_ignoring_type(a: Shape, b: Shape) -> bool:
    """Compatible, whatever the element types of the arrays."""
    return a.bare is b.bare or _alike(a, b, any_type)


def _alike(a: Shape, b: Shape, types: SameType) -> bool:
    pairs = [(a, b)]
    while pairs:
        x, y = pairs.pop()
        if x.bare is y.bare:
            continue
        if not types(x.dtype, y.dtype) or len(x.elements) != len(y.elements):
            return False
        if not same_sizes(x.dims, y.dims):
            return False
        pairs.extend(zip(x.elements, y.elements))
    return True


def same_sizes(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether the two lists of sizes fit each other."""
    return a == b or (len(a) == len(b) and all(map(sizes_fit, a, b)))


def sizes_fit(a: int, b: int) -> bool:
    """Whether two sizes are equal, or one has no bound."""
    return a == b or UNBOUNDED in (a, b)


def expect_array(x: Shape, what: str) -> None:
    """Raise when `x`, which is `what`, is not an array."""
    if not x.dtype.is_array_element:
        raise ShapeError(f"{what} must be an array, not {x.bare}")


def expect_tuple(x: Shape, what: str, least: int = 0) -> None:
    """Raise when `x`, which is `what`, is not a tuple of at least so many elements."""
    if x.dtype is not TUPLE or len(x.elements) < least:
        size = f" of at least {least} elements" if least else ""
        raise ShapeError(f"{what} must be a tuple{size}, not {x.bare}")


def expect_integers(x: Shape, what: str) -> None:
    """Raise when `x`, which is `what`, is not an array of integers."""
    expect_array(x, what)
    if not x.dtype.is_integral:
        raise ShapeError(f"{what} must be integers, not {x.bare}")


def expect_dimensions(dimensions: Sequence[int], rank: int, what: str, *, order: bool) -> None:
    """Raise unless the dimension numbers are in range and different (and ascending)."""
    for d in dimensions:
        if not 0 <= d < rank:
            raise ShapeError(f"{what} names dimension {d}, but there are {rank} dimensions")
    if len(set(dimensions)) != len(dimensions):
        raise ShapeError(f"{what} names a dimension twice: {braced(dimensions)}")
    if order and list(dimensions) != sorted(dimensions):
        raise ShapeError(f"{what} must be ascending: {braced(dimensions)}")


def higher_precision(a: DType, b: DType) -> DType:
    """The type with more range, then more precision."""
    if a is b:
        return a
    return max(a, b, key=lambda t: (t.exponent_bits, t.mantissa_bits, t.bits))


def scalar(element_type: DType) -> Shape:
    return shape(element_type)


def retyped(x: Shape, element_type: DType) -> Shape:
    """The array `x` with another element type and without layout."""
    return shape(element_type, x.dims, None, x.dynamic)


def flags(x: Shape) -> list[bool]:
    """Which dimensions of an array are dynamic, one entry per dimension."""
    return list(x.dynamic) or [False] * len(x.dims)


def with_more_dynamic(x: Shape, other: Shape) -> Shape:
    """`x` where each dimension that is dynamic in `other` is dynamic too."""
    if not other.dynamic or x.dynamic == other.dynamic:
        return x.bare
    both = [a or b for a, b in zip(flags(x), flags(other), strict=True)]
    return shape(x.dtype, x.dims, None, both)


def braced(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def listed(shapes: Sequence[Shape]) -> str:
    """Shapes for a message."""
    return ", ".join(str(s.bare) for s in shapes)


def must_match(declared: Shape, inferred: Shape) -> None:
    """Raise unless a written shape is compatible with the inferred one, but for precision."""
    if not compatible_ignoring_precision(declared, inferred):
        raise ShapeError(f"the shape is {declared.bare} but must be {inferred.bare}")
