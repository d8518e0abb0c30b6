"""Snapshots: a module together with what it was run on.

`HloSnapshot` holds a module, its arguments, its result and the platform. `HloUnoptimizedSnapshot`
holds a module before optimisation and the arguments of each partition, in one of two forms: as
literals in the message, or (the custom serialisation) as descriptors in the message and raw
bytes behind it, which lifts the 2 GiB limit of a message. The file of the second form is

    length of the message, a varint | the message | the literals, one behind the other

and each literal is

    length of its ShapeProto, 8 bytes | its ShapeProto | for each array in it, in order:
    its dynamic sizes, 4 bytes each, if it has a dynamic dimension | its elements

with all numbers little-endian, elements in the order of the layout, and predicates and narrow
types packed, the first element in the lowest bits.
"""

from dataclasses import dataclass
from math import prod
from typing import Any
from typing import Literal as OneOf

from hloom.base.diagnostics import ProtoError, UsageError
from hloom.ir import schema
from hloom.ir.module import Module
from hloom.ir.proto.codec import Context
from hloom.ir.proto.literal import from_physical, read_literal, to_physical, varint, write_literal
from hloom.ir.proto.read import module_from_proto
from hloom.ir.proto.wire import (
    message_bytes,
    message_text,
    parse_message,
    parse_text_message,
)
from hloom.ir.proto.write import module_to_proto
from hloom.types import packing
from hloom.types.dtype import PRED
from hloom.types.literal import Literal
from hloom.types.shape import UNBOUNDED, Shape

Kind = OneOf["snapshot", "unoptimized-snapshot", "custom-snapshot"]
MESSAGES = {"snapshot": "HloSnapshot", "unoptimized-snapshot": "HloUnoptimizedSnapshot"}


@dataclass(frozen=True)
class Snapshot:
    """A module and what it was run on."""

    module: Module
    partitions: tuple[tuple[Literal, ...], ...] = ()
    """The arguments of each partition; of an `HloSnapshot` there is one."""
    result: Literal | None = None
    execution_platform: str = ""

    @property
    def arguments(self) -> tuple[Literal, ...]:
        """The arguments of the first partition."""
        return self.partitions[0] if self.partitions else ()


def snapshot_to_bytes(snapshot: Snapshot, kind: Kind = "snapshot") -> bytes:
    """The snapshot as a file of this kind; `custom-snapshot` is the custom serialisation."""
    if kind != "custom-snapshot":
        return message_bytes(snapshot_to_message(snapshot, kind))
    message = schema.HloUnoptimizedSnapshot()
    message.hlo_module.CopyFrom(module_to_proto(snapshot.module))
    raw: list[bytes] = []
    for arguments in snapshot.partitions:
        partition = message.partitions.add()
        for argument in arguments:
            raw.append(raw_literal(argument))
            partition.arguments_descriptors.add(argument_size_bytes=len(raw[-1]))
    head = message_bytes(message)
    return b"".join((varint(len(head)), head, *raw))


def snapshot_to_text(snapshot: Snapshot, kind: Kind = "snapshot") -> str:
    """The snapshot as a text proto."""
    return message_text(snapshot_to_message(snapshot, kind))


def snapshot_to_message(snapshot: Snapshot, kind: Kind) -> Any:
    """The `HloSnapshot` or `HloUnoptimizedSnapshot`, arguments inside."""
    if kind not in MESSAGES:
        raise UsageError(f"no message holds a {kind}", hint=f"known: {', '.join(MESSAGES)}")
    message, context = schema.message(MESSAGES[kind])(), Context()
    if kind == "snapshot":
        if len(snapshot.partitions) > 1:
            raise UsageError("an HloSnapshot holds the arguments of one partition only")
        message.hlo.hlo_module.CopyFrom(module_to_proto(snapshot.module))
        for argument in snapshot.arguments:
            write_literal(argument, message.arguments.add(), context)
        if snapshot.result is not None:
            write_literal(snapshot.result, message.result, context)
        message.execution_platform = snapshot.execution_platform
        return message
    message.hlo_module.CopyFrom(module_to_proto(snapshot.module))
    for arguments in snapshot.partitions:
        partition = message.partitions.add()
        for argument in arguments:
            write_literal(argument, partition.arguments.add(), context)
    return message


def snapshot_from_bytes(data: bytes | memoryview, kind: Kind = "snapshot") -> Snapshot:
    """The snapshot in a file of this kind; `ProtoError` where it is broken."""
    if kind != "custom-snapshot":
        return snapshot_from_message(parse_message(MESSAGES[kind], data))
    view = memoryview(data)
    message, at = split_custom(view)
    partitions = []
    for partition in message.partitions:
        arguments = []
        for descriptor in partition.arguments_descriptors:
            if descriptor.version:
                raise ProtoError(f"unknown version {descriptor.version} of an argument")
            size = descriptor.argument_size_bytes
            if at + size > len(view):
                raise ProtoError("the file ends before its last argument", rule="wire")
            arguments.append(literal_from_raw(view[at : at + size]))
            at += size
        partitions.append(tuple(arguments))
    if at != len(view):
        raise ProtoError(f"{len(view) - at} bytes follow the last argument", rule="wire")
    return Snapshot(module_from_proto(message.hlo_module), tuple(partitions))


