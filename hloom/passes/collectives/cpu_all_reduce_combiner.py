"""All-reduces of a CPU program, combined: the pass that XLA:CPU runs under this name."""

from __future__ import annotations

from hloom.passes.collectives.all_reduce_combiner import AllReduceCombiner
from hloom.passes.pass_ import register


@register
class CpuAllReduceCombiner(AllReduceCombiner):
    """Combine all-reduces of a program for CPUs; the pipeline gives it the size from which a
    meeting of the devices takes less time than their bytes."""

    name = "cpu-all-reduce-combiner"
