"""Called computations of scalars, run on whole arrays at once.

A combiner, comparator or mapped function made only of elementwise operations means the same on
arrays as on scalars, element by element, so its body runs once instead of once per element.
Conditionals become selections, since neither branch can do more than compute. Any other body (a
loop, a reduction inside) runs once per element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.registry import MEANING
from hloom.interp.values import EvalValue, from_literal
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE, FORWARDS, RESHAPES, STRIDED

if TYPE_CHECKING:
    from hloom.interp.context import EvalContext
    from hloom.interp.machine import SharedEvaluation

_IDENTITIES = opcodes(STRIDED, RESHAPES, FORWARDS, also=("copy",), without=("iota",))
_ELEMENTWISE = opcodes(ELEMENTWISE)
"""On scalars of one type these change nothing."""


class VectorStep(NamedTuple):
    """One instruction: how it acts on batch arrays, and the slots it reads and fills."""

    instruction: Instruction
    act: Callable[..., EvalValue]
    operands: tuple[int, ...]
    slot: int


class VectorStepList(NamedTuple):
    """The steps of one computation on batch arrays."""

    steps: tuple[VectorStep, ...]
    template: list[EvalValue]
    parameters: tuple[int, ...]
    root: int


def vector_step_list(machine: SharedEvaluation, computation: Computation) -> VectorStepList | None:
    """The steps, or None when some operation of the body is not elementwise."""
    slots: dict[Instruction, int] = {}
    template: list[EvalValue] = []
    steps: list[VectorStep] = []
    for i in computation.in_order():
        slots[i] = len(template)
        template.append(None)
        if i.opcode == "parameter":
            continue
        if i.opcode == "constant" and i.shape.is_scalar:
            template[-1] = from_literal(i.attrs.literal)
            continue
        act = _act(machine, i)
        if act is None:
            return None
        steps.append(VectorStep(i, act, tuple(slots[x] for x in i.operands), slots[i]))
    parameters = tuple(slots[p] for p in computation.parameters)
    return VectorStepList(tuple(steps), template, parameters, slots[computation.root])


def _act(machine: SharedEvaluation, i: Instruction) -> Callable[..., EvalValue] | None:
    """How one instruction of a scalar body acts on batch arrays, or None."""
    opcode, operands = i.opcode, i.operands
    if opcode in ("tuple", "get-tuple-element"):
        return MEANING[opcode]
    if opcode in ("call", "fusion", "conditional"):
        step_lists = [_inner(machine, c) for c in i.called]
        inner = [prepared for prepared in step_lists if prepared is not None]
        if len(inner) != len(step_lists) or i.has_side_effect:
            return None
        if opcode == "conditional":
            return _choice(inner)
        return lambda i, context, *values: _walk(inner[0], values, context)
    if not i.shape.is_scalar or not all(x.shape.is_scalar for x in operands):
        return None
    if opcode in _IDENTITIES and operands[0].shape.dtype is i.shape.dtype:
        return lambda i, context, x: x
    if opcode == "bitcast" and operands[0].shape.dtype.bits == i.shape.dtype.bits:
        return MEANING["bitcast-convert"]
    if opcode in _ELEMENTWISE:
        return MEANING.get(opcode)
    return None


def _inner(machine: SharedEvaluation, computation: Computation) -> VectorStepList | None:
    if computation not in machine.vector_step_lists:
        machine.vector_step_lists[computation] = vector_step_list(machine, computation)
    return machine.vector_step_lists[computation]


def _choice(branches: list[VectorStepList]) -> Callable[..., EvalValue]:
    """All branches, then for each element the one its selector takes."""

    def act(
        i: Instruction, context: EvalContext, selector: np.ndarray, *inputs: EvalValue
    ) -> EvalValue:
        results = [_walk(prepared, (x,), context) for prepared, x in zip(branches, inputs)]
        last = len(branches) - 1
        if selector.dtype == np.bool_:
            index = np.where(selector, 0, 1)
        else:
            index = np.where((selector < 0) | (selector > last), last, selector)
        return _select(index, results)

    return act


def _select(index: np.ndarray, results: list[EvalValue]) -> EvalValue:
    if isinstance(results[0], tuple):
        return tuple(_select(index, list(parts)) for parts in zip(*results))
    chosen = results[-1]
    for k in range(len(results) - 1):
        chosen = np.where(index == k, results[k], chosen)
    return chosen


def _walk(
    prepared: VectorStepList, values: tuple[EvalValue, ...], context: EvalContext
) -> EvalValue:
    slots = prepared.template.copy()
    for slot, value in zip(prepared.parameters, values):
        slots[slot] = value
    for i, act, operands, slot in prepared.steps:
        slots[slot] = act(i, context, *[slots[k] for k in operands])
    return slots[prepared.root]


def run_vectorised(
    prepared: VectorStepList | None,
    computation: Computation,
    arrays: tuple[np.ndarray, ...],
    context: EvalContext,
) -> EvalValue:
    """See `EvalContext.vectorised`."""
    if len(arrays) != len(computation.parameters):
        raise EvalError(
            f"computation %{computation.name} takes {len(computation.parameters)} parameters, "
            f"not {len(arrays)}"
        )
    batch = np.broadcast_shapes(*[np.shape(a) for a in arrays]) if arrays else ()
    if prepared is not None:
        return _spread(_walk(prepared, arrays, context), batch)
    return _one_by_one(computation, arrays, batch, context)


def _spread(value: EvalValue, batch: tuple[int, ...]) -> EvalValue:
    """A result that did not depend on every argument still has the shape of the batch."""
    if isinstance(value, tuple):
        return tuple(_spread(part, batch) for part in value)
    # numpy makes a scalar of an array of rank 0.
    return np.asarray(value) if np.shape(value) == batch else np.broadcast_to(value, batch)


def _one_by_one(
    computation: Computation,
    arrays: tuple[np.ndarray, ...],
    batch: tuple[int, ...],
    context: EvalContext,
) -> EvalValue:
    flat = [np.broadcast_to(a, batch).reshape(-1) for a in arrays]
    count = int(np.prod(batch, dtype=np.int64))
    results = [
        context.call(computation, *[a[k : k + 1].reshape(()) for a in flat]) for k in range(count)
    ]
    return _gathered(results, computation.root.shape, batch)


def _gathered(results: list[EvalValue], shape: Any, batch: tuple[int, ...]) -> EvalValue:
    """Per-element results as arrays of the batch shape."""
    if shape.is_tuple:
        return tuple(
            _gathered([r[k] for r in results], part, batch) for k, part in enumerate(shape.elements)
        )
    out = np.empty(len(results), shape.dtype.numpy)
    for k, result in enumerate(results):
        out[k] = result[()]
    return out.reshape(batch)
