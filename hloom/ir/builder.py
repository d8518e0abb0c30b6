"""Builds modules from Python: `b.add(x, y)`, `b.reduce(x, zero, dimensions=(0,), to_apply=f)`.

Every operation is a method, made from its declaration; `builder.pyi` is generated from the same
declarations (`make stub`), so editors know every signature. A sub-computation is built once and
named by many instructions: `call`, `while`, `reduce` and the rest take the finished
computation itself, of this builder or of any builder of the same module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, OpDef, ShapeError
from hloom.types.literal import Literal
from hloom.types.shape import ProgramShape, Shape
from hloom.types.text import shape_from_text

ShapeLike = Shape | str


def as_shape(shape: ShapeLike) -> Shape:
    """A shape from its text, or as it is; missing layouts become row-major."""
    if isinstance(shape, str):
        return shape_from_text(shape, default_layouts=True)
    return shape.with_default_layouts()


class Builder:
    """Makes one computation, and through `computation()` those that it calls.

    >>> b = Builder("double")
    >>> x = b.parameter("f32[3]", name="x")
    >>> module = b.build(b.add(x, x))
    """

    def __init__(self, name: str = "module", *, _parent: Builder | None = None) -> None:
        self._module = _parent._module if _parent else Module(name)
        self._computation = Computation(name, self._module)
        self._metadata: Any = None
        self._built = False
        if _parent is None:
            self._computation.name = "main"

    # -- computations ----------------------------------------------------------------------

    def computation(self, name: str) -> Builder:
        """A builder for a sub-computation of the same module; finish it with `finish`."""
        return Builder(name, _parent=self)

    def finish(self, root: Instruction) -> Computation:
        """End a sub-computation; what it returns may be called by many instructions."""
        self._end(root)
        return self._computation

    def scalar(self, opcode: str, dtype: str) -> Computation:
        """The sub-computation `opcode(a, b)` on two scalars: the usual combiner."""
        inner = self.computation(opcode)
        a, b = (inner.parameter(f"{dtype}[]", name=n) for n in ("a", "b"))
        return inner.finish(inner.emit(opcode, a, b))

    def copy_of(self, computation: Computation) -> Computation:
        """A copy, in this module, of a computation of any module, and of all that it calls."""
        callees: dict[Computation, Computation] = {}
        owner = computation.module or self._module
        for c in owner.computations_in_order([computation]):
            callees[c], _ = copy_computation(c, self._module, c.name, callees)
        return callees[computation]

    def build(self, root: Instruction) -> Module:
        """End the entry computation; the module is complete."""
        self._end(root)
        module = self._module
        module.entry = self._computation
        shape = self._computation.program_shape
        module.entry_layout = ProgramShape(shape.parameters, (), shape.result)
        return module

    @staticmethod
    def stand_alone(computation: Computation, name: str | None = None) -> Module:
        """A module whose entry is a copy of an embedded computation."""
        b = Builder(name or computation.name)
        copied = b.copy_of(computation)
        b._module.entry = copied
        shape = copied.program_shape
        b._module.entry_layout = ProgramShape(shape.parameters, (), shape.result)
        return b._module

    def _end(self, root: Instruction) -> None:
        if self._built:
            raise UsageError(f"computation %{self._computation.name} is already finished")
        if root.parent is not self._computation:
            raise UsageError(
                f"%{root.name} is not in computation %{self._computation.name}",
                hint="the root must be made by the builder that is finished",
            )
        computation = self._computation
        computation.root = root
        computation.name = self._module.unique_computation_name(computation.name)
        computation.id = self._module.new_id()
        self._module.computations[computation] = None
        self._built = True

    # -- instructions ----------------------------------------------------------------------

    def parameter(
        self, shape: ShapeLike, *, name: str | None = None, number: int | None = None
    ) -> Instruction:
        """The next (or the `number`-th) parameter."""
        if number is None:
            number = len(self._computation.parameters)
        return self.emit("parameter", shape=shape, name=name, number=number)

    def constant(
        self, value: Any, shape: ShapeLike | None = None, *, name: str | None = None
    ) -> Instruction:
        """A constant from a number, nested lists, an array or a `Literal`."""
        if not isinstance(value, Literal):
            value = Literal.of(value, None if shape is None else as_shape(shape))
        constant_shape = as_shape(value.shape if shape is None else shape)
        return self.emit("constant", literal=value, shape=constant_shape, name=name)

    def emit(
        self,
        opcode: str,
        *operands: Instruction,
        shape: ShapeLike | None = None,
        name: str | None = None,
        **attributes: Any,
    ) -> Instruction:
        """Any operation by its opcode. Raises `UsageError` naming what is wrong."""
        if opcode not in OPS:
            hint = did_you_mean(opcode, OPS)
            raise UsageError(f"no operation named {opcode!r}", rule="opcode", hint=hint)
        op = OPS[opcode]
        called = self._called(op, attributes)
        self._check(op, operands, attributes)
        try:
            instruction = self._computation.add(
                opcode,
                *operands,
                name=name,
                shape=None if shape is None else as_shape(shape),
                called=called,
                **attributes,
            )
        except ShapeError as error:
            raise UsageError(str(error), instruction=name or opcode, rule="shape") from None
        instruction.shape = instruction.shape.with_default_layouts()
        return instruction

    def _called(self, op: OpDef, attributes: dict[str, Any]) -> tuple[Computation, ...]:
        called: list[Computation] = []
        for name in op.called:
            value = attributes.pop(name, ())
            several: Sequence[Any] = (value,) if isinstance(value, Computation) else value
            for c in several:
                if not isinstance(c, Computation):
                    raise UsageError(f"{op.name}: {name} must be a finished computation")
                if c.module is not self._module:
                    raise UsageError(
                        f"{op.name}: computation %{c.name} is in another module",
                        hint="copy it first: b.copy_of(computation)",
                    )
                called.append(c)
        return tuple(called)

    def _check(
        self, op: OpDef, operands: tuple[Instruction, ...], attributes: dict[str, Any]
    ) -> None:
        for k, x in enumerate(operands):
            if not isinstance(x, Instruction):
                raise UsageError(f"{op.name}: operand {k} is {type(x).__name__}, not a value")
            if x.parent is not self._computation:
                raise UsageError(
                    f"{op.name}: operand {k}, %{x.name}, is in another computation",
                    hint="pass it in as a parameter",
                )
        for name in attributes:
            if name not in op.field_by_name:
                known = ", ".join(op.field_by_name) or "none"
                raise UsageError(f"{op.name} has no attribute {name!r}", hint=f"known: {known}")
        for field in op.fields:
            if field.required and field.name not in attributes:
                raise UsageError(f"{op.name} needs the attribute {field.name}={field.kind.hint}")

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        opcode = name.rstrip("_").replace("_", "-")
        if name.startswith("_") or opcode not in OPS:
            raise AttributeError(f"no operation named {opcode!r}")
        return lambda *operands, **attributes: self.emit(opcode, *operands, **attributes)
