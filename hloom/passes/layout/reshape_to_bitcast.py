"""Say of what moves no data that it moves none.

In a row-major world a reshape keeps every byte where it is, and so do a transpose, a broadcast, a
slice or a reverse that only deal with dimensions of size 1. As bitcasts they cost no kernel. A
reduce of dimensions of size 1 is its operation applied once, to the initial value and a bitcast.
"""

from __future__ import annotations

from collections import Counter

from hloom.analysis.fusible import is_row_major
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, opcodes
from hloom.ir.order import repair_schedules
from hloom.ir.traits import ASSOCIATIVE
from hloom.passes.facts import no_dead_code
from hloom.passes.layout.layout_normalization import row_major_inside
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace


def keeps_bytes(i: Instruction) -> bool:
    """Whether the result has the bytes of the operand, in their order."""
    if len(i.operands) != 1 or not i.shape.is_array or not i.shape.is_static:
        return False
    s, x = i.shape, i.operands[0].shape
    if not x.is_array or not x.is_static or s.dtype is not x.dtype or s.size != x.size:
        return False
    if not (s.has_layout and x.has_layout and is_row_major(s) and is_row_major(x)):
        return False
    if i.opcode == "reshape":
        return True
    if i.opcode == "transpose":
        moved = [d for d in i.attrs.dimensions if x.dims[d] != 1]
        return moved == sorted(moved)
    if i.opcode == "broadcast":
        moved = [d for d in i.attrs.dimensions if s.dims[d] != 1]
        return moved == sorted(moved)
    if i.opcode == "reverse":
        return all(s.dims[d] == 1 for d in i.attrs.dimensions)
    return False


def folds_once(i: Instruction) -> bool:
    """Whether a reduce has one element for each result, and one operation to apply."""
    if len(i.operands) != 2 or not i.shape.is_array or i.has_control_edges:
        return False
    x, root = i.operands[0].shape, i.called[0].root
    if x.size != i.shape.size or not x.size or x.dtype is not i.shape.dtype:
        return False
    if not (x.is_static and x.has_layout and i.shape.has_layout):
        return False
    if not (is_row_major(x) and is_row_major(i.shape)):
        return False
    parameters = set(i.called[0].parameters)
    return root.opcode in _MONOIDS and len(root.operands) == 2 and set(root.operands) == parameters


def apply_once(i: Instruction) -> None:
    """Put the operation on the initial value and the element in place of the reduce."""
    c, (x, init) = i.parent, i.operands
    flat = c.append("bitcast", OPS["bitcast"].empty, (x,), i.shape)
    root = i.called[0].root
    replacement = flat
    neutral = _NEUTRAL.get(root.opcode)
    if neutral is None or init.opcode != "constant" or not init.attrs.literal.is_all(neutral):
        attrs = OPS["broadcast"].attrs(dimensions=())
        spread = c.append("broadcast", attrs, (init,), i.shape)
        first = root.operands[0] is i.called[0].parameters[0]
        operands = (spread, flat) if first else (flat, spread)
        replacement = c.append(root.opcode, root.attrs, operands, i.shape, i.name)
    replacement.metadata = i.metadata
    c.replace(i, replacement)
    c.erase(i)


@register
class ReshapeToBitcast(Pass):
    """Turn reshapes, and transposes and broadcasts of dimensions of size 1, into bitcasts."""

    name = "reshape-to-bitcast"
    needs = (row_major_inside,)
    breaks = (no_dead_code,)

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for c in on_threads(module, threads):
            folds = [i for i in c.instructions if i.opcode == "reduce" and folds_once(i)]
            for i in folds:
                apply_once(i)
                fired["reduce"] += 1
            if folds:
                c.sort()
            for i in c.instructions:
                if i.opcode in _CANDIDATES and keeps_bytes(i):
                    fired[i.opcode] += 1
                    i.opcode, i.attrs = "bitcast", OPS["bitcast"].empty
        if fired["reduce"]:
            repair_schedules(module)
        return PassResult.of(fired)


_MONOIDS = opcodes(ASSOCIATIVE)
_NEUTRAL = {"and": True, "or": False}
_CANDIDATES = frozenset(("reshape", "transpose", "broadcast", "reverse"))
