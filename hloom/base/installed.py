"""Which version of hloom, and of what it needs, is installed: part of the keys of kept programs.

hloom counts by the sizes and times of its own files where it is a checkout, so that whoever works
on it never runs old code.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path


@cache
def hloom_version() -> str:
    """The version of hloom; of a checkout, a hash of its files' names, sizes and times."""
    root = Path(__file__).parents[1]
    if not (root.parent / ".git").exists():
        return installed_version("hloom")
    return f"checkout {sources_digest(root)}"


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
                elif entry.name.endswith((".py", ".cc", ".h")):
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
