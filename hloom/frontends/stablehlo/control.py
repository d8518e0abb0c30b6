"""Loops, branches and what only orders.

A loop's state and the captured values are the elements of one tuple, but for a loop over a
single value that captures nothing: its state is that value.
"""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import word
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Captures, Scope, taken_apart
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.types.dtype import PRED, S32
from hloom.types.shape import TOKEN_SHAPE, Shape, shape, tuple_shape


@IMPORT.of("func.return", "stablehlo.return", "sdy.return", "mhlo.return")
def return_(scope: Scope, op: Any) -> None:
    scope.returned = list(scope.operands(op))


@IMPORT.of("stablehlo.while")
def while_(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    operands = list(scope.operands(op))
    shapes = _state_shapes(scope, op)
    captures = Captures(scope, len(operands))
    condition, body = (
        _stateful(scope, region, name, captures, shapes)
        for region, name in zip(op.regions, ("condition", "body"), strict=True)
    )
    state = operands + captures.instructions
    if len(state) == 1:
        for part in (condition, body):
            _untupled(part)
        condition.finish()
        body.finish()
        _say_nothing_of_root(body.computation)
        return scope.emit(
            "while",
            (state[0],),
            shapes[0] if shapes else state[0].shape,
            (condition.computation, body.computation),
        )
    whole = tuple_shape([*shapes, *(x.shape for x in captures.instructions)])
    for part in (condition, body):
        assert part.parameter is not None
        part.parameter.shape = whole
        part.op = None
    condition.end(condition.returned[0])
    kept_captures = [_captured(body, captures, k) for k in range(len(captures.instructions))]
    body.op = None
    returned = body.returned + kept_captures
    body.end(_whole(body, returned))
    start = _whole(scope, state)
    instruction = scope.emit("while", (start,), whole, (condition.computation, body.computation))
    return [scope.element(instruction, k) for k in range(len(operands))]


def _state_shapes(scope: Scope, op: Any) -> list[Shape]:
    """The shapes of a loop's state, in the layouts that a graph had that was written out."""
    if "xla_shape" in op.attributes:
        shape = scope.program.shape_of_text(word(op.attributes["xla_shape"]))
        return list(shape.elements) if shape.is_tuple else [shape]
    return [scope.shape(result) for result in op.results]


def _whole(scope: Scope, parts: list[Instruction]) -> Instruction:
    """The tuple of the parts, even of none."""
    tuple_source = taken_apart(parts)
    if tuple_source is not None:
        return tuple_source
    return scope.emit("tuple", tuple(parts), tuple_shape([x.shape for x in parts]))


def _stateful(
    scope: Scope, region: Any, name: str, captures: Captures, shapes: list[Shape]
) -> Scope:
    """A region whose arguments are elements of one parameter, which captured values extend."""
    inner = Scope(scope.program, scope.program.new_computation(name), scope, captures)
    attrs = OPS["parameter"].attrs(number=0)
    inner.parameter = inner.computation.append("parameter", attrs, (), tuple_shape(shapes), "state")
    block = region.blocks[0]
    for k, argument in enumerate(block.arguments):
        part = inner.emit("get-tuple-element", (inner.parameter,), shapes[k], index=k)
        inner.values[argument] = part
        inner.tuple_elements.append(part)
    inner.run(block)
    return inner


def _captured(inner: Scope, captures: Captures, k: int) -> Instruction:
    """The k-th captured value inside of a region, whether or not it is read there."""
    value = next(v for v, place in captures.places.items() if place == k)
    part = inner.values.get(value)
    if part is None:
        assert inner.parameter is not None
        place, outside = captures.place(value)
        part = inner.emit("get-tuple-element", (inner.parameter,), outside.shape, index=place)
    return part


def _untupled(inner: Scope) -> None:
    """Make the only element of the parameter the parameter itself."""
    parameter, computation = inner.parameter, inner.computation
    assert parameter is not None
    parameter.shape = parameter.shape.elements[0] if parameter.shape.elements else parameter.shape
    for reader in list(parameter.users):
        parameter.shape = reader.shape
        computation.replace(reader, parameter)
        inner.returned = [parameter if x is reader else x for x in inner.returned]
        inner.tuple_elements = [x for x in inner.tuple_elements if x is not reader]
        computation.erase(reader)


def _say_nothing_of_root(c: Computation) -> None:
    """Let a value that a region returns stand as it says, and what becomes of it as others say:
    another branch may say otherwise, and so may the loop."""
    if c.root.sharding is not None:
        c.root = c.add("copy", c.root)


@IMPORT.of("stablehlo.case", "stablehlo.if")
def case(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    """Each branch takes the tuple of what it captures."""
    (selector,) = scope.operands(op)
    called: list[Computation] = []
    inputs: list[Instruction] = []
    for k, region in enumerate(op.regions):
        captures = Captures(scope, 0)
        inner = _stateful(scope, region, f"branch_{k}", captures, [])
        assert inner.parameter is not None
        inner.parameter.shape = tuple_shape([x.shape for x in captures.instructions])
        if len(captures.instructions) == 1:
            _untupled(inner)
        inner.finish()
        _say_nothing_of_root(inner.computation)
        called.append(inner.computation)
        inputs.append(scope.tuple_of(captures.instructions))
    if selector.shape.dtype not in (PRED, S32):
        selector = scope.emit("convert", (selector,), shape(S32))
    instruction = scope.emit(
        "conditional", (selector, *inputs), scope.tuple_or_one(op), tuple(called)
    )
    return scope.elements(instruction, len(op.results))


@IMPORT.of("stablehlo.optimization_barrier")
def optimization_barrier(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    x = scope.tuple_of(scope.operands(op))
    instruction = scope.emit("opt-barrier", (x,), x.shape)
    return scope.elements(instruction, len(op.results))


@IMPORT.of("stablehlo.after_all", "stablehlo.create_token")
def after_all(scope: Scope, op: Any) -> Instruction:
    return scope.emit("after-all", scope.operands(op), TOKEN_SHAPE)


@IMPORT.of("func.call")
def call(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    callee = scope.program.function(op.attributes["callee"].value, scope)
    instruction = scope.emit("call", scope.operands(op), callee.root.shape, (callee,))
    return scope.elements(instruction, len(op.results))
