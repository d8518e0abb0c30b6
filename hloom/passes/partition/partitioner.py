"""From a module with shardings to the program that each partition runs.

Every computation is walked once for each way in which its parameters stand: the calls that hand
over the same tilings share one partitioned computation. An operation is handed to the function of
its family (`@partitions("dot")`), which asks the values it reads for the tilings it wants and says
which tilings its results have. What no family knows is computed whole on every device, and noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

from hloom.base.registry import Registry
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import (
    ASYNC_CHAIN,
    CONTROL_FLOW,
    FORWARDS,
    PLUMBING,
    SIDE_EFFECT,
)  # fmt: skip
from hloom.ir.values.sharding import Sharding
from hloom.passes.expand.expansion import Combiners
from hloom.passes.partition.device_mesh import DeviceMesh, mesh_of
from hloom.passes.partition.exchanged_sums import SumExchange
from hloom.passes.partition.leaves import leaf_paths, mapped
from hloom.passes.partition.notes import COMMUNICATES, WHYS, Inserted, Replicated
from hloom.passes.partition.open_values import OpenValues
from hloom.passes.partition.refusals import MEETING, refused, refused_effect
from hloom.passes.partition.reshard import Emitter
from hloom.passes.partition.reshard_plan import tile_size
from hloom.passes.partition.tiling import Tiling
from hloom.passes.partition.value import TiledValue
from hloom.types.shape import Shape

Leaves = tuple[Tiling, ...]
"""A tiling for each leaf of a value, tuples flattened."""
Family = Callable[["Walk", Instruction], Sequence[TiledValue]]
FAMILIES: Registry[str, Family] = Registry("partitioned operation", ("hloom.passes.partition",))
NAMES_ONLY = opcodes(CONTROL_FLOW, FORWARDS, PLUMBING, ASYNC_CHAIN, also=("fusion", "custom-call"))
"""What says itself what becomes of its operands, whatever they are."""
EFFECTS = opcodes(SIDE_EFFECT) - MEETING


def partitions(*opcodes: str) -> Callable[[Family], Family]:
    """Make a function the one that partitions these operations."""

    def registered(family: Family) -> Family:
        for opcode in opcodes:
            FAMILIES.add(opcode, family)
        return family

    return registered


@dataclass
class Partitioner:
    """One run on one module."""

    module: Module
    mesh: DeviceMesh
    noted: list[tuple[Computation, Replicated]] = field(default_factory=list)
    """What is computed whole, and in which computation: not all of them stay."""
    inserted: list[Inserted] = field(default_factory=list)
    free_results: set[int] = field(default_factory=set)
    """Leaves of the program's result of which nobody says how they are to stand."""
    returned: dict[Instruction, Tiling] = field(default_factory=dict)
    """How arrays are to stand that only the program's result holds."""
    cut_by_table: dict[int, list[Tiling]] = field(default_factory=dict)
    """Leaves of the result whose sharding counts by other axes than the mesh, and the tilings from
    which their tiles are handed on."""
    combiners: Combiners = field(default_factory=dict)
    channels: Iterator[int] = field(default_factory=lambda: count(1))
    draws_tiles: bool = False
    """Whether the parts of random numbers are drawn by the devices that have them."""
    most_repeated: int = 1 << 12
    """Multiplications or elements that every device may do alike where that is fewer bytes."""
    exchange: SumExchange = SumExchange.NEVER
    exchanged: bool = False
    """Whether operands of a sum are exchanged somewhere, though sums of parts were possible."""
    random_keys: Iterator[int] = field(default_factory=count)
    open: OpenValues | None = None
    done: dict[tuple, tuple[Computation, Leaves]] = field(default_factory=dict)
    kept_channels: set[int] = field(default_factory=set)

    @cached_property
    def cutting(self) -> list[int]:
        """The axes along which some value of the program is cut."""
        said = [t for i in self.module.instructions() for t in self.tilings(i.sharding, i.shape)]
        return sorted({a for t in said if t is not None for a in t.used if self.mesh.sizes[a] > 1})

    @staticmethod
    def of(module: Module) -> Partitioner:
        used = [getattr(i.attrs, "channel_id", None) or 0 for i in module.instructions()]
        channels = count(max(used, default=0) + 1)
        return Partitioner(module, mesh_of(module).refined(), channels=channels)

    @property
    def replicated(self) -> list[Replicated]:
        """What is computed whole, in the computations of the module."""
        return [r for c, r in self.noted if c in self.module.computations]

    def channel_like(self, channel: int) -> int:
        """A channel that the program names: the same, but where its computation is made twice."""
        if channel in self.kept_channels:
            return next(self.channels)
        self.kept_channels.add(channel)
        return channel

    def tilings(self, sharding: Sharding | None, shape: Shape) -> list[Tiling | None]:
        """What a sharding says of each leaf; None: nothing."""
        leaves = list(shape.leaves())
        if sharding is None:
            return [None] * len(leaves)
        of_leaves: list[Tiling | None] = []
        for k, leaf in enumerate(leaves):
            own = (
                sharding.for_leaf(k)
                if k < len(sharding.elements) or not sharding.is_tuple
                else None
            )
            if not leaf.is_array or leaf.is_dynamic:
                of_leaves.append(Tiling.replicated(leaf.rank if leaf.is_array else 0))
            else:
                of_leaves.append(None if own is None else self.mesh.tiling(own, leaf.rank))
        return of_leaves

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
        partitioned = self.done.get(key)
        if partitioned is None:
            partitioned = self.done[key] = Walk(self, c).run(parameters, result)
        return partitioned


