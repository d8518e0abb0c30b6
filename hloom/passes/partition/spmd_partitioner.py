"""The pass `spmd-partitioner`: one program, of local shapes, for every partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from hloom.base.diagnostics import UnsupportedError
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import COLLECTIVE
from hloom.ir.values.aliasing import InputOutputAlias, subshape
from hloom.ir.values.sharding import REPLICATED, Sharding
from hloom.passes.expand.batch_norm_expander import BatchNormExpander
from hloom.passes.expand.scaled_dot_expander import ScaledDotExpander
from hloom.passes.expand.scan_expander import ScanExpander
from hloom.passes.partition.boundary import alike, all_alike, entered, left, moved_leaves
from hloom.passes.partition.exchanged_sums import SumExchange
from hloom.passes.partition.leaves import mapped
from hloom.passes.partition.open_values import OpenValues
from hloom.passes.partition.partitioner import Leaves, Partitioner, refused
from hloom.passes.partition.reshard import Emitter
from hloom.passes.partition.tiling import Tiling
from hloom.passes.partition.ways import Way, cheapest
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.sharding.shardy_importer import has_regions, has_shardings, meshes_of
from hloom.passes.sharding.whole_graph_manual_pass import is_wholly_manual
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.rewrite.driver import Trace
from hloom.types.shape import ProgramShape, Shape

COLLECTIVES = opcodes(COLLECTIVE)
FEW_INSTRUCTIONS = 2_000
"""Of a program that is partitioned in several ways whatever that saves: of training steps of 1,000
to 1,230 instructions that took 0.3 to 0.9 s more, and a device receives 0.89 to 1.00 of it."""


def is_partitionable(module: Module) -> bool:
    """Whether it may be a program of whole arrays for several partitions.

    One that asks which partition it runs as, or lets them meet, is what each of them runs already,
    but inside what its shardings call manual. So is one that is scheduled, or says how what it was
    made from was cut, and one of which everything is manual (`whole-graph-manual-pass`).
    """
    if module.num_partitions < 2 or module.is_scheduled or module.spmd_parameters_shardings:
        return False
    is_local, is_manual = False, has_regions(module)
    has_sharding = is_manual or has_shardings(module)
    for i in module.instructions():
        s = i.sharding
        if s is not None:
            has_sharding = True
            is_manual = is_manual or _is_manual(s)
        is_local = is_local or _names_partitions(i)
    return has_sharding and (is_manual or not is_local) and not is_wholly_manual(module)


def is_computed_alike(module: Module) -> bool:
    """Whether nothing in a program for several partitions says that they differ: no sharding, and
    nothing that asks which one it is or lets them meet. Each of them computes all of it."""
    if module.num_partitions < 2 or module.spmd_parameters_shardings:
        return False
    if has_shardings(module) or has_regions(module) or module.spmd_output_sharding is not None:
        return False
    return not any(i.sharding is not None or _names_partitions(i) for i in module.instructions())


def count_partitions(module: Module) -> None:
    """Let a module that says nothing of partitions have as many as its shardings have devices."""
    if module.num_partitions > 1:
        return
    shardings = [i.sharding for i in module.instructions() if i.sharding is not None]
    if module.spmd_output_sharding is not None:
        shardings.append(module.spmd_output_sharding)
    leaves = [e for s in shardings for e in (s.elements if s.is_tuple else (s,))]
    counts = [s.device_count or 1 for s in leaves]
    if has_shardings(module) or has_regions(module):
        counts += [mesh.device_count for mesh in meshes_of(module)]
    module.num_partitions = max(counts, default=1)


def _names_partitions(i: Instruction) -> bool:
    if i.opcode in COLLECTIVES:
        return getattr(i.attrs, "channel_id", None) is not None
    return i.opcode == "partition-id"


def _is_manual(s: Sharding) -> bool:
    leaves = [e.tiled() for e in (s.elements if s.is_tuple else (s,))]
    return any(e.kind == "manual" or "manual" in e.subgroup_types for e in leaves)


EXPANDED = (BatchNormExpander(), ScaledDotExpander(), ScanExpander())
"""What is cut as the simpler operations that it is written with."""


@register
class SpmdPartitioner(Pass):
    """Cut a program of whole arrays, as its shardings say, into one that every partition runs."""

    name = "spmd-partitioner"
    draws_tiles: ClassVar[bool] = False

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        stated = module.num_partitions
        count_partitions(module)
        if not is_partitionable(module):
            module.num_partitions = stated
            return PassResult()
        fired: Counter[str] = Counter()
        partition_module(module, fired, self.draws_tiles)
        return PassResult(True, +fired)


def partition_module(module: Module, fired: Counter[str], draws_tiles: bool = False) -> Partitioner:
    """The same, with operands of sums exchanged in the ways by which a device receives least, or
    little more for less work."""
    if module.instruction_count > FEW_INSTRUCTIONS:
        return partition_once(module, fired, draws_tiles)
    whole, ways = copy_module(module), list[Way]()
    for exchange in (SumExchange.HOPEFUL, SumExchange.NEVER, SumExchange.LESS):
        cut, counted = copy_module(whole), Counter[str]()
        try:
            run = partition_once(cut, counted, draws_tiles, exchange=exchange)
        except UnsupportedError:
            if exchange is SumExchange.NEVER:
                raise
            continue  # what is refused with exchanges need not be without
        ways.append(Way(cut, run, counted))
        if exchange is SumExchange.HOPEFUL and not run.exchanged:
            break
    best = cheapest(ways)
    module.become(best.module)
    fired.update(best.fired)
    return best.run


def partition_once(
    module: Module,
    fired: Counter[str],
    draws_tiles: bool = False,
    repeats_few: bool = True,
    open_values: OpenValues | None = None,
    exchange: SumExchange = SumExchange.NEVER,
) -> Partitioner:
    """Put the partitioned program in place of a module's; what was done is counted. `repeats_few`:
    what is little work may be done by all devices alike."""
    stated = module.spmd_output_sharding or module.entry.root.sharding
    for expander in EXPANDED:
        expander.run(module)
    run = Partitioner.of(module)
    run.draws_tiles, run.open = draws_tiles, open_values
    run.exchange = exchange
    run.most_repeated *= repeats_few
    entry, root = module.entry, module.entry.root
    parameters = [_Ends.of(run, p.sharding, p.shape) for p in entry.parameters]
    result = _Ends.of(run, stated, root.shape)
    module.spmd_parameters_shardings = tuple(
        [_standing(p.sharding, p.shape) or REPLICATED for p in entry.parameters]
    )
    module.spmd_output_sharding = _standing(stated, root.shape)
    _check_sizes(module)
    is_open = open_values is not None and root in open_values.values
    run.free_results = _free_results(module, is_open)
    run.returned = _returned(root, result.tilings, run.free_results)
    run.cut_by_table = {
        k: all_alike(run.mesh, s) for k, s in enumerate(result.shardings) if s is not None
    }
    partitioned, ends = run.partition(entry, tuple([e.tilings for e in parameters]), result.tilings)
    if any(t.manual for t in ends):
        raise refused(
            root,
            "the result of the program is what each device has by itself",
            "SPMDShardToFullShape makes it a part of a whole",
        )
    result = replace(result, tilings=ends)
    if run.free_results:
        module.spmd_output_sharding = _with_free(run, module.spmd_output_sharding, ends, root)
    _cross_boundaries(run, partitioned, parameters, result)
    _update_layouts(module, run, parameters, result)
    keep_fitting_aliases(module, partitioned)
    module.use_spmd_partitioning = True  # its channels belong to it
    _take_over(module, run, partitioned)
    for i in module.instructions():
        if i.opcode in COLLECTIVES:
            fired[i.opcode] += 1
    fired["replicated"] += len(run.replicated)
    fired["computations"] += len(run.done)
    return run


def _standing(sharding: Sharding | None, shape: Shape) -> Sharding | None:
    """How an argument or result stands: arrays of run-time size are whole on every device."""
    leaves = list(shape.leaves())
    if sharding is None or not any(s.is_array and s.is_dynamic for s in leaves):
        return sharding
    own = [
        REPLICATED if s.is_array and s.is_dynamic else sharding.for_leaf(k)
        for k, s in enumerate(leaves)
    ]
    return Sharding.tuple_of(*own) if shape.is_tuple else own[0]


def _free_results(module: Module, is_open: bool) -> set[int]:
    """Leaves of the result that may stand as they like, and of which nothing is said."""
    allowed = module.allow_spmd_sharding_propagation_to_output
    said = module.spmd_output_sharding
    free = set[int]()
    for k, s in enumerate(module.entry.root.shape.leaves()):
        may = bool(allowed) and allowed[k if len(allowed) > 1 else 0]
        own = None if said is None else said.for_leaf(k).tiled()
        if may and s.is_array and (is_open or own is None or own.kind == "replicated"):
            free.add(k)
    return free


def _returned(root: Instruction, tilings: Leaves, free: set[int]) -> dict[Instruction, Tiling]:
    """How arrays stand that a tuple returns, and nothing else reads."""
    if root.opcode != "tuple" or any(x.shape.is_tuple for x in root.operands):
        return {}
    return {
        x: t
        for k, (x, t) in enumerate(zip(root.operands, tilings, strict=True))
        if k not in free and list(x.users) == [root] and root.operands.count(x) == 1
    }


def _with_free(
    run: Partitioner, said: Sharding | None, ends: Leaves, root: Instruction
) -> Sharding:
    """The sharding of the result, that of free leaves as they came to stand."""
    leaves = [REPLICATED if said is None else said.for_leaf(k) for k in range(len(ends))]
    for k in run.free_results:
        leaves[k] = run.mesh.sharding(ends[k])
    return Sharding.tuple_of(*leaves) if root.shape.is_tuple else leaves[0]


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
    names = {partitioned: c.name for (c, *_), (partitioned, _) in run.done.items()}
    module.entry = entry
    module.schedule = None
    for computation, _ in run.done.values():
        remove_dead_instructions(computation)
        computation.sort()
    live = set(module.computations_in_order([entry]))
    _remove(module, [c for c in module.computations if c not in live])
    taken = {c.name for c in module.computations}
    for computation, name in names.items():
        if computation in live and name not in taken:
            taken.discard(computation.name)
            computation.name = name
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


def keep_fitting_aliases(module: Module, entry: Computation) -> None:
    """What may be returned in place is: where argument and result are parts of one shape."""
    aliases = module.input_output_alias
    if not aliases:
        return
    shapes = [p.shape for p in entry.parameters]
    kept = []
    for e in aliases.entries:
        passed = subshape(shapes[e.parameter_number], e.parameter_shape_index)
        given_back = subshape(entry.root.shape, e.output_shape_index)
        if passed is not None and given_back is not None and passed.compatible(given_back):
            kept.append(e)
        elif e.kind == "must-alias":
            raise UnsupportedError(
                f"output {list(e.output_shape_index)} must be returned in place of parameter "
                f"{e.parameter_number}, but a device has {passed} of one and {given_back} of the "
                "other",
                rule="partition",
                hint="give both the same sharding, or let the alias be may-alias",
            )
    module.input_output_alias = InputOutputAlias(tuple(kept)) if kept else None


def _check_sizes(module: Module) -> None:
    """Where a part begins is counted in 32 bits."""
    for i in module.instructions():
        for s in i.shape.leaves():
            if s.is_array and any(n >= 2**31 for n in s.dims):
                raise refused(i, f"{s} has a dimension of 2**31 elements or more")


def _remove(module: Module, dead: list[Computation]) -> None:
    """Remove computations that nobody calls but each other."""
    left = dict.fromkeys(dead)
    while left:
        unused = [c for c in left if not c.callers]
        assert unused, "computations do not call each other in a circle"
        for c in unused:
            module.remove_computation(c)
            del left[c]
