# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""MLIR types as shapes. Each type is looked at once for each program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hloom.frontends.stablehlo.bindings import DYNAMIC, ir, mhlo, stablehlo, viewed
from hloom.frontends.stablehlo.quantised_type import (
    Quantised,
    QuantisedType,
    is_quantised,
    quantised_of,
)
from hloom.types.dtype import BY_NAME, DType
from hloom.types.layout import default_layout
from hloom.types.shape import TOKEN_SHAPE, UNBOUNDED, Shape, buffer_shape, shape, tuple_shape

ELEMENTS: dict[str, DType] = {
    **{
        name: BY_NAME[name.lower()]
        for name in "f16 bf16 f32 f64 f8E5M2 f8E4M3 f8E4M3FN f8E4M3B11FNUZ f8E3M4 f8E5M2FNUZ "
        "f8E4M3FNUZ f4E2M1FN f8E8M0FNU f6E3M2FN f6E2M3FN".split()
    },
    **{f"i{bits}": BY_NAME[f"s{bits}"] for bits in (2, 4, 8, 16, 32, 64)},
    **{f"si{bits}": BY_NAME[f"s{bits}"] for bits in (1, 2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": BY_NAME[f"u{bits}"] for bits in (1, 2, 4, 8, 16, 32, 64)},
    "i1": BY_NAME["pred"],
    "complex<f32>": BY_NAME["c64"],
    "complex<f64>": BY_NAME["c128"],
}
"""Element types as MLIR writes them."""
MLIR_NAMES: dict[DType, str] = {
    dtype: name for name, dtype in ELEMENTS.items() if name[:2] != "si" or dtype.bits == 1
}
"""The other way round."""


class UnknownType(Exception):
    """A type without a counterpart; who catches it knows the place."""


class DynamicType(Exception):
    """A dimension has no size: the program must be refined first."""


class Types:
    """Shapes of the types of one program.

    `keep_dynamic` makes dimensions without a size ones without a bound, instead of an error.
    """

    def __init__(self, keep_dynamic: bool = False, allow_quantised: bool = False) -> None:
        self._shapes: dict[Any, Shape] = {}
        self._elements: dict[Any, DType] = {}
        self.keep_dynamic = keep_dynamic
        self.allow_quantised = allow_quantised
        self._quantised: dict[Any, Quantised | None] = {}
        self._stored_as: Callable[[Quantised], DType] = lambda q: q.storage

    def shape(self, type_: Any) -> Shape:
        """The shape of a value of this type, arrays row-major."""
        shape_ = self._shapes.get(type_)
        if shape_ is None:
            shape_ = self._shapes[type_] = self._new_shape(type_)
        return shape_

    def element(self, type_: Any) -> DType:
        """The element type of this name."""
        dtype = self._elements.get(type_)
        if dtype is None:
            name = str(type_)
            dtype = ELEMENTS.get(name)
            if dtype is None and is_quantised(name):
                return self._stored_as(self._quantised_element(type_))
            if dtype is None:
                raise UnknownType(_why(name))
            self._elements[type_] = dtype
        return dtype

    # -- quantised types

    def quantised(self, type_: Any) -> Quantised | None:
        """What the elements of a tensor stand for; None where they are themselves."""
        if type_ not in self._quantised:
            tensor = isinstance(type_, ir.RankedTensorType)
            element = type_.element_type if tensor else None
            named = element is not None and is_quantised(str(element))
            self._quantised[type_] = self._quantised_element(element) if named else None
        return self._quantised[type_]

    def _quantised_element(self, element: Any) -> Quantised:
        if not self.allow_quantised:
            raise QuantisedType(str(element))
        quantised_ = self._quantised.get(element)
        if quantised_ is None:
            quantised_ = quantised_of(element)
            if isinstance(quantised_, str):
                raise UnknownType(quantised_)
            self._quantised[element] = quantised_
        return quantised_

    @contextmanager
    def quantised_as(self, dtype: Callable[[Quantised], DType]) -> Iterator[None]:
        """Let quantised types have other elements than the integers that are stored."""
        before = self._shapes, self._stored_as
        self._shapes, self._stored_as = {}, dtype
        try:
            yield
        finally:
            self._shapes, self._stored_as = before

    def _new_shape(self, type_: Any) -> Shape:
        if isinstance(type_, ir.RankedTensorType):
            return self._tensor(type_)
        if isinstance(type_, ir.TupleType):
            return tuple_shape(self.shape(type_.get_type(k)) for k in range(type_.num_types))
        if isinstance(type_, ir.MemRefType):
            array = shape(self.element(type_.element_type), type_.shape)
            return buffer_shape(array.with_default_layouts())
        name = str(type_)
        if name in ("!stablehlo.token", "!mhlo.token"):
            return TOKEN_SHAPE
        if name.startswith("!stablehlo.future"):
            parts = stablehlo.FutureType(type_).types
            return tuple_shape(self.shape(part) for part in parts)
        raise UnknownType(_why(name))

    def _tensor(self, type_: Any) -> Shape:
        dims = type_.shape
        element = self.element(type_.element_type)
        encoding = type_.encoding
        if DYNAMIC not in dims:
            if encoding is not None and not _has_bounds(encoding):
                raise UnknownType(f"the encoding {encoding} of {type_} has no meaning in HLO")
            return shape(element, dims, default_layout(len(dims)))
        bounds = [DYNAMIC] * len(dims)
        if encoding is not None and _has_bounds(encoding):
            bounds = viewed(encoding, "TypeExtensions").bounds
        sizes = [b if d == DYNAMIC else d for d, b in zip(dims, bounds, strict=True)]
        if DYNAMIC in sizes:
            if not self.keep_dynamic:
                raise DynamicType(str(type_))
            sizes = [UNBOUNDED if size == DYNAMIC else size for size in sizes]
        dynamic = [d == DYNAMIC for d in dims]
        return shape(element, sizes, default_layout(len(dims)), dynamic)


def _has_bounds(encoding: Any) -> bool:
    return any(d.TypeExtensions.isinstance(encoding) for d in (stablehlo, mhlo))


def _why(name: str) -> str:
    """Why a type cannot be read."""
    if name.startswith("tensor<*"):
        return f"{name} has no rank, and HLO no values without one"
    return f"{name} is a type that HLO does not have"
