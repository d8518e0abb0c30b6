"""Propose shardings for the arguments of a program: a search by cost.

A move cuts one dimension of an argument along one more axis of the mesh, or not at all any more.
Arguments that are alike (one shape, read by the same kinds of operations, as the weights of all
layers are) move together. From nothing cut on, the arguments with most bytes first, the best move
of each is taken if it makes the program cheaper, until a round changes nothing or time is up.
Every state is propagated, partitioned and priced as a whole program. Shardings that the program
states stay; arguments of which nothing is decided are what propagation makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hloom.base.clock import performance
from hloom.base.diagnostics import UnsupportedError, UsageError
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.mesh import AxisRef
from hloom.ir.values.sharding import REPLICATED, Sharding
from hloom.ir.values.sharding_named import DimensionSharding, NamedSharding
from hloom.passes.partition.shardy_xla import prepare
from hloom.passes.partition.spmd_partitioner import SpmdPartitioner
from hloom.passes.sharding.sharding_propagation import ShardingPropagation
from hloom.passes.simplify.dce import DeadCodeElimination
from hloom.types.mesh import MeshAxes
from hloom.types.shape import Shape
from hloom.types.sizes import moved_bytes

Cuts = tuple[tuple[int, ...], ...]
"""For each dimension the axes of the mesh that it is cut along."""
Leaf = tuple[int, int]
"""An argument, and which leaf of it."""


@dataclass
class AlikeArguments:
    """Arguments that are cut alike."""

    shape: Shape
    leaves: list[Leaf] = field(default_factory=list)
    cuts: Cuts = ()
    is_decided: bool = False

    @property
    def size_bytes(self) -> int:
        return moved_bytes(self.shape) * len(self.leaves)


@dataclass
class Proposal:
    """What a search came to; `module` is the program with shardings for all of its arguments."""

    module: Module
    mesh: MeshAxes
    cost: float
    cost_before: float
    """Of a program of which nothing more is cut than it states itself."""
    tried: int
    is_finished: bool
    """Whether the search ended by itself, not for want of time."""
    decided: dict[Leaf, str] = field(default_factory=dict)
    """Arguments that the search itself decided, and how; others follow by propagation."""
    idle: dict[str, str] = field(default_factory=dict)
    """Axes along which no argument is cut, and why."""


def proposed(
    module: Module, mesh: MeshAxes, price: Callable[[Module], float], seconds: float
) -> Proposal:
    """The cheapest shardings found. The module, which is changed, gets as many partitions as the
    mesh has devices; `price` is asked for what each device runs."""
    if module.num_partitions not in (1, mesh.device_count):
        raise UsageError(
            f"the program is one for {module.num_partitions} partitions, the mesh has "
            f"{mesh.device_count} devices",
            rule="partition",
        )
    module.num_partitions = mesh.device_count
    module.use_spmd_partitioning = True
    return _Search(module, mesh, price, performance() + seconds).run()


class _Search:
    def __init__(
        self, module: Module, mesh: MeshAxes, price: Callable[[Module], float], end: float
    ) -> None:
        self.module, self.mesh, self.price, self.end = module, mesh, price, end
        self.groups = _groups(module)
        self.tried = 0
        self.known: dict[tuple[Cuts | None, ...], float] = {}

    def run(self) -> Proposal:
        before = best = self._cost()
        is_finished = False
        while not is_finished and performance() < self.end:
            is_finished = True
            for group in self.groups:
                cost = self._improved(group, best)
                if cost < best:
                    best, is_finished = cost, False
                if performance() > self.end:
                    is_finished = False
                    break
        whole = self._annotated()
        ShardingPropagation().run(whole)
        _say_the_rest(whole)
        decided = {x: self._text(g.cuts) for g in self.groups if g.is_decided for x in g.leaves}
        idle = _idle_axes(whole, self.mesh, self.groups)
        return Proposal(whole, self.mesh, best, before, self.tried, is_finished, decided, idle)

    def _improved(self, group: AlikeArguments, best: float) -> float:
        """Take the cheapest cuts for one group, if they are cheaper; the cost then."""
        kept = (group.cuts, group.is_decided)
        for cuts in list(_moves(group, self.mesh)):
            if performance() > self.end:
                break
            now = (group.cuts, group.is_decided)
            group.cuts, group.is_decided = cuts, True
            cost = self._cost()
            if cost < best * (1 - 1e-6):
                best, kept = cost, (cuts, True)
            group.cuts, group.is_decided = now
        group.cuts, group.is_decided = kept
        return best

    def _cost(self) -> float:
        key = tuple([g.cuts if g.is_decided else None for g in self.groups])
        if key not in self.known:
            self.tried += 1
            cut = self._annotated()
            try:
                prepare(cut)
                for step in (SpmdPartitioner(), DeadCodeElimination()):
                    step.run(cut)
                self.known[key] = self.price(cut)
            except UnsupportedError:
                self.known[key] = float("inf")
        return self.known[key]

    def _annotated(self) -> Module:
        """A copy of the program with what is decided."""
        copied = copy_module(self.module)
        parameters = {p.attrs.number: p for p in copied.entry.parameters}
        for g in self.groups:
            for number, leaf in g.leaves if g.is_decided else ():
                _set(parameters[number], leaf, self._sharding(g.cuts))
        if all(i.sharding is None for i in copied.instructions()):
            root = copied.entry.root
            leaves = [REPLICATED] * root.shape.leaf_count
            root.sharding = Sharding.tuple_of(*leaves) if root.shape.is_tuple else REPLICATED
        return copied

    def _sharding(self, cuts: Cuts) -> Sharding:
        dims = tuple([DimensionSharding(tuple(map(AxisRef, axes))) for axes in cuts])
        return Sharding("named", named=NamedSharding(self.mesh, dims))

    def _text(self, cuts: Cuts) -> str:
        names = [name for name, _ in self.mesh.axes]
        return "[" + ", ".join(["+".join([names[a] for a in axes]) or "-" for axes in cuts]) + "]"


def _set(p: Instruction, leaf: int, sharding: Sharding) -> None:
    if not p.shape.is_tuple:
        p.sharding = sharding
        return
    leaves = [REPLICATED] * p.shape.leaf_count
    if p.sharding is not None:
        leaves = list(p.sharding.elements)
    leaves[leaf] = sharding
    p.sharding = Sharding.tuple_of(*leaves)


def _say_the_rest(module: Module) -> None:
    """What nothing cuts is stated to be whole: that is part of the proposal."""
    for x in (*module.entry.parameters, module.entry.root):
        if x.sharding is None:
            count = x.shape.leaf_count
            x.sharding = (
                Sharding.tuple_of(*[REPLICATED] * count) if x.shape.is_tuple else REPLICATED
            )


def _idle_axes(module: Module, mesh: MeshAxes, groups: list[AlikeArguments]) -> dict[str, str]:
    """The axes along which no argument is cut, and why; none where the program states shardings
    without names of axes."""
    used: set[str] = set()
    for p in module.entry.parameters:
        for k in range(p.shape.leaf_count):
            sharding = None if p.sharding is None else p.sharding.for_leaf(k)
            if sharding is None or sharding.kind == "replicated":
                continue
            if sharding.named is None:
                return {}
            named = sharding.named
            axes = [a for d in named.dim_shardings for a in d.axes]
            used.update(named.mesh.axes[a.mesh_axis_index][0] for a in axes)
    sizes = sorted({n for g in groups for n in g.shape.dims if n > 1}, reverse=True)
    idle = {}
    for name, size in mesh.axes:
        if size == 1 or name in used:
            continue
        if not sizes:
            idle[name] = "the program leaves no argument open that could be cut"
        elif any(n % size == 0 for n in sizes):
            idle[name] = "nothing that it could cut is cheaper cut"
        else:
            shown = ", ".join(map(str, sizes[:5])) + (", ..." if len(sizes) > 5 else "")
            idle[name] = f"no dimension of an argument is a multiple of {size} (they are {shown})"
    return idle


def _groups(module: Module) -> list[AlikeArguments]:
    """Arguments of which the program says nothing, those together that are alike; most bytes
    first."""
    groups: dict[tuple[object, ...], AlikeArguments] = {}
    for p in module.entry.parameters:
        if p.sharding is not None:
            continue
        for leaf, shape in enumerate(p.shape.leaves()):
            if not shape.is_array or shape.is_dynamic or not shape.rank or shape.size < 2:
                continue
            readers = [] if p.shape.is_tuple else [(u.opcode, u.operands.index(p)) for u in p.users]
            key = (shape.dtype.name, shape.dims, tuple(sorted(set(readers))))
            group = groups.setdefault(key, AlikeArguments(shape))
            group.cuts = ((),) * shape.rank
            group.leaves.append((p.attrs.number, leaf))
    return sorted(groups.values(), key=lambda g: -g.size_bytes)


def _moves(group: AlikeArguments, mesh: MeshAxes) -> Iterator[Cuts]:
    """All cuts one axis away: one more or one less, one in another dimension; nothing cut, too."""
    cuts = group.cuts
    seen = {cuts} if group.is_decided else set()
    for a, (_, size) in enumerate(mesh.axes):
        if size == 1:
            continue
        without = tuple([tuple([x for x in axes if x != a]) for axes in cuts])
        for d, n in enumerate((*group.shape.dims, 0)):
            tiles = size
            for x in without[d] if d < len(without) else ():
                tiles *= mesh.axes[x][1]
            if d < len(without) and n % tiles:
                continue
            moved = [axes + (a,) if k == d else axes for k, axes in enumerate(without)]
            new = tuple(moved)
            if new not in seen:
                seen.add(new)
                yield new
