"""Literals: values of any shape, immutable, held as numpy arrays.

An array literal holds one element per numpy item, in logical order; the layout of its shape says
nothing about `array`. A constant that a text elides (`{...}`) makes up its values when they are
first asked for: the same for the same shape, small, and mixed, so that programs stay runnable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.types import convert, packing
from hloom.types.aligned import aligned_copy, is_settled
from hloom.types.dtype import C64, C128, F32, F64, S32, S64, DType, dtype, from_numpy
from hloom.types.elided import made_up
from hloom.types.shape import TOKEN_SHAPE, UNBOUNDED, Shape, shape, tuple_shape
from hloom.types.text import shape_from_text

Array = np.ndarray[Any, Any]


class Literal:
    """A value of a shape: an array, a tuple of literals, or a token.

    For a dynamic dimension `array` holds just the valid part, so `sizes` may be below the bounds
    in `shape.dims`. Two literals are equal when their shapes are (layouts aside) and all bits
    are: NaN equals the same NaN, and 0.0 is not -0.0.
    """

    __slots__ = ("_array", "_hash", "elements", "is_elided", "shape")

    _array: Array | None
    _hash: int | None
    shape: Shape
    elements: tuple[Literal, ...]
    """The parts of a tuple; `()` for anything else."""
    is_elided: bool
    """Whether the text left the values out, so that those in `array` are made up."""

    def __init__(
        self,
        shape: Shape,
        array: Array | None = None,
        elements: tuple[Literal, ...] = (),
        is_elided: bool = False,
    ) -> None:
        """Trusts its arguments and takes over `array`; use `of`, `owning`, `tuple` or `elided`."""
        assign = object.__setattr__
        if array is not None:
            array = np.asarray(array)  # numpy gives scalars where arrays of rank 0 are meant
            array.flags.writeable = False
        assign(self, "shape", shape)
        assign(self, "_array", array)
        assign(self, "elements", elements)
        assign(self, "is_elided", is_elided)
        assign(self, "_hash", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Literal never changes; {name!r} was assigned to")

    # -- making

    @staticmethod
    def of(value: Any, shape_or_dtype: Shape | DType | str | None = None) -> Literal:
        """The literal of a scalar, nested list, array or (for a tuple shape) sequence.

        The values are copied. Without a type, Python numbers give pred, s32 (s64 where needed),
        f32 or c64. With one, integers must fit and other values are converted as HLO would. A
        single value fills a whole array shape. `UsageError` where value and shape disagree.
        """
        if isinstance(value, Literal):
            return value if shape_or_dtype is None else Literal.of(_plain(value), shape_or_dtype)
        target = _target_type(shape_or_dtype)
        if isinstance(target, Shape):
            if target.is_tuple:
                return _tuple_of(value, target)
            if target.is_token:
                return TOKEN_LITERAL
        elif isinstance(value, tuple) and target is None and _holds_parts(value):
            return Literal.tuple([Literal.of(part) for part in value])
        array, dtype_, natural = _as_array(value)
        if target is None:
            target = natural
        to_dtype = target.dtype if isinstance(target, Shape) else target
        array = _fitted(array, dtype_, to_dtype)
        if isinstance(target, DType):
            return Literal.owning(np.array(array), shape(to_dtype, array.shape))
        if array.ndim == 0 and target.dims:
            array = np.broadcast_to(array, target.dims)
        return Literal.owning(np.array(array), target)

    @staticmethod
    def owning(array: Array, shape_: Shape | None = None) -> Literal:
        """The literal of an array that nobody else will change: it is not copied.

        `UsageError` where the array does not have the type and sizes of the shape.
        """
        if shape_ is None:
            shape_ = shape(from_numpy(array.dtype), array.shape)
        if array.dtype != shape_.dtype.numpy or not _sizes_fit(array.shape, shape_):
            raise UsageError(
                f"an array {array.dtype.name}{list(array.shape)} is not a value of {shape_.text}"
            )
        return Literal(shape_, array)

    @staticmethod
    def tuple(elements: Sequence[Literal]) -> Literal:
        """The tuple of these literals."""
        parts = tuple(elements)
        return Literal(tuple_shape(part.shape for part in parts), None, parts)

    @staticmethod
    def elided(shape_: Shape) -> Literal:
        """The literal of a shape whose text is `{...}`."""
        return built(shape_, lambda leaf: Literal(leaf, None, (), leaf.is_array))

    @staticmethod
    def token() -> Literal:
        return TOKEN_LITERAL

    # -- asking

    @property
    def array(self) -> Array:
        """The elements, read-only, of numpy type `dtype.numpy` and shape `sizes`."""
        known = self._array
        if known is None:
            if not self.shape.is_array:
                raise UsageError(f"a literal of {self.shape.text} is not an array")
            known = made_up(self.shape)
            known.flags.writeable = False
            object.__setattr__(self, "_array", known)
        return known

    def settled_array(self) -> Array:
        """As `array`; what lies in one piece then stands at a whole line of a cache, in memory that
        nobody else may write to. It is moved there once, so that no second copy stays."""
        known = self.array
        if known.flags.c_contiguous and not is_settled(known):
            known = aligned_copy(known)
            known.flags.writeable = False
            object.__setattr__(self, "_array", known)
        return known

    @property
    def dtype(self) -> DType:
        return self.shape.dtype

    @property
    def sizes(self) -> tuple[int, ...]:
        """The true sizes of the array; in a static dimension that of the shape."""
        return self.shape.dims if self._array is None else self._array.shape

    @property
    def is_tuple(self) -> bool:
        return self.shape.is_tuple

    @property
    def is_token(self) -> bool:
        return self.shape.is_token

    def first(self) -> Any:
        """The first element as a numpy scalar; `UsageError` for an empty array."""
        if self.array.size == 0:
            raise UsageError(f"a literal of {self.shape.text} has no first element")
        return self.array.flat[0]  # reshape(-1) copies what is not in order

    def is_all(self, value: complex) -> bool:
        """Whether every element is exactly this number; -0.0 is 0, and NaN is no number.

        No for an empty or elided array. 0.1 is no f32: ask for `np.float32(0.1)`.
        """
        if self.is_elided or not self.shape.is_array or self.array.size == 0:
            return False
        first = _number(self.first(), self.dtype)
        return first == value and bool((self.array == self.first()).all())

    @property
    def is_zero(self) -> bool:
        """Whether every element is 0."""
        return self.is_all(0)

    @property
    def is_all_equal(self) -> bool:
        """Whether all elements have the same bits; no for an empty or elided array."""
        if self.is_elided or not self.shape.is_array or self.array.size == 0:
            return False
        last = self.array.size - 1
        few = self.array.flat[[0, last // 2, last]]  # weights differ here, and are not copied
        return _are_equal(few, self.dtype) and _are_equal(self.array, self.dtype)

    # -- the same in another form

    def converted(self, to_dtype: DType | str) -> Literal:
        """Each element converted, as `convert.converted` says."""
        to_dtype = dtype(to_dtype)
        array = convert.converted(self.array, self.dtype, to_dtype)
        return Literal(self.shape.with_dtype(to_dtype), array)

    def with_shape(self, shape_: Shape) -> Literal:
        """The same value under a compatible shape, such as one with another layout."""
        if not shape_.compatible(self.shape):
            raise UsageError(f"{self.shape.text} and {shape_.text} are not compatible")
        if shape_ is self.shape:
            return self
        own = self.leaves()

        def moved(leaf: Shape) -> Literal:
            part = next(own)
            return Literal(leaf, part._array, (), part.is_elided)

        return built(shape_, moved)

    def leaves(self) -> Iterator[Literal]:
        """The literals in it that are not tuples, in order."""
        stack: list[Literal] = [self]
        while stack:
            part = stack.pop()
            if part.shape.is_tuple:
                stack.extend(reversed(part.elements))
            else:
                yield part

    def to_bytes(self, *, packed: bool = True) -> bytes:
        """Little-endian row-major bytes, narrow types packed; not for tuples.

        Dynamic dimensions are filled up to their bounds with zeros.
        """
        array = self.array
        if array.shape != self.shape.dims and UNBOUNDED not in self.shape.dims:
            whole = np.zeros(self.shape.dims, array.dtype)
            whole[tuple(slice(size) for size in array.shape)] = array
            array = whole
        return packing.dense_bytes(array, self.dtype, packed)

    @staticmethod
    def from_bytes(shape_: Shape, data: bytes | memoryview, *, packed: bool = True) -> Literal:
        """The literal whose `to_bytes` gave `data`; `UsageError` for a wrong number of bytes."""
        if not shape_.is_array or UNBOUNDED in shape_.dims:
            raise UsageError(f"a value of {shape_.text} has no bytes of a known number")
        return Literal(shape_, packing.from_dense_bytes(data, shape_.dtype, shape_.dims, packed))

    # -- comparing and showing

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Literal):
            return NotImplemented
        if self.shape.bare is not other.shape.bare:
            return False
        return all(a._same_leaf(b) for a, b in zip(self.leaves(), other.leaves(), strict=True))

    def _same_leaf(self, other: Literal) -> bool:
        if self.is_elided or other.is_elided or not self.shape.is_array:
            return self.is_elided == other.is_elided
        return packing.same_bits(self.array, other.array)

    def __hash__(self) -> int:
        hash_ = self._hash
        if hash_ is None:
            parts: list[object] = [self.shape.bare]
            for leaf in self.leaves():
                parts.append(leaf.is_elided)
                if leaf.shape.is_array and not leaf.is_elided:
                    flat = leaf.array.reshape(-1)
                    parts.append(flat[:8].tobytes() + flat[-8:].tobytes())
            hash_ = hash(tuple(parts))
            object.__setattr__(self, "_hash", hash_)
        return hash_

    def __repr__(self) -> str:
        from hloom.types.literal_text import show_literal

        return f"<Literal {self.shape.text} {show_literal(self, limit=16)}>"

    def __copy__(self) -> Literal:
        return self

    def __deepcopy__(self, memo: object) -> Literal:
        return self

    def __reduce__(self):
        return Literal, (self.shape, self._array, self.elements, self.is_elided)


TOKEN_LITERAL = Literal(TOKEN_SHAPE)


def built(shape_: Shape, leaf: Callable[[Shape], Literal]) -> Literal:
    """The literal whose parts that are not tuples are what `leaf` gives, called in order."""
    done: list[Literal] = []
    stack: list[tuple[Shape, bool]] = [(shape_, False)]
    while stack:
        part, is_ready = stack.pop()
        if not part.is_tuple:
            done.append(leaf(part))
        elif is_ready:
            start = len(done) - len(part.elements)
            elements = tuple(done[start:])
            del done[start:]
            is_elided = bool(elements) and all(element.is_elided for element in elements)
            done.append(Literal(part, None, elements, is_elided))
        else:
            stack.append((part, True))
            stack.extend((element, False) for element in reversed(part.elements))
    return done[0]


def _are_equal(array: Array, element_type: DType) -> bool:
    """Whether all elements have the same bits."""
    bits = packing.bits_of(array).reshape(-1, 2 if element_type is C128 else 1)
    return bool((bits == bits[0]).all())


def _number(element: Any, element_type: DType) -> complex:
    """A numpy scalar as the Python number with the same value."""
    if element_type.is_complex:
        return complex(element)
    return float(element) if element_type.is_floating else int(element)


def _target_type(which: Shape | DType | str | None) -> Shape | DType | None:
    if which is None or isinstance(which, Shape | DType):
        return which
    if isinstance(which, str) and ("[" in which or "(" in which):
        return shape_from_text(which)
    return dtype(which)


def _plain(literal: Literal) -> Any:
    return [*literal.elements] if literal.is_tuple else literal.array


def _holds_parts(value: tuple[Any, ...]) -> bool:
    return any(isinstance(part, Literal | np.ndarray) for part in value)


def _tuple_of(value: Any, target: Shape) -> Literal:
    if not isinstance(value, Sequence) or len(value) != len(target.elements):
        raise UsageError(f"{target.text} takes a sequence of {len(target.elements)} values")
    parts = [Literal.of(part, s) for part, s in zip(value, target.elements, strict=True)]
    return Literal(target, None, tuple(parts))


def _as_array(value: Any) -> tuple[Array, DType, DType]:
    """The value as an array, its type, and the type it gets when none is asked for."""
    try:
        array = np.asarray(value)
        dtype_ = from_numpy(array.dtype)
    except (TypeError, ValueError, OverflowError, UsageError) as error:
        raise UsageError(f"{value!r} is not an array of numbers: {error}") from None
    array = array.astype(dtype_.numpy, copy=False)
    if hasattr(value, "dtype"):
        return array, dtype_, dtype_
    # Python floats stay in double precision until the wanted type rounds them, once.
    natural = {F64: F32, C128: C64}.get(dtype_, dtype_)
    if dtype_ is S64 and (array.size == 0 or -(2**31) <= array.min() <= array.max() < 2**31):
        natural = S32
    return array, dtype_, natural


def _fitted(array: Array, from_dtype: DType, to_dtype: DType) -> Array:
    if from_dtype is to_dtype:
        return array
    if from_dtype.is_integral and to_dtype.is_integral and array.size:
        low, high = convert.integer_range(to_dtype)
        wide = array.astype(np.int8) if from_dtype.is_sub_byte else array
        if int(wide.min()) < low or int(wide.max()) > high:
            raise UsageError(f"a value is not in {low}..{high}, the range of {to_dtype.name}")
    return convert.converted(array, from_dtype, to_dtype)


def _sizes_fit(sizes: tuple[int, ...], shape_: Shape) -> bool:
    if sizes == shape_.dims:
        return True
    if len(sizes) != len(shape_.dims) or not shape_.dynamic:
        return False
    return all(
        size == dim or (is_dynamic and (dim == UNBOUNDED or size <= dim))
        for size, dim, is_dynamic in zip(sizes, shape_.dims, shape_.dynamic, strict=True)
    )
