"""Floats of a kernel that arithmetic has made, in which subnormal numbers are zero already.

Programs take subnormal numbers for zero in arithmetic, and move others as they are. An instruction
that narrows a float and takes them for zero, too (`vcvtneps2bf16`, `bfcvt`), does as much with
results of arithmetic as a rounding of all numbers does, in a fifth of the instructions; not with
what was read, so that this says which is which.

Assumed is that everything is a result, until something that was read, or has it for an operand,
says otherwise: so sums that loops carry are found.
"""

from __future__ import annotations

from hloom.codegen.llvm.lower_real import CHOOSING, REAL
from hloom.codegen.llvm.moved import MOVES
from hloom.kernel.kernel import Kernel, Op, Value, ops_of

_READING = frozenset(["load", "store", "gather", "scatter", "alloc"])
_MADE = frozenset(REAL) - CHOOSING | {"dot", "iota"}
_PASSED_ON = MOVES - _READING | CHOOSING | {"convert", "reduce"}
"""What gives numbers as they are, or one of them, or narrows what it is given."""
SMALLEST = 2.0**-126
"""The least normal number of f32 and bf16."""


def computed_values(kernel: Kernel) -> set[Value]:
    """The tiles of real floats of which every element is the result of arithmetic, or zero."""
    sources: dict[Value, list[Value]] = {}
    """What each is of, where it is a result if they are."""
    ops = ops_of(kernel.body)
    own = {op.result: [] for op in ops if op.opcode == "alloc"}
    stored: dict[Value, list[Value]] = own
    others = [op for op in ops if op.opcode in ("store", "scatter")]
    is_known = all(op.operands[0] in own or op.operands[0].op is None for op in others)
    passed_on = {x for op in ops if op.blocks for x in op.operands if x in own}
    for op in others:
        stored.setdefault(op.operands[0], []).append(op.operands[2])
    for op in ops:
        if op.blocks:
            _carried(op, sources)
        elif op.opcode in _MADE:
            sources.update({x: [] for x in op.results})
        elif op.opcode in _PASSED_ON and not _is_subnormal(op):
            sources[op.result] = [x for x in op.operands if x.dtype.is_floating]
        elif op.opcode == "load" and len(op.operands) == 2:
            buffer = op.operands[0]
            if is_known and buffer in own and buffer not in passed_on:
                sources[op.result] = own[buffer]
    return _results(sources)


def _carried(op: Op, sources: dict[Value, list[Value]]) -> None:
    """What a loop carries, and what it or a choice between blocks ends with."""
    if op.opcode not in ("for", "if"):
        return
    ends = [block.ops[-1].operands for block in op.blocks]
    init = op.operands[2:] if op.opcode == "for" else ()
    for k, result in enumerate(op.results):
        origins = [end[k] for end in ends] + ([init[k]] if init else [])
        sources[result] = origins
        if init:
            sources[op.blocks[0].arguments[k + 1]] = origins


def _is_subnormal(op: Op) -> bool:
    """Whether an op is a constant that has such a number."""
    value = op.attrs.get("value")
    if op.opcode != "constant" or not isinstance(value, (int, float)):
        return op.opcode == "constant"
    return 0 < abs(value) < SMALLEST


def _results(sources: dict[Value, list[Value]]) -> set[Value]:
    """Those of which everything that they are of is known to be a result, too."""
    users: dict[Value, list[Value]] = {}
    for x, origins in sources.items():
        for y in origins:
            users.setdefault(y, []).append(x)
    read = [y for y in users if y not in sources]
    for y in read:  # which grows
        for x in users.get(y, ()):
            if sources.pop(x, None) is not None:
                read.append(x)
    return set(sources)
