"""Which parts of which results matter: liveness by shape index, backwards.

What a side effect reads and what the entry returns is live; so is what a live part is made of.
Tuples, calls, loops and conditionals are followed index by index, through shared callees too: a
parameter that is live in the callee makes that operand live at every call site. A loop, choice or
call that has side effects runs even where nobody reads it: what decides how often is live.
"""

from __future__ import annotations

from collections import deque

from hloom.ir.instruction import EFFECT_FREE, Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTROL_FLOW

Index = tuple[int, ...]
# The body of an async-start is live with it.
_CONTROL = opcodes(CONTROL_FLOW, without=("async-start",))


class Liveness:
    """The live indices of every instruction of a module; cost is linear in live positions."""

    def __init__(self, module: Module) -> None:
        self._live: dict[Instruction, set[Index]] = {}
        self._work: deque[tuple[Instruction, Index]] = deque()
        self._mark_all(module.entry.root)
        for c in module.computations:
            for i in c.instructions:
                if i.opcode in EFFECT_FREE or not i.has_side_effect:
                    continue
                if i.opcode in _CONTROL:
                    self._mark(i, ())
                    continue
                self._mark_all(i)
                for x in i.operands:
                    self._mark_all(x)
        while self._work:
            self._follow(*self._work.popleft())

    def is_live(self, i: Instruction, index: Index = ()) -> bool:
        """Whether the part of the result at this index matters."""
        return index in self._live.get(i, ())

    def live_indices(self, i: Instruction) -> set[Index]:
        return set(self._live.get(i, ()))

    def _mark(self, i: Instruction, index: Index) -> None:
        live = self._live.setdefault(i, set())
        if index not in live:
            live.add(index)
            self._work.append((i, index))

    def _mark_all(self, i: Instruction) -> None:
        for index, _ in i.shape.subshapes():
            self._mark(i, index)

    def _follow(self, i: Instruction, index: Index) -> None:
        """Mark what the part of `i` at `index` is made of."""
        opcode = i.opcode
        if opcode == "tuple":
            if index:
                self._mark(i.operands[index[0]], index[1:])
        elif opcode == "get-tuple-element":
            self._mark(i.operands[0], ())
            self._mark(i.operands[0], (i.attrs.index, *index))
        elif opcode == "parameter":
            self._follow_parameter(i, index)
        elif opcode == "call":
            self._mark(i.called[0].root, index)
        elif opcode == "while":
            self._follow_while(i, index)
        elif opcode == "conditional":
            self._mark(i.operands[0], ())
            for c in i.called:
                self._mark(c.root, index)
        elif opcode in ("opt-barrier", "domain"):
            self._mark(i.operands[0], index)
        else:
            for x in (*i.operands, *i.control_predecessors, *(c.root for c in i.called)):
                self._mark_all(x)

    def _follow_while(self, i: Instruction, index: Index) -> None:
        condition, body = i.called
        self._mark(i, index)
        self._mark(condition.root, ())
        self._mark(body.root, index)
        self._mark(i.operands[0], index)

    def _follow_parameter(self, i: Instruction, index: Index) -> None:
        for caller in i.parent.callers:
            if caller.opcode == "while":
                self._follow_while(caller, index)
            elif caller.opcode == "conditional":
                for k, c in enumerate(caller.called):
                    if c is i.parent:
                        self._mark(caller.operands[k + 1], index)
            elif caller.opcode == "call":
                self._mark(caller.operands[i.attrs.number], index)
