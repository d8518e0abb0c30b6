"""From a module with shardings to the program that each partition runs.

Every computation is walked once for each way in which its parameters stand: the calls that hand
over the same tilings share one partitioned computation. An operation is handed to the function of
its family (`@partitions("dot")`), which asks the values it reads for the tilings it wants and says
which tilings its results have. What no family knows is computed whole on every device, and noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from hloom.base.registry import Registry
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.passes.expand.expansion import Combiners
from hloom.passes.partition.device_mesh import DeviceMesh, mesh_of
from hloom.passes.partition.reshard import Emitter
from hloom.passes.partition.reshard_plan import tile_size
from hloom.passes.partition.tiling import Tiling
from hloom.passes.partition.value import Value
from hloom.types.shape import Shape, tuple_shape

Leaves = tuple[Tiling, ...]
"""A tiling for each leaf of a value, tuples flattened."""
Family = Callable[["Walk", Instruction], Sequence[Value]]
FAMILIES: Registry[str, Family] = Registry("partitioned operation")


def partitions(*opcodes: str) -> Callable[[Family], Family]:
    """Make a function the one that partitions these operations."""

    def registered(family: Family) -> Family:
        for opcode in opcodes:
            FAMILIES.add(opcode, family)
        return family

    return registered


@dataclass(frozen=True)
class Replicated:
    """An operation that is computed whole on every device, and why; what it takes to bring its
    operands there, in bytes that each device receives."""

    name: str
    opcode: str
    reason: str
    bytes: int


@dataclass
class Partitioner:
    """One run on one module."""

    module: Module
    mesh: DeviceMesh
    replicated: list[Replicated] = field(default_factory=list)
    combiners: Combiners = field(default_factory=dict)
    channels: Iterator[int] = field(default_factory=lambda: count(1))
    done: dict[tuple, tuple[Computation, Leaves]] = field(default_factory=dict)

    @staticmethod
    def of(module: Module) -> Partitioner:
        used = [getattr(i.attrs, "channel_id", None) or 0 for i in module.instructions()]
        return Partitioner(module, mesh_of(module), channels=count(max(used, default=0) + 1))

    def tilings(self, sharding: Sharding | None, shape: Shape) -> list[Tiling | None]:
        """What a sharding says of each leaf; None: nothing."""
        leaves = list(shape.leaves())
        if sharding is None:
            return [None] * len(leaves)
        found: list[Tiling | None] = []
        for k, leaf in enumerate(leaves):
            own = (
                sharding.for_leaf(k)
                if k < len(sharding.elements) or not sharding.is_tuple
                else None
            )
            if not leaf.is_array or leaf.is_dynamic:
                found.append(Tiling.replicated(leaf.rank if leaf.is_array else 0))
            else:
                found.append(None if own is None else self.mesh.tiling(own, leaf.rank))
        return found

    def local_shape(self, shape: Shape, tilings: Sequence[Tiling]) -> Shape:
        """The shape of a device's part of a value, a tiling for each leaf."""
        left = iter(tilings)
        return mapped(shape, lambda s: self._leaf_shape(s, next(left)))

    def _leaf_shape(self, s: Shape, t: Tiling) -> Shape:
        if not s.is_array:
            return s
        dims = [tile_size(n, self.mesh.count(axes)) for n, axes in zip(s.dims, t.dims)]
        return s if tuple(dims) == s.dims else s.with_dims(dims)

    def partition(
        self, c: Computation, parameters: tuple[Leaves, ...], result: Leaves | None = None
    ) -> tuple[Computation, Leaves]:
        """The computation for parameters that stand so; the result stands as asked, else as its
        sharding says or as it was computed. How it stands comes back."""
        key = (c, parameters, result)
        found = self.done.get(key)
        if found is None:
            found = self.done[key] = Walk(self, c).run(parameters, result)
        return found


