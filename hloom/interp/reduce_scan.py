"""Scan: a computation run along one dimension, handing carries from step to step.

to_apply(slice of each input, carries) -> (slice of each output, carries); a slice no longer has
the scanned dimension. The result is (outputs, last carries). In reverse the steps run from the
last slice to the first, and each output stays at the place of its input. A running sum and its
like, the common case, is one numpy accumulation.
"""

from __future__ import annotations

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.context import EvalContext
from hloom.interp.elementwise_real import zeros_ordered
from hloom.interp.reduce_fold import Array, as_result, known_fold
from hloom.interp.registry import MEANING
from hloom.interp.step_list import KNOWN_COMBINERS
from hloom.interp.values import EvalValue
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction


@MEANING.of("scan")
def scan(i: Instruction, context: EvalContext, *values: Array) -> EvalValue:
    count = len(values) - i.attrs.num_carries
    inputs, carries = values[:count], tuple(values[count:])
    axis, body = i.attrs.dimensions[0], i.called[0]
    shapes = i.shape.elements if i.shape.is_tuple else (i.shape,)
    output_shapes = shapes[: len(shapes) - len(carries)]
    if inputs:
        steps = inputs[0].shape[axis]
    elif output_shapes:
        steps = output_shapes[0].dims[axis]
    else:
        raise EvalError("a scan without inputs and outputs has no number of steps")
    opcode = _running(body)
    if opcode is not None and len(inputs) == len(carries) == 1 and steps:
        return _accumulated(i, opcode, axis, inputs[0], carries[0])
    order = range(steps - 1, -1, -1) if i.attrs.is_reverse else range(steps)
    outputs = [
        np.empty((*s.dims[:axis], steps, *s.dims[axis + 1 :]), s.dtype.numpy) for s in output_shapes
    ]
    before = (slice(None),) * axis
    for k in order:
        result = context.call(body, *[x[(*before, k, ...)] for x in inputs], *carries)
        parts = result if isinstance(result, tuple) else (result,)
        for out, part in zip(outputs, parts):
            out[(*before, k, ...)] = part
        carries = parts[len(outputs) :]
    return as_result(i.shape, (*outputs, *carries))


def _running(body: Computation) -> str | None:
    """The opcode when the body is (y, y) with y = opcode(slice, carry)."""
    root, parameters = body.root, body.parameters
    if root.opcode != "tuple" or len(parameters) != 2 or len(root.operands) != 2:
        return None
    y, again = root.operands
    if y is not again or y.opcode not in KNOWN_COMBINERS or set(y.operands) != set(parameters):
        return None
    return y.opcode if parameters[0].shape.bare is parameters[1].shape.bare else None


def _accumulated(i: Instruction, opcode: str, axis: int, x: Array, carry: Array) -> EvalValue:
    dtype = i.called[0].parameters[1].shape.dtype
    fold = known_fold(dtype, opcode)
    assert fold.ufunc is not None
    (x,), (start,) = fold.enter((x,)), fold.enter((carry,))
    if i.attrs.is_reverse:
        x = np.flip(x, axis)
    row = np.concatenate([np.expand_dims(start, axis), x], axis=axis)
    totals = fold.ufunc.accumulate(row, axis=axis, dtype=fold.wide)
    totals = zeros_ordered(opcode, totals, row, lambda p: np.logical_or.accumulate(p, axis=axis))
    before = (slice(None),) * axis
    last = totals[(*before, -1, ...)]
    totals = totals[(*before, slice(1, None))]
    if i.attrs.is_reverse:
        totals = np.flip(totals, axis)
    return fold.leave((totals,), (dtype,)) + fold.leave((last,), (dtype,))
