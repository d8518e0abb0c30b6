"""When a CPU kernel may write its result over an operand.

The general rule asks that a kernel loads everything at an index before it stores there. Sequences
break that: they finish one root before they begin the next, except for roots so small that they
are stored at the end. So a larger root of a sequence may only overwrite what no other root reads.
"""

from __future__ import annotations

from hloom.codegen.loops import domain, is_single_tile
from hloom.ir.instruction import Instruction
from hloom.memory.share import DefaultShare

Index = tuple[int, ...]


class CpuShare:
    """The rule, which remembers what it found out about fusions."""

    def __init__(self) -> None:
        self._default = DefaultShare()
        self._reads: dict[Instruction, list[set[int]] | None] = {}

    def __call__(self, i: Instruction, operand: int, output: Index) -> bool:
        if not self._default(i, operand, output):
            return False
        if i.opcode != "fusion" or not output:
            return True
        if i not in self._reads:
            self._reads[i] = sequence_reads(i)
        reads = self._reads[i]
        if reads is None:
            return True
        root = i.called[0].root.operands[output[0]]
        sizes, _ = domain(root, ())
        elements = 1
        for n in sizes:
            elements *= n
        if is_single_tile(elements):
            return True
        return not any(operand in read for k, read in enumerate(reads) if k != output[0])


def sequence_reads(i: Instruction) -> list[set[int]] | None:
    """Which parameters each root of a sequence reads; None if the fusion is no sequence."""
    root = i.called[0].root
    if root.opcode != "tuple":
        return None
    counts = set()
    for r in root.operands:
        elements = 1
        for n in domain(r, ())[0]:
            elements *= n
        counts.add(elements)
    if len(counts) == 1:
        return None
    return [_parameters(r) for r in root.operands]


def _parameters(root: Instruction) -> set[int]:
    seen: set[Instruction] = set()
    work = [root]
    found: set[int] = set()
    while work:
        x = work.pop()
        if x in seen:
            continue
        seen.add(x)
        if x.opcode == "parameter":
            found.add(x.attrs.number)
        work += x.operands
    return found
