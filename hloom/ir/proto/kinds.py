"""Which of the messages of HLO some bytes, or some text, are; and the module in them.

XLA gives one extension to four messages, so it is their structure that tells.
"""

from __future__ import annotations

from typing import Any

from hloom.base.diagnostics import HloError, ProtoError
from hloom.ir.proto.files import BUFFERS, Loaded, without_log_prefixes
from hloom.ir.proto.read import module_from_proto
from hloom.ir.proto.snapshot import (
    MESSAGES,
    snapshot_from_bytes,
    snapshot_from_message,
    split_custom,
)
from hloom.ir.proto.wire import inner_module, parse_message, parse_text_message


def load_binary(data: bytes) -> Loaded:
    """The module of a serialised message, of whichever of the kinds it is."""
    try:
        plain = parse_message("HloModuleProto", data)
        if any(c.instructions for c in plain.computations):
            return Loaded(module_from_proto(plain), "proto")
    except ProtoError as error:
        if not data or error.rule != "wire":
            raise
        plain = None
    for name in ("HloProto", "HloUnoptimizedSnapshot", "HloSnapshot"):
        try:
            message = parse_message(name, data)
        except ProtoError:
            continue
        if (loaded := _from_message(message)) is not None:
            return loaded
    try:
        head, _ = split_custom(memoryview(data))
    except ProtoError:
        head = None
    if head is not None and head.hlo_module.computations:
        snapshot = snapshot_from_bytes(data, "custom-snapshot")
        return Loaded(snapshot.module, "custom-snapshot", snapshot.partitions)
    if plain is not None:
        return Loaded(module_from_proto(plain), "proto")
    raise ProtoError("neither a module nor a snapshot: cut off, damaged or another file")


def _from_message(message: Any) -> Loaded | None:
    """What is in an `HloProto` or a snapshot; None when it does not look like one."""
    name = message.DESCRIPTOR.name
    module = inner_module(message)
    if not module.computations:
        return None
    if name == "HloProto":
        # An unoptimized snapshot has its partitions where HloProto has nothing any more.
        snapshot = parse_message("HloUnoptimizedSnapshot", message.SerializeToString())
        if snapshot.partitions:
            return _from_message(snapshot)
        module_ = module_from_proto(module)
        if message.HasField(BUFFERS):
            module_.carried[BUFFERS] = message.buffer_assignment.SerializeToString()
        return Loaded(module_, "hlo-proto")
    snapshot = snapshot_from_message(message)
    kind = next(kind for kind, expected_name in MESSAGES.items() if expected_name == name)
    return Loaded(
        snapshot.module, kind, snapshot.partitions, snapshot.result, snapshot.execution_platform
    )


def load_text_proto(text: str, file: str | None = None) -> Loaded:
    """The module of a text proto, of whichever of the kinds it is."""
    text = without_log_prefixes(text)
    first: HloError | None = None
    for name in ("HloModuleProto", "HloProto", "HloUnoptimizedSnapshot", "HloSnapshot"):
        try:
            message = parse_text_message(name, text, file)
        except ProtoError as error:
            # The kind that was understood furthest is the one that was meant.
            if first is None or _line(error) > _line(first):
                first = error
            continue
        if name == "HloModuleProto":
            loaded = Loaded(module_from_proto(message), "proto")
        else:
            loaded = _from_message(message)
        if loaded is None:
            raise ProtoError("the module has no computations")
        return loaded
    assert first is not None
    raise first


def _line(error: HloError) -> tuple[int, int]:
    place = error.location
    return ((place.line or 0), (place.column or 0)) if place else (0, 0)
