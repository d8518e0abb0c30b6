"""Which values may stand at which place: a set for every instruction and shape index.

A *value* is born where an instruction computes something; tuples, elements, calls, loops,
conditionals and asynchronous pairs only hand values on. Where several may arrive (a loop, a
conditional, a function called twice) the place has their union, or, in SSA form, one phi value.

Sets start empty and only grow, so a loop-carried value that the body hands on unchanged never
meets a second one and gets no phi. A worklist in dependency order looks again only at what reads
something that grew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from hloom.base.diagnostics import HloError
from hloom.ir.async_chain import argument, async_start_of
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import ASYNC_CHAIN, CONTROL_FLOW, FORWARDS
from hloom.types.shape import Shape

Index = tuple[int, ...]
_FORWARDS = opcodes(FORWARDS)
_ASYNC_CHAIN = opcodes(ASYNC_CHAIN)
_CONTROL = opcodes(CONTROL_FLOW)


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Something computed: by which instruction, at which index of its shape."""

    instruction: Instruction
    index: Index
    is_phi: bool = False

    def __repr__(self) -> str:
        phi = "phi " if self.is_phi else ""
        return f"<{phi}%{self.instruction.name}{{{','.join(map(str, self.index))}}}>"


Values = frozenset[Value]
Sets = dict[Index, Values]
NO_VALUES: Values = frozenset()


