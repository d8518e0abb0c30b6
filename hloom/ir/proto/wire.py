"""Messages as bytes and as text; whatever is wrong with either is a `ProtoError`."""

import re
from typing import Any

from hloom.base.diagnostics import ProtoError, SourceLocation
from hloom.ir import schema
from hloom.ir.module import Module
from hloom.ir.proto.note import COMMENT, parse_note, read_note, write_note
from hloom.ir.proto.read import module_from_proto
from hloom.ir.proto.write import module_to_proto

_COMMENT = re.compile(rf"^{re.escape(COMMENT)}(.*)$", re.M)
_TOO_LARGE = "a protobuf message holds at most 2 GiB; snapshots have a form without that limit"


def parse_message(name: str, data: bytes | memoryview) -> Any:
    """The message of this name that the bytes hold; `ProtoError` where they hold none."""
    from google.protobuf.message import DecodeError

    message = schema.message(name)()
    try:
        message.ParseFromString(bytes(data))
    except (DecodeError, ValueError, TypeError, RecursionError, OverflowError) as error:
        deep = "nests too deep" if "epth" in str(error) else "is cut off or damaged"
        raise ProtoError(f"not an {name}: the message {deep}", rule="wire") from None
    return message


def message_bytes(message: Any) -> bytes:
    """The bytes of a message, the same for the same message; `ProtoError` over 2 GiB."""
    from google.protobuf.message import EncodeError

    try:
        return message.SerializeToString(deterministic=True)
    except (EncodeError, ValueError, RecursionError) as error:
        raise ProtoError(
            f"the message cannot be written: {error}", rule="message-size", hint=_TOO_LARGE
        ) from None


def parse_text_message(name: str, text: str, file: str | None = None) -> Any:
    """The message that a text proto describes; `ProtoError` with its line and column."""
    from google.protobuf import text_format

    message = schema.message(name)()
    try:
        text_format.Parse(text, message, descriptor_pool=schema.pool())
    except text_format.ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        source = text.split("\n")[line - 1] if line else None
        words = re.sub(r"^\d+:\d+ : ", "", str(error))
        raise ProtoError(
            f"not a text proto of {name}: {words}",
            location=SourceLocation(file, line, column, source),
            rule="text-proto",
        ) from None
    except (ValueError, TypeError, RecursionError, OverflowError, KeyError) as error:
        why = "it nests too deep" if isinstance(error, RecursionError) else str(error)
        raise ProtoError(f"not a text proto of {name}: {why}", rule="text-proto") from None
    if match := _COMMENT.search(text[:100_000]):
        write_note(parse_note(match[1]), inner_module(message))
    return message


def message_text(message: Any) -> str:
    """The text proto of a message; our note (`note.py`) is a comment in its first line."""
    import json

    from google.protobuf import text_format

    note = read_note(inner_module(message))
    head = f"{COMMENT}{json.dumps(note, sort_keys=True)}\n" if note else ""
    return head + text_format.MessageToString(message)


def module_from_bytes(data: bytes | memoryview) -> Module:
    """The module of a serialised `HloModuleProto`; `ProtoError` where it is broken."""
    return module_from_proto(parse_message("HloModuleProto", data))


def module_to_bytes(module: Module) -> bytes:
    """The module as a serialised `HloModuleProto`, as XLA reads it."""
    return message_bytes(module_to_proto(module))


def module_from_text_proto(text: str, file: str | None = None) -> Module:
    """The module of a text proto of `HloModuleProto`."""
    return module_from_proto(parse_text_message("HloModuleProto", text, file))


def module_to_text_proto(module: Module) -> str:
    """The module as a text proto of `HloModuleProto`."""
    return message_text(module_to_proto(module))


def inner_module(message: Any) -> Any:
    """The `HloModuleProto` in a message of any of the kinds that hold one."""
    name = message.DESCRIPTOR.name
    if name == "HloModuleProto":
        return message
    return message.hlo.hlo_module if name == "HloSnapshot" else message.hlo_module
