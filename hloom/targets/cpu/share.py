"""When a CPU kernel may write its result over an operand.

The general rule asks that a kernel loads everything at an index before it stores there. Sequences
break that: they finish the roots of one size before they begin the next, except for roots so small
that they are stored at the end. So a larger root of a sequence may only overwrite what no root of
another size reads.
"""

from __future__ import annotations

from hloom.analysis.alias_share import DefaultShare
from hloom.base.faults import Culprit, blame
from hloom.codegen.loops import is_single_tile, nests_of
from hloom.codegen.tile import is_update
from hloom.codegen.walk import domain
from hloom.ir.instruction import Instruction

Index = tuple[int, ...]

# Routines of the runtime that take an output which is the very same memory as an input.
ROUTINES = frozenset(("sort", "fft", "cholesky", "triangular-solve"))


def is_done_in_place(i: Instruction, operand: int, output: Index) -> bool:
    """Whether a routine may write this result over this operand."""
    if i.opcode == "sort":
        own = output == ((operand,) if i.shape.is_tuple else ())
    else:
        own = operand == (1 if i.opcode == "triangular-solve" else 0)
    x = i.operands[operand]
    if not own or i.operands.count(x) != 1:  # in this order: sorts may have a thousand of both
        return False
    result = i.shape.subshape(output)
    return x.shape.dims == result.dims and x.shape.dtype is result.dtype


def never(i: Instruction, operand: int, output: Index) -> bool:
    """The rule that lets nothing be overwritten."""
    return False


class CpuShare:
    """The rule, which remembers what it found out about fusions."""

    def __init__(self) -> None:
        self._default = DefaultShare()
        self._reads: dict[Instruction, list[set[int]] | None] = {}

    def __call__(self, i: Instruction, operand: int, output: Index) -> bool:
        try:
            return self._allows(i, operand, output)
        except Exception as error:
            blame(error, Culprit("step", "sharing"))
            raise

    def _allows(self, i: Instruction, operand: int, output: Index) -> bool:
        if i.opcode in ROUTINES:
            return is_done_in_place(i, operand, output)
        if i.opcode == "fusion" and self._stores_last(i, operand, output):
            return True
        if not self._default(i, operand, output):
            return False
        if i.opcode != "fusion" or not output:
            return True
        if i not in self._reads:
            self._reads[i] = sequence_reads(i)
        reads = self._reads[i]
        if reads is None:
            return True
        roots = i.called[0].root.operands
        root = roots[output[0]]
        sizes, _ = domain(root, ())
        elements = 1
        for n in sizes:
            elements *= n
        if is_single_tile(elements):
            return True
        nests = nests_of([(r, ()) for r in roots])
        [together] = [nest for nest in nests if output[0] in nest]
        return not any(operand in read for k, read in enumerate(reads) if k not in together)

    def _stores_last(self, i: Instruction, operand: int, output: Index) -> bool:
        """Whether a single number is stored after all that the fusion reads has been read."""
        root = i.called[0].root
        if root.opcode == "tuple" and output:
            root = root.operands[output[0]]
        x = i.operands[operand].shape
        if not (x.is_array and root.shape.is_array) or x.size != 1 or root.shape.size != 1:
            return False
        if is_update(root) or x.is_dynamic or x.dtype.size_bytes != root.shape.dtype.size_bytes:
            return False
        if i not in self._reads:
            self._reads[i] = sequence_reads(i)
        if self._reads[i] is not None:
            return True
        roots = i.called[0].root
        every = roots.operands if roots.opcode == "tuple" else (roots,)
        return all(domain(r, ())[0] == () or set(domain(r, ())[0]) == {1} for r in every)


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
    numbers: set[int] = set()
    while work:
        x = work.pop()
        if x in seen:
            continue
        seen.add(x)
        if x.opcode == "parameter":
            numbers.add(x.attrs.number)
        work += x.operands
    return numbers
