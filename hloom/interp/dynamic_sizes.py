"""Elementwise operations on arrays whose run-time sizes differ.

Operands of one shape may still differ in their run-time sizes. In each dimension the result has
the least of the sizes that are run-time sizes and not 1, and 1 where there is no other. An operand
of which there is 1 is repeated; of all others, static ones among them, the first elements count.
That is what XLA computes for operations of two operands, and `dynamic-padder` writes for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS


def fitting(i: Instruction, meaning: Callable[..., Any]) -> Callable[..., Any]:
    """The meaning of an elementwise operation, its operands made equal in size first."""
    many = OPS[i.opcode].family == "elementwise" or i.opcode == "map"
    if not many or sum(x.shape.rank > 0 for x in i.operands if x.shape.is_array) < 2:
        return meaning

    def of_equal_sizes(i: Instruction, frame: Any, *values: Any) -> Any:
        first = values[-1].shape
        if any(x.shape != first for x in values):
            values = equal_sizes(i, values)
        return meaning(i, frame, *values)

    return of_equal_sizes


def equal_sizes(i: Instruction, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The operands' values, all of the sizes that the result has; scalars stay scalars."""
    made = list(values)
    arrays = [k for k, x in enumerate(made) if x.ndim]
    for d in range(made[arrays[0]].ndim):
        running = [k for k in arrays if _has_run_time_size(i.operands[k], made[k], d)]
        sizes = {made[k].shape[d] for k in running}
        if not sizes:
            continue
        size = min(sizes - {1}, default=1)
        for k in arrays:
            if size > 1 and made[k].shape[d] == 1 and k in running:
                made[k] = np.repeat(made[k], size, axis=d)
            elif made[k].shape[d] > size:
                made[k] = made[k][(slice(None),) * d + (slice(0, size),)]
    return made


def _has_run_time_size(x: Instruction, value: np.ndarray, d: int) -> bool:
    """Whether a shape says so, or an array is smaller than its static shape."""
    return x.shape.is_dynamic_dim(d) or value.shape[d] < x.shape.dims[d]
