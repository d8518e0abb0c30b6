"""What is known of one instruction while its text is read."""

from __future__ import annotations

from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OpDef
from hloom.types.shape import Shape


class Draft:
    """One instruction in the making; the parts of the parser hand it on."""

    __slots__ = (
        "annotations",
        "at",
        "called",
        "into",
        "key",
        "name",
        "op",
        "operands",
        "shape",
        "values",
        "wrapped",
    )

    def __init__(
        self, into: Computation, name: str | None, shape: Shape | None, op: OpDef, at: int
    ) -> None:
        self.into, self.name, self.shape, self.op = into, name, shape, op
        self.at = at
        """Where the opcode stands."""
        self.wrapped: OpDef | None = None
        """In `negate-start` the operation negate; `op` is then async-start."""
        self.operands: tuple[Instruction, ...] = ()
        self.values: dict[str, Any] = {}
        self.annotations: dict[str, Any] = {}
        self.called: dict[str, tuple[Computation, ...]] = {}
        self.key: tuple | None = None
        """Under which equal attribute records are one object; None: not worth keeping."""

    @property
    def target(self) -> OpDef:
        """The operation whose attributes are written."""
        return self.wrapped or self.op