def split_custom(view: memoryview) -> tuple[Any, int]:
    """The message at the head of a custom serialisation, and where the literals begin."""
    length = at = 0
    while True:
        if at >= min(len(view), 10):
            raise ProtoError("the file does not begin with the length of a message", rule="wire")
        length |= (view[at] & 127) << 7 * at
        at += 1
        if view[at - 1] < 128:
            break
    if at + length > len(view):
        raise ProtoError("the file ends inside its first message", rule="wire")
    message = parse_message("HloUnoptimizedSnapshot", view[at : at + length])
    if message.version:
        raise ProtoError(f"unknown version {message.version} of a snapshot")
    return message, at + length


def snapshot_from_text(text: str, kind: Kind = "snapshot", file: str | None = None) -> Snapshot:
    """The snapshot that a text proto describes."""
    return snapshot_from_message(parse_text_message(MESSAGES[kind], text, file))


def snapshot_from_message(message: Any) -> Snapshot:
    """The snapshot of an `HloSnapshot` or `HloUnoptimizedSnapshot` with its arguments inside."""
    context = Context()
    if message.DESCRIPTOR.name == "HloSnapshot":
        arguments = tuple([read_literal(a, context) for a in message.arguments])
        return Snapshot(
            module_from_proto(message.hlo.hlo_module),
            (arguments,),
            read_literal(message.result, context) if message.HasField("result") else None,
            message.execution_platform,
        )
    if any(partition.arguments_descriptors for partition in message.partitions):
        raise ProtoError("the arguments of this snapshot should follow it in the file")
    partitions = tuple(
        tuple([read_literal(a, context) for a in partition.arguments])
        for partition in message.partitions
    )
    return Snapshot(module_from_proto(message.hlo_module), partitions)


# -- literals as raw bytes


def raw_literal(value: Literal) -> bytes:
    """A literal in the form that the module docstring describes."""
    context = Context()
    shape = message_bytes(context.shape_messages.message(value.shape))
    parts = [len(shape).to_bytes(8, "little"), shape]
    stack = [value]
    while stack:
        one = stack.pop()
        if one.is_tuple:
            stack.extend(reversed(one.elements))
            continue
        if not one.shape.is_array or UNBOUNDED in one.shape.dims:
            raise ProtoError(f"a value of {one.shape} cannot be in a snapshot")
        if not one.shape.is_static:
            parts += [size.to_bytes(4, "little") for size in one.sizes]
        flat = to_physical(one.array, one.shape)
        if one.dtype is PRED:
            parts.append(packing.pack(flat.view("u1"), 1).tobytes())
        else:
            parts.append(packing.dense_bytes(flat, one.dtype))
    return b"".join(parts)


def literal_from_raw(view: memoryview) -> Literal:
    """The literal that `raw_literal` wrote; `ProtoError` for a wrong number of bytes."""
    length = int.from_bytes(view[:8], "little")
    if len(view) < 8 or length > len(view) - 8:
        raise ProtoError("an argument ends inside its shape", rule="wire")
    shape = Context().shapes.shape(parse_message("ShapeProto", view[8 : 8 + length]))
    value, rest = _take(view[8 + length :], shape)
    if len(rest):
        raise ProtoError(f"an argument of {shape} has {len(rest)} bytes too many", rule="wire")
    return value


def _take(view: memoryview, shape: Shape) -> tuple[Literal, memoryview]:
    """A literal of this shape from the head of the bytes, and what is left of them."""
    if shape.is_tuple:
        parts = []
        for element in shape.elements:
            part, view = _take(view, element)
            parts.append(part)
        return Literal(shape, None, tuple(parts)), view
    if not shape.is_array or UNBOUNDED in shape.dims:
        raise ProtoError(f"a value of {shape} cannot be in a snapshot")
    sizes = shape.dims
    if not shape.is_static:
        if len(view) < 4 * shape.rank:
            raise ProtoError(f"an argument of {shape} ends early", rule="wire")
        sizes = tuple(
            int.from_bytes(view[4 * k : 4 * k + 4], "little", signed=True)
            for k in range(shape.rank)
        )
        if any(not 0 <= size <= bound for size, bound in zip(sizes, shape.dims)):
            raise ProtoError(f"an argument of {shape} has the sizes {list(sizes)}")
        view = view[4 * shape.rank :]
    count, dtype = prod(shape.dims), shape.dtype
    bits = 1 if dtype is PRED else dtype.bits
    narrow = bits in (1, 2, 4)
    size = packing.packed_size(count, bits) if narrow else count * dtype.size_bytes
    if len(view) < size:
        raise ProtoError(f"an argument of {shape} ends early", rule="wire")
    if dtype is PRED:
        import numpy as np

        flat = packing.unpack(np.frombuffer(view[:size], np.uint8), 1, count) != 0
    else:
        flat = packing.from_dense_bytes(view[:size], dtype, (count,))
    array = from_physical(flat, shape)
    if sizes != shape.dims:
        array = array[tuple(slice(n) for n in sizes)].copy()
    return Literal(shape, array), view[size:]
