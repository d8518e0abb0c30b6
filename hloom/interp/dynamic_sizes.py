"""Operations on several arrays whose run-time sizes differ where their shapes say one size.

*Elementwise*: in each dimension the result has the least of the run-time sizes that are not 1, and
1 where there is no other. An operand of which there is 1 is repeated; of all others, static ones
among them, the first elements count. XLA computes that for operations of two operands.

*Otherwise* (contracted and batch dimensions of a dot or convolution, arrays joined, reduced or
sorted together) the elements count that all operands have.

`dynamic-padder` writes the same for compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE

_BY_ELEMENT = opcodes(ELEMENTWISE, also=("map",))
Dimensions = list[tuple[int, int]]
"""(operand, dimension) of each that should have one size."""


def fitting(i: Instruction, meaning: Callable[..., Any]) -> Callable[..., Any]:
    """The meaning of an operation, its operands made equal in size first where they must be."""
    pointwise = i.opcode in _BY_ELEMENT
    if pointwise:
        arrays = [k for k, x in enumerate(i.operands) if x.shape.is_array and x.shape.rank]
        rank = i.operands[arrays[0]].shape.rank if arrays else 0
        groups = [[(k, d) for k in arrays] for d in range(rank)]
    else:
        groups = _together(i)
    groups = [g for g in groups if len(g) > 1]
    if not groups:
        return meaning

    def of_equal_sizes(i: Instruction, context: Any, *values: Any) -> Any:
        for group in groups:
            if len({values[k].shape[d] for k, d in group}) > 1:
                values = _equal_sizes(i, values, group, repeat=pointwise)
        return meaning(i, context, *values)

    return of_equal_sizes


def _together(i: Instruction) -> list[Dimensions]:
    """The dimensions of operands that an operation on several arrays walks together."""
    a, operands = i.attrs, i.operands
    if i.opcode == "dot":
        left = (*a.lhs_contracting_dims, *a.lhs_batch_dims)
        right = (*a.rhs_contracting_dims, *a.rhs_batch_dims)
        return [[(0, d), (1, e)] for d, e in zip(left, right, strict=True)]
    if i.opcode == "convolution" and a.feature_group_count * a.batch_group_count == 1:
        labels = a.dim_labels
        features = labels.input_feature_dimension, labels.kernel_input_feature_dimension
        return [[(0, features[0]), (1, features[1])]]
    if i.opcode in ("concatenate", "sort", "reduce", "reduce-window"):
        count = len(operands) // 2 if i.opcode in ("reduce", "reduce-window") else len(operands)
        axis = a.dimensions[0] if i.opcode == "concatenate" else None
        dims = [d for d in range(operands[0].shape.rank) if d != axis]
        return [[(k, d) for k in range(count)] for d in dims]
    return []


def _equal_sizes(
    i: Instruction, values: Sequence[np.ndarray], group: Dimensions, *, repeat: bool
) -> tuple[np.ndarray, ...]:
    """The operands' values, those of a group with one size; see the module for which."""
    evened = list(values)
    running = {k for k, d in group if _has_run_time_size(i.operands[k], evened[k], d)}
    sizes = {evened[k].shape[d] for k, d in group if k in running}
    size = min(sizes - {1} if repeat and sizes != {1} else sizes)
    for k, d in group:
        if repeat and size > 1 and evened[k].shape[d] == 1 and k in running:
            evened[k] = np.repeat(evened[k], size, axis=d)
        elif evened[k].shape[d] > size:
            evened[k] = evened[k][(slice(None),) * d + (slice(0, size),)]
    return tuple(evened)


def _has_run_time_size(x: Instruction, value: np.ndarray, d: int) -> bool:
    """Whether a shape says so, or an array is smaller than its static shape."""
    return x.shape.is_dynamic_dim(d) or value.shape[d] < x.shape.dims[d]
