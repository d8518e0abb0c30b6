"""Regions that fold, compare or map elements and read values from around them.

The computation of such an operation takes elements only, so a captured scalar becomes one more
operand that has it everywhere, whose elements the region reads instead. Folding hands it on: its
initial value is the scalar itself. What a region computes of captured arrays alone is computed
once, outside of it, down to scalars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hloom.frontends.stablehlo.scope import Scope, is_remade
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape, shape, tuple_shape

_EFFECTS = frozenset(
    f"stablehlo.{name}" for name in "custom_call infeed outfeed send recv rng".split()
)
"""What must not happen more or less often than it is written."""


def captured_values(region: Any) -> list[Any]:
    """The values of MLIR that a region reads and neither makes nor can make again, in order."""
    inside: set[Any] = set()
    captured: dict[Any, None] = {}
    for block in region.blocks:
        inside.update(block.arguments)
    for op in operations(region):
        inside.update(op.results)
        for nested in op.regions:
            for block in nested.blocks:
                inside.update(block.arguments)
    for op in operations(region):
        for value in op.operands:
            if value not in inside and value not in captured and not is_remade(value):
                captured[value] = None
    return list(captured)


def operations(region: Any) -> Iterator[Any]:
    """The operations of a region and of those inside of it."""
    stack = [region]
    while stack:
        for block in stack.pop().blocks:
            for op in block.operations:
                yield op
                stack.extend(op.regions)


def of_outside(block: Any) -> tuple[list[Any], set[Any]]:
    """The operations of a block that read nothing of what it is given, in order, and what they
    make."""
    inside = set(block.arguments)
    outer: list[Any] = []
    inner_values: set[Any] = set()
    for op in list(block.operations)[:-1]:
        read = [*op.operands, *(v for region in op.regions for v in captured_values(region))]
        if op.operation.name in _EFFECTS or not inside.isdisjoint(read):
            inside.update(op.results)
        else:
            outer.append(op)
            inner_values.update(op.results)
    return outer, inner_values


class Elementwise:
    """What a region that works on elements captures, and its computation with that as elements."""

    def __init__(self, scope: Scope, region: Any) -> None:
        self.scope, self.region = scope, region
        self.hoisted: set[Any] = set()
        """The operations that are computed outside."""
        self.values = captured_values(region)
        if any(not scope.value(v).shape.is_scalar for v in self.values):
            self._hoist()
        self.scalars = [scope.value(v) for v in self.values]
        for value, x in zip(self.values, self.scalars, strict=True):
            if not x.shape.is_scalar:
                raise scope.error(
                    f"the region reads {value.get_name()}, a {x.shape.bare}, from outside, "
                    "together with its elements; only scalars can be handed to what works on them",
                    rule="captured",
                    hint="pass it in as an operand, or write a stablehlo.while over the elements",
                )

    def _hoist(self) -> None:
        """Compute outside what does not ask for elements, and capture what the rest reads of it."""
        block = self.region.blocks[0]
        outer, inner_values = of_outside(block)
        op = self.scope.op
        self.scope.read(outer)
        self.scope.op = op
        self.hoisted = set(outer)
        read: dict[Any, None] = {}
        for op in block.operations:
            if op not in self.hoisted:
                inner = [v for region in op.regions for v in captured_values(region)]
                read |= dict.fromkeys([*op.operands, *inner])
        around = set(self.values)
        self.values = [v for v in read if (v in inner_values or v in around) and not is_remade(v)]

    def spread(self, like: Shape) -> list[Instruction]:
        """An array of the sizes of `like` for each captured scalar."""
        return [
            self.scope.emit(
                "broadcast", (x,), shape(x.shape.dtype, like.dims).with_default_layouts()
            )
            for x in self.scalars
        ]

    def mapping(self, name: str) -> Computation:
        """The region's arguments, then what it captures."""
        arguments = self.region.blocks[0].arguments
        return self._computation(name, [*arguments, *self.values], 0)

    def ordering(self, name: str) -> Computation:
        """Pairs of elements, two for each operand; of what is captured the first."""
        order = list(self.region.blocks[0].arguments)
        for value in self.values:
            order += [value, None]
        return self._computation(name, order, 0)

    def folding(self, name: str) -> Computation:
        """The values so far and the new ones, each followed by what is captured."""
        arguments = list(self.region.blocks[0].arguments)
        half = len(arguments) // 2
        order = [*arguments[:half], *self.values, *arguments[half:], *([None] * len(self.values))]
        return self._computation(name, order, len(self.values))

    def _computation(self, name: str, order: Sequence[Any], handed_on: int) -> Computation:
        """The region with parameters in this order; None is a second place of a captured one."""
        program = self.scope.program
        inner = Scope(program, program.new_computation(name), self.scope)
        known = {v: x.shape for v, x in zip(self.values, self.scalars)}
        again: list[Shape] = [x.shape for x in self.scalars]
        for number, value in enumerate(order):
            if value is None:
                inner.emit("parameter", (), again.pop(0), number=number)
            elif value in known:
                inner.values[value] = inner.emit("parameter", (), known[value], number=number)
            else:
                inner.parameter_of(value, number)
        inner.read([op for op in self.region.blocks[0].operations if op not in self.hoisted])
        inner.returned += [inner.values[v] for v in self.values[:handed_on]]
        inner.finish()
        return program.shared(inner.computation)

    def results(self, instruction: Instruction, count: int) -> Instruction | list[Instruction]:
        """The operation's own results of an instruction that also returns what was handed on."""
        if not self.values:
            return self.scope.elements(instruction, count)
        parts = [self.scope.element(instruction, k) for k in range(count)]
        return parts[0] if count == 1 else parts

    def shape(self, own: Shape) -> Shape:
        """The shape of all results where those of captured scalars stand behind the own ones."""
        if not self.values:
            return own
        parts = own.elements if own.is_tuple else (own,)
        like = parts[0]
        more = [shape(x.shape.dtype, like.dims).with_default_layouts() for x in self.scalars]
        return tuple_shape([*parts, *more])
