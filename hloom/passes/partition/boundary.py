"""Arguments and results whose shardings count by other axes than the mesh of the module.

Where the mesh has axes for as many tiles in each dimension, tiles are handed on to the devices that
have them there (one collective-permute). Else arguments are gathered, and results cut from what
every device has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import prod

from hloom.base.diagnostics import UnsupportedError
from hloom.ir.instruction import Instruction
from hloom.ir.values.sharding import Sharding
from hloom.passes.partition.device_mesh import DeviceMesh
from hloom.passes.partition.reshard import Emitter
from hloom.passes.partition.tiling import Axes, Tiling
from hloom.types.shape import Shape

MOST_ALIKE = 8
"""So many tilings are compared."""


def alike(mesh: DeviceMesh, s: Sharding) -> Tiling:
    """A tiling with as many tiles in each dimension; the replicated one where there is none."""
    return all_alike(mesh, s)[0]


def all_alike(mesh: DeviceMesh, s: Sharding) -> list[Tiling]:
    """Those tilings, as far as they are compared."""
    counts = s.tile_dims[: s.data_rank]

    def assigned(k: int, free: tuple[int, ...]) -> Iterator[list[Axes]]:
        if k == len(counts):
            yield []
            return
        for axes in _products(mesh, free, counts[k]):
            for rest in assigned(k + 1, tuple([a for a in free if a not in axes])):
                yield [axes, *rest]

    if "manual" in s.subgroup_types:
        return [Tiling.replicated(len(counts))]
    tilings = [Tiling(tuple(dims)) for dims in islice(assigned(0, tuple(mesh.axes)), MOST_ALIKE)]
    return tilings or [Tiling.replicated(len(counts))]


def _products(mesh: DeviceMesh, free: tuple[int, ...], count: int) -> Iterator[Axes]:
    if count == 1:
        yield ()
        return
    for k, a in enumerate(free):
        if mesh.sizes[a] > 1 and count % mesh.sizes[a] == 0:
            for rest in _products(mesh, free[k + 1 :], count // mesh.sizes[a]):
                yield (a, *rest)


def tiles_of(s: Sharding, devices: int) -> list[tuple[int, ...]]:
    """The tile of each device; `UnsupportedError` where a device has none, or a tile no device."""
    try:
        tiles = [s.tile_index(d) for d in range(devices)]
    except ValueError as error:
        raise UnsupportedError(
            f"a sharding of the entry leaves devices out, of which there are {devices}: {error}",
            rule="partition",
            hint="give arguments and results of the program a part on every device",
        ) from error
    if len(set(tiles)) < prod(s.tile_dims[: len(tiles[0])]):
        raise UnsupportedError(
            f"a sharding of the entry, {s.text}, has more tiles than there are devices, {devices}",
            rule="partition",
            hint="set num_partitions to the number of devices that shardings are for",
        )
    return tiles


def entered(b: Emitter, part: Instruction, s: Sharding, of: Shape, t: Tiling) -> Instruction:
    """The part under a tiling (that of `alike`) of what devices hold under a sharding."""
    n = b.mesh.device_count
    if not t.is_replicated:
        return b.permute(part, b.pairs(tiles_of(s, n), b.tiles(t)))
    counts, sizes = s.tile_dims[: of.rank], part.shape.dims
    order = _in_tile_order(s, n)
    rows = b.all_gather_of_all(b.reshaped(part, (1, *sizes)), order)
    kept = b.sliced(rows, 0, 0, prod(counts))
    apart = b.reshaped(kept, (*counts, *sizes))
    turned = b.transposed(apart, [x for k in range(of.rank) for x in (k, of.rank + k)])
    whole = b.reshaped(turned, [c * m for c, m in zip(counts, sizes)])
    return b.cut(whole, [(0, m, 1) for m in of.dims])


def _in_tile_order(s: Sharding, devices: int) -> list[int]:
    """All devices, such that those in front hold the tiles in order."""
    by_tile: dict[tuple[int, ...], list[int]] = {}
    for d, tile in enumerate(tiles_of(s, devices)):
        by_tile.setdefault(tile, []).append(d)
    columns = [by_tile[tile] for tile in sorted(by_tile)]
    return [column[k] for k in range(len(columns[0])) for column in columns]


def left(b: Emitter, part: Instruction, s: Sharding, of: Shape, t: Tiling) -> Instruction:
    """What devices hold under a sharding, of the part under a tiling (that of `alike`)."""
    n = b.mesh.device_count
    if not t.is_replicated:
        return b.permute(part, b.pairs(b.tiles(t), tiles_of(s, n)))
    tiles, sizes = tiles_of(s, n), s.tile_sizes(of.dims)
    for k, size in enumerate(sizes):
        part = b.padded(part, k, size * s.tile_dims[k])
    starts = [b.of_device([tile[k] * size for tile in tiles]) for k, size in enumerate(sizes)]
    if not starts or sizes == part.shape.dims:
        return part
    return b.emit("dynamic-slice", part, *starts, dynamic_slice_sizes=tuple(sizes))


Moved = Callable[[Emitter, Instruction, Sharding, Shape, Tiling], Instruction]


def moved_leaves(
    b: Emitter,
    x: Instruction,
    of: Shape,
    shardings: Sequence[tuple[Sharding | None, Tiling]],
    move: Moved,
) -> Instruction:
    """`x` with those leaves that have a sharding here moved over the boundary."""
    left_over = iter(shardings)

    def walk(part: Instruction, s: Shape) -> Instruction:
        if s.is_tuple:
            return b.tuple(*[walk(b.element(part, k), e) for k, e in enumerate(s.elements)])
        sharding, t = next(left_over)
        return part if sharding is None else move(b, part, sharding, s, t)

    return walk(x, of)
