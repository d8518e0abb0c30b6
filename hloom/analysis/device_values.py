"""What a whole number made of the device's ids is on every device of the module.

An index into a slice is often computed: an entry of a table at `partition-id`, times the size of a
shard. With the ids of all devices as arrays, one walk over the expression gives its value on each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES

MOST_STEPS = 64
"""Instructions of one expression; longer ones are no index of a shard."""
MOST_TABLE = 1 << 16
"""Elements of a constant that an entry is taken from."""

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "negate": np.negative,
}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_RENAMES = opcodes(RESHAPES, also=("copy",))


def values_on_devices(i: Instruction) -> np.ndarray | None:
    """The value of an integer (or pred) scalar on each device, by global id; None when it is not
    made of constants and device ids alone, or the module does not say how many devices run it."""
    module = i.parent.module
    if module is None or module.replica_count * module.num_partitions < 2:
        return None
    return _Expression(module.replica_count, module.num_partitions).value(i)


class _Expression:
    """One walk; `known` keeps the arrays, whose first axis is the device."""

    def __init__(self, replicas: int, partitions: int) -> None:
        self.replicas, self.partitions = replicas, partitions
        self.known: dict[Instruction, np.ndarray | None] = {}

    def value(self, root: Instruction) -> np.ndarray | None:
        stack = [root]
        while stack:
            i = stack[-1]
            if i in self.known:
                stack.pop()
                continue
            if len(self.known) + len(stack) > MOST_STEPS or not _is_small(i):
                return None
            waiting = [x for x in i.operands if x not in self.known]
            if waiting:
                stack += waiting
                continue
            with np.errstate(all="ignore"):
                value = self.step(i, [self.known[x] for x in i.operands])
            if value is None:
                return None
            self.known[i] = value
            stack.pop()
        result = self.known[root]
        return None if result is None or result.ndim != 1 else result

    def step(self, i: Instruction, x: list[Any]) -> np.ndarray | None:
        """The value of an instruction by those of its operands."""
        devices = np.arange(self.replicas * self.partitions, dtype=np.uint32)
        if i.opcode == "partition-id":
            return devices % np.uint32(self.partitions)
        if i.opcode == "replica-id":
            return devices // np.uint32(self.partitions)
        if i.opcode == "constant":
            return _constant(i, len(devices))
        if i.opcode in _ARITHMETIC:
            return _ARITHMETIC[i.opcode](*x)
        if i.opcode == "compare":
            return _COMPARISONS[i.attrs.direction](*x)
        if i.opcode == "select" and x[0].shape == x[1].shape:
            return np.where(*x)
        if i.opcode == "clamp" and x[0].shape == x[1].shape == x[2].shape:
            return np.minimum(np.maximum(x[0], x[1]), x[2])
        if i.opcode in ("divide", "remainder"):
            if (x[1] <= 0).any() or (x[0] < 0).any():
                return None
            return x[0] // x[1] if i.opcode == "divide" else x[0] % x[1]
        if i.opcode == "convert":
            return x[0].astype(i.shape.dtype.numpy)
        if i.opcode in _RENAMES and i.shape.dtype is i.operands[0].shape.dtype:
            return x[0].reshape(len(devices), *i.shape.dims) if _is_flat(i) else None
        if i.opcode == "dynamic-slice":
            return _entries(i, x)
        return None


def _is_small(i: Instruction) -> bool:
    s = i.shape
    if not s.is_array or not (s.dtype.is_integral or s.dtype.is_pred) or s.is_dynamic:
        return False
    return s.dtype.bits >= 8 or s.dtype.is_pred


def _is_flat(i: Instruction) -> bool:
    """Whether renaming changes no order: both are one row at most, but for dimensions of 1."""
    return all(sum(d != 1 for d in x.shape.dims) <= 1 for x in (i, i.operands[0]))


def _constant(i: Instruction, devices: int) -> np.ndarray | None:
    literal = i.attrs.literal
    if literal.is_elided or i.shape.size > MOST_TABLE:
        return None
    array = np.asarray(literal.array)
    return np.broadcast_to(array, (devices, *array.shape))


def _entries(i: Instruction, x: list[Any]) -> np.ndarray | None:
    """Slices of a table at an index of each device, clamped."""
    table, *starts = x
    at = [
        np.clip(s.astype(np.int64), 0, size - n)
        for s, size, n in zip(starts, table.shape[1:], i.shape.dims, strict=True)
    ]
    rows = [
        table[(d, *(slice(s[d], s[d] + n) for s, n in zip(at, i.shape.dims, strict=True)))]
        for d in range(len(table))
    ]
    return np.stack(rows)
