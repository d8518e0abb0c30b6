"""The pass `spmd-partitioner`: one program, of local shapes, for every partition."""

from __future__ import annotations

from collections import Counter

from hloom.base.registry import load_room
from hloom.ir.computation import Computation
from hloom.ir.module import Module
from hloom.passes.partition.partitioner import Leaves, Partitioner
from hloom.passes.partition.tiling import Tiling
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.rewrite.driver import Trace
from hloom.types.shape import ProgramShape

load_room("hloom.passes.partition")


def is_partitionable(module: Module) -> bool:
    """Whether it is a program of whole arrays for several partitions."""
    if module.num_partitions < 2 or not module.use_spmd_partitioning:
        return False
    return any(i.sharding is not None for i in module.instructions())


@register
class SpmdPartitioner(Pass):
    """Cut a program of whole arrays, as its shardings say, into one that every partition runs."""

    name = "spmd-partitioner"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        if not is_partitionable(module):
            return PassResult()
        fired: Counter[str] = Counter()
        partition_module(module, fired)
        return PassResult(True, fired)


def partition_module(module: Module, fired: Counter[str]) -> Partitioner:
    """Put the partitioned program in place of a module's; what was done is counted."""
    run = Partitioner.of(module)
    entry = module.entry
    parameters = tuple([_given(run, p.sharding, p.shape) for p in entry.parameters])
    root = entry.root
    result = _given(run, module.spmd_output_sharding or root.sharding, root.shape)
    module.spmd_parameters_shardings = tuple([p.sharding for p in entry.parameters])
    module.spmd_output_sharding = module.spmd_output_sharding or root.sharding
    made, _ = run.partition(entry, parameters, result)
    _update_layouts(module, run, parameters, result)
    _take_over(module, run, made)
    for i in module.instructions():
        if i.opcode.startswith(("all-", "reduce-scatter", "collective-")):
            fired[i.opcode] += 1
    fired["replicated"] += len(run.replicated)
    fired["computations"] += len(run.done)
    return run


def _given(run: Partitioner, sharding, shape) -> Leaves:
    leaves = list(shape.leaves())
    return tuple(
        [
            t or Tiling.replicated(s.rank if s.is_array else 0)
            for t, s in zip(run.tilings(sharding, shape), leaves)
        ]
    )


def _take_over(module: Module, run: Partitioner, entry: Computation) -> None:
    """Make the new computations the module: old ones go, names and layouts are taken over."""
    old = module.entry
    names = {made: c.name for (c, *_), (made, _) in run.done.items()}
    module.entry = entry
    module.schedule = None
    for made, _ in run.done.values():
        remove_dead_instructions(made)
        made.reorder(made.in_order())
    callers_first = module.computations_in_order([old])[::-1]
    for c in callers_first:
        if not c.callers and c is not entry:
            module.remove_computation(c)
    taken = {c.name for c in module.computations}
    for made, name in names.items():
        if name not in taken:
            taken.discard(made.name)
            made.name = name
            taken.add(name)
    live = module.computations_in_order()
    module.computations = dict.fromkeys(live)


def _update_layouts(module: Module, run: Partitioner, given: tuple[Leaves, ...], result: Leaves):
    """What callers hand over and get are parts."""
    of = module.entry_layout
    if of is not None:
        parameters = [run.local_shape(s, t) for s, t in zip(of.parameters, given, strict=True)]
        local = run.local_shape(of.result, result)
        module.entry_layout = ProgramShape(tuple(parameters), of.parameter_names, local)
