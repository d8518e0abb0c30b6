"""Shardy's part in partitioning a program, under the name that it has in XLA.

XLA hands a program of JAX to Shardy, which propagates its shardings, by a round trip through
another language. Here what JAX says of Shardy is read into HLO (`shardy-importer`), and shardings
are propagated as they are for any other program: the steps that a program goes through anyway
before it is partitioned, so that leaving this pass out leaves them out where JAX says anything.
"""

from __future__ import annotations

from collections import Counter

from hloom.base.faults import blamed
from hloom.ir.module import Module
from hloom.ir.values.sharding_sdy import MESHES
from hloom.passes.control.call_inliner import CallInliner
from hloom.passes.normalize.pad_trimmer import PadTrimmer
from hloom.passes.partition.loop_state_sharding import LoopStateSharding
from hloom.passes.partition.sharding_refinement import RefinementResult, ShardingRefinement
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.sharding.sharding_propagation import ShardingPropagation
from hloom.passes.sharding.shardy_importer import ShardyImporter
from hloom.passes.simplify.module_dce import ModuleDeadCodeElimination
from hloom.rewrite.driver import Trace

PREPARED = (
    ShardyImporter(),
    CallInliner(),
    PadTrimmer(),  # stencils: what is padded is cut unevenly, what is moved is not
    ModuleDeadCodeElimination(),  # what nobody reads says nothing of how others are cut
    LoopStateSharding(),
    ShardingRefinement(),
    ShardingPropagation(),
)
"""What runs before a program is cut. Each call of a function is a program of its own: those that
share one often have arguments that are cut in different ways (JAX slices all stacks of weights and
activations by the same few functions)."""


def speaks_shardy(module: Module) -> bool:
    """Whether shardings are said in Shardy's words."""
    return MESHES in (module.frontend_attributes or {})


@register
class ShardyXla(Pass):
    """Read what JAX says of Shardy (`xla.sdy.*`), inline calls and propagate the shardings."""

    name = "shardy-xla"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        if speaks_shardy(module):
            fired = prepare(module, trace=trace, threads=threads)
        return PassResult.of(+fired)


def prepare(
    module: Module,
    left_out: frozenset[str] = frozenset(),
    *,
    trace: Trace | None = None,
    threads: frozenset[str] = ALL_THREADS,
) -> Counter[str]:
    """Run what is run before a program is cut, but passes of some names; what was done is counted.
    Refinement asks what propagation decides, which is not worked out again where nothing came
    of that."""
    fired, known = Counter[str](), None
    for step in PREPARED:
        if step.name in left_out:
            continue
        with blamed("pass", step.name):
            if isinstance(step, ShardingPropagation):
                result = step.run(module, trace=trace, threads=threads, known=known)
            else:
                result = step.run(module, trace=trace, threads=threads)
        known = result.propagation if isinstance(result, RefinementResult) else None
        fired += result.fired
    return fired


def left_out_with(names: frozenset[str], module: Module) -> frozenset[str]:
    """The passes that a program is prepared without where those of these names do not run."""
    if ShardyXla.name in names and speaks_shardy(module):
        return names | {p.name for p in PREPARED}
    return names
