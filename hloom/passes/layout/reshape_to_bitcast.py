"""Say of what moves no data that it moves none.

In a row-major world a reshape keeps every byte where it is, and so do a transpose, a broadcast, a
slice or a reverse that only deal with dimensions of size 1. As bitcasts they cost no kernel.
"""

from __future__ import annotations

from collections import Counter

from hloom.analysis.fusible import is_row_major
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
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


@register
class ReshapeToBitcast(Pass):
    """Turn reshapes, and transposes and broadcasts of dimensions of size 1, into bitcasts."""

    name = "reshape-to-bitcast"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for c in on_threads(module, threads):
            for i in c.instructions:
                if i.opcode in _CANDIDATES and keeps_bytes(i):
                    fired[i.opcode] += 1
                    i.opcode, i.attrs = "bitcast", OPS["bitcast"].empty
        return PassResult.of(fired)


_CANDIDATES = frozenset(("reshape", "transpose", "broadcast", "reverse"))
