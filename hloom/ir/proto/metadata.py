"""Metadata, frontend attributes, statistics and original values to and from their messages."""

from typing import Any

from hloom.base.diagnostics import ProtoError
from hloom.ir.values.frontend import NO_ATTRIBUTES, FrontendAttributes, InstructionStatistics
from hloom.ir.values.metadata import OpMetadata

_PLAIN = (
    "op_type",
    "op_name",
    "source_file",
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "size_of_generated_code_in_bytes",
    "size_of_memory_working_set_in_bytes",
    "deduplicated_name",
    "stack_frame_id",
    "scheduling_name",
)


def read_metadata(message: Any) -> OpMetadata:
    """The metadata of an `OpMetadata` message."""
    # Only what is set is asked for: most fields of most messages are empty.
    values: dict[str, Any] = {f.name: v for f, v in message.ListFields() if f.name in _PLAIN}
    if message.profile_type:
        values["profile_type"] = tuple(message.profile_type)
    if message.HasField("profile_info"):
        values["profile_info"] = message.profile_info.SerializeToString()
    if message.HasField("metadata_payload"):
        payload = message.metadata_payload
        if payload.WhichOneof("payload_source") == "id":
            values["payload_id"] = payload.id
        else:
            values["metadata_payload"] = payload.value.decode("utf-8", "surrogateescape")
    return OpMetadata(**values)


def write_metadata(value: OpMetadata, message: Any) -> None:
    """Fill an `OpMetadata` message."""
    message.SetInParent()
    for name in _PLAIN:
        if field_value := getattr(value, name):
            setattr(message, name, field_value)
    message.profile_type.extend(value.profile_type)
    if value.profile_info:
        message.profile_info.MergeFromString(value.profile_info)
    if value.payload_id is not None:
        message.metadata_payload.id = value.payload_id
    elif value.metadata_payload:
        message.metadata_payload.value = value.metadata_payload.encode("utf-8", "surrogateescape")


def read_frontend_attributes(message: Any) -> FrontendAttributes:
    """The map of a `FrontendAttributes` message, sorted by key."""
    pairs = tuple(sorted(message.map.items()))
    return FrontendAttributes(pairs) if pairs else NO_ATTRIBUTES


def write_frontend_attributes(value: FrontendAttributes, message: Any) -> None:
    """Fill a `FrontendAttributes` message."""
    for name, text in value.pairs:
        message.map[name] = text


def read_statistics(message: Any) -> InstructionStatistics | None:
    """The statistics of a `StatisticsViz`; None when there are none."""
    if not message.statistics:
        return None
    values = tuple([(s.stat_name, s.stat_val) for s in message.statistics])
    if not 0 <= message.stat_index_to_visualize < len(values):
        raise ProtoError(f"statistic {message.stat_index_to_visualize} is not one of {len(values)}")
    return InstructionStatistics(message.stat_index_to_visualize, values)


def write_statistics(value: InstructionStatistics, message: Any) -> None:
    """Fill a `StatisticsViz`."""
    message.stat_index_to_visualize = value.stat_index_to_visualize
    for name, number in value.statistics:
        message.statistics.add(stat_name=name, stat_val=number)
