"""Which collectives of counted loops can be moved to another step at no price.

*Forward*: what is communicated goes, through nothing but other forms of it, into the slot of a
buffer that the step's number says. *Backward*: what is communicated is loaded so from a value that
the loop does not change. Then nothing that takes time moves along with the collective, and the loop
carries one operand, or one result, more. `collective-pipeliner{only_noted=true}` moves these alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.analysis.trip_count import source
from hloom.ir.computation import Computation
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES
from hloom.ir.values.frontend import FrontendAttributes
from hloom.passes.collectives.groups import is_plain, sole_reader
from hloom.passes.collectives.peeling import CountedLoop
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.normalize.loop_state import unchanged_elements
from hloom.passes.pass_ import register

PIPELINING = "collective_pipelining"
"""The frontend attribute that says in which direction a collective can be moved."""
_FORMS = opcodes(RESHAPES, also=("convert", "transpose", "copy"))


@register
class CollectivePipeliningAnalyzer(ComputationPass):
    """Note in which direction collectives of counted loops can be pipelined at no price."""

    name = "collective-pipelining-analyzer"

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        loops = [CountedLoop.of(i) for i in c.instructions if i.opcode == "while"]
        for loop in [x for x in loops if x is not None]:
            for i in loop.body.instructions:
                direction = trivial_direction(loop, i)
                said = i.frontend_attributes or FrontendAttributes()
                if direction is not None and said.get(PIPELINING) != direction:
                    i.frontend_attributes = said.with_(**{PIPELINING: direction})
                    fired[direction] += 1
        return []


def trivial_direction(loop: CountedLoop, i: Instruction) -> str | None:
    """Where a collective of a loop can be moved at no price; None: nowhere."""
    if i.opcode not in COLLECTIVES or not is_plain(i):
        return None
    if _is_written(loop, i):
        return "forward"
    return "backward" if _is_loaded(loop, i) else None


def _is_written(loop: CountedLoop, i: Instruction) -> bool:
    """Whether what reads a collective only brings it into the form of a slot, and writes it."""
    reader = sole_reader(i)
    while reader is not None and _is_form(reader):
        i, reader = reader, sole_reader(reader)
    if reader is None or reader.opcode != "dynamic-update-slice" or reader.has_control_edges:
        return False
    root, k = loop.body.root, loop.element_of(reader.operands[0])
    if k is None or reader.operands[1] is not i or not _is_slot(loop, reader.operands[2:]):
        return False
    return sole_reader(reader) is root and root.operands[k] is reader


def _is_loaded(loop: CountedLoop, i: Instruction) -> bool:
    """Whether a collective's operand is a slice of what the loop does not change, in another
    form."""
    (x,) = i.operands
    while _is_form(x):
        (x,) = x.operands
    if x.opcode != "dynamic-slice" or x.has_control_edges or not _is_slot(loop, x.operands[1:]):
        return False
    return loop.element_of(x.operands[0]) in unchanged_elements(loop.loop)


def _is_form(i: Instruction) -> bool:
    return i.opcode in _FORMS and not i.has_control_edges


def _is_slot(loop: CountedLoop, starts: Iterable[Instruction]) -> bool:
    """Whether starts of a slice are constants and what the loop counts, and not all the same in
    every step."""
    counted = [loop.element_of(source(s)) for s in starts if source(s).opcode != "constant"]
    return bool(counted) and all(k in loop.counters for k in counted)