class Walk:
    """One computation being partitioned."""

    def __init__(self, of: Partitioner, c: Computation) -> None:
        self.of = of
        self.old = c
        self.new = of.module.add_computation(c.name, thread=c.execution_thread)
        self.new.backend_config = c.backend_config
        self.b = Emitter(self.new, of.combiners)
        self.b.begin(of.mesh, of.channels)
        self.values: dict[Instruction, list[TiledValue]] = {}
        self.argument_tilings: tuple[Leaves, ...] = ()
        self.region: frozenset[int] = frozenset()
        """The axes along which the program itself cut what the instruction at hand works on."""
        self.kept: dict[Instruction, Instruction] = {}
        """What was taken over as it is, by what it was."""
        self.partial_links: dict[Instruction, Tiling] = {}  # linear in sums that a loop carries
        self._ends: dict[Instruction, Instruction] = {}

    @property
    def mesh(self) -> DeviceMesh:
        return self.of.mesh

    # -- reading

    def value(self, x: Instruction) -> TiledValue:
        """An array of the old program."""
        (only,) = self.values[x]
        return only

    def whole(self, x: Instruction) -> Instruction:
        """All of an operand, on every device."""
        kept = self.kept.get(x)
        return kept or self.tuple_of(x.shape, iter([v.whole() for v in self.values[x]]))

    def operands(self, i: Instruction) -> list[TiledValue]:
        return [self.value(x) for x in i.operands]

    def wanted(self, i: Instruction) -> list[Tiling | None]:
        """How the leaves of a result are to stand by its sharding."""
        if i.sharding is None and i in self.of.returned:
            return [self.of.returned[i].without(self.region)]
        said = self.of.tilings(i.sharding, i.shape)
        return [t and t.without(self.region) for t in said] if self.region else said

    def note(self, i: Instruction, reason: str, bytes: float = 0.0) -> None:
        """Remember that an operation is computed whole everywhere."""
        self.of.noted.append((self.new, Replicated(i.name, i.opcode, reason, int(bytes))))

    # -- making

    def result(
        self, shape: Shape, t: Tiling, part: Instruction, wanted: Tiling | None = None
    ) -> TiledValue:
        """A value of which there is a part under a tiling."""
        manual = t.manual or tuple(sorted(self.region))
        t = t.with_manual(())
        primary = (wanted or t.whole()).with_manual(())
        return TiledValue(self.b, shape, {t: part}, primary, manual=manual)

    def free(
        self,
        shape: Shape,
        primary: Tiling,
        make: Callable[[Tiling], Instruction],
        price: Callable[[Tiling], float] | None = None,
    ) -> TiledValue:
        """A value that is made where somebody asks for it, in the tiling that is asked for."""
        return TiledValue(self.b, shape, {}, primary, make, price, tuple(sorted(self.region)))

    def results(
        self,
        i: Instruction,
        instruction: Instruction,
        tilings: Sequence[Tiling],
        wanted: Sequence[Tiling | None] | None = None,
    ) -> list[TiledValue]:
        """The leaves of something whose parts stand so; axes that the program cuts along are those
        of the tilings where they say some, else those of the region."""
        values: list[TiledValue] = []
        for k, (path, leaf) in enumerate(leaf_paths(i.shape)):
            part = instruction
            for index in path:
                part = self.b.element(part, index)
            want = wanted[k] if wanted else None
            values.append(self.result(leaf, tilings[k], part, want))
        return values

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
        self.argument_tilings = parameters
        self._walk(self.old)
        leaves = self.values[self.old.root]
        asked = result or tuple([v.primary for v in leaves])
        if self.old.is_entry:
            # What may stand as it likes does as it was computed, in equal parts.
            asked = tuple([self._asked(k, v, t) for k, (v, t) in enumerate(zip(leaves, asked))])
        first = len(self.b.added)
        parts = [v.get(t.with_manual(())) for v, t in zip(leaves, asked, strict=True)]
        self.new.root = self.tuple_of(self.old.root.shape, iter(parts))
        self._annotate(self.old.root, self.b.added[first:])
        return self.new, tuple([t.with_manual(v.manual) for v, t in zip(leaves, asked)])

    def _asked(self, k: int, v: TiledValue, t: Tiling) -> Tiling:
        """How a leaf of the program's result is to stand that was to stand so."""
        if k in self.of.free_results:
            return self._even(v)
        if k not in self.of.cut_by_table:
            return t
        whole = nothing_cut(v.shape)  # of which any table cuts parts, and nothing is handed on
        best = min(self.of.cut_by_table[k], key=v.cost)
        handed_on = self.b.array(v.shape).tile_bytes(best)
        return whole if v.received(whole) <= v.cost(best) + handed_on else best

    def _even(self, v: TiledValue) -> Tiling:
        """How a value stands, of dimensions that are cut into equal parts."""
        t = v.primary.whole()
        for d, axes in enumerate(t.dims):
            if axes and v.shape.dims[d] % self.mesh.count(axes):
                t = t.with_dim(d, ())
        return t

    def inlined(self, c: Computation, operands: Sequence[Sequence[TiledValue]]) -> list[TiledValue]:
        """The result of another computation, partitioned here."""
        region, kept = self.region, self.kept
        self.kept = {}
        for p in c.parameters:
            self.values[p] = list(operands[p.attrs.number])
        self._walk(c)
        self.region, self.kept = region, kept
        return self.values[c.root]

    def _walk(self, c: Computation) -> None:
        for i in c.in_order():
            if i.opcode == "parameter" and c is not self.old:
                continue
            first = len(self.b.added)
            self.b.at = i
            self.region = self._region(i)
            self.values[i] = list(self._family(i)(self, i))
            self._annotate(i, self.b.added[first:])

    def _region(self, i: Instruction) -> frozenset[int]:
        """The axes that the program itself cuts along: those of what is read, or as is said."""
        region = {a for x in i.operands for v in self.values[x] for a in v.manual}
        if i.sharding is not None and not i.sharding.is_tuple and i.shape.is_array:
            said = self.mesh.manual_axes(i.sharding)
            if said is None:
                raise refused(i, "its manual axes are not axes of the other shardings")
            region |= set(said)
        return frozenset(region)

    def _family(self, i: Instruction) -> Family:
        """The function that partitions an instruction."""
        own = FAMILIES.get(i.opcode)
        if own is not None and i.opcode in NAMES_ONLY:
            return own
        if self.region == set(self.mesh.axes):
            return as_it_is
        if i.opcode in MEETING or i.opcode in EFFECTS:
            return own or refused_effect
        if i.has_side_effect:
            return refused_effect
        if any(s.is_dynamic for v in (*i.operands, i) for s in v.shape.leaves() if s.is_array):
            return of_run_time_size
        return own or whole_everywhere

    def _annotate(self, i: Instruction, instructions: list[Instruction]) -> None:
        ends = self._ends
        for x in instructions:
            if x.metadata is None:
                x.metadata = i.metadata
            if x.opcode in COMMUNICATES and i.opcode not in COMMUNICATES:
                why = self.b.whys.get(x) or WHYS[x.opcode]
                self.of.inserted.append(Inserted(x, i.name, i.opcode, why))
        if not i.has_control_edges:
            return
        # What was made for it waits for what was made for those before it.
        own = [x for x in instructions if x.opcode not in ("constant", "parameter")]
        own = own or [next(iter(v.forms.values())) for v in self.values[i] if v.forms]
        for before in i.control_predecessors:
            for x in own:
                if before in ends and ends[before] is not x and ends[before] not in x.operands:
                    x.add_control_predecessor(ends[before])
        if own:
            ends[i] = own[-1]


