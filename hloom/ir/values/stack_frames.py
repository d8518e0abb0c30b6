"""The module's table of stack frames, which metadata refers to by number.

Four tables follow the module's header line: file names, function names, places in them, and
frames that chain to the frame that called them. All numbers count from 1; 0 is "none". In text,
and only there, the number of a parent frame is one higher, so that 1 is "none".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hloom.base.quoting import escape
from hloom.ir.text.cursor import Cursor

_TITLE = re.compile(r"(FileNames|FunctionNames|FileLocations|StackFrames)\b")
_ROW = re.compile(r"(\d{1,10})(?=\s*[\"{])")
_FIELD = re.compile(r"\s*,?\s*([a-z_]+)=(\d{1,11})")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A place in a source file; 0 is unknown."""

    file_name_id: int = 0
    function_name_id: int = 0
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A place and the number of the frame that called it (0: none), as in the proto."""

    file_location_id: int = 0
    parent_frame_id: int = 0


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A frame with its numbers looked up."""

    file: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class StackFrameIndex:
    """The four tables; see the module."""

    file_names: tuple[str, ...] = ()
    function_names: tuple[str, ...] = ()
    file_locations: tuple[FileLocation, ...] = ()
    stack_frames: tuple[StackFrame, ...] = ()

    def __bool__(self) -> bool:
        return bool(
            self.file_names or self.function_names or self.file_locations or self.stack_frames
        )

    def frames(self, stack_frame_id: int) -> list[SourceFrame]:
        """The frames from the innermost outwards.

        Unknown numbers end the list; a cycle of parents is followed once around.
        """
        frames_: list[SourceFrame] = []
        seen: set[int] = set()
        while stack_frame_id not in seen:
            seen.add(stack_frame_id)
            frame = _at(self.stack_frames, stack_frame_id)
            place = _at(self.file_locations, frame.file_location_id) if frame else None
            if frame is None or place is None:
                break
            frames_.append(
                SourceFrame(
                    _at(self.file_names, place.file_name_id) or "",
                    _at(self.function_names, place.function_name_id) or "",
                    place.line,
                    place.column,
                    place.end_line,
                    place.end_column,
                )
            )
            stack_frame_id = frame.parent_frame_id
        return frames_

    @property
    def text(self) -> str:
        """The four tables, each followed by an empty line; nothing when all are empty."""
        if not self:
            return ""
        parts: list[str] = []
        for title, names in (
            ("FileNames", self.file_names),
            ("FunctionNames", self.function_names),
        ):
            rows = (f'{i} "{escape(name)}"' for i, name in enumerate(names, 1))
            parts.append("\n".join([title, *rows]) + "\n")
        for title, records in (
            ("FileLocations", self.file_locations),
            ("StackFrames", self.stack_frames),
        ):
            rows = (f"{i} {_show_record(record)}" for i, record in enumerate(records, 1))
            parts.append("\n".join([title, *rows]) + "\n")
        return "\n".join(parts) + "\n"


class FrameJoiner:
    """Makes the frames of instructions that move to where they were called from.

    Frames are added to copies of the tables and shared where a chain is needed again; `index`
    is the whole when all is done.
    """

    def __init__(self, index: StackFrameIndex | None) -> None:
        self._start = index
        self._frames = list(index.stack_frames) if index else []
        self._known = {frame: number for number, frame in enumerate(self._frames, 1)}
        self._joined: dict[tuple[int, int], int] = {}

    @property
    def index(self) -> StackFrameIndex | None:
        """The tables with what was added."""
        if self._start is None or len(self._frames) == len(self._start.stack_frames):
            return self._start
        return replace(self._start, stack_frames=tuple(self._frames))

    def joined(self, own: int, caller: int) -> int:
        """The number of the frames of `own` followed outwards by those of `caller`.

        That of `own` where those of `caller` are already its outermost ones, and the other
        number where one of the two is none or unknown.
        """
        if not self._is_known(caller):
            return own
        if not self._is_known(own):
            return caller
        number = self._joined.get((own, caller))
        if number is None:
            number = self._joined[own, caller] = self._join(own, caller)
        return number

    def _is_known(self, number: int) -> bool:
        return 1 <= number <= len(self._frames)

    def _join(self, own: int, caller: int) -> int:
        chain: dict[int, None] = {}
        number = own
        while self._is_known(number) and number not in chain:
            chain[number] = None
            number = self._frames[number - 1].parent_frame_id
        if caller in chain:
            return own
        parent = caller
        for number in reversed(chain):
            frame = StackFrame(self._frames[number - 1].file_location_id, parent)
            known = self._known.get(frame)
            if known is None:
                self._frames.append(frame)
                known = self._known[frame] = len(self._frames)
            parent = known
        return parent


def _at(table: tuple[T, ...], number: int) -> T | None:
    return table[number - 1] if 1 <= number <= len(table) else None


def _show_record(record: FileLocation | StackFrame) -> str:
    if isinstance(record, StackFrame):
        parent = record.parent_frame_id + 1
        return f"{{file_location_id={record.file_location_id} parent_frame_id={parent}}}"
    fields = ((name, getattr(record, name)) for name in FileLocation.__dataclass_fields__)
    return "{" + " ".join(f"{name}={value}" for name, value in fields) + "}"


def at_stack_frames(cursor: Cursor) -> bool:
    """Whether one of the four tables comes next."""
    cursor.skip()
    return _TITLE.match(cursor.text, cursor.position) is not None


def parse_stack_frames(cursor: Cursor) -> StackFrameIndex:
    """Read the tables that come next, in any order; missing ones are empty."""
    tables: dict[str, tuple[Any, ...]] = {}
    while at_stack_frames(cursor):
        at = cursor.position
        title = _TITLE.match(cursor.text, at)
        assert title
        if title[1] in tables:
            cursor.fail(f"{title[1]} is given twice", at, length=len(title[1]))
        cursor.position = title.end()
        tables[title[1]] = _parse_table(cursor, _READERS[title[1]])
    return StackFrameIndex(*(tables.get(name, ()) for name in _READERS))


def _parse_table(cursor: Cursor, read: Callable[[Cursor], T]) -> tuple[T, ...]:
    rows: list[T] = []
    while match := cursor.match(_ROW):
        if int(match[1]) != len(rows) + 1:
            cursor.fail(f"expected row {len(rows) + 1}, found {match[1]}", match.start())
        rows.append(read(cursor))
    return tuple(rows)


def _reader(record: type) -> Callable[[Cursor], Any]:
    names = frozenset(record.__dataclass_fields__)

    def read(cursor: Cursor) -> Any:
        cursor.expect("{", "to start a row")
        values: dict[str, int] = {}
        while field := cursor.match(_FIELD):
            name, value = field[1], int(field[2])
            if name not in names or name in values:
                why = "is given twice" if name in values else "is unknown"
                cursor.fail(f"{name} {why} in this row", field.start(1), length=len(name))
            if value >= 2**31:
                cursor.fail(f"{name} is a number of 0 to 2147483647", field.start(2))
            values[name] = value
        cursor.expect("}", "to end a row")
        return record(**values)

    return read


def _read_stack_frame(cursor: Cursor) -> StackFrame:
    frame = _reader(StackFrame)(cursor)
    return StackFrame(frame.file_location_id, max(0, frame.parent_frame_id - 1))


_READERS: dict[str, Callable[[Cursor], Any]] = {
    "FileNames": lambda cursor: cursor.string(),
    "FunctionNames": lambda cursor: cursor.string(),
    "FileLocations": _reader(FileLocation),
    "StackFrames": _read_stack_frame,
}
