"""Where the meaning of every opcode is found.

    @MEANING.of("add")
    def add(i: Instruction, context: EvalContext, x: np.ndarray, y: np.ndarray) -> np.ndarray: ...

A meaning gets the instruction, the context it runs in and one value per operand, and returns the
value (see `values.py` for what values are). It never writes into a value it was given.

A meaning that calls computations once, as control flow does, or that talks to other devices, is
a *generator function*: it yields `Enter(computation, values)` or `Meet(...)` (`context.py`) and is
sent the result. The evaluator keeps those on a stack of its own, so that programs of any call
depth run, and so that the devices of a lockstep run can wait for each other.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from hloom.base.registry import Registry, load_room

MEANING: Registry[str, Callable[..., Any]] = Registry("meaning")
"""From an opcode to the function that computes it."""


@cache  # looking for the files takes a while, and every evaluation asks
def load_meanings() -> None:
    """Import the files of this room that compute, so that each has registered its meanings."""
    load_room("hloom.interp", without=("draw", "sample", "kernel", "lockstep"))
