"""Makes the right side of a rule, and remembers what it made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.types.literal import Literal
from hloom.types.shape import Shape


class RuleBuilder:
    """`b.add(x, y)` for every operation; `b.emit(opcode, ...)` where it is known at run time."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.added: list[Instruction] = []

    def emit(self, opcode: str, *operands: Instruction, **attributes: Any) -> Instruction:
        """Append an instruction; its shape is inferred where `shape=` is not given."""
        instruction = self.computation.add(opcode, *operands, **attributes)
        self.added.append(instruction)
        return instruction

    def like(
        self, i: Instruction, *operands: Instruction, shape: Shape | None = None
    ) -> Instruction:
        """The operation of `i`, attributes and all, on other operands."""
        if shape is None:
            shape = i.shape
        copied = self.computation.append(i.opcode, i.attrs, operands, shape, i.opcode, i.called)
        copied.copy_annotations(i)
        self.added.append(copied)
        return copied

    def constant(self, literal: Literal) -> Instruction:
        return self.emit("constant", literal=literal, shape=literal.shape)

    def filled(self, value: int | float | complex, shape: Shape) -> Instruction:
        """An array all of whose elements are `value`: a scalar constant, broadcast."""
        scalar = self.constant(Literal.of(value, shape.dtype))
        if shape.rank == 0:
            return scalar
        return self.emit("broadcast", scalar, dimensions=(), shape=shape)

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        opcode = name.rstrip("_").replace("_", "-")
        if opcode not in OPS:
            raise AttributeError(f"no operation named {opcode!r}")
        method = partial(self.emit, opcode)
        setattr(self, name, method)  # the next rule finds it without coming here
        return method
