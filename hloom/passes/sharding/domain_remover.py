"""Take out domains, and give what other passes put into one the sharding of that domain.

Nothing of that leaves a computation: callees are domains of their own. A domain without a sharding
(`{}`) gives none.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.order import repair_schedules
from hloom.ir.values.sharding import Sharding
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.passes.sharding.domains import NOTHING, DomainMembers, domains_of
from hloom.rewrite.driver import Trace


@register
class DomainRemover(Pass):
    """Replace domains by their operands; values without a sharding get that of their domain."""

    name = "domain-remover"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for c in on_threads(module, threads):
            for domain in domains_of(c):
                fired["sharded"] += _normalise(domain)
            for i in [i for i in c.in_order() if i.opcode == "domain"]:
                c.replace(i, i.operands[0])
                c.erase(i)
                fired["removed"] += 1
        if fired["removed"]:
            repair_schedules(module)
        return PassResult.of(+fired)


def _normalise(domain: DomainMembers) -> int:
    """Shard what has no sharding as all that is said of its domain agrees; how many that were."""
    stated = [s for _, s in domain.stated if s != NOTHING]
    if not stated or len(stated) < len(domain.stated) or not all(map(stated[0].same, stated)):
        return 0
    count = 0
    for i in domain.members:
        if i.sharding is None and _fits(stated[0], i):
            i.sharding = stated[0]
            count += 1
    return count


def _fits(sharding: Sharding, i: Instruction) -> bool:
    """Whether a value of this form can be sharded so: an array of a tuple's domain cannot."""
    return i.shape.leaf_count > 0 and sharding.validate(i.shape) is None
