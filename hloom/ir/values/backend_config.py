"""What a backend attached to an instruction: free text, or JSON with a schema.

What was written is kept for printing; two configs are equal when their JSON means the same, or,
when they are not JSON, when their text is the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hloom.ir.text.cursor import Cursor
from hloom.ir.values.frontend import read_value, show_value

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, eq=False)
class BackendConfig:
    """One config. `raw` is the text as written, quotes and escapes undone."""

    raw: str
    _meaning: list[Any] = field(default_factory=list, repr=False, compare=False)
    """Filled on first use: the parsed JSON and its text with sorted keys."""

    def _parsed(self) -> tuple[Any, str]:
        if not self._meaning:
            value, key = None, self.raw
            if self.raw.lstrip()[:1] == "{":
                try:
                    value = json.loads(self.raw)
                    key = "json:" + json.dumps(value, sort_keys=True, separators=(",", ":"))
                except (ValueError, RecursionError):
                    value = None
            self._meaning.append((value, key))
        return self._meaning[0]

    @property
    def json(self) -> dict[str, Any] | None:
        """The parsed JSON object (do not change it); None when it is not one."""
        return self._parsed()[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BackendConfig):
            return NotImplemented
        return self.raw == other.raw or self._parsed()[1] == other._parsed()[1]

    def __hash__(self) -> int:
        return hash(self._parsed()[1])

    def __bool__(self) -> bool:
        return bool(self.raw)

    def text(self, sort: bool = False) -> str:
        """How it stands in HLO text; `sort` writes JSON compactly with sorted keys."""
        if sort and self.json is not None:
            return json.dumps(self.json, sort_keys=True, separators=(",", ":"))
        return show_value(self.raw)

    def typed(self, schema: type[Record]) -> Record:
        """Read it as a `GpuBackendConfig` or `CpuBackendConfig` (or a part of one).

        Raises `UsageError` naming the field that is unknown or of a wrong kind.
        """
        from hloom.ir.values.backend_schema import read_record

        return read_record(schema, self.raw)

    @classmethod
    def of(cls, record: Any) -> BackendConfig:
        """The config of a schema instance; fields at their default are left out."""
        from hloom.ir.values.backend_schema import write_record

        return cls(json.dumps(write_record(record), separators=(",", ":")))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> BackendConfig:
        return cls(json.dumps(value, separators=(",", ":")))


def parse_backend_config(cursor: Cursor) -> BackendConfig:
    """Read `{"a":1}` or a quoted string."""
    return BackendConfig(read_value(cursor, "a backend config"))
