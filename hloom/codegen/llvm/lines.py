"""The lines of one LLVM function as they are collected: numbering of values, scopes, loops.

No optimizer runs after us, so two of its jobs are done here, each at the price of a dictionary
look-up per instruction. *Value numbering*: the text of a pure instruction is its key, and the
same text in a dominating place is the same value. *Hoisting*: every value knows how many scopes
are open where it is defined; a pure instruction in a loop whose operands all come from outside is
written before the loop.

A scope is what is emitted between `open_scope` and `close_scope`: the body of a loop or the arm
of a branch. Values from outside may be used inside, never the other way round, except through
phis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.values import V, type_text


class Scope:
    """What is known of one open scope: its value numbers, and where to hoist out of it."""

    __slots__ = ("hoisted", "keys", "trips")

    def __init__(self, hoisted: list[Any] | None, trips: float = 1) -> None:
        self.hoisted = hoisted
        """Lines written just before a loop; None for a branch, out of which nothing is hoisted."""
        self.trips = trips
        """How often a loop runs; infinite where that is not known."""
        self.keys: list[str] = []
        """The numbered texts to forget when the scope closes."""


class Loop:
    """One loop while its body is emitted: `index` and `carried` to read, `next` to be given.

    After the loop `results` are the carried values.
    """

    __slots__ = ("carried", "index", "next_values", "results")

    def __init__(self, index: V, carried: list[V]) -> None:
        self.index, self.carried = index, carried
        self.next_values: list[V] = carried
        self.results: list[V] = []

    def next(self, values: Sequence[V]) -> None:
        """Says what the carried values are in the next step, and after the last one."""
        if [v.type for v in values] != [v.type for v in self.carried]:
            carried_types, value_types = [v.type for v in self.carried], [v.type for v in values]
            raise HloError(f"a loop carries {carried_types}, given {value_types}", rule="llvm-loop")
        self.next_values = list(values)


def trip_count(begin: V, end: V, step: V) -> float:
    """How often a loop runs; infinite where its bounds are no constants."""
    if begin.value is None or end.value is None or not step.value:
        return inf
    return max(0, -(-(int(end.value) - int(begin.value)) // int(step.value)))


class Lines:
    """The text of one function; see `Emit`, which adds the instructions."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        """Strings, and lists of strings where hoisted instructions go."""
        self.label = "entry"
        """The label of the block that is being written."""
        self._numbers: dict[str, Any] = {}
        self._scopes = [Scope(None)]
        self._count = 0

    # Names and plain lines

    def fresh(self, stem: str = "v") -> str:
        """A name that no value or label of the function has yet."""
        self._count += 1
        return f"{stem}{self._count}"

    @property
    def written(self) -> int:
        """How many names have been given: about as many as there are instructions."""
        return self._count

    @property
    def depth(self) -> int:
        """How many scopes are open."""
        return len(self._scopes) - 1

    def line(self, text: str) -> None:
        """Writes an instruction without a result."""
        self.lines.append("  " + text)

    def effect(self, text: str, kind: str, lanes: int = 1) -> V:
        """The result of an instruction that is neither shared nor moved: a load, a call, a phi."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return V(name, kind, lanes, len(self._scopes) - 1)

    def repeats(self, depth: int) -> float:
        """How often this place is reached for each run of a pure instruction whose operands have
        such a depth; infinite where a loop between has unknown bounds."""
        at, times = self.depth, 1.0
        while at > depth and (scope := self._scopes[at]).hoisted is not None:
            at, times = at - 1, times * scope.trips
        return times

    def pure(self, text: str, kind: str, lanes: int, depth: int, type: str | None = None) -> V:
        """The result of a pure instruction: an earlier one of the same text, or a new one.

        `depth` is the largest depth of its operands; loops deeper than that are left.
        """
        known_value = self._numbers.get(text)
        if known_value is not None:
            return known_value
        self._count += 1
        name = f"%v{self._count}"
        scopes = self._scopes
        at = len(scopes) - 1
        lines = self.lines
        while at > depth and (hoisted := scopes[at].hoisted) is not None:
            lines = hoisted
            at -= 1
        lines.append(f"  {name} = {text}")
        value = V(name, kind, lanes, at, None, type)
        self._numbers[text] = value
        scopes[at].keys.append(text)
        return value

    def numbered(self, text: str, kind: str, lanes: int) -> V:
        """As `pure`, but it stays where it is: for what may fault, a division or a load."""
        value = self._numbers.get(text)
        if value is None:
            value = self._numbers[text] = self.effect(text, kind, lanes)
            self._scopes[-1].keys.append(text)
        return value

    def shared(self, key: str, make: Callable[[], Any]) -> Any:
        """What `make` emitted for this key in a dominating place, or emits now: for values that
        take blocks or several results, which no text of an instruction stands for."""
        value = self._numbers.get(key)
        if value is None:
            value = self._numbers[key] = make()
            self._scopes[-1].keys.append(key)
        return value

    # Blocks

    def block(self, label: str, dominated: bool = False) -> None:
        """Begins the block `label`; the one before must have ended in a branch.

        Unless everything emitted in this scope so far dominates it (`dominated`), the values of
        the scope are no longer shared.
        """
        if not dominated:
            self._forget()
        self.lines.append(f"{label}:")
        self.label = label

    def br(self, label: str) -> None:
        """Goes to `label`."""
        self.lines.append(f"  br label %{label}")

    def cond_br(self, condition: V, on_true: str, on_false: str) -> None:
        """Goes to one of two labels by an i1 scalar."""
        self.lines.append(f"  br i1 {condition.name}, label %{on_true}, label %{on_false}")

    def ret(self, value: V | None = None) -> None:
        """Returns, with a value unless the function is void."""
        self.lines.append(f"  ret {value.typed}" if value else "  ret void")

    def phi(self, incoming: Sequence[tuple[V, str]]) -> V:
        """The value that came with the edge: pairs of value and label; first in its block."""
        sources = ", ".join(f"[ {v.name}, %{label} ]" for v, label in incoming)
        first = incoming[0][0]
        return self.effect(f"phi {first.type} {sources}", first.kind, first.lanes)

    # Regions

    def open_scope(self, hoisted: list[Any] | None = None, trips: float = 1) -> None:
        """Begins a scope; `hoisted` are the lines before it if it is a loop, of so many trips."""
        self._scopes.append(Scope(hoisted, trips))

    def close_scope(self) -> None:
        """Ends the innermost scope: its values are no longer shared."""
        self._forget()
        self._scopes.pop()

    def _forget(self) -> None:
        keys = self._scopes[-1].keys
        for key in keys:
            del self._numbers[key]
        keys.clear()

    @contextmanager
    def loop(
        self,
        begin: V,
        end: V,
        step: V,
        carried: Sequence[V] = (),
        nonempty: bool = False,
    ) -> Iterator[Loop]:
        """A loop over begin, begin + step, .. while below end (signed), carrying values.

        `with e.loop(a, b, c, [x]) as loop:` emits the body from `loop.index` and `loop.carried`
        and calls `loop.next([..])`; afterwards `loop.results` are the final values. With
        `nonempty` the test stands at the bottom, so at least one step is run.
        """
        head, exit_ = self.fresh("loop"), self.fresh("exit")
        before, outer = self.label, len(self._scopes) - 1
        hoisted: list[Any] = []
        self.lines.append(hoisted)
        self.br(head)
        self.lines.append(f"{head}:")
        self.label = head
        phis: list[Any] = []  # known when the body is
        self.lines.append(phis)
        self.open_scope(hoisted, trip_count(begin, end, step))
        names = ["%" + self.fresh("i"), *("%" + self.fresh("c") for _ in carried)]
        initial = [begin, *carried]
        inside = [V(n, v.kind, v.lanes, outer + 1, None, v.type) for n, v in zip(names, initial)]
        loop = Loop(inside[0], inside[1:])
        if not nonempty:
            body = self.fresh("body")
            more = self.effect(f"icmp slt {begin.type} {names[0]}, {end.name}", "i1")
            self.cond_br(more, body, exit_)
            self.lines.append(f"{body}:")
            self.label = body
        yield loop
        stepped = self.effect(f"add nsw {begin.type} {names[0]}, {step.name}", begin.kind)
        if nonempty:
            more = self.effect(f"icmp slt {begin.type} {stepped.name}, {end.name}", "i1")
            self.cond_br(more, head, exit_)
        else:
            self.br(head)
        for new, first, again in zip(inside, initial, [stepped, *loop.next_values]):
            phis.append(
                f"  {new.name} = phi {new.type} "
                f"[ {first.name}, %{before} ], [ {again.name}, %{self.label} ]"
            )
        self.close_scope()
        self.lines.append(f"{exit_}:")
        self.label = exit_
        final = loop.next_values if nonempty else loop.carried
        loop.results = [V(v.name, v.kind, v.lanes, outer, v.value, v.type) for v in final]

    @contextmanager
    def branch(self, condition: V) -> Iterator[None]:
        """Runs what is emitted inside only where an i1 scalar holds."""
        then, join = self.fresh("then"), self.fresh("join")
        self.cond_br(condition, then, join)
        self.lines.append(f"{then}:")
        self.label = then
        self.open_scope()
        yield
        self.br(join)
        self.close_scope()
        self.lines.append(f"{join}:")
        self.label = join

    def body_text(self) -> str:
        """All lines, hoisted ones in their places."""
        out: list[str] = []
        stack = [iter(self.lines)]
        while stack:
            for item in stack[-1]:
                if isinstance(item, str):
                    out.append(item)
                else:
                    stack.append(iter(item))
                    break
            else:
                stack.pop()
        return "\n".join(out)

    def undefined(self, kind: str, lanes: int = 1) -> V:
        """A value that nobody reads (poison)."""
        return V("poison", kind, lanes, 0, None, type_text(kind, lanes))
