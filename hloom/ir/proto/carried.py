"""What a message holds and the graph has no place for, so that a rewritten file loses nothing.

* Known fields of the module that no pass asks for (profiles, device assignment, prefetches, ...)
  are kept as bytes in `module.carried["proto"]`.
* Fields that a newer XLA added to modules, computations and instructions are kept as bytes too
  (`module.carried`, `instruction.extra`). New fields inside their parts (a new field of a layout,
  say) are not kept: those parts become values of our own.
"""

import warnings
from typing import TYPE_CHECKING, Any

from hloom.ir import schema
from hloom.ir.proto.annotations import UNKNOWN
from hloom.ir.proto.literal import varint
from hloom.ir.proto.note import FIELD

if TYPE_CHECKING:
    from hloom.ir.instruction import Instruction
    from hloom.ir.module import Module


class NewerFieldsWarning(UserWarning):
    """A message holds fields of instructions that this version does not know."""


PROTO = "proto"
"""Key in `module.carried` of a serialized `HloModuleProto` with only the fields below."""
COMPUTATIONS = "unknown_fields_of_computations"
"""Key in `module.carried` of the unknown fields of computations, by name."""
FIELDS = (
    "id",
    "pjrt_id",
    "payloads",
    "cross_program_prefetches",
    "profile_info",
    "device_assignment",
    "original_value_recovery_table",
    "device_type",
)


def unknown_bytes(message: Any) -> bytes:
    """The fields of this message (not of its parts) that the schema does not know, encoded."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    parts: list[bytes] = []
    for field in UnknownFieldSet(message):
        number, wire, data = field.field_number, field.wire_type, field.data
        if number == FIELD:
            continue
        tag = varint(number << 3 | wire)
        if wire == 0:
            parts.append(tag + varint(data))
        elif wire in (1, 5):
            parts.append(tag + int(data).to_bytes(8 if wire == 1 else 4, "little"))
        elif wire == 2:
            parts.append(tag + varint(len(data)) + bytes(data))
    return b"".join(parts)


def has_unknown(message: Any) -> bool:
    """Whether anything in a module's message is unknown, beside our own note."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() != message.ByteSize()


def keep_module(message: Any, module: "Module") -> None:
    """Keep what the graph has no place for."""
    rest = schema.HloModuleProto()
    for name in FIELDS:
        field = message.DESCRIPTOR.fields_by_name[name]
        value = getattr(message, name)
        if hasattr(value, "extend"):
            getattr(rest, name).extend(value)
        elif field.message_type is not None:
            if message.HasField(name):
                getattr(rest, name).CopyFrom(value)
        elif value or (name == "pjrt_id" and message.HasField(name)):
            setattr(rest, name, value)
    rest.MergeFromString(unknown_bytes(message))
    if data := rest.SerializeToString(deterministic=True):
        module.carried[PROTO] = data


def give_back_module(module: "Module", message: Any) -> None:
    """Say again what was kept."""
    if data := module.carried.get(PROTO):
        message.MergeFromString(data)


def keep_unknown_of_instruction(message: Any, into: "Instruction") -> bool:
    """Keep the unknown fields of one instruction; whether one of them says anything. Empty parts,
    such as the block scaling that XLA 0.12 puts into every dot, say nothing."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    data = unknown_bytes(message)
    if not data:
        return False
    into.extra = {**(into.extra or {}), UNKNOWN: data}
    fields = [f for f in UnknownFieldSet(message) if f.field_number != FIELD]
    return any(f.wire_type != 2 or f.data for f in fields)


def warn_of_newer(module: "Module", newer: list["Instruction"]) -> None:
    """Say once that these instructions hold fields that may change what they mean."""
    first = newer[0]
    more = f" and {len(newer) - 1} more" if len(newer) > 1 else ""
    warnings.warn(
        f"module {module.name}: %{first.name} ({first.opcode}){more} has fields of a newer XLA; "
        "they are kept, but what they mean is not known here, and results may be others",
        NewerFieldsWarning,
        stacklevel=2,
    )


def keep_unknown(message: Any, module: "Module", name: str) -> None:
    """Keep the unknown fields of one computation."""
    if data := unknown_bytes(message):
        module.carried.setdefault(COMPUTATIONS, {})[name] = data