def whole_everywhere(walk: Walk, i: Instruction) -> list[TiledValue]:
    """Compute an operation whole on every device."""
    return replicated(walk, i, f"hloom has no partitioned form of {i.opcode}")


def of_run_time_size(walk: Walk, i: Instruction) -> list[TiledValue]:
    """Compute an operation on something of a size that is known at run time only."""
    return replicated(walk, i, "it has dimensions of run-time size")


def replicated(walk: Walk, i: Instruction, reason: str) -> list[TiledValue]:
    """Compute an operation whole on every device, for a reason."""
    price = sum(v.received(nothing_cut(v.shape)) for x in i.operands for v in walk.values[x])
    if price:
        walk.note(i, reason, price)
    return as_it_is(walk, i)


def as_it_is(walk: Walk, i: Instruction, **changed: Any) -> list[TiledValue]:
    """The same operation on the whole of its operands (of their parts along manual axes)."""
    operands = [walk.whole(x) for x in i.operands]
    if getattr(i.attrs, "channel_id", None):
        changed["channel_id"] = walk.of.channel_like(i.attrs.channel_id)
    copy = walk.kept[i] = walk.b.emit_like(i, operands, **changed)
    return walk.results(i, copy, [nothing_cut(s) for s in i.shape.leaves()], walk.wanted(i))


def nothing_cut(s: Shape) -> Tiling:
    return Tiling.replicated(s.rank if s.is_array else 0)
