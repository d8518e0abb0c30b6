"""Operations in two halves."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.types.shape import tuple_shape


@IMPORT.of("stablehlo.async_start")
def async_start(scope: Scope, op: Any) -> Instruction:
    """The region reads the operands themselves, which become the body's parameters.

    HLO wraps one operation; what is several there (an all_to_all that moves the dimension) is done
    where it stands.
    """
    operands = scope.operands(op)
    inner = Scope(scope.program, scope.program.new_computation("async"), scope)
    block = op.regions[0].blocks[0]
    for k, (value, x) in enumerate(zip(op.operands, operands, strict=True)):
        parameter = inner.emit("parameter", (), x.shape, number=k)
        inner.values[value] = parameter
        if k < len(block.arguments):
            inner.values[block.arguments[k]] = parameter
    inner.run(block)
    inner.finish()
    body = inner.computation
    if len(body.instructions) > len(body.parameters) + 1:
        scope.program.module.remove_computation(body)
        return _done_at_once(scope, op)
    parts = [tuple_shape([x.shape for x in operands]), body.root.shape]
    return scope.emit("async-start", operands, tuple_shape(parts), (body,))


def _done_at_once(scope: Scope, op: Any) -> Instruction:
    """What the region makes, as a tuple that the done takes apart."""
    block = op.regions[0].blocks[0]
    for argument, value in zip(block.arguments, op.operands):
        scope.values[argument] = scope.value(value)
    before = scope.returned
    scope.inside(op, block)
    results, scope.returned = scope.returned, before
    return scope.emit("tuple", tuple(results), tuple_shape([x.shape for x in results]))


@IMPORT.of("stablehlo.async_done")
def async_done(scope: Scope, op: Any) -> Instruction | list[Instruction]:
    (start,) = scope.operands(op)
    if start.opcode == "tuple":
        return list(start.operands)
    if start.opcode != "async-start":
        raise scope.error(
            "what is waited for must be an async_start of the same function", rule="mlir"
        )
    instruction = scope.emit("async-done", (start,), start.shape.elements[1])
    return scope.elements(instruction, len(op.results))
