"""Marks a whole program as cut already: every value is `manual`, as inside of `shard_map`.

The partitioner then leaves it as it is, whatever else it says; so a program that was cut elsewhere
goes through a pipeline that partitions.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace

MANUAL = Sharding("manual")


@register
class WholeGraphManualPass(Pass):
    """Give every instruction the sharding `manual`: what it computes is a device's own part."""

    name = "whole-graph-manual-pass"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for c in on_threads(module, threads):
            if c.is_fusion:
                continue
            for i in c.instructions:
                manual = manual_of(i)
                if i.sharding != manual:
                    i.sharding = manual
                    fired["marked"] += 1
        said = module.spmd_output_sharding
        if said is not None and said != manual_of(module.entry.root):
            module.spmd_output_sharding = manual_of(module.entry.root)
            fired["marked"] += 1
        return PassResult.of(fired)


def manual_of(i: Instruction) -> Sharding:
    """What says of all leaves of a value that each device has its own."""
    if not i.shape.is_tuple:
        return MANUAL
    return Sharding.tuple_of(*[MANUAL] * i.shape.leaf_count)


def is_wholly_manual(module: Module) -> bool:
    """Whether every value of the entry is said to be a device's own."""
    return all(i.sharding == manual_of(i) for i in module.entry.instructions)
