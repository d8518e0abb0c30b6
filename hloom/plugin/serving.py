"""Answering the native side: it asks from any thread, and an answer never raises.

What goes wrong is the answer, which JAX raises as its own error with our words. The compiler is
imported when the first program comes: a process that only has hloom installed does not pay for it.
"""

from __future__ import annotations

import itertools
import signal
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from hloom.api import PJRT_QUESTIONS, HloError, Reply, set_pjrt_compiler

if TYPE_CHECKING:
    from hloom.plugin.compiling import Compiled

# Statuses, as absl::StatusCode numbers them.
CANCELLED, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED = 1, 3, 5, 8
FAILED_PRECONDITION, UNIMPLEMENTED, INTERNAL = 9, 12, 13
STATUS_OF_RULE = {
    "autotune-compile": INTERNAL,
    "autotune-not-found": NOT_FOUND,
    "custom-call-handler": NOT_FOUND,
    "out-of-memory": RESOURCE_EXHAUSTED,
    "partition": UNIMPLEMENTED,
    "processor": FAILED_PRECONDITION,
    "unimplemented": UNIMPLEMENTED,
}

_HELD: dict[int, Compiled] = {}
"""By handle: the native side says when it needs one no more."""
_handles = itertools.count(1)


def serve() -> None:
    """Answer the native side from here on."""
    set_pjrt_compiler(_on_compile, _on_load, _on_ask, _on_release)


def _on_compile(code: bytes, form: str, options: bytes, topology: bytes, reply: Reply) -> None:
    def answer() -> None:
        from hloom.plugin.compiling import compiled

        _give(reply, compiled(code, form, options, topology))

    _answering(reply, answer)


def _on_load(data: bytes, options: bytes, reply: Reply) -> None:
    def answer() -> None:
        from hloom.plugin.saved import loaded

        _give(reply, loaded(data, options))

    _answering(reply, answer)


def _on_ask(handle: int, what: int, reply: Reply) -> None:
    def answer() -> None:
        from hloom.plugin.compiling import ANSWERS

        ANSWERS[PJRT_QUESTIONS[what]](_HELD[handle], reply)

    _answering(reply, answer)


def _on_release(handle: int) -> None:
    _HELD.pop(handle, None)


def _give(reply: Reply, program: Compiled) -> None:
    handle = next(_handles)
    _HELD[handle] = program
    reply.program(program.executable._executor, handle, program.launch_spec)


def _answering(reply: Reply, answer: Callable[[], None]) -> None:
    """Answer, or say what went wrong."""
    try:
        answer()
    except HloError as error:
        status = getattr(error, "status", STATUS_OF_RULE.get(error.rule or "", INVALID_ARGUMENT))
        reply.error(status, str(error))
    except KeyboardInterrupt:
        # JAX raises its own error for this answer; the interrupt comes again behind it.
        reply.error(CANCELLED, "interrupted while compiling [cancelled]")
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
    except MemoryError:
        reply.error(RESOURCE_EXHAUSTED, "no memory to compile in [out-of-memory]")
    except BaseException as error:
        words = "".join(traceback.format_exception(error))
        reply.error(INTERNAL, f"an error in hloom itself [internal]\n{words}")
