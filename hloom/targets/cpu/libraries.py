"""Libraries that compute parts of programs on CPUs, by the kinds of their fusions.

A library is there from when it is registered, for all programs that are compiled from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hloom.base.diagnostics import UsageError

if TYPE_CHECKING:
    from hloom.ir.instruction import Instruction

    Libraries = tuple[tuple[str, Callable[[Instruction], bool]], ...]

_REGISTERED: dict[str, Callable[[Instruction], bool]] = {}


def register_library(kind: str, accepts: Callable[[Instruction], bool] | None) -> None:
    """Let a library compute the instructions that it accepts, grouped into fusions of a kind, as
    `__ynn_fusion`; None: no more.

    What computes them is the handler of custom calls to `kind` (`register_handler`, or a function
    of a shared library). Its attributes are `computation`, an HLO module in text whose parameters
    are the call's operands, and `use_threadpool`. Arrays are row-major. Libraries are asked in the
    order in which they came. C libraries have no handlers, and are made without.
    """
    if not kind or not kind.startswith("__") or not kind.isascii() or not kind.isidentifier():
        raise UsageError(
            f"a library's fusions cannot be of kind {kind!r}",
            rule="fusion-library",
            hint="an identifier that begins with two underscores, as __ynn_fusion",
        )
    _REGISTERED.pop(kind, None)
    if accepts is not None:
        _REGISTERED[kind] = accepts


def registered_libraries() -> Libraries:
    """Kind and predicate of each, in order."""
    return tuple(_REGISTERED.items())
