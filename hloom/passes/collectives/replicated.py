"""What the simplifiers of collectives on replicated operands share."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import ClassVar

from hloom.analysis.replication import ReplicationAnalysis
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.passes.collectives.groups import devices_of, group_size, is_plain
from hloom.passes.computation_pass import settle
from hloom.passes.expand.expansion import Combiners, Expansion, put_in_place
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult
from hloom.rewrite.driver import Trace


class OfReplicated(Pass):
    """Replace collectives of one opcode, all of whose groups hold the same operand."""

    breaks = (no_dead_code,)
    opcode: ClassVar[str]

    @abstractmethod
    def alone(self, b: Expansion, i: Instruction, count: int) -> Instruction | None:
        """What `count` devices with the same operand make of it; None to leave it."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        candidates = [
            i
            for i in module.instructions()
            if i.opcode == self.opcode
            and is_plain(i)
            and (not threads or i.parent.execution_thread in threads)
        ]
        fired: Counter[str] = Counter()
        changed: dict[Computation, None] = {}
        analysis = ReplicationAnalysis(module) if candidates else None
        combiners: Combiners = {}
        for i in candidates:
            groups = devices_of(i)
            count = group_size(groups) if groups is not None else None
            if analysis is None or groups is None or count is None:
                continue
            if not analysis.is_same_within(i.operands[0], groups):
                continue
            b = Expansion(i.parent, combiners)
            new = self.alone(b, i, count)
            if new is not None:
                changed[i.parent] = None
                put_in_place(b, i, new)
                fired["replicated"] += 1
        settle(module, changed)
        return PassResult.of(fired)
