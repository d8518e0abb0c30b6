"""What any instruction may carry, to and from its message: metadata, sharding, configs, origin.

Many instructions share these values, so equal messages are read once and equal values written
once; the memory lives as long as one conversion.
"""

from collections.abc import Callable, Sequence
from typing import Any

from hloom.base.diagnostics import ProtoError
from hloom.ir.instruction import Instruction
from hloom.ir.proto.codec import Context
from hloom.ir.proto.metadata import (
    read_frontend_attributes,
    read_metadata,
    read_statistics,
    write_frontend_attributes,
    write_metadata,
    write_statistics,
)
from hloom.ir.proto.sharding import write_sharding
from hloom.ir.values.backend_config import BackendConfig
from hloom.ir.values.original_value import (
    OriginalArray,
    OriginalNode,
    OriginalTuple,
    OriginalValue,
)
from hloom.types.shape import Shape

UNKNOWN = "unknown_fields"
"""Key in `Instruction.extra` of the bytes of fields that a newer XLA wrote."""


class AnnotationReader:
    """Puts the annotations of messages on instructions."""

    def __init__(self, context: Context, payloads: Sequence[bytes]) -> None:
        self.context = context
        self.payloads = payloads
        self._known: dict[Callable[[Any], Any], dict[bytes, Any]] = {}

    def read(self, m: Any, into: Instruction) -> None:
        """Everything that `m` says beside the operation itself."""
        if m.HasField("metadata"):
            into.metadata = self.once(m.metadata, read_metadata)
        if m.HasField("sharding"):
            into.sharding = self.context.shardings.sharding(m.sharding)
        if m.HasField("frontend_attributes"):
            into.frontend_attributes = self.once(m.frontend_attributes, read_frontend_attributes)
        config = m.backend_config or self.payload(m)
        if config:
            into.backend_config = self.backend_config(config)
        if m.HasField("statistics_viz"):
            self.extra(into, "statistics", self.once(m.statistics_viz, read_statistics))
        if m.HasField("original_value"):
            self.extra(into, "original_value", read_original_value(m.original_value, into.shape))
        if m.HasField("parameter_replication"):
            flags = tuple(m.parameter_replication.replicated_at_leaf_buffers)
            self.extra(into, "parameter_replication", flags or None)

    def once(self, message: Any, read: Callable[[Any], Any]) -> Any:
        """What `read` makes of a message, None of an empty one."""
        key = message.SerializeToString()
        if not key:
            return None
        known = self._known.setdefault(read, {})
        value = known.get(key)
        if value is None:
            value = known[key] = read(message)
        return value

    def extra(self, into: Instruction, name: str, value: Any) -> None:
        if value is not None:
            into.extra = {**(into.extra or {}), name: value}

    def payload(self, m: Any) -> bytes:
        """The backend config where it is a payload, in place or in the module's table."""
        if not m.HasField("backend_config_payload"):
            return b""
        payload = m.backend_config_payload
        if payload.WhichOneof("payload_source") != "id":
            return payload.value
        if not 0 <= payload.id < len(self.payloads):
            raise ProtoError(f"payload {payload.id} is not one of {len(self.payloads)}")
        return self.payloads[payload.id]

    def backend_config(self, config: bytes) -> BackendConfig:
        known = self._known.setdefault(BackendConfig, {})
        config_ = known.get(config)
        if config_ is None:
            config_ = known[config] = BackendConfig(config.decode("utf-8", "surrogateescape"))
        return config_


class AnnotationWriter:
    """Says the annotations of instructions in messages."""

    def __init__(self) -> None:
        self._known: dict[int, bytes] = {}

    def write(self, i: Instruction, m: Any) -> None:
        """Everything that `i` carries beside the operation itself."""
        if i.metadata is not None:
            self.once(i.metadata, m.metadata, write_metadata)
        if i.sharding is not None:
            self.once(i.sharding, m.sharding, write_sharding)
        if i.frontend_attributes:
            self.once(i.frontend_attributes, m.frontend_attributes, write_frontend_attributes)
        write_config(i.backend_config, m)
        if i.extra:
            self.write_extra(i.extra, m)

    def write_extra(self, extra: dict[str, Any], m: Any) -> None:
        if statistics := extra.get("statistics"):
            write_statistics(statistics, m.statistics_viz)
        if (origin := extra.get("original_value")) is not None:
            write_original_value(origin, m.original_value)
        if (flags := extra.get("parameter_replication")) is not None:
            m.parameter_replication.replicated_at_leaf_buffers.extend(flags)
        if unknown := extra.get(UNKNOWN):
            m.MergeFromString(unknown)

    def once(self, value: Any, message: Any, write: Callable[[Any, Any], None]) -> None:
        """Fill a message by `write`, or from the bytes that it gave for the same object."""
        known_message = self._known.get(id(value))
        if known_message is None:
            write(value, message)
            self._known[id(value)] = message.SerializeToString(deterministic=True)
        else:
            message.SetInParent()
            message.MergeFromString(known_message)


def read_config(message: Any) -> BackendConfig | None:
    """The backend config of a module or computation."""
    config = message.backend_config
    return BackendConfig(config.decode("utf-8", "surrogateescape")) if config else None


def write_config(value: BackendConfig | None, message: Any) -> None:
    """Put a backend config into a message of any kind."""
    if value is not None:
        message.backend_config = value.raw.encode("utf-8", "surrogateescape")


def read_original_value(message: Any, shape: Shape) -> OriginalValue | None:
    """The original arrays of the leaves of a value; the tree is that of the value's shape."""
    if message.is_synthetic_call:
        return OriginalValue(None, True)
    leaves: dict[tuple[int, ...], OriginalArray | None] = {}
    for element in message.elements:
        array = None
        if element.HasField("original_array"):
            written = element.original_array
            array = OriginalArray(written.instruction_name, tuple(written.shape_index))
        leaves[tuple(element.shape_index)] = array
    if not leaves and not message.call_hierarchy:
        return None
    used: set[tuple[int, ...]] = set()

    def node(part: Shape, index: tuple[int, ...]) -> OriginalNode:
        if part.is_tuple and index not in leaves:
            parts = [node(element, (*index, k)) for k, element in enumerate(part.elements)]
            return OriginalTuple(tuple(parts))
        used.add(index)
        return leaves.get(index)

    tree = node(shape, ())
    if strange := leaves.keys() - used:
        raise ProtoError(f"original value: {shape} has no part {list(min(strange))}")
    return OriginalValue(tree, call_hierarchy=message.call_hierarchy)


def write_original_value(value: OriginalValue, message: Any) -> None:
    """Fill an `OriginalValueProto`."""
    message.SetInParent()
    if value.is_synthetic_call:
        message.is_synthetic_call = True
        return
    message.call_hierarchy = value.call_hierarchy
    for index, array in value.leaves():
        element = message.elements.add(shape_index=index)
        if array is not None:
            element.original_array.instruction_name = array.instruction_name
            element.original_array.shape_index.extend(array.shape_index)
