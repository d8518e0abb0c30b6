"""Constants that a loop carries unchanged are written into body and condition.

The element of the state stays; when nothing reads it any more, `module-dce` removes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.facts import loops_own_bodies
from hloom.passes.normalize.loop_state import (
    can_be_taken_apart,
    elements_read,
    unchanged_elements,
)
from hloom.passes.pass_ import register


def _is_constant(x: Instruction, scalars_only: bool, broadcasts: bool) -> bool:
    if x.opcode == "broadcast" and broadcasts and not scalars_only:
        return _is_constant(x.operands[0], True, False)
    return x.opcode == "constant" and (x.shape.is_scalar or not scalars_only)


def _copy(x: Instruction, into: Computation) -> Instruction:
    operands = tuple(_copy(o, into) for o in x.operands)
    copied = into.append(x.opcode, x.attrs, operands, x.shape, x.name)
    copied.copy_annotations(x)
    return copied


@register
class WhileLoopConstantSinking(ComputationPass):
    """Write constants that a loop carries into its body and condition."""

    name = "while-loop-constant-sinking"
    opcodes = frozenset(["while"])
    needs = (loops_own_bodies,)
    callers_first = True

    sink_broadcasts: bool = True
    """Broadcasts of scalar constants too."""
    only_scalars: bool = False

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        for loop in [i for i in c.instructions if i.opcode == "while"]:
            if not can_be_taken_apart(loop):
                continue
            if count := self.sink(loop):
                fired["constant"] += count
                yield from loop.called

    def sink(self, loop: Instruction) -> int:
        """How many reads of the state became constants."""
        body = loop.called[1]
        count = 0
        for k in unchanged_elements(loop):
            x = loop.operands[0].operands[k]
            if not _is_constant(x, self.only_scalars, self.sink_broadcasts):
                continue
            for state in (p.parameters[0] for p in loop.called):
                for g in elements_read(state).get(k, ()):
                    readers = [u for u in g.users if u is not body.root]
                    if g.has_control_edges or not readers:
                        continue
                    copied = _copy(x, g.parent)
                    copied.shape = g.shape
                    for u in readers:
                        u.replace_operand(g, copied)
                    if not g.users and not g.is_root:
                        g.parent.erase(g)
                    count += 1
        return count
