"""A conditional with cheap branches is a choice between values that are all computed.

A branch costs a jump, kernels of its own and copies of what it returns; a few operations on small
arrays cost less. Only branches without effects, loops and calls qualify.
"""

from __future__ import annotations

from hloom.ir.computation import Computation
from hloom.ir.copy import copy_computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import CHOOSES, ELEMENTWISE, PLUMBING, RESHAPES, STRIDED
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.rewrite.laid_out import laid_out
from hloom.types.dtype import S32

CHEAP = opcodes(
    ELEMENTWISE, PLUMBING, STRIDED, RESHAPES, CHOOSES, also=("copy",), without=("gather",)
)
_PLUMBING = opcodes(PLUMBING)


def copied(b: Expansion, body: Computation, argument: Instruction) -> Instruction:
    """The result of a computation of one parameter, written into the place of its call."""
    new_for_old: dict[Instruction, Instruction] = {}
    for j in body.in_order():
        if j.opcode == "parameter":
            new_for_old[j] = laid_out(b.computation, argument, j.shape, b.added)
        elif j.opcode == "get-tuple-element":
            element = b.element(new_for_old[j.operands[0]], j.attrs.index)
            new_for_old[j] = laid_out(b.computation, element, j.shape, b.added)
        else:
            new_for_old[j] = b.like(j, *(new_for_old[o] for o in j.operands))
            if j.opcode == "fusion":  # whose body is its own
                bodies = [copy_computation(c, b.module)[0] for c in j.called]
                new_for_old[j].set_called(tuple(bodies))
    return new_for_old[body.root]


@register
class ConditionalToSelect(Expander):
    """Replace a conditional whose branches are few operations on small arrays by select."""

    name = "conditional-to-select"
    opcodes = frozenset(["conditional"])

    most_instructions: int = 16
    """In all branches together, without parameters, constants and tuples."""
    most_elements: int = 1024
    """Of each value in a branch."""

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if not all(s.is_array and s.is_static for s in i.shape.leaves()):
            return None
        if any(s.is_dynamic for x in i.operands for s in x.shape.leaves() if s.is_array):
            return None
        if not self.is_cheap(i):
            return None
        selector, inputs = i.operands[0], i.operands[1:]
        results = [
            laid_out(b.computation, copied(b, c, x), i.shape, b.added)
            for c, x in zip(i.called, inputs, strict=True)
        ]
        if selector.shape.dtype is S32:
            tests = [b.compared(selector, b.scalar(k, S32), "EQ") for k in range(len(results) - 1)]
        else:
            tests = [selector]
        return self.chosen(b, tests, results)

    def is_cheap(self, i: Instruction) -> bool:
        count = 0
        for c in i.called:
            for j in c.instructions:
                if j.opcode not in CHEAP or j.has_control_edges:
                    return False
                if any(s.is_dynamic for s in j.shape.leaves() if s.is_array):
                    return False
                if j.opcode in _PLUMBING:
                    continue
                if j.shape.size > self.most_elements:
                    return False
                count += 1
        leaves = sum(s.size > self.most_elements for s in i.shape.leaves())
        return count <= self.most_instructions and not leaves

    def chosen(self, b: Expansion, tests: list, results: list) -> Instruction:
        """The result of the first branch whose test holds, of the last if none does."""
        if results[0].shape.is_tuple:
            parts = []
            for k in range(len(results[0].shape.elements)):
                parts.append(self.chosen(b, tests, [b.element(r, k) for r in results]))
            return b.tuple(*parts)
        selected = results[-1]
        for test, result in zip(reversed(tests), reversed(results[:-1]), strict=True):
            selected = b.select(b.spread(test, selected.shape.dims), result, selected)
        return selected
