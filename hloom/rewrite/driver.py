"""The driver: applies rules until none applies, looking again only where something changed.

A worklist holds instructions to look at, operands first. When a rule fires, what it made and the
readers of what it replaced are looked at again; what became unread is erased on the way. Fuel
bounds the number of firings; running out names the rules that fired most, which are the ones
that undo one another.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hloom.base.diagnostics import HloError
from hloom.ir.computation import Computation
from hloom.ir.instruction import EFFECT_FREE, Instruction
from hloom.ir.op import opcodes_where
from hloom.ir.traits import SIDE_EFFECT
from hloom.rewrite.build import RuleBuilder
from hloom.rewrite.rule import Declined, Rule


class FuelError(HloError):
    """The rules undo one another: a fixed point was not reached."""


@dataclass
class Event:
    """One rule met one instruction: what stood there, what stands there now, or why not."""

    rule: Rule
    before: str
    after: str | None
    declined: str | None


@dataclass
class Trace:
    """What fired, and what declined and why. `text` keeps the instructions as text, which costs
    time; without it only counts and reasons are kept."""

    fired: Counter[str] = field(default_factory=Counter)
    declined: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: list[Event] = field(default_factory=list)
    text: bool = False

    def record(self, rule: Rule, i: Instruction, new: Instruction | Declined | None) -> None:
        if isinstance(new, Instruction):
            self.fired[rule.name] += 1
            if self.text:
                self.events.append(Event(rule, str(i), str(new), None))
        elif isinstance(new, Declined):
            self.declined[rule.name, new.reason] += 1
            if self.text:
                self.events.append(Event(rule, str(i), None, new.reason))


Candidate = tuple[Any, ...]
"""A rule with its `match`, `build` and `wants`."""


class RuleTable:
    """Rules by the opcodes of an instruction and of its operands: most patterns ask for these, so
    that few rules are tried anywhere. Made once, it serves any number of computations."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.by_opcode: dict[str, list[Candidate]] = {}
        self._by_opcodes: dict[tuple[str | int, ...], list[Candidate]] = {}
        for r in rules:
            for opcode in r.pattern.opcodes or ():
                self.by_opcode.setdefault(opcode, []).append((r, r.match, r.build, r.wants))

    def candidates(self, i: Instruction) -> Sequence[Candidate]:
        """The rules whose patterns ask for no other opcodes, the first to be tried first."""
        opcode, operands = i.opcode, i.operands
        if opcode not in self.by_opcode:
            return ()
        count = len(operands)
        if count == 1:
            key = (opcode, operands[0].opcode)
        elif count == 2:
            key = (opcode, operands[0].opcode, operands[1].opcode)
        else:  # what has many operands has few rules
            key = (opcode, count)
        candidates = self._by_opcodes.get(key)
        if candidates is None:
            known = [x.opcode for x in operands] if count in (1, 2) else None
            candidates = self._by_opcodes[key] = [
                c for c in self.by_opcode[opcode] if c[0].pattern.may_match(count, known)
            ]
        return candidates


