"""Short loops over whole arrays are written out, step after step.

A loop keeps its state in memory: every step reads all of it and writes all of it, in a kernel of
its own. Written out, the steps are one expression that fusion computes in registers; five rounds
of a random number generator become one kernel. That holds where each step computes element by
element. A step that moves elements (a stencil, a transpose) would be computed again and again for
each of its readers, products and sorts are kernels of their own in any case, and loops over single
numbers are one kernel already: all these stay loops.
"""

from __future__ import annotations

from collections import Counter

from hloom.analysis.trip_count import counters, trip_count
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes, opcodes_where
from hloom.ir.traits import CHOOSES, PLUMBING, RESHAPES, STRIDED
from hloom.passes.expand.expansion import Expansion, put_in_place, settle
from hloom.passes.expand.map_inliner import BY_ELEMENT
from hloom.passes.facts import loops_own_bodies, no_dead_code
from hloom.passes.normalize.conditional_to_select import copied
from hloom.passes.normalize.loop_state import can_be_taken_apart, unchanged_elements
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.rewrite.driver import Trace
from hloom.rewrite.laid_out import laid_out
from hloom.types.dtype import DType

_FREE = opcodes(PLUMBING, RESHAPES, also=("iota",))
"""What no kernel spends time on."""
_PLACED = opcodes(STRIDED, CHOOSES, also=("copy",), without=("iota", "gather"))
"""What gives an element of another place: of a few elements, or of what the loop never changes."""
_WRITTEN_OUT = opcodes_where(
    lambda op: op.name in BY_ELEMENT or op.name in _FREE or op.name in _PLACED
)

FEW = 16
"""Elements that are as good as a register."""


@register
class WhileLoopUnroller(Pass):
    """Write out loops of few steps that compute arrays element by element."""

    name = "while-loop-unroller"
    opcodes = frozenset(["while"])
    needs = (loops_own_bodies,)
    breaks = (no_dead_code,)

    most_trips: int = 32
    most_instructions: int = 512
    """In all steps together, without what costs nothing."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        changed: dict[Computation, None] = {}
        for c in on_threads(module, threads):
            for loop in [i for i in c.instructions if i.opcode == "while"]:
                count = self.trips(loop)
                if count is None:
                    continue
                b = Expansion(c, {})
                put_in_place(b, loop, written_out(b, loop, count))
                fired["unrolled"] += 1
                changed[c] = None
            if c in changed:
                remove_dead_instructions(c)  # what is left of states stands in an outer loop's way
        settle(module, changed)
        return PassResult.of(fired)

    def trips(self, loop: Instruction) -> int | None:
        """How many steps to write out; None to leave the loop alone."""
        condition, body = loop.called
        if not can_be_taken_apart(loop) or not _is_elementwise(loop):
            return None
        if any(i.has_side_effect for i in condition.instructions):
            return None
        count = trip_count(loop).count
        if count is None or not 0 < count <= self.most_trips:
            return None
        work = sum(i.opcode not in _FREE and i.opcode != "broadcast" for i in body.instructions)
        return count if count * work <= self.most_instructions else None


def written_out(b: Expansion, loop: Instruction, count: int) -> Instruction:
    """The state after so many steps. What only counts them is a constant in each: chains of
    additions would have to be folded link by link."""
    known = counters(loop)
    parts = list(loop.operands[0].operands)
    for n in range(1, count + 1):
        parts = list(copied(b, loop.called[1], b.tuple(*parts)).operands)
        for k, (start, by) in known.items():
            parts[k] = b.scalar(
                _wrapped(start + n * by, parts[k].shape.dtype), parts[k].shape.dtype
            )
    return laid_out(b.computation, b.tuple(*parts), loop.shape, b.added)


def _wrapped(value: int, dtype: DType) -> int:
    value %= 1 << dtype.bits
    return value - (1 << dtype.bits) if dtype.is_signed and value >> dtype.bits - 1 else value


def _is_elementwise(loop: Instruction) -> bool:
    """Whether a step computes arrays of more than one element, each from what it was."""
    body = loop.called[1]
    state, same = body.parameters[0], set(unchanged_elements(loop))
    if not any(k not in same and s.is_array and s.size > 1 for k, s in _elements(loop)):
        return False
    fresh: set[Instruction] = set()
    for i in body.in_order():
        if i.has_control_edges or i.shape.is_dynamic:
            return False
        if i is state or i is body.root:
            continue
        if not i.shape.is_array or i.opcode not in _WRITTEN_OUT:
            return False
        if i.opcode == "get-tuple-element":
            if i.attrs.index not in same:
                fresh.add(i)
        elif not fresh.isdisjoint(i.operands):
            fresh.add(i)
            if i.opcode in _PLACED and _moves_much(i, fresh):
                return False
    return True


def _elements(loop: Instruction):
    return enumerate(loop.shape.elements)


def _moves_much(i: Instruction, fresh: set[Instruction]) -> bool:
    """Whether many elements that change in every step are read at another place."""
    arrays = i.operands if i.opcode == "concatenate" else i.operands[:1]
    return any(x in fresh and x.shape.size > FEW for x in arrays)
