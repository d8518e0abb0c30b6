"""Which lanes a mask excludes whatever the kernel's step is: what LLVM can tell of it, too."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod

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


def rows_that_exclude(mask: Value) -> list[bool]:
    """Whether a mask never lets through some lane, for each of its rows."""
    lanes = mask.shape[-1] if mask.shape else 1
    known = known_lanes(mask)
    return [0 in known[at : at + lanes] for at in range(0, len(known), lanes)]


def known_lanes(value: Value) -> list[Lane]:
    """The numbers of a tile, row by row, where they are the same in all steps."""
    unknown: list[Lane] = [None] * prod(value.shape)
    op = value.op
    if op is None or value.dtype.is_floating or value.dtype.is_complex:
        return unknown
    if op.opcode == "constant":
        return [int(op.attrs["value"])] * len(unknown)
    if op.opcode == "iota":
        below = prod(value.shape[op.attrs["axis"] + 1 :])
        return [at // below % value.shape[op.attrs["axis"]] for at in range(len(unknown))]
    if op.opcode in ("convert", "reshape"):
        return known_lanes(op.operands[0])
    if op.opcode == "broadcast":
        return _spread(known_lanes(op.operands[0]), op.operands[0].shape, value.shape)
    if op.opcode == "and":
        return [0 if 0 in pair else None for pair in zip(*map(known_lanes, op.operands))]
    apply = ARITHMETIC.get(op.opcode)
    if op.opcode == "compare" and op.operands[0].dtype.is_integral:
        apply = COMPARED[op.attrs["direction"]]
    if apply is None:
        return unknown
    pairs = zip(*map(known_lanes, op.operands))
    return [None if a is None or b is None else int(apply(a, b)) for a, b in pairs]


def _spread(known: list[Lane], shape: tuple[int, ...], to: tuple[int, ...]) -> list[Lane]:
    """Numbers of a tile, each as often as a broadcast has it; axes are counted from the last."""
    strides, below = [0] * len(to), 1
    for axis in range(1, len(shape) + 1):
        strides[-axis] = below if shape[-axis] > 1 else 0
        below *= shape[-axis]
    places = [0]
    for size, stride in zip(to, strides):
        places = [place + k * stride for place in places for k in range(size)]
    return [known[place] for place in places]
