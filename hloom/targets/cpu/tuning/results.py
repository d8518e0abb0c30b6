"""What tuning found: for every kernel a choice and the times it follows from, as text.

A file is TOML: the version and the device it is for, then one table for each kernel. Entries of the
cache on disk are such files with one kernel each, in a folder of their own for each version and
device, which is private as the compile cache is.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from hloom.base.diagnostics import UsageError
from hloom.base.installed import hloom_version
from hloom.runtime.cache import program_cache
from hloom.runtime.private_folder import NotPrivate, checked_private, made_private, open_private
from hloom.runtime.program_files import replaced, written

MOST_BYTES = 64 << 20
"""Of a file that is read."""


@dataclass(frozen=True)
class TuningResult:
    """What was found for one kernel."""

    key: str
    """A hash of what it computes, without names."""
    what: str
    """The same for people: a line."""
    choice: str
    """The text of a `Choice`, or `default`."""
    times_us: tuple[tuple[str, float], ...] = ()
    """Of every candidate that computed the same as the default."""
    failures: tuple[tuple[str, str], ...] = ()
    """Of the others, why."""


def results_text(device: str, results: Iterable[TuningResult]) -> str:
    """The text of results for a device; sorted, so that equal results have equal texts."""
    rows = [
        {
            "key": r.key,
            "what": r.what,
            "choice": r.choice,
            "times_us": dict(r.times_us),
            "failures": dict(r.failures),
        }
        for r in sorted(results, key=lambda r: r.key)
    ]
    return tomli_w.dumps({"hloom": hloom_version(), "device": device, "results": rows})


def parsed_results(text: str, where: str, device: str) -> dict[str, TuningResult]:
    """The results in a text, by key; `UsageError` for what is none, or of another device or
    version."""
    try:
        table = tomllib.loads(text)
        rows = table["results"]
        is_whole = isinstance(table["hloom"], str) and isinstance(table["device"], str)
        results = {row["key"]: _result(row) for row in rows}
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise _wrong(where, f"is no file of tuning results: {error!r}"[:300]) from None
    if not is_whole:
        raise _wrong(where, "is no file of tuning results: version and device are texts")
    if table["hloom"] != hloom_version():
        what = f"is of hloom {table['hloom']}, and this is {hloom_version()}"
        raise _wrong(where, what)
    if table["device"] != device:
        raise _wrong(where, f"is for another device: {table['device']}; this is {device}")
    return results


def _result(row: dict[str, Any]) -> TuningResult:
    times = {str(k): float(v) for k, v in row.get("times_us", {}).items()}
    failures = {str(k): str(v) for k, v in row.get("failures", {}).items()}
    for name in ("key", "what", "choice"):
        if not isinstance(row[name], str):
            raise ValueError(f"{name} is no text")
    return TuningResult(
        row["key"], row["what"], row["choice"], tuple(times.items()), tuple(failures.items())
    )


def _wrong(where: str, what: str) -> UsageError:
    return UsageError(
        f"{where} {what}", rule="autotune", hint="autotune=quick measures on this machine"
    )


def read_results(path: Path, device: str) -> dict[str, TuningResult]:
    """The results in a file that somebody names."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise _wrong(str(path), "is too large")
        return parsed_results(data.decode(), str(path), device)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read tuning results {path}: {why}", rule="autotune") from None


def write_results(path: Path, device: str, results: Iterable[TuningResult]) -> None:
    """Write a file for `read_results`, whole or not at all."""
    try:
        written(path, [results_text(device, results).encode()], 0o666)
    except OSError as error:
        raise UsageError(
            f"cannot write tuning results {path}: {error.strerror or error}", rule="autotune"
        ) from None


class ResultCache:
    """Results on disk, a file each; what cannot be read or written is as if it were not there."""

    def __init__(self, folder: Path, device: str) -> None:
        """`folder`: of all devices; this one's results are in a folder of their own in it."""
        digest = hashlib.sha256(f"{hloom_version()}\n{device}".encode()).hexdigest()[:32]
        self.device, self.folder = device, folder / digest

    def get(self, key: str) -> TuningResult | None:
        path = self.folder / f"{key}.toml"
        try:
            if not self.folder.exists():
                return None
            checked_private(self.folder)
            with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
                text = file.read(MOST_BYTES).decode()
            return parsed_results(text, str(path), self.device).get(key)
        except (OSError, NotPrivate, UnicodeDecodeError, UsageError):
            return None

    def put(self, result: TuningResult) -> None:
        text = results_text(self.device, [result])
        try:
            made_private(self.folder)
            replaced(self.folder / f"{result.key}.toml", [text.encode()])
        except (OSError, NotPrivate):
            return


def result_cache(device: str) -> ResultCache | None:
    """Beside the compile cache; None where that is off."""
    programs = program_cache()
    return None if programs is None else ResultCache(programs.folder / "tuning", device)
