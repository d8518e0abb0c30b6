"""Which function reads which operation, and which operations are refused and why.

`@IMPORT.of("stablehlo.add")` on a function of a scope and an operation. It returns the value of
an operation with one result, a list for several, None where there is nothing to bind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hloom.base.registry import Registry

if TYPE_CHECKING:
    from hloom.frontends.stablehlo.scope import Scope
    from hloom.ir.instruction import Instruction

Imported = "Instruction | Sequence[Instruction] | None"
Importer = Callable[["Scope", Any], "Instruction | Sequence[Instruction] | None"]

IMPORT: Registry[str, Importer] = Registry("import")
REFUSED: dict[str, str] = {}
"""Operations that are not read, each with the reason."""


def refuse(reason: str, *names: str) -> None:
    """State that these operations are not read, and why."""
    for name in names:
        REFUSED[name] = reason
