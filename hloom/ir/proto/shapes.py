"""Shapes, layouts and program shapes to and from their messages.

A module says the same few shapes over and over, so both directions remember: reading by the
bytes of the message, writing by the shape (which is interned). The memory lives as long as one
conversion.
"""

from typing import Any

from hloom.base.diagnostics import ProtoError, UsageError
from hloom.ir import schema
from hloom.types.dtype import BUFFER, BY_NUMBER, TUPLE, DType
from hloom.types.layout import Layout, default_layout, layout
from hloom.types.shape import ProgramShape, Shape, buffer_shape, checked_shape, shape, tuple_shape

DENSE = 0
"""The only DimLevelType that is still in use."""
DEEPEST = 90
"""Readers of protobuf stop at 100 messages inside one another; a snapshot needs the rest."""


class ShapeReader:
    """Shapes from `ShapeProto`; equal messages are converted once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}

    def shape(self, message: Any) -> Shape:
        """The shape of a `ShapeProto`; `ProtoError` for one that is impossible."""
        key = message.SerializeToString()
        shape_ = self._known.get(key)
        if shape_ is None:
            try:
                shape_ = self._known[key] = _read(message)
            except UsageError as error:
                raise ProtoError(f"shape: {error.message}") from None
        return shape_

    def program_shape(self, message: Any) -> ProgramShape:
        """The program shape of a `ProgramShapeProto`, layouts kept as they are."""
        return ProgramShape(
            tuple([self.shape(p) for p in message.parameters]),
            tuple(message.parameter_names),
            self.shape(message.result),
        )


def _read(message: Any) -> Shape:
    """Nested shapes are read here without the memory: protobuf limits how deep they go."""
    element_type = BY_NUMBER.get(message.element_type)
    if element_type is None:
        if message.element_type == 0:
            raise ProtoError("a shape has no element type")
        raise ProtoError(f"unknown element type {message.element_type} in a shape")
    if element_type is TUPLE:
        return tuple_shape([_read(part) for part in message.tuple_shapes])
    if element_type is BUFFER:
        if len(message.tuple_shapes) != 1:
            raise ProtoError(f"a buffer shape holds {len(message.tuple_shapes)} shapes, not 1")
        return buffer_shape(_read(message.tuple_shapes[0]))
    if not element_type.is_array_element:
        return shape(element_type)
    dims = tuple(message.dimensions)
    dynamic = tuple(message.is_dynamic_dimension)
    if dynamic and len(dynamic) != len(dims):
        raise ProtoError(f"a shape has {len(dims)} dimensions but {len(dynamic)} dynamic flags")
    placed = _read_layout(message.layout) if message.HasField("layout") else None
    return checked_shape(element_type, dims, placed, dynamic)


def _read_layout(message: Any) -> Layout:
    if any(level != DENSE for level in message.dim_level_types):
        raise ProtoError("sparse layouts are not supported")
    order = tuple(message.minor_to_major)
    if message.ByteSize() == 0 or _is_plain(message, order):
        return default_layout(len(order))
    return layout(
        order,
        tuple(tuple(tile.dimensions) for tile in message.tiles),
        message.tail_padding_alignment_in_elements or 1,
        _read_index_type(message.index_primitive_type),
        _read_index_type(message.pointer_primitive_type),
        message.element_size_in_bits,
        message.memory_space,
        tuple((s.dimension, tuple(s.split_indices)) for s in message.split_configs),
        _read(message.physical_shape) if message.HasField("physical_shape") else None,
        message.dynamic_shape_metadata_prefix_bytes,
    )


def _is_plain(message: Any, order: tuple[int, ...]) -> bool:
    """Whether a layout is row-major and says nothing else, which is the usual case."""
    field_names = [field.name for field, _ in message.ListFields()]
    if any(
        name not in ("minor_to_major", "tail_padding_alignment_in_elements") for name in field_names
    ):
        return False
    rank = len(order)
    return message.tail_padding_alignment_in_elements <= 1 and order == tuple(
        range(rank - 1, -1, -1)
    )


def _read_index_type(number: int) -> DType | None:
    if number == 0:
        return None
    dtype = BY_NUMBER.get(number)
    if dtype is None:
        raise ProtoError(f"unknown index type {number} in a layout")
    return dtype


class ShapeWriter:
    """`ShapeProto` from shapes; a shape is converted once."""

    def __init__(self) -> None:
        self._known: dict[Shape, Any] = {}

    def message(self, shape_: Shape) -> Any:
        """The message of a shape, shared: copy it, never change it."""
        known = self._known.get(shape_)
        if known is None:
            known = schema.ShapeProto()
            write_shape(shape_, known)
            self._known[shape_] = known
        return known

    def program_shape(self, program: ProgramShape, message: Any) -> None:
        """Fill a `ProgramShapeProto`."""
        for parameter in program.parameters:
            message.parameters.add().CopyFrom(self.message(parameter))
        message.parameter_names.extend(program.parameter_names)
        message.result.CopyFrom(self.message(program.result))


def write_shape(shape_: Shape, message: Any) -> None:
    """Fill a `ShapeProto`; `ProtoError` for a tuple nested deeper than any reader goes."""
    stack = [(shape_, message, 0)]
    while stack:
        part, into, depth = stack.pop()
        if depth > DEEPEST:
            raise ProtoError(f"the shape nests too deep for protobuf (over {DEEPEST} tuples)")
        into.element_type = part.dtype.number
        if not part.is_array:
            stack.extend((e, into.tuple_shapes.add(), depth + 1) for e in part.elements)
            continue
        into.dimensions.extend(part.dims)
        into.is_dynamic_dimension.extend(part.dynamic or (False,) * len(part.dims))
        if part.layout is not None:
            into.layout.SetInParent()
            _write_layout(part.layout, into.layout)


def _write_layout(fields: Layout, message: Any) -> None:
    message.minor_to_major.extend(fields.minor_to_major)
    message.tail_padding_alignment_in_elements = fields.tail_padding_alignment
    if fields.is_default:
        return
    for tile in fields.tiles:
        message.tiles.add().dimensions.extend(tile)
    if fields.index_primitive_type is not None:
        message.index_primitive_type = fields.index_primitive_type.number
    if fields.pointer_primitive_type is not None:
        message.pointer_primitive_type = fields.pointer_primitive_type.number
    message.element_size_in_bits = fields.element_size_in_bits
    message.memory_space = fields.memory_space
    for dimension, indices in fields.split_configs:
        message.split_configs.add(dimension=dimension, split_indices=indices)
    if fields.physical_shape is not None:
        write_shape(fields.physical_shape, message.physical_shape)
    message.dynamic_shape_metadata_prefix_bytes = fields.dynamic_shape_metadata_prefix_bytes
