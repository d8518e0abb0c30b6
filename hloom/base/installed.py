"""Which version of hloom, and of what it needs, is installed: part of the keys of kept programs.

hloom counts by the sizes and times of its own files where it is a checkout, so that whoever works
on it never runs old code; where it is installed, by what the installer wrote down of them.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

SOURCES = (".py", ".cc", ".h")


@cache
def hloom_version() -> str:
    """The version of hloom, and a hash of the sources that were installed: what stands between two
    releases has the version of one. Of a checkout, a hash of its files' names, sizes and times."""
    root = Path(__file__).parents[1]
    version = installed_version("hloom")
    record = root.parent / f"hloom-{version}.dist-info" / "RECORD"
    if not (root.parent / ".git").exists() and (digest := record_digest(record)):
        return f"{version}+{digest}"
    return f"checkout {sources_digest(root)}"


def record_digest(record: Path) -> str:
    """A hash of the hashes that an installer has written down of hloom's sources, the same for all
    installations of a wheel; empty where it has written none."""
    try:
        lines = record.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    sources = sorted(x for x in lines if x.startswith("hloom/") and ",sha256=" in x)
    sources = [x for x in sources if x.split(",")[0].endswith(SOURCES)]
    return sha256("\n".join(sources).encode()).hexdigest()[:16] if sources else ""


def sources_digest(root: Path) -> str:
    """A hash of the names, sizes and times of all Python and C++ files in a folder."""
    digest = sha256()
    folders = [str(root)]
    while folders:
        stamps = []
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                elif entry.name.endswith(SOURCES):
                    status = entry.stat()
                    stamps.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
        folders.sort()
        digest.update("\n".join(sorted(stamps)).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


@cache
def installed_version(package: str) -> str:
    """The version of a package, which is not imported; `unknown` where there is none.

    The folder that an installer puts beside a package has it in its name, and to list files is
    ten times faster than to import what reads the rest of that folder.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return "unknown"
    head, tail = f"{package}-", ".dist-info"
    folders = [n for n in os.listdir(Path(spec.origin).parents[1]) if n.startswith(head)]
    versions = [n[len(head) : -len(tail)] for n in folders if n.endswith(tail)]
    if len(versions) == 1:
        return versions[0]
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
