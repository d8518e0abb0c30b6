"""Which function writes which opcode.

`@EXPORT.of("dot")` on a function of a writer and an instruction. `HANDLED` says which attributes
it takes care of: an instruction with another one, or that the function declines, is written as
the custom call `hlo.<opcode>`, whose attributes are HLO text, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from hloom.base.registry import Registry

if TYPE_CHECKING:
    from hloom.frontends.stablehlo.export.writer import Writer
    from hloom.ir.instruction import Instruction

Exporter = Callable[["Writer", "Instruction"], None]
F = TypeVar("F", bound="Exporter")

EXPORT: Registry[str, Exporter] = Registry("export")
HANDLED: dict[str, frozenset[str]] = {}


class Declined(Exception):
    """StableHLO has no way to say this; raised before anything is written."""


def export(*opcodes: str, handles: str = "") -> Callable[[F], F]:
    """Let a function write these opcodes with the attributes named."""

    def declare(function: F) -> F:
        for opcode in opcodes:
            EXPORT.add(opcode, function)
            HANDLED[opcode] = frozenset(handles.split())
        return function

    return declare
