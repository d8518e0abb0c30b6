"""Mark where shardings change: a `domain` on every edge between two values of different sharding.

With them in place, other passes move nothing from one side to the other, and what they add between
belongs to the domain that it stands in (`domain_remover.py` says so of it afterwards). Only edges
inside of a computation are looked at: what a caller says of an argument changes nothing of the
callee. A module with a schedule is left alone.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import ASYNC
from hloom.ir.values.domain import Domain
from hloom.ir.values.sharding import Sharding
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.passes.sharding.domains import said, same
from hloom.rewrite.driver import Trace

HALVES = opcodes(ASYNC)
"""A start is read by its done, with nothing between."""


@register
class DomainIsolator(Pass):
    """Put a domain between operands and readers whose shardings differ."""

    name = "domain-isolator"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        if module.is_scheduled:
            return PassResult()
        for c in on_threads(module, threads):
            if any(caller.opcode in HALVES for caller in c.callers):
                continue  # what runs beside the program is one operation and nothing else
            domains: dict[tuple[Instruction, Sharding], Instruction] = {}
            for i in c.in_order():
                if i.opcode == "domain":
                    continue
                for x in dict.fromkeys(i.operands):
                    is_pair = x.opcode in HALVES and i.opcode in HALVES
                    if x.opcode == "domain" or is_pair or same(x.sharding, i.sharding):
                        continue
                    if any(s.is_buffer for s in x.shape.leaves()):
                        continue  # of which no other value can stand for this one
                    entry = said(i.sharding)
                    if (x, entry) not in domains:
                        domain = Domain(entry=entry, exit=said(x.sharding))
                        domains[x, entry] = c.add("domain", x, shape=x.shape, domain=domain)
                        fired["isolated"] += 1
                    i.replace_operand(x, domains[x, entry])
        return PassResult.of(+fired)