@dataclass
class _Run:
    """One run of some rules over one computation."""

    computation: Computation
    rules: RuleTable
    trace: Trace | None
    fuel: int
    work: deque[Instruction] = field(default_factory=deque)
    queued: set[Instruction] = field(default_factory=set)
    fired: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.builder = RuleBuilder(self.computation)
        order = self.computation.in_order()
        self.work.extend(order)
        self.queued.update(order)

    def push(self, items: Iterable[Instruction]) -> None:
        """Look at these again, unless they wait already."""
        queued, work = self.queued, self.work
        for x in items:
            if x not in queued:
                queued.add(x)
                work.append(x)

    def run(self) -> Counter[str]:
        work, queued, here = self.work, self.queued, self.computation.instructions
        opcodes = self.rules.by_opcode
        while work:
            i = work.popleft()
            queued.discard(i)
            if (i.opcode in opcodes or not i.users) and i in here:
                self.visit(i)
        return self.fired

    def visit(self, i: Instruction) -> None:
        """Erase `i` if nothing reads it; else put in its place what a rule says, if one does."""
        if not i.users and i is not self.computation._root:
            if is_removable(i):
                self.push(self.computation.erase(i))
            return
        for r, match, build, wants in self.rules.candidates(i):
            bindings: dict[str, Instruction] = {}
            if not match(i, bindings):
                continue
            new = self.accepted(i, build(self.builder, *[bindings[n] for n in wants]))
            if self.trace is not None and new is not None:
                self.trace.record(r, i, new)
            if isinstance(new, Instruction):
                self.replace(i, new, r)
                return
            self.undo()

    def accepted(
        self, i: Instruction, new: Instruction | Declined | None
    ) -> Instruction | Declined | None:
        """What the rule answered, or why the driver does not take it."""
        if not isinstance(new, Instruction):
            return new
        if i.control_predecessors or i.control_successors:
            return Declined("it has control dependencies")
        if new.shape is not i.shape:
            if not new.shape.compatible(i.shape):
                if new.shape.same(
                    i.shape,
                    ignore_layout=True,
                    ignore_floating_point_precision=True,
                    ignore_dynamic=True,
                ):
                    return Declined("it changes the precision or the dynamic sizes")
                raise AssertionError(f"a rule made {new.shape} where {i.shape} stood: {i}")
            if new not in self.builder.added:
                return Declined("the value that would replace it has another layout")
            new.shape = i.shape
        if i.sharding is not None and new not in self.builder.added and new.sharding != i.sharding:
            return Declined("the value that would replace it has another sharding")
        return new

    def replace(self, i: Instruction, new: Instruction, r: Rule) -> None:
        computation, builder = self.computation, self.builder
        for new_instruction in builder.added:
            if new_instruction.metadata is None:
                new_instruction.metadata = i.metadata
            if new_instruction.frontend_attributes is None:
                new_instruction.frontend_attributes = i.frontend_attributes
        if new.sharding is None and new in builder.added:
            new.sharding = i.sharding
        readers = computation.replace(i, new)
        self.push(builder.added)
        builder.added.clear()
        self.push((new, *readers))
        self.visit_dead(i)
        self.fired[r.name] += 1
        self.fuel -= 1
        if self.fuel < 0:
            raise FuelError(
                f"still rewriting %{computation.name} after {self.fired.total()} steps: "
                + ", ".join(f"{n} ({c} times)" for n, c in self.fired.most_common(3)),
                rule="fixed-point",
                hint="these rules undo one another; switch one off or give more fuel",
            )

    def visit_dead(self, i: Instruction) -> None:
        if not i.users and i is not self.computation._root and is_removable(i):
            self.push(self.computation.erase(i))

    def undo(self) -> None:
        """Erase what a rule made before it declined."""
        for new_instruction in reversed(self.builder.added):
            if not new_instruction.users:
                self.computation.erase(new_instruction)
        self.builder.added.clear()


def is_removable(i: Instruction) -> bool:
    """Whether an unread instruction may be erased: no parameter, no effect, no order to keep."""
    if i.opcode == "parameter" or i.control_predecessors or i.control_successors:
        return False
    if i.opcode in _ENDS_A_CHAIN and _chain_stays(i):
        return False
    return i.opcode in EFFECT_FREE or not i.has_side_effect


_ENDS_A_CHAIN = opcodes_where(
    lambda op: SIDE_EFFECT not in op.traits and (bool(op.done_of) or op.name == "async-update")
)


def _chain_stays(i: Instruction) -> bool:
    """Whether the start of an asynchronous chain that `i` goes on with stays, because the
    computation returns it unfinished or it has effects: a start and an update need their one user,
    even where nobody reads it."""
    before = i.operands[0]
    while not before.is_root and before.opcode == "async-update":
        before = before.operands[0]
    return before.is_root or before.has_side_effect


def apply_rules(
    computation: Computation,
    rules: Sequence[Rule] | RuleTable,
    *,
    trace: Trace | None = None,
    fuel: int | None = None,
) -> Counter[str]:
    """Rewrite a computation to a fixed point; return how often each rule fired.

    `fuel` bounds the firings (default: 20 an instruction, and 1,000). Raises `FuelError` when it
    runs out. Unread instructions without side effects are erased on the way.
    """
    if fuel is None:
        fuel = 20 * len(computation.instructions) + 1000
    table = rules if isinstance(rules, RuleTable) else RuleTable(rules)
    return _Run(computation, table, trace, fuel).run()
