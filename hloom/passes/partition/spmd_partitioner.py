"""The pass `spmd-partitioner`: one program, of local shapes, for every partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hloom.ir.computation import Computation
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import COLLECTIVE
from hloom.ir.values.sharding import Sharding
from hloom.passes.partition.boundary import alike, entered, left, moved_leaves
from hloom.passes.partition.partitioner import Leaves, Partitioner, mapped
from hloom.passes.partition.reshard import Emitter
from hloom.passes.partition.tiling import Tiling
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.rewrite.driver import Trace
from hloom.types.shape import ProgramShape, Shape

MEETING = opcodes(COLLECTIVE) | {"partition-id"}


def is_partitionable(module: Module) -> bool:
    """Whether it is a program of whole arrays for several partitions.

    One that asks which partition it runs as, or lets them meet, is what each of them runs already:
    but inside what its shardings call manual.
    """
    if module.num_partitions < 2:
        return False
    has_sharding = is_local = is_manual = False
    for i in module.instructions():
        s = i.sharding
        if s is not None:
            has_sharding = True
            is_manual = is_manual or "manual" in s.text
        is_local = is_local or i.opcode in MEETING
    return has_sharding and (is_manual or not is_local)


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
        return PassResult(True, +fired)


def partition_module(module: Module, fired: Counter[str]) -> Partitioner:
    """Put the partitioned program in place of a module's; what was done is counted."""
    run = Partitioner.of(module)
    entry, root = module.entry, module.entry.root
    parameters = [_Ends.of(run, p.sharding, p.shape) for p in entry.parameters]
    result = _Ends.of(run, module.spmd_output_sharding or root.sharding, root.shape)
    module.spmd_parameters_shardings = tuple([p.sharding for p in entry.parameters])
    module.spmd_output_sharding = module.spmd_output_sharding or root.sharding
    made, _ = run.partition(entry, tuple([e.tilings for e in parameters]), result.tilings)
    _cross_boundaries(run, made, parameters, result)
    _update_layouts(module, run, parameters, result)
    _take_over(module, run, made)
    for i in module.instructions():
        if COLLECTIVE in i.op.traits:
            fired[i.opcode] += 1
    fired["replicated"] += len(run.replicated)
    fired["computations"] += len(run.done)
    return run


@dataclass(frozen=True)
class _Ends:
    """How an argument or the result stands outside, and how inside."""

    shape: Shape
    shardings: list[Sharding | None]
    """Of leaves whose sharding has no tiling."""
    tilings: Leaves

    @staticmethod
    def of(run: Partitioner, sharding: Sharding | None, shape: Shape) -> _Ends:
        shardings: list[Sharding | None] = []
        tilings: list[Tiling] = []
        for k, (s, t) in enumerate(zip(shape.leaves(), run.tilings(sharding, shape))):
            own = None if sharding is None else sharding.for_leaf(k).tiled()
            if t is None and own is not None and own.kind == "tiled":
                shardings.append(own)
                tilings.append(alike(run.mesh, own))
            else:
                shardings.append(None)
                tilings.append(t or Tiling.replicated(s.rank if s.is_array else 0))
        return _Ends(shape, shardings, tuple(tilings))

    @property
    def leaves(self) -> list[tuple[Sharding | None, Tiling]]:
        return list(zip(self.shardings, self.tilings))

    @property
    def is_plain(self) -> bool:
        return not any(s is not None for s in self.shardings)

    def local_shape(self, of: Shape, run_shape: Callable[[Shape, Leaves], Shape]) -> Shape:
        """The part of a device outside, layouts those of a shape."""
        if self.is_plain:
            return run_shape(of, self.tilings)
        left_over = iter(self.leaves)

        def local(s: Shape) -> Shape:
            own, t = next(left_over)
            return run_shape(s, (t,)) if own is None else s.with_dims(own.tile_sizes(s.dims))

        return mapped(of, local)


def _cross_boundaries(
    run: Partitioner, c: Computation, parameters: list[_Ends], result: _Ends
) -> None:
    """Let the entry take and return parts as the shardings say that have no tiling."""
    b = Emitter(c, run.combiners)
    b.begin(run.mesh, run.channels)
    for p, ends in zip(list(c.parameters), parameters, strict=True):
        if ends.is_plain:
            continue
        readers = list(p.users)
        p.shape = ends.local_shape(ends.shape, run.local_shape)
        x = moved_leaves(b, p, ends.shape, ends.leaves, entered)
        for reader in readers:
            reader.replace_operand(p, x)
        if c.root is p:
            c.root = x
    if not result.is_plain:
        c.root = moved_leaves(b, c.root, result.shape, result.leaves, left)


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


def _update_layouts(
    module: Module, run: Partitioner, parameters: list[_Ends], result: _Ends
) -> None:
    """What callers hand over and get are parts, and so is what may be returned in place."""
    of, local_shape = module.entry_layout, run.local_shape
    if of is not None:
        shapes = [
            e.local_shape(s, local_shape) for s, e in zip(of.parameters, parameters, strict=True)
        ]
        module.entry_layout = ProgramShape(
            tuple(shapes), of.parameter_names, result.local_shape(of.result, local_shape)
        )