class Dataflow:
    """The analysis of one module.

    `ssa_form` makes phi values where sets would merge; `bitcast_defines_value` makes a bitcast a
    new value; without `through_calls` a call computes, and a parameter is, a value of its own.
    `threads` restricts the analysis to some execution threads (empty: all).
    """

    def __init__(
        self,
        module: Module,
        *,
        ssa_form: bool = False,
        bitcast_defines_value: bool = False,
        through_calls: bool = True,
        threads: frozenset[str] = frozenset(),
    ) -> None:
        self.module = module
        self.ssa_form = ssa_form
        self.bitcast_defines_value = bitcast_defines_value
        self.through_calls = through_calls
        self.sets: dict[Instruction, Sets] = {}
        self._born: dict[tuple[Instruction, Index, bool], Value] = {}
        self._run(
            [
                c
                for c in module.computations_in_order()
                if not threads or c.execution_thread in threads
            ]
        )

    def at(self, i: Instruction, index: Index = ()) -> Values:
        """The values that may stand at an index of an instruction's result."""
        return self.sets[i][index]

    def unique(self, i: Instruction, index: Index = ()) -> Value:
        """The one value there; `ValueError` when there are several."""
        found = self.at(i, index)
        if len(found) != 1:
            raise ValueError(f"%{i.name}{list(index)} may be any of {len(found)} values")
        return next(iter(found))

    def values(self) -> list[Value]:
        """Every value that stands somewhere, in the order of birth."""
        alive = {v for sets in self.sets.values() for s in sets.values() for v in s}
        return [v for v in self._born.values() if v in alive]

    def positions(self, value: Value) -> list[tuple[Instruction, Index]]:
        """Every place where a value may stand."""
        return [(i, p) for i, sets in self.sets.items() for p, s in sets.items() if value in s]

    # -- fixed point -----------------------------------------------------------------------

    def _run(self, computations: list[Computation]) -> None:
        covered = set(computations)
        work: deque[Instruction] = deque(i for c in computations for i in c.in_order())
        queued = set(work)
        while work:
            i = work.popleft()
            queued.discard(i)
            new = self._transfer(i)
            if new == self.sets.get(i):
                continue
            self.sets[i] = new
            for x in self._readers(i):
                if x.parent in covered and x not in queued:
                    queued.add(x)
                    work.append(x)

    def _readers(self, i: Instruction) -> Iterable[Instruction]:
        """What must be looked at again when the sets of `i` grew."""
        for user in i.users:
            yield user
            for c in user.called:
                yield from c.parameters
        if i.is_root:
            for caller in i.parent.callers:
                yield caller
                for c in caller.called:
                    yield from c.parameters

    def _value(self, i: Instruction, index: Index, is_phi: bool = False) -> Values:
        key = (i, index, is_phi)
        if key not in self._born:
            self._born[key] = Value(i, index, is_phi)
        return frozenset([self._born[key]])

    def _own(self, i: Instruction) -> Sets:
        """A value of its own at every index."""
        return {p: self._value(i, p) for p, _ in i.shape.subshapes()}

    def _merged(self, i: Instruction, sources: Iterable[Sets]) -> Sets:
        """What may arrive from several sources: unions, or phi values."""
        merged: dict[Index, set[Value]] = {}
        for source in sources:
            for p, values in source.items():
                merged.setdefault(p, set()).update(values)
        out: Sets = {}
        for p, subshape in i.shape.subshapes():
            found = merged.get(p, set())
            if self.ssa_form:
                others = found - self._value(i, p, True)
                was_phi = self.sets.get(i, {}).get(p) == self._value(i, p, True)
                out[p] = (
                    self._value(i, p, True) if len(others) > 1 or was_phi else frozenset(others)
                )
            else:
                self._check_shapes(i, found, subshape)
                out[p] = frozenset(found)
        return out

    def _check_shapes(self, i: Instruction, found: set[Value], shape: Shape) -> None:
        """Values of different shapes may only meet when all are effectively scalar."""
        shapes = {v.instruction.shape.subshape(v.index).without_layout() for v in found}
        if len(shapes) > 1 and not all(s.is_array and set(s.dims) <= {1} for s in shapes):
            if not all(s.is_array and s.size_bytes == shape.size_bytes for s in shapes):
                text = ", ".join(sorted(map(str, shapes)))
                raise HloError(f"values of shapes {text} meet", instruction=f"%{i.name}")

    # -- transfer --------------------------------------------------------------------------

    def _transfer(self, i: Instruction) -> Sets:
        opcode, operands = i.opcode, i.operands
        of = [self.sets.get(x, {}) for x in operands]
        if opcode == "parameter":
            return self._parameter(i)
        if opcode == "tuple":
            return {(): self._value(i, ())} | {
                (k, *p): s for k, sets in enumerate(of) for p, s in sets.items()
            }
        if opcode == "get-tuple-element":
            return _under(of[0], (i.attrs.index,))
        if opcode in _FORWARDS or (opcode == "bitcast" and not self.bitcast_defines_value):
            return dict(of[0])
        if opcode in _ASYNC_CHAIN:
            return self._asynchronous(i, of)
        if opcode in _CONTROL and self.through_calls:
            return self._control(i, of)
        return self._halves(i, of)

    def _control(self, i: Instruction, of: list[Sets]) -> Sets:
        if i.opcode == "while":
            return self._merged(i, (of[0], self.sets.get(i.called[1].root, {})))
        return self._merged(i, (self.sets.get(c.root, {}) for c in i.called))

    def _parameter(self, i: Instruction) -> Sets:
        callers = [x for x in i.parent.callers if x.opcode in _CONTROL]
        if not callers or not self.through_calls or i.parent.is_entry:
            return self._own(i)
        if len(callers) < len(i.parent.callers):
            return self._own(i)
        return self._merged(i, (s for x in callers for s in self._arguments(x, i)))

    def _arguments(self, caller: Instruction, parameter: Instruction) -> Iterable[Sets]:
        """What a caller hands to a parameter."""
        number = parameter.attrs.number
        if caller.opcode == "while":
            yield self.sets.get(caller.operands[0], {})
            yield self.sets.get(caller.called[1].root, {})
        elif caller.opcode == "conditional":
            for k, c in enumerate(caller.called):
                if c is parameter.parent:
                    yield self.sets.get(caller.operands[k + 1], {})
        else:
            yield self.sets.get(argument(caller, number), {})

    def _asynchronous(self, i: Instruction, of: list[Sets]) -> Sets:
        if i.opcode == "async-update":
            out = dict(of[0])
            bound = len(i.operands[0].shape.elements[0].elements)
            for k, sets in enumerate(of[1:]):
                out |= {(0, bound + k, *p): s for p, s in sets.items()}
            return out
        if i.opcode == "async-done":
            start = async_start_of(i)
            if self.through_calls and start is not None:
                return dict(self.sets.get(start.called[0].root, {}))
            return _under(of[0], (1,))
        out = self._own(i)
        for k, sets in enumerate(of):
            out |= {(0, k, *p): s for p, s in sets.items()}
        if self.through_calls:
            out |= {(1, *p): s for p, s in self.sets.get(i.called[0].root, {}).items()}
        return out

    def _halves(self, i: Instruction, of: list[Sets]) -> Sets:
        """Starts and dones of copies, transfers and collectives; everything else computes."""
        out = self._own(i)
        opcode = i.opcode
        if opcode == "copy-done":
            return _under(of[0], (0,))
        if opcode in ("all-gather-done", "collective-permute-done"):
            return _under(of[0], (1,))
        if opcode == "recv-done":
            return out | {(0, *p): s for p, s in _under(of[0], (0,)).items()}
        if opcode == "copy-start":
            return out | {(1, *p): s for p, s in of[0].items()}
        if opcode == "send" or (opcode in _CARRY_OPERAND and len(of) == 1):
            return out | {(0, *p): s for p, s in of[0].items()}
        return out


_CARRY_OPERAND = frozenset(["all-gather-start", "collective-permute-start"])


def _under(sets: Sets, prefix: Index) -> Sets:
    """The sets below an index, as those of a shape of its own."""
    n = len(prefix)
    return {p[n:]: s for p, s in sets.items() if p[:n] == prefix}
