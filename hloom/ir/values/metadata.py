"""Where an instruction came from: names, source places, stack frames.

Metadata is the bulk of a large program's text, so reading it is one pass of one expression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NoReturn

from hloom.base.quoting import escape, unescape
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.stack_frames import StackFrameIndex

MAX_OP_NAME = 1024
"""Inlining makes no longer names than this."""


def _maybe(name: str, value: str) -> str:
    return f"(?:{name}={value} ?)?"


_TEXT = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_NUMBER = r"(\d{1,9})(?=[ }])"
# What nearly all metadata is: these parts in this order, one blank between them.
_USUAL_NAMES = ("op_type", "op_name", "source_file", "source_line", "source_end_line")
_USUAL_NAMES += ("source_column", "source_end_column", "stack_frame_id")
_USUAL = re.compile(
    r"\s*\{"
    + "".join(_maybe(name, _TEXT) for name in _USUAL_NAMES[:3])
    + "".join(_maybe(name, _NUMBER) for name in _USUAL_NAMES[3:])
    + r"\}",
    re.S,
)
_PAIR = re.compile(r'\s*,?\s*([a-z_]\w*)=(?:"((?:[^"\\]|\\.)*)"|(-?\d+)|([{\']))', re.S)
_STRINGS = frozenset(
    (
        "op_type",
        "op_name",
        "source_file",
        "deduplicated_name",
        "scheduling_name",
        "metadata_payload",
    )
)
_INTEGERS = frozenset(
    ("source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id")
)


@dataclass(frozen=True, slots=True)
class OpMetadata:
    """What is known of an instruction's origin; fields are those of the proto.

    A field that is empty or 0 is not known. Lines and columns count from 1.
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    profile_type: tuple[int, ...] = ()
    size_of_generated_code_in_bytes: int = 0
    size_of_memory_working_set_in_bytes: int = 0
    deduplicated_name: str = ""
    stack_frame_id: int = 0
    scheduling_name: str = ""
    metadata_payload: str = ""
    """An opaque payload of a tool; `bytes` that are not UTF-8 are surrogate escapes."""
    payload_id: int | None = None
    """The number of the payload in the module's table instead of the payload itself."""
    profile_info: bytes = b""
    """The serialized `ProfileInfo` message; only protos carry it."""

    @property
    def text(self) -> str:
        parts = []
        for name in ("op_type", "op_name", "source_file"):
            if value := getattr(self, name):
                parts.append(f'{name}="{escape(value)}"')
        for name in (
            "source_line",
            "source_end_line",
            "source_column",
            "source_end_column",
        ):
            if value := getattr(self, name):
                parts.append(f"{name}={value}")
        if self.profile_type:
            parts.append("profile_type={" + ",".join(map(str, self.profile_type)) + "}")
        if self.deduplicated_name:
            parts.append(f'deduplicated_name="{escape(self.deduplicated_name)}"')
        if self.stack_frame_id:
            parts.append(f"stack_frame_id={self.stack_frame_id}")
        if self.scheduling_name:
            parts.append(f'scheduling_name="{escape(self.scheduling_name)}"')
        if self.metadata_payload:
            parts.append(f'metadata_payload="{escape(self.metadata_payload)}"')
        return "{" + " ".join(parts) + "}"

    def with_inlined_frames(self, frames: StackFrameIndex) -> OpMetadata:
        """The same with the innermost stack frame's place instead of its number."""
        if not self.stack_frame_id:
            return self
        chain = frames.frames(self.stack_frame_id)
        if not chain:
            return replace(self, stack_frame_id=0)
        return replace(
            self,
            stack_frame_id=0,
            source_file=chain[0].file,
            source_line=chain[0].line,
            source_end_line=chain[0].end_line,
            source_column=chain[0].column,
            source_end_column=chain[0].end_column,
        )

    def called_from(self, caller: OpMetadata) -> OpMetadata:
        """What an instruction's metadata becomes when its call is inlined.

        The name becomes `caller/own`, unless it has that prefix or would be too long.
        """
        prefix = caller.op_name
        if not prefix or self.op_name.startswith(prefix + "/") or self.op_name == prefix:
            return self
        name = f"{prefix}/{self.op_name}" if self.op_name else prefix
        return self if len(name) > MAX_OP_NAME else replace(self, op_name=name)

    @property
    def is_empty(self) -> bool:
        return self == NO_METADATA


NO_METADATA = OpMetadata()


def parse_metadata(cursor: Cursor) -> OpMetadata:
    """Read `{op_type="add" op_name="f/add" source_line=3}`; commas between parts are allowed."""
    usual = _USUAL.match(cursor.text, cursor.position)
    if usual:
        cursor.position = usual.end()
        kind, name, file, *numbers, frame = usual.groups()
        line, end_line, column, end_column = [int(n) if n else 0 for n in numbers]
        return OpMetadata(
            unescape(kind) if kind else "",
            unescape(name) if name else "",
            unescape(file) if file else "",
            line,
            end_line,
            column,
            end_column,
            stack_frame_id=int(frame) if frame else 0,
        )
    cursor.expect("{", "to start metadata")
    values: dict[str, object] = {}
    text = cursor.text
    while True:
        match = _PAIR.match(text, cursor.position)
        if match is None:
            if cursor.eat("}"):
                break
            _fail_here(cursor)
        name, string, integer, _ = match.groups()
        at = match.start(1)
        if name in values:
            cursor.fail(f"{name} is given twice in this metadata", at, length=len(name))
        if string is not None and name in _STRINGS:
            values[name] = unescape(string)
        elif match[4] == "'" and name in _STRINGS:
            cursor.position = match.start(4)
            values[name] = cursor.string()
            continue
        elif integer is not None and name in _INTEGERS:
            value = int(integer) if len(integer) < 12 else 2**40
            if not -(2**31) <= value < 2**31:
                cursor.fail(f"{name} does not fit 32 bits", match.start(3), length=len(integer))
            values[name] = value
        elif name == "profile_type" and match[4] == "{":
            cursor.position = match.start(4)
            values[name] = _profile_types(cursor)
            continue
        else:
            _wrong_value(cursor, name, at, match.end(1) + 1)
        cursor.position = match.end()
    return OpMetadata(**values)  # type: ignore[arg-type]


def _profile_types(cursor: Cursor) -> tuple[int, ...]:
    at = cursor.skip()
    values = cursor.integers()
    if any(not 0 <= v <= 3 for v in values):
        cursor.fail("a profile type is one of 0 to 3", at)
    return values


def _wrong_value(cursor: Cursor, name: str, at: int, value_at: int) -> NoReturn:
    if name in _STRINGS:
        cursor.fail(f"{name} is a quoted string", value_at)
    if name in _INTEGERS:
        cursor.fail(f"{name} is an integer", value_at)
    known = ", ".join(sorted(_STRINGS | _INTEGERS | {"profile_type"}))
    cursor.fail(f"unknown metadata {name!r}", at, length=len(name), hint=f"known: {known}")


def _fail_here(cursor: Cursor) -> NoReturn:
    """Say what is wrong where no whole `name=value` stands."""
    cursor.eat(",")
    at = cursor.skip()
    name = cursor.name("a part of metadata such as op_name=")
    cursor.expect("=", f"after {name}")
    if name == "profile_type":
        cursor.expect("{", "to start the profile types")
    _wrong_value(cursor, name, at, cursor.position)
