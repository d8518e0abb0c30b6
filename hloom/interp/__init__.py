"""What HLO means: every operation computed with numpy. `evaluate` runs a module."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hloom.interp.context import EvalOptions
    from hloom.interp.draw import draw_instance
    from hloom.interp.lockstep import evaluate_lockstep
    from hloom.interp.machine import evaluate
    from hloom.interp.partial import evaluate_partially
    from hloom.interp.sample import random_arguments

_HOME = {
    "EvalOptions": "context",
    "draw_instance": "draw",
    "evaluate": "machine",
    "evaluate_lockstep": "lockstep",
    "evaluate_partially": "partial",
    "random_arguments": "sample",
}

__all__ = [
    "EvalOptions",
    "draw_instance",
    "evaluate",
    "evaluate_lockstep",
    "evaluate_partially",
    "random_arguments",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
