"""A native call that Ctrl-C can end: Python sees it between its own steps only."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable


def beside_python(call: Callable[[], int], cancel: Callable[[], object]) -> int:
    """What a call returns, made in a thread of its own: Ctrl-C cancels it here."""
    status, ended = [0], threading.Event()

    def run() -> None:
        try:
            status[0] = call()
        finally:
            ended.set()

    # Not Thread.join: once interrupted, it takes the thread for finished.
    threading.Thread(target=run, name="hloom-execute", daemon=True).start()
    try:
        ended.wait()
    except BaseException:
        cancel()
        # Impatience changes nothing: until the program has ended, the buffers are in its hands.
        while not ended.is_set():
            with contextlib.suppress(KeyboardInterrupt):
                ended.wait()
        raise
    return status[0]
