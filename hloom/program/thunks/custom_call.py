"""Calls of what is no part of the program: handlers, and the interpreter."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import Rates, thunk_kind


@thunk_kind
class CustomCall(Routine):
    """Call the handler that is registered for the target."""

    kind = "CustomCall"

    def states(self) -> tuple[str, ...]:
        return ("custom calls",)

    def serial_ns(self, rates: Rates) -> float:
        # Nothing is known of what others wrote; like XLA, we hope that it is short.
        return 0.0


@thunk_kind
class Interpreter(Routine):
    """Have an instruction evaluated for which no code could be written."""

    kind = "Interpreter"
