"""Halves of collectives with nothing between them in the schedule: the start waits for its end.

Only `is_sync` in the config of the collective changes; which backend it names, or mode, stays.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import FREE, PLUMBING, RESHAPES
from hloom.passes.collectives.halves import collective_of, done_of, set_sync
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace

_NOTHING = opcodes(FREE, PLUMBING, RESHAPES)
"""What takes no time that a collective could be hidden behind."""


@register
class ConvertAsyncCollectivesToSync(Pass):
    """Mark starts as synchronous whose done follows at once in the schedule."""

    name = "convert-async-collectives-to-sync"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for c, order in (module.schedule or {}).items():
            if threads and c.execution_thread not in threads:
                continue
            open_: dict[Instruction, Instruction] = {}  # by done, its start, if nothing ran since
            for i in order:
                if i in open_:
                    start = open_.pop(i)
                    kind = collective_of(start)
                    if kind is not None and set_sync(start):
                        fired[kind] += 1
                elif i.opcode not in _NOTHING:
                    open_.clear()
                    done = done_of(i) if collective_of(i) is not None else None
                    if done is not None:
                        open_[done] = i
        return PassResult.of(fired)
