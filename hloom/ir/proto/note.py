"""What HLO text says and `HloModuleProto` has no field for, kept in one field of our own.

The text of a module has a configuration (replica and partition counts, flags of the partitioner),
a few attributes that XLA's messages drop, and names that repeat between computations where the
messages want them unique. All of that is one JSON object, in a field whose number XLA does not
use; XLA skips it. A text proto carries it in a first line that is a comment (`# hloom: {...}`).
"""

import json
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import ProtoError
from hloom.ir.proto.literal import varint

if TYPE_CHECKING:
    from hloom.ir.module import Module

FIELD = 104_108_111
"""The letters h, l, o; XLA counts its fields from 1."""
COMMENT = "# hloom: "
_COUNTS = ("replica_count", "num_partitions")
_FLAGS = ("use_spmd_partitioning", "alias_passthrough_parameters")
_FLAG_LISTS = (
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
)
_TEXTS = ("origin_recovery_table", "debug_attributes")
_BY_ID = ("names", "modes")


def note_of(module: "Module") -> dict[str, Any]:
    """What must be noted of the module's configuration: all that is not the default."""
    note: dict[str, Any] = {}
    for name in _COUNTS:
        if getattr(module, name) != 1:
            note[name] = getattr(module, name)
    for name in (*_FLAGS, *_TEXTS):
        if field_value := getattr(module, name, None):
            note[name] = field_value
    for name in _FLAG_LISTS:
        if field_value := getattr(module, name):
            note[name] = list(field_value)
    return note


def apply_note(note: dict[str, Any], module: "Module") -> None:
    """Put a checked note on a module; names and modes are for the reader of instructions."""
    for name, value in note.items():
        if name not in _BY_ID:
            setattr(module, name, tuple(value) if name in _FLAG_LISTS else value)


def write_note(note: dict[str, Any], message: Any) -> None:
    """Put a note into an `HloModuleProto`."""
    data = json.dumps(note, sort_keys=True, separators=(",", ":")).encode()
    message.MergeFromString(varint(FIELD << 3 | 2) + varint(len(data)) + data)


def read_note(message: Any) -> dict[str, Any]:
    """The note in an `HloModuleProto`, checked; empty when there is none."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    note: dict[str, Any] = {}
    for field in UnknownFieldSet(message):
        if field.field_number == FIELD and isinstance(field.data, bytes):
            note = parse_note(field.data)
    return note


def parse_note(data: bytes | str) -> dict[str, Any]:
    """The note that JSON describes; `ProtoError` where it is not one."""
    try:
        note = json.loads(data)
    except (ValueError, RecursionError):
        raise ProtoError("the note of hloom in this module is not JSON") from None
    if not isinstance(note, dict) or not all(_is_right(k, v) for k, v in note.items()):
        raise ProtoError("the note of hloom in this module has parts that it cannot have")
    return note


def _is_right(name: str, value: Any) -> bool:
    if name in _COUNTS:
        return type(value) is int and value >= 1
    if name in _FLAGS:
        return type(value) is bool
    if name in _FLAG_LISTS:
        return isinstance(value, list) and all(type(x) is bool for x in value)
    if name in _BY_ID:
        return isinstance(value, dict) and all(isinstance(x, str) for x in value.values())
    return name in _TEXTS and isinstance(value, str)
