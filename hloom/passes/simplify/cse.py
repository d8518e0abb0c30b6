"""Merge instructions that compute the same value.

One walk in dependency order: an instruction is put under a key made of its opcode, attributes and
(already merged) operands; a second one under the same key is replaced by the first. Called
computations compare by what they hold, so two reducers that add are the same reducer, and two
searches of one table for one number are one loop. Bodies of loops and branches can be long: they
are read only when a second one is given the same operands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.order import repair_schedules
from hloom.ir.traits import ASYNC, FORWARDS, RANDOM, SIDE_EFFECT
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace, is_removable
from hloom.rewrite.pattern import SWAPS
from hloom.types.shape import Shape

NEVER = opcodes(
    FORWARDS, RANDOM, SIDE_EFFECT, ASYNC, also=("parameter", "after-all", "call", "copy")
)
"""Operations whose identity matters, that have effects, or that another pass owns."""
MOST_CONSTANT_ELEMENTS = 1 << 24
"""Larger constants are not compared."""
LONG = frozenset(("while", "conditional"))
"""Operations whose called computations may be as long as a program."""


def _holds_buffer(shape: Shape) -> bool:
    """Whether a value is written in place by who reads it, so that two are never one."""
    stack = [shape]
    while stack:
        s = stack.pop()
        if s.is_buffer:
            return True
        stack.extend(s.elements)
    return False


class _Keys:
    """Makes the key of an instruction; two with one key compute the same."""

    def __init__(self, layout_sensitive: bool, ignore_channels: bool, merge_fusions: bool) -> None:
        self.layout_sensitive = layout_sensitive
        self.ignore_channels = ignore_channels
        self.merge_fusions = merge_fusions
        self.bodies: dict[Computation, int] = {}
        self.forms: dict[Hashable, int] = {}
        """The number of each body that was met, and of each value in one. Equal ones have one
        number, so that comparing and hashing never goes deeper than one instruction."""

    def of(self, i: Instruction) -> Hashable | None:
        """None when the instruction must stay what it is."""
        if i.opcode in NEVER or i.control_predecessors or i.control_successors:
            return None
        if i.opcode == "fusion" and not self.merge_fusions:
            return None
        if not is_removable(i) or _holds_buffer(i.shape):
            return None
        return self.expression(i, tuple([x.id for x in i.operands]))

    def expression(self, i: Instruction, operands: tuple[Any, ...]) -> Hashable:
        attrs = i.attrs
        if i.opcode == "constant" and attrs.literal.is_elided:
            return ("elided", id(attrs.literal))  # copies of one constant share it
        if i.opcode in SWAPS:
            operands = tuple(sorted(operands))
        if self.ignore_channels and i.opcode in COLLECTIVES and attrs.channel_id is not None:
            attrs = replace(attrs, channel_id=1)
        shape = i.shape if self.layout_sensitive else i.shape.without_layout()
        called = tuple([self.body(c) for c in i.called]) if i.called else ()
        return (i.opcode, operands, attrs, shape, i.sharding, called, i.backend_config)

    def body(self, c: Computation) -> int:
        """A number for what a called computation computes; equal ones have the same."""
        if c not in self.bodies:
            module = c.module
            callees = module.computations_in_order([c]) if module is not None else [c]
            for x in callees:
                if x not in self.bodies:
                    self.bodies[x] = self.forms.setdefault(self.form(x), len(self.forms))
        return self.bodies[c]

    def form(self, c: Computation) -> Hashable:
        """What a computation returns, as the number of a value. Every value of a body has a number,
        equal ones the same, so that in which order it was written plays no part."""
        numbers: dict[Instruction, int] = {}
        for i in c.in_order():
            # No two draws of random numbers are the same.
            drawn = i.opcode in ("rng", "rng-get-and-update-state")
            operands = tuple([numbers[x] for x in i.operands])
            value = ("random", i.id) if drawn else ("value", self.expression(i, operands))
            numbers[i] = self.forms.setdefault(value, len(self.forms))
        parameters = tuple([numbers[p] for p in c.parameters])
        return ("body", parameters, numbers[c.root])


@register
class CommonSubexpressionElimination(Pass):
    """Merge instructions with equal operation, attributes and operands."""

    name = "cse"
    breaks = (no_dead_code,)

    is_layout_sensitive: bool = False
    ignore_fusions: bool = True
    """Leave fusions alone."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        keys = _Keys(
            self.is_layout_sensitive, module.use_spmd_partitioning, not self.ignore_fusions
        )
        fired: Counter[str] = Counter()
        for c in on_threads(module, threads):
            fired["merged"] += self.merge(c, keys)
        if fired["merged"]:
            repair_schedules(module)
        return PassResult.of(+fired)

    def merge(self, c: Computation, keys: _Keys) -> int:
        """Merge within one computation; return how many instructions went."""
        first: dict[Hashable, Instruction] = {}
        kept_for: dict[Instruction, Instruction] = {}
        alike: dict[Hashable, Instruction] = {}
        for i in c.in_order():
            if not kept_for.keys().isdisjoint(i.operands):
                i.set_operands(tuple([kept_for.get(x, x) for x in i.operands]))
            if (
                i.opcode == "constant"
                and i.shape.is_array
                and i.shape.size > MOST_CONSTANT_ELEMENTS
            ):
                continue
            if i.opcode in LONG:
                early = alike.setdefault((i.opcode, i.operands, i.shape), i)
                if early is i:
                    continue
                first.setdefault(keys.of(early), early)
            key = keys.of(i)
            if key is None:
                continue
            representative = first.setdefault(key, i)
            if representative is i:
                continue
            if representative.shape is not i.shape and not self.is_layout_sensitive and i.is_root:
                continue
            kept_for[i] = representative
            if i.is_root:
                c.root = representative
        for i in kept_for:
            c.erase(i)
        return len(kept_for)
