"""Files that users send in when hloom has a fault: the program, and all that was known.

A report is HLO text behind comments, so `hloom run REPORT --strict` shows the fault. It is written
to a file beside and renamed; equal faults of one program share a file, and of more than
`MOST_REPORTS` the oldest go. It holds the program with its constants, but no arguments.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from hloom.base.faults import Fault

MOST_REPORTS = 32
SUFFIX = ".hlo"
BESIDE = "new-"
NOTE = """hloom had a fault in compiling the program below. Please report it with this file.
It holds the program, with its constants and names, and no values that it was called with:
look whether you may share that. `HLOOM_STRICT=1 hloom run THIS_FILE` shows the fault again."""


def report_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where reports are written: `HLOOM_REPORT_DIR`, else the system's place for caches."""
    if folder := environment.get("HLOOM_REPORT_DIR"):
        return Path(folder)
    import platformdirs

    return Path(platformdirs.user_cache_dir("hloom", appauthor=False)) / "reports"


def report_text(program: str, about: Mapping[str, str], faults: Sequence[Fault]) -> str:
    """A report: what is `about` (options, versions), the faults with tracebacks, the program."""
    versions = {"python": sys.version.split()[0], "platform": platform.platform()}
    lines = [NOTE, ""]
    lines += [f"{name}: {value}" for name, value in {**about, **versions}.items()]
    for fault in faults:
        lines += ["", str(fault), *fault.traceback.rstrip().split("\n")]
    comments = [f"// {line}".rstrip() for text in lines for line in text.split("\n")]
    return "\n".join([*comments, "", program, ""])


def write_report(
    name: str, text: str, faults: Sequence[Fault], program: str, folder: Path | None = None
) -> Path | None:
    """Write a report on a program of this name; None where there is no place for it."""
    folder = folder or report_folder()
    same = [program, *(f"{f.culprit} {f.error}" for f in faults)]
    digest = sha256("\0".join(same).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    plain = "".join([c if c.isascii() and c.isalnum() else "_" for c in name])[:60]
    path = folder / f"{plain}-{digest}{SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, beside = tempfile.mkstemp(dir=folder, prefix=BESIDE)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        _trim(folder)
    except OSError:
        return None
    return path


def _trim(folder: Path) -> None:
    """Remove the oldest reports beyond the bound."""
    reports = []
    for path in folder.glob("*" + SUFFIX):
        with contextlib.suppress(OSError):
            reports.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(reports)[:-MOST_REPORTS]:
        with contextlib.suppress(OSError):
            path.unlink()
