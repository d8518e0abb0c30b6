"""What the command `hloom` and `python -m hloom` run.

Why not the commands themselves: Ctrl-C may come while they are still being imported, and must end
the process at once, with no traceback, whatever threads there are that Python would wait for.
"""

import os
import sys
import warnings
from typing import Any

INTERRUPTED = 130


def main() -> None:
    try:
        from hloom.tools.main import application

        warnings.showwarning = _show_warning
        application(sys.argv[1:])(prog_name="hloom")
    except KeyboardInterrupt:
        _leave()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _leave()
        raise


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in our code that gave it."""
    print(f"warning: {message}", file=sys.stderr, flush=True)


def _leave() -> None:
    """End now: no thread is waited for, nobody's clean-up can hang."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(INTERRUPTED)
