"""Notes for the combiners: which collectives nothing hides.

Several collectives as one begin when the last of their operands is there, and end all at once. For
one that computation hides, that is a loss; one that is waited for anyway saves a start. So the
program is played on a described device, and those that are exposed are noted; combiners with
`only_exposed` take these alone.
"""

from __future__ import annotations

from collections import Counter

from hloom.analysis.communication import communications
from hloom.analysis.step_time import step_time
from hloom.device.known import device_named
from hloom.device.topology import alike
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.frontend import FrontendAttributes
from hloom.passes.collectives.combining import EXPOSED
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace
from hloom.types.mesh import MOST_DEVICES


@register
class CollectiveCombinerAnnotator(Pass):
    """Note for the combiners which collectives no computation hides on a device."""

    name = "collective-combiner-annotator"

    device: str = "h100"
    """A known device, whose times decide."""
    exposed_share: float = 0.5
    """Collectives are noted of whose time so much is waited for, or more."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        rows = communications(module)
        count = module.replica_count * module.num_partitions
        if not rows or count > MOST_DEVICES:
            return PassResult()
        step = step_time(module, alike(device_named(self.device), count), rows)
        fired: Counter[str] = Counter()
        for i, (ns, exposed) in step.collectives.items():
            if threads and i.parent.execution_thread not in threads:
                continue
            is_exposed = ns > 0 and exposed >= self.exposed_share * ns
            fired["noted" if is_exposed else "cleared"] += _note(i, is_exposed)
        return PassResult.of(+fired)


def _note(i: Instruction, is_exposed: bool) -> bool:
    """Say of a collective whether it is exposed; whether that is new."""
    said = i.frontend_attributes or FrontendAttributes()
    if (EXPOSED in said) == is_exposed:
        return False
    i.frontend_attributes = said.with_(**{EXPOSED: "true"}) if is_exposed else said.without(EXPOSED)
    return True
