"""Files that are written beside their place, and put there in one step.

What is at the place may be no file: a device (`-o /dev/null`, as root), a pipe, or a link to one
(`/dev/stdout`). Those are written to, never replaced.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def replaceable(path: Path) -> Path | None:
    """Where a file can be put in one step: behind the links that lead there; None where what
    stands there is no file, and has to be written to."""
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except OSError:  # nothing is there yet, or it cannot be said why not
        is_file = True
    return Path(os.path.realpath(path)) if is_file else None
