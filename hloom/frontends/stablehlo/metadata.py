"""Locations as metadata: the name of the operation, the place in the source, the frames above it.

JAX writes `loc("jit(f)/add"(callsite("f"("a.py":3:4) at "main"("b.py":9:1))))`: a name around a
chain of places. Programs have few distinct locations, so each is looked at once.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from hloom.frontends.stablehlo.bindings import is_call_site, is_file_place, is_fused, is_name
from hloom.ir.values.metadata import OpMetadata
from hloom.ir.values.stack_frames import FileLocation, StackFrame, StackFrameIndex

_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
NO_FILE = "-"
"""What the parser calls text that is in no file."""


class SourceLine(NamedTuple):
    """One place in a source file, and the function it is in."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str = ""


class Locations:
    """The metadata of every location of one program, and the table of frames they refer to."""

    def __init__(self, file: str | None) -> None:
        self.file = file
        self._known: dict[Any, OpMetadata | None] = {}
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._places: dict[FileLocation, int] = {}
        self._frames: dict[StackFrame, int] = {}

    def metadata(self, location: Any) -> OpMetadata | None:
        """What is known of where an operation came from; None when that is nothing."""
        key = location.attr
        try:
            return self._known[key]
        except KeyError:
            metadata_ = self._known[key] = self._new_metadata(location)
            return metadata_

    @property
    def index(self) -> StackFrameIndex | None:
        """The tables that the numbers in metadata refer to; None when there are none."""
        if not self._frames:
            return None
        return StackFrameIndex(
            tuple(self._files), tuple(self._functions), tuple(self._places), tuple(self._frames)
        )

    def _new_metadata(self, location: Any) -> OpMetadata | None:
        name, kind, chain = self._read(location)
        if not name and not chain:
            return None
        fields: dict[str, Any] = {"op_name": name, "op_type": kind}
        if chain:
            here = chain[0]
            fields.update(
                source_file=here.file,
                source_line=here.line,
                source_column=here.column,
                source_end_line=here.end_line,
                source_end_column=here.end_column,
            )
            if len(chain) > 1 or here.function:
                fields["stack_frame_id"] = self._frame(chain)
        return OpMetadata(**fields)

    def _read(self, location: Any) -> tuple[str, str, list[SourceLine]]:
        """Name, type and places (innermost first) of a location."""
        if is_name(location):
            name, child = location.name_str, location.child_loc
            if name.endswith(":"):  # how the type of an operation is written
                inner, _, chain = self._read(child)
                return inner, name[:-1], chain
            kind = ""
            if is_name(child) and child.name_str.endswith(":"):
                kind, child = child.name_str[:-1], child.child_loc
            return name, kind, self._chain(child)
        if is_fused(location):
            parts = [self._read(part) for part in location.locations]
            name = next((n for n, _, _ in parts if n), "")
            kind = next((k for _, k, _ in parts if k), "")
            return name, kind, next((c for _, _, c in parts if c), [])
        return "", "", self._chain(location)

    def _chain(self, location: Any) -> list[SourceLine]:
        """The places of a location, from the innermost outwards."""
        chain: list[SourceLine] = []
        stack = [location]
        while stack:
            place = stack.pop()
            if is_call_site(place):
                stack += [place.caller, place.callee]
            elif is_name(place):
                inner = self._chain(place.child_loc)
                if inner and not inner[0].function:
                    inner[0] = inner[0]._replace(function=place.name_str)
                chain += inner
            elif is_fused(place):
                stack += place.locations[:1]
            elif is_file_place(place) and (source := self._place(place)):
                chain.append(source)
        return chain

    def _place(self, place: Any) -> SourceLine | None:
        file = place.filename
        file = file if isinstance(file, str) else file.value
        if file == NO_FILE:
            if self.file is None:
                return None
            file = self.file
        line, column = place.start_line, place.start_col
        end_line, end_column = place.end_line, place.end_col
        if (end_line, end_column) == (line, column):
            end_line = end_column = 0
        return SourceLine(file, line, column, end_line, end_column)

    def _frame(self, chain: list[SourceLine]) -> int:
        """The number of the innermost frame of a chain of places."""
        parent = 0
        for source in reversed(chain):
            place = FileLocation(
                self._files.setdefault(source.file, len(self._files) + 1),
                self._functions.setdefault(source.function, len(self._functions) + 1),
                source.line,
                source.end_line,
                source.column,
                source.end_column,
            )
            number = self._places.setdefault(place, len(self._places) + 1)
            frame = StackFrame(number, parent)
            parent = self._frames.setdefault(frame, len(self._frames) + 1)
        return parent


def place_in(text: str) -> tuple[str, int, int] | None:
    """File, line and column that the text of a location starts with."""
    match = _PLACE.search(text)
    return (match[1], int(match[2]), int(match[3])) if match else None
