"""A log of what tuning measured, as text proto: one `logs { ... }` for every kernel, appended.

The fields are those of XLA's `AutotuningLogs` (results with their run time, scratch and failures;
`other` names a candidate), so that a log of many compilations is one message of that type, which
tools for such logs read. What has no field there (the key of a result, the device) is a comment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hloom.base.diagnostics import UsageError
from hloom.base.installed import hloom_version
from hloom.targets.cpu.tuning.profiler import OUTSIDE, Measured


@dataclass(frozen=True)
class TuningLog:
    """A file, and the device whose times are written to it."""

    path: Path
    device: str

    def add(self, name: str, what: str, measured: Sequence[Measured]) -> None:
        """Append what the candidates of one kernel took; `UsageError` where that cannot be."""
        text = log_text(name, what, self.device, measured)
        try:
            # One write, so that processes that share a log do not mix their entries.
            with self.path.open("ab", buffering=0) as file:
                file.write(text.encode())
        except OSError as error:
            raise UsageError(
                f"cannot write the log of tuning {self.path}: {error.strerror or error}",
                rule="autotune",
            ) from None


def log_text(name: str, what: str, device: str, measured: Sequence[Measured]) -> str:
    """One entry: of the kernel of that name, `what` it is in a line."""
    lines = [
        f"# {_line(what)}",
        f"# hloom {hloom_version()}, {_line(device)}",
        "logs {",
        f"  fusion_name: {_quoted(name)}",
    ]
    for m in measured:
        lines += ["  results {", *[f"    {field}" for field in _fields(m)], "  }"]
    return "\n".join([*lines, "}", ""])


def _fields(m: Measured) -> list[str]:
    """Those of one candidate."""
    fields = [f"other {{ name: {_quoted(m.text)} }}"]
    if m.failure:
        kind = "DISQUALIFIED"
        if m.is_wrong:
            kind = "WRONG_RESULT"
        elif OUTSIDE in m.failure:
            kind = "REDZONE_MODIFIED"
        return [*fields, f"failure {{ kind: {kind} msg: {_quoted(m.failure)} }}"]
    seconds, nanos = divmod(round(m.seconds * 1e9), 10**9)
    return [
        *fields,
        f"scratch_bytes: {m.scratch_bytes}",
        f"run_time {{ seconds: {seconds} nanos: {nanos} }}",
    ]


def _line(text: str) -> str:
    """A text without ends of lines, which would end a comment."""
    return " ".join(text.split())


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _quoted(text: str) -> str:
    """A string of text proto; what is not printable ASCII as bytes of UTF-8."""
    return '"' + "".join([_ESCAPES.get(c) or _character(c) for c in text]) + '"'


def _character(c: str) -> str:
    if " " <= c <= "~":
        return c
    return "".join([f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogateescape")])
