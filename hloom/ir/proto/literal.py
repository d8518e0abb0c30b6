"""Literals to and from `LiteralProto`.

Elements are in the order of the layout of the literal's shape. Types of one byte or less and of
two bytes are in fields of raw bytes (narrow types one element per byte); the others in repeated
fields. Of those, floats and booleans have a fixed size on the wire, so long ones go through the
wire form as one block instead of one Python object per element.
"""

from math import prod
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import ProtoError, UsageError
from hloom.ir import schema
from hloom.types import packing
from hloom.types.literal import Literal
from hloom.types.shape import UNBOUNDED, Shape
from hloom.types.sizes import unpacked_bytes

if TYPE_CHECKING:
    import numpy as np

    from hloom.ir.proto.codec import Context

TWO_GIB = 2**31 - 1
"""No protobuf message is larger."""
_BLOCK = frozenset(("pred", "f32", "f64", "c64", "c128"))
_REPEATED = _BLOCK | {"s32", "s64", "u32", "u64"}


def read_literal(message: Any, context: "Context") -> Literal:
    """The literal of a `LiteralProto`; `ProtoError` where shape and elements disagree."""
    if not message.HasField("shape"):
        raise ProtoError("a literal has no shape")
    shape = context.shapes.shape(message.shape)
    if shape.is_tuple:
        parts = tuple([read_literal(part, context) for part in message.tuple_literals])
        if tuple(part.shape for part in parts) != shape.elements:
            raise ProtoError(f"a literal of {shape} has elements of other shapes")
        return Literal(shape, None, parts)
    if shape.is_token:
        return Literal.token()
    if not shape.is_array or UNBOUNDED in shape.dims:
        raise ProtoError(f"there are no literals of {shape}")
    array = from_physical(_read_elements(message, shape), shape)
    if message.dynamic_sizes:
        array = _valid_part(array, tuple(message.dynamic_sizes), shape)
    return Literal(shape, array)


def _read_elements(message: Any, shape: Shape) -> "np.ndarray":
    """All elements, in the order in which they are written."""
    import numpy as np

    dtype, count = shape.dtype, prod(shape.dims)
    field = getattr(message, dtype.name + "s")
    if dtype.name not in _REPEATED:
        packed = dtype.bits in (1, 2, 4) and len(field) != count
        try:
            return packing.from_dense_bytes(field, dtype, (count,), packed)
        except UsageError as error:
            raise ProtoError(f"literal: {error.message}") from None
    element_count = len(field) // 2 if dtype.is_complex else len(field)
    if element_count != count or (dtype.is_complex and len(field) % 2):
        raise ProtoError(f"a literal of {shape} has {element_count} elements, not {count}")
    if dtype.name in _BLOCK:
        flat = np.frombuffer(_block(field, dtype.name), _wire_type(dtype.name))
        return flat.astype(bool) if dtype.name == "pred" else flat.copy().view(dtype.numpy)
    return np.fromiter(field, dtype.numpy, count)


def _wire_type(name: str) -> str:
    return {"pred": "u1", "f32": "<f4", "c64": "<f4", "f64": "<f8", "c128": "<f8"}[name]


def _block(field: Any, name: str) -> bytes:
    """What a packed field is on the wire, without its tag and length."""
    if not field:
        return b""
    alone = schema.LiteralProto()
    getattr(alone, name + "s").MergeFrom(field)
    wire = alone.SerializeToString()
    at = 0
    for _ in range(2):
        while wire[at] & 128:
            at += 1
        at += 1
    return wire[at:]


def from_physical(flat: "np.ndarray", shape: Shape) -> "np.ndarray":
    """The logical array of elements that are in the order of the shape's layout."""
    import numpy as np

    if shape.layout is None or shape.layout.minor_to_major == tuple(range(shape.rank))[::-1]:
        return flat.reshape(shape.dims)
    order = shape.layout.minor_to_major[::-1]
    physical = flat.reshape([shape.dims[d] for d in order])
    return np.ascontiguousarray(physical.transpose(np.argsort(order)))


def to_physical(array: "np.ndarray", shape: Shape) -> "np.ndarray":
    """The elements in the order of the shape's layout, up to the bounds of its dimensions."""
    import numpy as np

    if array.shape != shape.dims:
        whole = np.zeros(shape.dims, array.dtype)
        whole[tuple(slice(size) for size in array.shape)] = array
        array = whole
    if shape.layout is not None:
        array = array.transpose(shape.layout.minor_to_major[::-1])
    return np.ascontiguousarray(array).reshape(-1)


def _valid_part(array: "np.ndarray", sizes: tuple[int, ...], shape: Shape) -> "np.ndarray":
    if len(sizes) != shape.rank:
        raise ProtoError(f"a literal of {shape} has {len(sizes)} dynamic sizes")
    for k, (size, bound) in enumerate(zip(sizes, shape.dims)):
        if not 0 <= size <= bound or (size != bound and not shape.is_dynamic_dim(k)):
            raise ProtoError(f"a literal of {shape} has the size {size} in dimension {k}")
    return array[tuple(slice(size) for size in sizes)].copy()


def write_literal(value: Literal, message: Any, context: "Context") -> None:
    """Fill a `LiteralProto`; `ProtoError` when it would not fit a message."""
    shape = value.shape
    message.shape.CopyFrom(context.shape_messages.message(shape))
    if shape.is_tuple:
        for part in value.elements:
            write_literal(part, message.tuple_literals.add(), context)
        return
    if not shape.is_array:
        return
    # The elements below are not packed, and XLA refuses a literal that says they are.
    if message.shape.HasField("layout"):
        message.shape.layout.ClearField("element_size_in_bits")
    if UNBOUNDED in shape.dims or value.is_elided:
        raise ProtoError(f"a literal of {shape} has no elements to write")
    name = shape.dtype.name
    if unpacked_bytes(shape) > TWO_GIB:
        raise ProtoError(
            f"a literal of {shape} does not fit a protobuf message (2 GiB)", rule="message-size"
        )
    if not shape.is_static:
        message.dynamic_sizes.extend(value.sizes)
    flat = to_physical(value.array, shape)
    if name not in _REPEATED:
        data = packing.dense_bytes(flat, shape.dtype, packed=False)
        if shape.dtype.bits < 8:
            data = bytes(byte & ((1 << shape.dtype.bits) - 1) for byte in data)
        setattr(message, name + "s", data)
    elif name in _BLOCK:
        data = flat.view("u1") if name == "pred" else flat.view(_wire_type(name)[1:])
        _write_block(message, name, data.tobytes())
    else:
        getattr(message, name + "s").extend(flat.tolist())


def _write_block(message: Any, name: str, data: bytes) -> None:
    """Say a packed field by its wire form: tag, length, elements."""
    if data:
        number = message.DESCRIPTOR.fields_by_name[name + "s"].number
        message.MergeFromString(varint(number << 3 | 2) + varint(len(data)) + data)


def varint(value: int) -> bytes:
    """A number that is not negative, seven bits a byte, the lowest first."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
