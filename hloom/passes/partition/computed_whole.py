"""A program of whole arrays that every partition computes whole: what is left when cutting fails.

It asks nothing of the partitioner. Arguments are gathered, the program is called as it is, and
each device keeps its part of the results: slow, and right. Regions that the program cuts by itself
stay cut: what enters one is sliced, what leaves it is gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from math import prod

import numpy as np

from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.groups import ReplicaGroups
from hloom.ir.values.padding import Padding
from hloom.ir.values.sharding import REPLICATED, Sharding
from hloom.ir.values.slices import Slices
from hloom.passes.partition.boundary import tiles_of
from hloom.passes.partition.spmd_partitioner import keep_fitting_aliases
from hloom.passes.partition.whole_effects import MEETING, have_effects_once, part_shape, unlike
from hloom.passes.sharding.shardy_importer import ShardyImporter, meshes_of
from hloom.rewrite.build import RuleBuilder
from hloom.types.dtype import S32
from hloom.types.literal import Literal
from hloom.types.shape import ProgramShape, Shape, shape

INTO, OUT_OF = "SPMDFullToShardShape", "SPMDShardToFullShape"


def computed_whole(module: Module) -> Module:
    """What each partition runs; its arguments and results stand as the module's shardings say.

    Effects are had once (`whole_effects.py`). Raises `UnsupportedError` where that is not the same
    program: it sends and receives, or has regions of its own whose parts are not known by their
    shardings.
    """
    whole = copy_module(module)
    if meshes_of(whole):
        ShardyImporter().run(whole)
    has_regions = any(_target(i) == INTO for i in whole.instructions())
    _check(whole, has_regions)
    entry, root = whole.entry, whole.entry.root
    parameters = [_stated(p.sharding, p.shape) for p in entry.parameters]
    results = _stated(whole.spmd_output_sharding or root.sharding, root.shape)
    edges = WholeEdges(whole)
    have_effects_once(whole, edges, has_regions)
    for i in [i for i in whole.instructions() if _target(i) in (INTO, OUT_OF)]:
        edges.at_region(i)
    new = whole.add_computation(f"{entry.name}_of_parts")
    b = edges.builder = RuleBuilder(new)
    arguments = [
        b.emit("parameter", number=p.attrs.number, shape=part_shape(p.shape, s), name=p.name)
        for p, s in zip(entry.parameters, parameters, strict=True)
    ]
    wholes = [
        edges.moved(x, p.shape, iter(s), edges.whole)
        for x, p, s in zip(arguments, entry.parameters, parameters, strict=True)
    ]
    called = b.emit("call", *wholes, called=(entry,), shape=root.shape)
    new.root = edges.moved(called, root.shape, iter(results), edges.part)
    whole.entry = new
    _restate(whole, parameters, results)
    return whole


def _target(i: Instruction) -> str:
    return i.attrs.custom_call_target if i.opcode == "custom-call" else ""


def _check(module: Module, has_regions: bool) -> None:
    for i in module.instructions():
        if i.opcode in MEETING and not has_regions:
            raise unlike(i, "every device would do it by itself")


def _stated(s: Sharding | None, of: Shape) -> list[Sharding]:
    """The sharding of each leaf: tiled, or replicated where nothing is cut."""
    leaves = []
    for k, leaf in enumerate(of.leaves()):
        own = REPLICATED if s is None else s.for_leaf(k).tiled()
        is_cut = own.kind == "tiled" and leaf.is_array and not leaf.is_dynamic
        leaves.append(own if is_cut else REPLICATED)
    return leaves


def _restate(module: Module, parameters: list[list[Sharding]], results: list[Sharding]) -> None:
    """Say of the module how its arguments and its result stand, and of its values nothing."""
    module.schedule = None
    for i in module.instructions():
        i.sharding = None
    shapes = [p.shape for p in module.entry.parameters]
    module.spmd_parameters_shardings = tuple(
        [Sharding.tuple_of(*s) if x.is_tuple else s[0] for x, s in zip(shapes, parameters)]
    )
    is_tuple = module.entry.root.shape.is_tuple
    module.spmd_output_sharding = Sharding.tuple_of(*results) if is_tuple else results[0]
    if (of := module.entry_layout) is not None:
        parts = [part_shape(s, own) for s, own in zip(of.parameters, parameters, strict=True)]
        module.entry_layout = ProgramShape(
            tuple(parts), of.parameter_names, part_shape(of.result, results)
        )
    keep_fitting_aliases(module, module.entry)
    module.use_spmd_partitioning = True  # its channels belong to it


class WholeEdges:
    """Writes what turns parts into wholes and back."""

    def __init__(self, module: Module) -> None:
        used = [getattr(i.attrs, "channel_id", None) or 0 for i in module.instructions()]
        self.channels = count(max(used, default=0) + 1)
        self.module = module
        self.devices, self.replicas = module.num_partitions, module.replica_count
        self.builder = RuleBuilder(module.entry)

    def moved(self, x: Instruction, of: Shape, left: Iterator[Sharding], move) -> Instruction:
        """A value whose leaves have been moved."""
        if not of.is_tuple:
            return move(x, next(left), of)
        b = self.builder
        elements = [
            self.moved(b.emit("get-tuple-element", x, index=k), e, left, move)
            for k, e in enumerate(of.elements)
        ]
        return b.emit("tuple", *elements)

    def whole(
        self, x: Instruction, s: Sharding, of: Shape, at: Sequence[int] | None = None
    ) -> Instruction:
        """The whole array of which each device has a part; where places (`at`) have arrays of
        their own, the one of its place."""
        if s.kind != "tiled":
            return x
        tiles = tiles_of(s, self.devices)
        return self._joined(x, tiles, s.tile_dims[: s.data_rank], of, at)

    def part(self, x: Instruction, s: Sharding, of: Shape) -> Instruction:
        """The part of a device of a whole array."""
        if s.kind != "tiled":
            return x
        tiles = tiles_of(s, self.devices)
        return self._cut(x, tiles, s.tile_dims[: s.data_rank], s.tile_sizes(of.dims))

    def at_region(self, i: Instruction) -> None:
        """Put slices or a gather in place of a border of a region that the program cuts."""
        (x,) = i.operands
        is_into = _target(i) == INTO
        part, of = (i, x.shape) if is_into else (x, i.shape)
        said = x.sharding if is_into else i.sharding
        counts = [n // max(m, 1) for n, m in zip(of.dims, part.shape.dims)]
        cut = [d for d, n in enumerate(counts) if of.dims[d] != part.shape.dims[d]]
        if not cut:
            i.parent.replace(i, x)
            i.parent.erase(i)
            return
        s = said and said.tiled()
        if s is None or s.kind != "tiled" or any(s.tile_dims[d] != counts[d] for d in cut):
            raise unlike(i, "the sharding of the whole array does not say which parts there are")
        tiles = [
            tuple([k if d in cut else 0 for d, k in enumerate(s.tile_index(device))])
            for device in range(self.devices)
        ]
        counts = [n if d in cut else 1 for d, n in enumerate(counts)]
        self.builder = RuleBuilder(i.parent)
        if is_into:
            new = self._cut(x, tiles, counts, part.shape.dims)
        else:
            new = self._joined(x, tiles, counts, of)
        i.parent.replace(i, new)
        i.parent.erase(i)

    def of_device(self, table: np.ndarray) -> Instruction:
        """The row of a table of two dimensions that is this device's."""
        b, columns = self.builder, table.shape[1]
        of = shape(S32, table.shape).with_default_layouts()
        rows = b.constant(Literal.of(table, of))
        here = b.emit("convert", b.emit("partition-id"), shape=shape(S32, ()))
        none = b.constant(Literal.of(np.int32(0)))
        return b.emit("dynamic-slice", rows, here, none, dynamic_slice_sizes=(1, columns))

    def _joined(
        self,
        x: Instruction,
        tiles: list[tuple[int, ...]],
        counts: Sequence[int],
        of: Shape,
        at: Sequence[int] | None = None,
    ) -> Instruction:
        """All tiles side by side; each comes from the first device that has it, at each place."""
        b, sizes, rank = self.builder, x.shape.dims, of.rank
        dtype, n, orders = of.dtype, self.devices, list[list[int]]()
        at = at or (0,) * n
        tile_count = prod(counts)
        for place in dict.fromkeys(at):
            members = [d for d in range(n) if at[d] == place]
            first = [next(d for d in members if tiles[d] == tile) for tile in np.ndindex(*counts)]
            orders.append(first + [d for d in members if d not in set(first)])
        groups = tuple(
            [tuple([r * n + d for d in order]) for r in range(self.replicas) for order in orders]
        )
        rows = b.emit(
            "all-gather",
            b.emit("reshape", x, shape=shape(dtype, (1, *sizes))),
            dimensions=(0,),
            replica_groups=ReplicaGroups(groups),
            channel_id=next(self.channels),
            use_global_device_ids=True,
            shape=shape(dtype, (len(orders[0]), *sizes)),
        )
        kept = _cut_to(b, rows, (tile_count, *sizes))
        apart = b.emit("reshape", kept, shape=shape(dtype, (*counts, *sizes)))
        turn = tuple([x for k in range(rank) for x in (k, rank + k)])
        turned = b.emit("transpose", apart, dimensions=turn)
        dims = [c * m for c, m in zip(counts, sizes)]
        return _cut_to(b, b.emit("reshape", turned, shape=shape(dtype, dims)), of.dims)

    def _cut(
        self,
        x: Instruction,
        tiles: list[tuple[int, ...]],
        counts: Sequence[int],
        sizes: Sequence[int],
    ) -> Instruction:
        """The tile of a device; where the dimensions do not divide, zeros fill the last ones."""
        b, rank = self.builder, x.shape.rank
        missing = [c * m - n for c, m, n in zip(counts, sizes, x.shape.dims)]
        if any(missing):
            zero = b.constant(Literal.of(np.zeros((), x.shape.dtype.numpy), x.shape.with_dims(())))
            x = b.emit("pad", x, zero, padding=Padding.of(*[(0, m, 0) for m in missing]))
        starts = np.array(tiles, np.int32).reshape(self.devices, rank) * np.array(sizes, np.int32)
        row = self.of_device(starts.astype(np.int32))
        offsets = []
        for k in range(rank):
            one = b.emit("slice", row, slice=Slices.of((0, 1, 1), (k, k + 1, 1)))
            offsets.append(b.emit("reshape", one, shape=shape(S32, ())))
        return b.emit("dynamic-slice", x, *offsets, dynamic_slice_sizes=tuple(sizes))


def _cut_to(b: RuleBuilder, x: Instruction, dims: Sequence[int]) -> Instruction:
    """The first elements of each dimension."""
    if x.shape.dims == tuple(dims):
        return x
    assert prod(dims) <= prod(x.shape.dims)
    return b.emit("slice", x, slice=Slices.of(*[(0, n, 1) for n in dims]))
