"""Emits the steps of resharding: what each device does to come from one tiling to another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import CROSS_PARTITION, group_mode
from hloom.ir.values.groups import ReplicaGroups
from hloom.ir.values.padding import Padding
from hloom.passes.collectives.pairs import composed
from hloom.passes.expand.expansion import Expansion
from hloom.passes.partition.device_mesh import DeviceMesh
from hloom.passes.partition.reshard_plan import ArrayOnMesh, ReshardStep, tile_size
from hloom.passes.partition.tiling import Axes, Tiling
from hloom.types.dtype import PRED, S32, DType
from hloom.types.limits import max_value, min_value, zero
from hloom.types.literal import Literal
from hloom.types.shape import Shape, shape


class Emitter(Expansion):
    """Builds one computation of the program that each partition runs."""

    mesh: DeviceMesh

    def begin(self, mesh: DeviceMesh, channels: Iterator[int]) -> None:
        self.mesh = mesh
        self.channels = channels
        self.at: Instruction | None = None
        """The instruction of the program at hand."""
        self.whys: dict[Instruction, str] = {}
        """What collectives are for that resharding takes."""
        self._partition: Instruction | None = None
        self._tables: dict[tuple[int, ...], Instruction] = {}

    def emit_like(
        self,
        i: Instruction,
        operands: Sequence[Instruction],
        shape: Shape | None = None,
        **changed: Any,
    ) -> Instruction:
        """The operation of `i` on parts of its operands, with some attributes changed."""
        attrs = dataclasses.replace(i.attrs, **changed) if changed else i.attrs
        of = i.shape if shape is None else shape
        copy = self.computation.append(i.opcode, attrs, tuple(operands), of, i.name, i.called)
        copy.metadata, copy.frontend_attributes = i.metadata, i.frontend_attributes
        copy.backend_config = i.backend_config
        self.added.append(copy)
        return copy

    # -- sizes

    def array(self, of: Shape, manual: Axes = ()) -> ArrayOnMesh:
        """What the price of resharding a value of this logical shape depends on. Along manual axes
        there is nobody to give it anything."""
        sizes = self.mesh.sizes
        if manual:
            sizes = tuple([1 if a in manual else n for a, n in enumerate(sizes)])
        return ArrayOnMesh(of.dims, sizes, max(of.dtype.bits, 8) / 8)

    def local_dims(self, dims: Sequence[int], t: Tiling) -> tuple[int, ...]:
        return tuple([tile_size(n, self.mesh.count(axes)) for n, axes in zip(dims, t.dims)])

    def local_shape(self, of: Shape, t: Tiling) -> Shape:
        """The shape of a device's part."""
        dims = self.local_dims(of.dims, t)
        return of if dims == of.dims else of.with_dims(dims)

    # -- which part is here

    def of_device(self, values: Sequence[int]) -> Instruction:
        """The s32 scalar that is `values[partition]`."""
        key = tuple(values)
        if len(set(key)) == 1:
            return self.scalar(key[0], S32)
        entry = self._tables.get(key)
        if entry is None:
            if self._partition is None:
                self._partition = self.emit("partition-id")
            table = self.constant(Literal.of(np.array(key, np.int32)))
            at = self.emit("dynamic-slice", table, self._partition, dynamic_slice_sizes=(1,))
            entry = self._tables[key] = self.reshaped(at, ())
        return entry

    def offset(self, axes: Axes, tile: int) -> Instruction:
        """Where the tile of this device begins, in elements, along axes that cut one dimension."""
        return self.of_device([k * tile for k in self.mesh.indices(axes)])

    def masked(
        self, x: Instruction, of: Shape, t: Tiling, dimensions: Sequence[int], fill: Instruction
    ) -> Instruction:
        """`x` with a scalar in place of what lies beyond the end of these dimensions."""
        inside: Instruction | None = None
        for d in dimensions:
            tile = x.shape.dims[d]
            if not t.dims[d] or tile * self.mesh.count(t.dims[d]) == of.dims[d]:
                continue
            left = [of.dims[d] - k * tile for k in self.mesh.indices(t.dims[d])]
            row = self.compared(
                self.iota(S32, (tile,), 0), self.spread(self.of_device(left), (tile,)), "LT"
            )
            here = self.spread(row, x.shape.dims, (d,))
            inside = here if inside is None else self.and_(inside, here)
        if inside is None:
            return x
        return self.select(inside, x, self.spread(fill, x.shape.dims))

    def zero(self, dtype: DType) -> Instruction:
        return self.scalar(zero(dtype), dtype)

    def padded(self, x: Instruction, d: int, size: int) -> Instruction:
        """`x` made larger along a dimension; zeros behind it."""
        return self.padded_both(x, d, 0, size - x.shape.dims[d])

    def padded_both(
        self, x: Instruction, d: int, low: int, high: int, fill: Instruction | None = None
    ) -> Instruction:
        """`x` with so many scalars, or zeros, before and behind along a dimension."""
        if not (low or high):
            return x
        sizes = [(low, high, 0) if k == d else (0, 0, 0) for k in range(x.shape.rank)]
        fill = self.zero(x.shape.dtype) if fill is None else fill
        return self.emit("pad", x, fill, padding=Padding.of(*sizes))

    # -- steps

    def take(
        self, x: Instruction, of: Shape, before: Tiling, step: ReshardStep, manual: Axes = ()
    ) -> Instruction:
        """One step: from the part under `before` to that under `step.after`. Devices that differ
        along manual axes hold different values, and give each other nothing."""
        match step.kind:
            case "slice":
                return self._slice(x, step)
            case "all-gather":
                return self._gather(x, of, step)
            case "collective-broadcast":
                return self._broadcast(x, of, step)
            case "all-to-all":
                return self._exchange(x, of, step)
            case "collective-permute":
                return self._permute(x, before, step.after, manual)
            case "rounds":
                return self._in_rounds(x, before, step, manual)
            case "all-reduce":
                return self.all_reduce(x, step.axes, before.reduction)
            case "reduce-scatter":
                return self._reduce_scatter(x, before.reduction, step)
            case _:
                return self._to_partial(x, step)

    def _cut_size(self, x: Instruction, d: int, axes: Axes) -> tuple[Instruction, int]:
        n = self.mesh.count(axes)
        tile = tile_size(x.shape.dims[d], n)
        return self.padded(x, d, tile * n), tile

    def _slice(self, x: Instruction, step: ReshardStep) -> Instruction:
        d = step.dimension
        x, tile = self._cut_size(x, d, step.axes)
        return self.dynamic_cut(x, d, self.offset(step.axes, tile), tile)

    def dynamic_cut(self, x: Instruction, d: int, start: Instruction, size: int) -> Instruction:
        """`size` elements of a dimension from an s32 scalar on."""
        sizes = list(x.shape.dims)
        if sizes[d] == size:
            return x
        sizes[d] = size
        zero = self.scalar(0, S32)
        starts = [start if k == d else zero for k in range(x.shape.rank)]
        return self.emit("dynamic-slice", x, *starts, dynamic_slice_sizes=tuple(sizes))

    def channel(self) -> int:
        """The next number of a channel in the module."""
        return next(self.channels)

    def all_gather(self, x: Instruction, d: int, axes: Axes) -> Instruction:
        n = self.mesh.count(axes)
        if n == 1:
            return x
        dims = list(x.shape.dims)
        dims[d] *= n
        return self.emit(
            "all-gather",
            x,
            dimensions=(d,),
            replica_groups=self.mesh.groups_of_all_replicas(axes),
            channel_id=self.channel(),
            use_global_device_ids=True,
            shape=shape(x.shape.dtype, dims),
        )

    def _gather(self, x: Instruction, of: Shape, step: ReshardStep) -> Instruction:
        d = step.dimension
        joined = self.all_gather(x, d, step.axes)
        size = tile_size(of.dims[d], self.mesh.count(step.after.dims[d]))
        return self.sliced(joined, d, 0, size)

    def _broadcast(self, x: Instruction, of: Shape, step: ReshardStep) -> Instruction:
        """The tiles of the few devices that have some, side by side."""
        d, outer = step.dimension, step.after.dims[step.dimension]
        pieces = []
        for k in range(self.array(of).holders(d, outer, step.axes)):
            groups = [(*g[k:], *g[:k]) for g in self.mesh.groups(step.axes).groups]
            pieces.append(
                self.emit(
                    "collective-broadcast",
                    x,
                    replica_groups=ReplicaGroups(tuple(groups)),
                    channel_id=self.channel(),
                    shape=x.shape,
                )
            )
        joined = self.joined(pieces, d)
        return self.sliced(joined, d, 0, tile_size(of.dims[d], self.mesh.count(outer)))

    def all_reduce(self, x: Instruction, axes: Axes, opcode: str) -> Instruction:
        if self.mesh.count(axes) == 1:
            return x
        return self.emit(
            "all-reduce",
            x,
            replica_groups=self.mesh.groups_of_all_replicas(axes),
            channel_id=self.channel(),
            use_global_device_ids=True,
            called=(self.combiner(opcode, x.shape.dtype),),
            shape=x.shape,
        )

    def _reduce_scatter(self, x: Instruction, opcode: str, step: ReshardStep) -> Instruction:
        d = step.dimension
        x, tile = self._cut_size(x, d, step.axes)
        dims = list(x.shape.dims)
        dims[d] = tile
        return self.emit(
            "reduce-scatter",
            x,
            dimensions=(d,),
            replica_groups=self.mesh.groups_of_all_replicas(step.axes),
            channel_id=self.channel(),
            use_global_device_ids=True,
            called=(self.combiner(opcode, x.shape.dtype),),
            shape=shape(x.shape.dtype, dims),
        )

    def _exchange(self, x: Instruction, of: Shape, step: ReshardStep) -> Instruction:
        """Join along one dimension, cut along another: pieces get a dimension of their own."""
        joined, cut, axes = step.dimension, step.split, step.axes
        n = self.mesh.count(axes)
        x, tile = self._cut_size(x, cut, axes)
        dims = list(x.shape.dims)
        parts = self.reshaped(x, [*dims[:cut], n, tile, *dims[cut + 1 :]])
        moved = self.emit(
            "all-to-all",
            parts,
            dimensions=(cut,),
            replica_groups=self.mesh.groups(axes),
            channel_id=self.channel(),
            shape=parts.shape,
        )
        # Piece j is that of tile j of the joined dimension: it belongs in front of that one.
        rest = [k for k in range(len(dims) + 1) if k != cut]
        at = joined if joined < cut else joined + 1
        rest.insert(rest.index(at), cut)
        turned = self.transposed(moved, rest)
        dims[cut] = tile
        dims[joined] *= n
        whole = self.reshaped(turned, dims)
        size = tile_size(of.dims[joined], self.mesh.count(step.after.dims[joined]))
        return self.sliced(whole, joined, 0, size)

    def _permute(self, x: Instruction, before: Tiling, after: Tiling, manual: Axes) -> Instruction:
        having, wanting = self.tiles(before, manual), self.tiles(after, manual)
        return self.permute(x, self.pairs(having, wanting))

    def _in_rounds(
        self, x: Instruction, before: Tiling, step: ReshardStep, manual: Axes
    ) -> Instruction:
        """An all-to-all and a permute at once: in each round every device sends a piece to where
        both together bring it, and puts what came in the order of its senders."""
        assert step.via is not None
        mesh, tiles = self.mesh, self.tiles
        n, index = mesh.count(step.axes), mesh.indices(step.axes)
        members = {device: g for g in mesh.groups(step.axes).groups for device in g}
        # Devices hand tiles on before the all-to-all or behind it; the other way is that to itself.
        is_first = len(step.via.dims[step.dimension]) > len(step.after.dims[step.dimension])
        ends = (before, step.via) if is_first else (step.via, step.after)
        handed = {to: source for source, to in self.pairs(*[tiles(t, manual) for t in ends])}
        to_self = {device: device for device in handed}
        came, goes = (handed, to_self) if is_first else (to_self, handed)
        tile = x.shape.dims[step.split] // n
        pieces = []
        for r in range(n):
            senders = {to: came[members[at][(index[at] + r) % n]] for to, at in goes.items()}
            number = {source: index[goes[to]] for to, source in senders.items()}
            begins = [number[device] * tile for device in range(mesh.device_count)]
            piece = self.dynamic_cut(x, step.split, self.of_device(begins), tile)
            pairs = sorted([(source, to) for to, source in senders.items()])
            pieces.append(self.permute(piece, pairs))
        size = x.shape.dims[step.dimension]
        turned = self.joined(pieces + pieces[:-1], step.dimension)
        begins = [-index[goes[device]] % n * size for device in range(mesh.device_count)]
        return self.dynamic_cut(turned, step.dimension, self.of_device(begins), n * size)

    def permute(self, x: Instruction, pairs: Sequence[tuple[int, int]]) -> Instruction:
        """Every pair's second device gets what its first one has, the others zeros: from where it
        was first, if it has only been handed on until then."""
        while _is_handed_on(x):
            pairs = composed(x.attrs.source_target_pairs, tuple(pairs))
            (x,) = x.operands
        if all(a == b for a, b in pairs) and len(pairs) == self.mesh.device_count:
            return x
        return self.emit(
            "collective-permute",
            x,
            source_target_pairs=tuple(pairs),
            channel_id=self.channel(),
            shape=x.shape,
        )

    @staticmethod
    def pairs(
        having: Sequence[tuple[int, ...]], wanting: Sequence[tuple[int, ...]]
    ) -> list[tuple[int, int]]:
        """Who gives each device the tile that it is to have; itself where it has it."""
        free: dict[tuple[int, ...], list[int]] = {}
        for device, tile in enumerate(having):
            if wanting[device] != tile:
                free.setdefault(tile, []).append(device)
        pairs = []
        for device, tile in enumerate(wanting):
            source = device if having[device] == tile else free[tile].pop(0)
            pairs.append((source, device))
        return sorted(pairs)

    def tiles(self, t: Tiling, manual: Axes = ()) -> list[tuple[int, ...]]:
        """The tile that each device holds, behind it its place along manual axes."""
        lists = [*t.dims, manual] if manual else t.dims
        numbers = list(zip(*[self.mesh.indices(axes) for axes in lists]))
        return numbers or [()] * self.mesh.device_count

    def all_gather_of_all(self, x: Instruction, order: Sequence[int]) -> Instruction:
        """The rows of all devices in an order."""
        n, replicas = self.mesh.device_count, self.mesh.replicas
        groups = tuple([tuple([r * n + d for d in order]) for r in range(replicas)])
        return self.emit(
            "all-gather",
            x,
            dimensions=(0,),
            replica_groups=ReplicaGroups(groups),
            channel_id=self.channel(),
            use_global_device_ids=True,
            shape=shape(x.shape.dtype, (n, *x.shape.dims[1:])),
        )

    def _to_partial(self, x: Instruction, step: ReshardStep) -> Instruction:
        """The whole value on the first of the devices, what changes nothing on the others."""
        first = self.of_device([int(k == 0) for k in self.mesh.indices(step.axes)])
        here = self.spread(self.compared(first, self.scalar(1, S32), "EQ"), x.shape.dims)
        neutral = neutral_number(step.after.reduction, x.shape.dtype)
        return self.select(here, x, self.full(neutral, x.shape.dtype, x.shape.dims))


def neutral_number(opcode: str, dtype: DType) -> int | float | complex:
    """What changes nothing under a reduction. Under a sum of floats that is -0: 0 would make 0 of
    -0."""
    if opcode == "add" and dtype.is_complex:
        return complex(-0.0, -0.0)
    if opcode == "add" and dtype.is_floating:
        return -0.0 if dtype.is_signed else zero(dtype)
    if opcode in ("add", "or", "xor"):
        return zero(dtype)
    if opcode == "multiply":
        return 1
    if opcode == "and":
        return True if dtype is PRED else -1 if dtype.is_signed else max_value(dtype)
    if dtype is PRED:
        return opcode == "minimum"
    return min_value(dtype) if opcode == "maximum" else max_value(dtype)


def _is_handed_on(x: Instruction) -> bool:
    """Whether it is what another partition had, and nothing else."""
    is_permute = x.opcode == "collective-permute" and not x.attrs.slice_sizes
    return is_permute and len(x.operands) == 1 and group_mode(x.attrs) == CROSS_PARTITION
