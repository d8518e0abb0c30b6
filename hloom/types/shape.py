"""Shapes: what a value looks like, as one interned class for all kinds.

Equal shapes are one object, so a comparison of shapes costs a comparison of pointers, however
deep the tuple. Facts that are asked often (is anything dynamic, the shape without its layouts,
how many leaves) are worked out once, when a shape is first made, from the same facts of its
elements; nothing here recurses, so tuples may nest as deep as memory allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any, Final

from hloom.base.diagnostics import UsageError
from hloom.types.dtype import BUFFER, OPAQUE, TOKEN, TUPLE, DType, dtype
from hloom.types.layout import Layout, checked_layout, default_layout
from hloom.types.program_shape import ProgramShape as ProgramShape
from hloom.types.shape_text import UNBOUNDED as UNBOUNDED
from hloom.types.shape_text import shape_text as shape_text

_INT64_MAX: Final = 2**63 - 1


class Shape:
    """An array, tuple, token, opaque or buffer shape; equal shapes are one object.

    `dims` holds sizes, and bounds where `dynamic` says so. `dynamic` is `()` when no dimension
    is dynamic. `layout` is None where none was given; a scalar always has one. `elements` are
    the parts of a tuple, or the one array inside a buffer.
    """

    __slots__ = (
        "_text",
        "bare",
        "dims",
        "dtype",
        "dynamic",
        "elements",
        "has_layout",
        "is_static",
        "layout",
        "leaf_count",
    )

    _text: str | None
    dtype: DType
    dims: tuple[int, ...]
    dynamic: tuple[bool, ...]
    layout: Layout | None
    elements: tuple[Shape, ...]
    bare: Shape
    """The same shape with no layout anywhere; two shapes are compatible when these are one."""
    has_layout: bool
    """Whether every array in it has a layout."""
    is_static: bool
    """Whether no dimension in it is dynamic."""
    leaf_count: int
    """How many shapes in it are not tuples."""

    def __init__(
        self,
        element_type: DType,
        dims: tuple[int, ...],
        dynamic: tuple[bool, ...],
        layout: Layout | None,
        elements: tuple[Shape, ...],
    ) -> None:
        assign = object.__setattr__
        assign(self, "dtype", element_type)
        assign(self, "dims", dims)
        assign(self, "dynamic", dynamic)
        assign(self, "layout", layout)
        assign(self, "elements", elements)
        assign(self, "_text", None)
        bare = self
        if element_type.is_array_element:
            plain = None if dims else default_layout(0)
            if layout is not plain:
                bare = _interned(element_type, dims, dynamic, plain, ())
            assign(self, "has_layout", layout is not None)
            assign(self, "is_static", not dynamic)
            assign(self, "leaf_count", 1)
        else:
            if any(part.bare is not part for part in elements):
                parts = tuple(part.bare for part in elements)
                bare = _interned(element_type, (), (), None, parts)
            assign(self, "has_layout", all(part.has_layout for part in elements))
            assign(self, "is_static", all(part.is_static for part in elements))
            leaves = sum(part.leaf_count for part in elements)
            assign(self, "leaf_count", leaves if element_type is TUPLE else 1)
        assign(self, "bare", bare)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Shape never changes; {name!r} was assigned to")

    # -- what kind it is

    @property
    def is_array(self) -> bool:
        return self.dtype.is_array_element

    @property
    def is_tuple(self) -> bool:
        return self.dtype is TUPLE

    @property
    def is_token(self) -> bool:
        return self.dtype is TOKEN

    @property
    def is_opaque(self) -> bool:
        return self.dtype is OPAQUE

    @property
    def is_buffer(self) -> bool:
        return self.dtype is BUFFER

    @property
    def is_scalar(self) -> bool:
        return not self.dims and self.dtype.is_array_element

    @property
    def is_dynamic(self) -> bool:
        return not self.is_static

    @property
    def is_unbounded(self) -> bool:
        """Whether some dimension in it has no bound."""
        return not self.is_static and any(UNBOUNDED in s.dims for _, s in self.subshapes())

    def is_dynamic_dim(self, dimension: int) -> bool:
        return bool(self.dynamic) and self.dynamic[dimension]

    # -- how large it is

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def size(self) -> int:
        """How many elements an array has, bounds counting as sizes; `UsageError` for `?`."""
        if self.dynamic and UNBOUNDED in self.dims:
            raise UsageError(f"{self.text} has no bound, so no element count")
        if not self.dtype.is_array_element:
            raise UsageError(f"{self.text} is not an array, so it has no element count")
        return prod(self.dims)

    @property
    def size_bytes(self) -> int:
        """Bytes of the dense data: narrow types packed, tuples without their pointer table.

        The element size of the layout wins over that of the type. Six-bit floats take a byte
        each unless the layout says otherwise. Tokens and opaque values have 0 bytes.
        """
        total = 0
        for leaf in self.leaves():
            if leaf.dtype is BUFFER:
                leaf = leaf.elements[0]
            if leaf.dtype.is_array_element:
                stated = leaf.layout.element_size_in_bits if leaf.layout else 0
                bits = stated or (8 if leaf.dtype.bits == 6 else leaf.dtype.bits)
                total += (leaf.size * bits + 7) // 8
        return total

    # -- the same with something changed

    def with_dims(self, dims: Sequence[int], dynamic: Sequence[bool] = ()) -> Shape:
        """The array with other sizes; keeps the layout where the rank stays the same."""
        keep = self.layout if len(dims) == len(self.dims) else None
        return shape(self.dtype, dims, keep, dynamic)

    def with_dtype(self, element_type: DType | str) -> Shape:
        """The array with another element type."""
        return _interned(dtype(element_type), self.dims, self.dynamic, self.layout, ())

    def with_layout(self, layout: Layout | None) -> Shape:
        """The array with this layout (None: without)."""
        return shape(self.dtype, self.dims, layout, self.dynamic)

    def without_layout(self) -> Shape:
        """The same shape with no layout anywhere."""
        return self.bare

    def with_default_layouts(self) -> Shape:
        """The same shape where every array without a layout gets the row-major one."""
        if self.has_layout:
            return self
        if not self.elements:
            return self.with_layout(default_layout(len(self.dims)))
        return self.map_leaves(
            lambda s: s if s.layout else s.with_layout(default_layout(len(s.dims)))
        )

    def map_leaves(self, change: Callable[[Shape], Shape]) -> Shape:
        """The shape with `change` applied to each array; tokens and opaque values stay."""
        done: dict[Shape, Shape] = {}
        stack: list[Shape] = [self]
        while stack:
            shape_ = stack[-1]
            missing = [part for part in shape_.elements if part not in done]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if shape_.dtype.is_array_element:
                done[shape_] = change(shape_)
            else:
                parts = tuple(done[part] for part in shape_.elements)
                done[shape_] = _interned(shape_.dtype, (), (), None, parts)
        return done[self]

    # -- comparing

    def compatible(self, other: Shape) -> bool:
        """Whether the two are equal but for layouts."""
        return self is other or self.bare is other.bare

    def same(
        self,
        other: Shape,
        *,
        ignore_layout: bool = False,
        ignore_dtype: bool = False,
        ignore_floating_point_precision: bool = False,
        ignore_dynamic: bool = False,
        ignore_memory_space: bool = False,
        ignore_tiles: bool = False,
        ignore_element_size: bool = False,
        minor_to_major_only: bool = False,
    ) -> bool:
        """Whether the two are equal but for what is ignored, all the way down."""
        layout_options = {
            "ignore_memory_space": ignore_memory_space,
            "ignore_tiles": ignore_tiles,
            "ignore_element_size": ignore_element_size,
            "minor_to_major_only": minor_to_major_only,
        }
        pairs: list[tuple[Shape, Shape]] = [(self, other)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            floats = a.dtype.is_floating and b.dtype.is_floating
            arrays = a.dtype.is_array_element and b.dtype.is_array_element
            if a.dtype is not b.dtype and not (
                (ignore_dtype and arrays) or (ignore_floating_point_precision and floats)
            ):
                return False
            if a.dims != b.dims or len(a.elements) != len(b.elements):
                return False
            if a.dynamic != b.dynamic and not ignore_dynamic:
                return False
            if not ignore_layout and a.layout is not b.layout:
                if a.layout is None or not a.layout.same(b.layout, **layout_options):
                    return False
            pairs.extend(zip(a.elements, b.elements, strict=True))
        return True

    # -- the parts

    def subshape(self, index: Iterable[int]) -> Shape:
        """The part of a tuple at an index path such as `(1, 0)`; `()` is the shape itself."""
        part: Shape = self
        for position in index:
            if part.dtype is not TUPLE or not 0 <= position < len(part.elements):
                raise UsageError(f"{self.text} has no element {tuple(index)}")
            part = part.elements[position]
        return part

    def subshapes(self) -> Iterator[tuple[tuple[int, ...], Shape]]:
        """Each index path and its shape, a tuple before its elements."""
        stack: list[tuple[tuple[int, ...], Shape]] = [((), self)]
        while stack:
            path, part = stack.pop()
            yield path, part
            if part.dtype is TUPLE:
                for position in range(len(part.elements) - 1, -1, -1):
                    stack.append(((*path, position), part.elements[position]))

    def leaves(self) -> Iterator[Shape]:
        """The shapes in it that are not tuples, in order."""
        stack: list[Shape] = [self]
        while stack:
            part = stack.pop()
            if part.dtype is TUPLE:
                stack.extend(reversed(part.elements))
            else:
                yield part

    # -- text

    @property
    def text(self) -> str:
        """`f32[2,3]{1,0}`; wide tuples carry `/*index=5*/` before every fifth element."""
        text = self._text
        if text is None:
            text = shape_text(self)
            object.__setattr__(self, "_text", text)
        return text

    @property
    def text_without_layout(self) -> str:
        return self.bare.text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Shape {self.text}>"

    def __deepcopy__(self, memo: object) -> Shape:
        return self

    def __reduce__(self):
        return _interned, (self.dtype, self.dims, self.dynamic, self.layout, self.elements)


_INTERNED: Final[dict[tuple[Any, ...], Shape]] = {}


def _interned(
    element_type: DType,
    dims: tuple[int, ...],
    dynamic: tuple[bool, ...],
    layout: Layout | None,
    elements: tuple[Shape, ...],
) -> Shape:
    key = (element_type, dims, dynamic, layout, elements)
    shape_ = _INTERNED.get(key)
    if shape_ is None:
        shape_ = _INTERNED.setdefault(key, Shape(*key))
    return shape_


def shape(
    element_type: DType | str,
    dims: Sequence[int] = (),
    layout: Layout | None = None,
    dynamic: Sequence[bool] = (),
) -> Shape:
    """The array shape with these fields, trusted as they are."""
    if type(element_type) is not DType:
        element_type = dtype(element_type)
    if not element_type.is_array_element:
        if dims or layout is not None or element_type not in (TOKEN, OPAQUE):
            raise UsageError(f"no array has the element type {element_type.name}")
        return _interned(element_type, (), (), None, ())
    dims = tuple(map(int, dims))
    if layout is None and not dims:
        layout = default_layout(0)
    flags = tuple(map(bool, dynamic)) if any(dynamic) else ()
    return _interned(element_type, dims, flags, layout, ())


def checked_shape(
    element_type: DType | str,
    dims: Sequence[int] = (),
    layout: Layout | None = None,
    dynamic: Sequence[bool] = (),
) -> Shape:
    """As `shape`, but wrong sizes, a wrong layout and overflow are a `UsageError`."""
    element_type = dtype(element_type)
    dims = tuple(map(int, dims))
    if not element_type.is_array_element:
        raise UsageError(f"no array has the element type {element_type.name}")
    if dynamic and len(dynamic) != len(dims):
        raise UsageError(f"{len(dims)} dimensions, but {len(dynamic)} dynamic flags")
    for position, size in enumerate(dims):
        unbounded = size == UNBOUNDED and bool(dynamic) and dynamic[position]
        if not unbounded and not 0 <= size <= _INT64_MAX:
            raise UsageError(f"dimension {position} has size {size}")
    count = prod(size for size in dims if size != UNBOUNDED)
    if count > _INT64_MAX or count * max(element_type.size_bytes, 1) > _INT64_MAX:
        raise UsageError(f"{element_type.name}{list(dims)} has more bytes than 64 bits can count")
    if layout is not None:
        checked_layout(layout, len(dims))
    return shape(element_type, dims, layout, dynamic)


def tuple_shape(elements: Iterable[Shape]) -> Shape:
    """The tuple of these shapes."""
    return _interned(TUPLE, (), (), None, tuple(elements))


def buffer_shape(array: Shape) -> Shape:
    """The buffer that holds this array, `b(f32[4])`; `UsageError` for another kind."""
    if not array.is_array:
        raise UsageError(f"a buffer holds an array, not {array.text}")
    return _interned(BUFFER, (), (), None, (array,))


TOKEN_SHAPE: Final = _interned(TOKEN, (), (), None, ())
OPAQUE_SHAPE: Final = _interned(OPAQUE, (), (), None, ())