class Walk:
    """One computation being partitioned."""

    def __init__(self, of: Partitioner, c: Computation) -> None:
        self.of = of
        self.old = c
        self.new = of.module.add_computation(c.name, thread=c.execution_thread)
        self.new.backend_config = c.backend_config
        self.b = Emitter(self.new, of.combiners)
        self.b.begin(of.mesh, of.channels)
        self.values: dict[Instruction, list[Value]] = {}
        self.given: tuple[Leaves, ...] = ()

    @property
    def mesh(self) -> DeviceMesh:
        return self.of.mesh

    # -- reading

    def value(self, x: Instruction) -> Value:
        """An array of the old program."""
        (found,) = self.values[x]
        return found

    def operands(self, i: Instruction) -> list[Value]:
        return [self.value(x) for x in i.operands]

    def wanted(self, i: Instruction) -> list[Tiling | None]:
        """How the leaves of a result are to stand by its sharding."""
        return self.of.tilings(i.sharding, i.shape)

    def note(self, i: Instruction, reason: str, bytes: float = 0.0) -> None:
        """Remember that an operation is computed whole everywhere."""
        self.of.replicated.append(Replicated(i.name, i.opcode, reason, int(bytes)))

    # -- making

    def result(
        self, shape: Shape, t: Tiling, part: Instruction, wanted: Tiling | None = None
    ) -> Value:
        """A value of which there is a part under a tiling."""
        return Value(self.b, shape, {t: part}, wanted or t.whole())

    def results(
        self,
        i: Instruction,
        made: Instruction,
        tilings: Sequence[Tiling],
        wanted: Sequence[Tiling | None] | None = None,
    ) -> list[Value]:
        """The leaves of something whose parts stand so."""
        found: list[Value] = []
        for k, (path, leaf) in enumerate(_leaf_paths(i.shape)):
            part = made
            for index in path:
                part = self.b.element(part, index)
            want = wanted[k] if wanted else None
            found.append(self.result(leaf, tilings[k], part, want))
        return found

    def tuple_of(self, shape: Shape, parts: Iterator[Instruction]) -> Instruction:
        """Parts of leaves in the nested tuples of a shape."""
        if not shape.is_tuple:
            return next(parts)
        return self.b.tuple(*[self.tuple_of(e, parts) for e in shape.elements])

    def local_shape(self, shape: Shape, tilings: Sequence[Tiling]) -> Shape:
        """The shape of a device's part of a value."""
        return self.of.local_shape(shape, tilings)

    # -- the walk

    def run(
        self, parameters: tuple[Leaves, ...], result: Leaves | None
    ) -> tuple[Computation, Leaves]:
        self.given = parameters
        ends: dict[Instruction, Instruction] = {}
        for i in self.old.in_order():
            first = len(self.b.added)
            family = FAMILIES.get(i.opcode) or whole_everywhere
            self.values[i] = list(family(self, i))
            self._annotate(i, self.b.added[first:], ends)
        leaves = self.values[self.old.root]
        tilings = result or tuple([v.primary for v in leaves])
        first = len(self.b.added)
        parts = [v.get(t) for v, t in zip(leaves, tilings, strict=True)]
        self.new.root = self.tuple_of(self.old.root.shape, iter(parts))
        self._annotate(self.old.root, self.b.added[first:], {})
        return self.new, tilings

    def _annotate(
        self, i: Instruction, made: list[Instruction], ends: dict[Instruction, Instruction]
    ) -> None:
        for x in made:
            if x.metadata is None:
                x.metadata = i.metadata
        if not i.has_control_edges:
            return
        # What was made for it waits for what was made for those before it.
        own = [x for x in made if x.opcode not in ("constant", "parameter")] or [
            next(iter(v.forms.values())) for v in self.values[i] if v.forms
        ]
        for before in i.control_predecessors:
            for x in own:
                if before in ends and ends[before] is not x and ends[before] not in x.operands:
                    x.add_control_predecessor(ends[before])
        if own:
            ends[i] = own[-1]


def whole_everywhere(walk: Walk, i: Instruction) -> list[Value]:
    """Compute an operation whole on every device."""
    return replicated(walk, i, f"hloom has no partitioned form of {i.opcode}")


def replicated(walk: Walk, i: Instruction, reason: str) -> list[Value]:
    """Compute an operation whole on every device, for a reason."""
    price = 0.0
    operands: list[Instruction] = []
    for x in i.operands:
        values = walk.values[x]
        price += sum(v.cost(_nothing_cut(v.shape)) for v in values)
        operands.append(walk.tuple_of(x.shape, iter([v.whole() for v in values])))
    if price:
        walk.note(i, reason, price)
    made = walk.b.emit_like(i, operands)
    return walk.results(i, made, [_nothing_cut(s) for s in i.shape.leaves()], walk.wanted(i))


def _nothing_cut(s: Shape) -> Tiling:
    return Tiling.replicated(s.rank if s.is_array else 0)


def _leaf_paths(shape: Shape) -> list[tuple[tuple[int, ...], Shape]]:
    if not shape.is_tuple:
        return [((), shape)]
    return [
        ((k, *path), leaf) for k, e in enumerate(shape.elements) for path, leaf in _leaf_paths(e)
    ]


def mapped(shape: Shape, change: Callable[[Shape], Shape]) -> Shape:
    """The shape with each leaf changed, in order."""
    if not shape.is_tuple:
        return change(shape)
    return tuple_shape([mapped(e, change) for e in shape.elements])
