"""Which lanes a mask excludes whatever the kernel's step is: what LLVM can tell of it, too."""

from __future__ import annotations

import operator
from collections.abc import Callable

from hloom.kernel.kernel import Value

Lane = int | None
ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "subtract": operator.sub,
}
COMPARED: dict[str, Callable[[int, int], bool]] = {
    "EQ": operator.eq,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
    "NE": operator.ne,
}


def only_first(mask: Value) -> bool:
    """Whether a mask lets through the first lane of its rows at most."""
    return len(mask.shape) > 0 and all(x == 0 for x in known_lanes(mask)[1:])


def known_lanes(value: Value) -> list[Lane]:
    """The numbers along the last axis, where they are the same in all rows and steps."""
    lanes = value.shape[-1] if value.shape else 1
    unknown: list[Lane] = [None] * lanes
    op = value.op
    if op is None or value.dtype.is_floating or value.dtype.is_complex:
        return unknown
    if op.opcode == "constant":
        return [int(op.attrs["value"])] * lanes
    if op.opcode == "iota":
        return list(range(lanes)) if op.attrs["axis"] == len(value.shape) - 1 else unknown
    if op.opcode in ("broadcast", "convert"):
        known = known_lanes(op.operands[0])
        return known * lanes if len(known) == 1 else known if len(known) == lanes else unknown
    if op.opcode == "and":
        return [0 if 0 in pair else None for pair in zip(*map(known_lanes, op.operands))]
    apply = ARITHMETIC.get(op.opcode)
    if op.opcode == "compare" and op.operands[0].dtype.is_integral:
        apply = COMPARED[op.attrs["direction"]]
    if apply is None:
        return unknown
    pairs = zip(*map(known_lanes, op.operands))
    return [None if a is None or b is None else int(apply(a, b)) for a, b in pairs]
