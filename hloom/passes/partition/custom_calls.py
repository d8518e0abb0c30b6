"""Custom calls: the borders of regions that the program cuts by itself, annotations, and the rest,
which is computed whole, or by one device where its sharding says so or it has effects."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.ir.values.sharding import Sharding
from hloom.ir.values.sharding_sdy import BARRIER
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.boundary import alike, entered, left
from hloom.passes.partition.effects import on_one_device, only_device
from hloom.passes.partition.partitioner import (
    Walk,
    as_it_is,
    partitions,
    refused,
    replicated,
)
from hloom.passes.partition.tiling import Axes, Tiling
from hloom.passes.partition.value import TiledValue
from hloom.passes.sharding.factors import batch_dimensions
from hloom.types.shape import Shape

ANNOTATIONS = ("Sharding", "AssumeGatherIndicesInBound", BARRIER, "xla.sdy.FuncResultSharding")
"""Targets whose result is their operand."""
PLACED = ("annotate_device_placement", "MoveToHost", "MoveToDevice", "LayoutConstraint")
"""Targets whose result is their operand, elsewhere or otherwise stored."""


@partitions("custom-call")
def custom_call(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    target = i.attrs.custom_call_target
    if target == "SPMDFullToShardShape":
        return [_into_region(walk, i)]
    if target == "SPMDShardToFullShape":
        return [_out_of_region(walk, i)]
    if target in ANNOTATIONS and len(i.operands) == 1 and i.shape.is_array:
        (want,) = walk.wanted(i)
        x = walk.value(i.operands[0])
        return [x.seen(want) if walk.region <= set(x.manual) else _same_at_all(walk, i, x, want)]
    if walk.region == set(walk.mesh.axes):
        return as_it_is(walk, i)
    if i.has_side_effect or (only_device(i) is not None and not walk.region):
        return on_one_device(walk, i)
    if target in PLACED and len(i.operands) == 1 and i.shape.is_array and not i.shape.is_dynamic:
        return by_factors(walk, i, Loops.pointwise([i.operands[0].shape], [i.shape]))
    if batch_dimensions(i):
        return _batched(walk, i)
    return replicated(walk, i, f"nothing says how {target} is cut")


def _batched(walk: Walk, i: Instruction) -> list[TiledValue]:
    """Each device calls for its part of the batches."""
    f = Loops.of(i)

    def emit(parts: list[Instruction], chosen: Chosen) -> list[Instruction]:
        changed = {}
        if i.attrs.operand_layout_constraints is not None:
            changed["operand_layout_constraints"] = tuple(
                [
                    s.with_dims(x.shape.dims)
                    for s, x in zip(i.attrs.operand_layout_constraints, parts, strict=True)
                ]
            )
        shape = walk.local_shape(i.shape, chosen.results)
        call = walk.b.emit_like(i, parts, shape, **changed)
        if not i.shape.is_tuple:
            return [call]
        return [walk.b.element(call, k) for k in range(len(i.shape.elements))]

    return by_factors(walk, i, f, emit)


def _same_at_all(walk: Walk, i: Instruction, x: TiledValue, want: Tiling | None) -> TiledValue:
    """A value that depends on nothing of the region it is said to be in, at each of its places."""
    own = x.primary.whole().without(walk.region)
    return walk.result(i.shape, own, x.get(own), want)


def _border(walk: Walk, i: Instruction) -> tuple[TiledValue, frozenset[int], frozenset[int]]:
    """The operand, and the manual axes before and behind."""
    x = walk.value(i.operands[0])
    said = walk.mesh.manual_axes(i.sharding)
    if said is None:
        raise refused(i, "its manual axes are not axes of the other shardings")
    return x, frozenset(x.manual), frozenset(said)


def _cut_along(
    walk: Walk, i: Instruction, t: Tiling, axes: frozenset[int], dims: Sequence[tuple[int, int]]
) -> list[Axes]:
    """Of each dimension those of its axes in a set; they must cut the whole size, which stands
    in front, into parts of the other."""
    kept = [tuple([a for a in own if a in axes]) for own in t.dims]
    for d, (own, (whole, part)) in enumerate(zip(kept, dims)):
        if part * walk.mesh.count(own) != whole:
            raise refused(
                i,
                f"dimension {d} is {whole} outside and {part} inside of the region, where its "
                f"sharding cuts it along {walk.mesh.count(own)} devices",
                "the sharding of the whole array (of the Sharding call before it, or its own) has "
                "to cut it evenly along the manual axes",
            )
    return kept


def _of_no_axes(walk: Walk, x: Instruction) -> Sharding | None:
    """The sharding of an array that does not count by the axes of the mesh; None: it does."""
    if x.sharding is None or None not in walk.of.tilings(x.sharding, x.shape):
        return None
    return x.sharding.tiled()


def _handed_on(
    walk: Walk, i: Instruction, said: Sharding, shapes: tuple[Shape, Shape], new: frozenset[int]
) -> Tiling:
    """A tiling from or to which the tiles of such a sharding are handed on at a border, where it
    cuts the whole shape, which stands in front, into the other."""
    whole, part = shapes
    if said.kind != "tiled" or new != set(walk.mesh.axes):
        raise refused(i, "its sharding does not count by the axes of the others")
    if said.tile_sizes(whole.dims) != part.dims:
        raise refused(i, f"{whole} outside is {part} inside of the region, and cut as {said.text}")
    return alike(walk.mesh, said)


def _within(walk: Walk, of: Shape, own: list[Axes], rest: Sequence[Axes]) -> list[Axes]:
    """The axes behind manual ones, where the parts of a region are cut into whole tiles: uneven
    ones reach into the next part when they are counted over the whole array."""
    array = walk.b.array(of)
    return [b if array.divides(d, a, b) else () for d, (a, b) in enumerate(zip(own, rest))]


def _into_region(walk: Walk, i: Instruction) -> TiledValue:
    """Each device goes on with the part that it has: manual axes cut before all others."""
    x, before, behind = _border(walk, i)
    new = behind - before
    if not new:
        raise refused(i, "its sharding names no axes to cut along by hand", "sharding={manual}")
    said = _of_no_axes(walk, i.operands[0])
    if said is not None:
        own = _handed_on(walk, i, said, (x.shape, i.shape), new)
        walk.region = behind
        (want,) = walk.wanted(i)
        whole = Tiling.replicated(i.shape.rank)
        return walk.result(i.shape, whole, left(walk.b, x.get(own), said, x.shape, own), want)
    t = x.primary.whole()
    pairs = list(zip(x.shape.dims, i.shape.dims))
    own = _cut_along(walk, i, t, new, pairs)
    rest = _within(
        walk, x.shape, own, [tuple([a for a in axes if a not in new]) for axes in t.dims]
    )
    part = x.get(Tiling(tuple([a + b for a, b in zip(own, rest)])))
    walk.region = before | new
    (want,) = walk.wanted(i)
    return walk.result(i.shape, Tiling(tuple(rest)), part, want)


def _out_of_region(walk: Walk, i: Instruction) -> TiledValue:
    """The parts of all devices are the whole, cut as the result's sharding says."""
    x, before, behind = _border(walk, i)
    old = before - behind
    if not old:
        raise refused(
            i,
            "its operand is not in a region that the program cuts by itself",
            "it belongs to a value that comes from SPMDFullToShardShape",
        )
    said = _of_no_axes(walk, i)
    if said is not None:
        own = _handed_on(walk, i, said, (i.shape, x.shape), old)
        part = x.get(Tiling.replicated(i.shape.rank))
        walk.region = behind
        return walk.result(i.shape, own, entered(walk.b, part, said, i.shape, own), own)
    walk.region = behind
    (want,) = walk.of.tilings(i.sharding, i.shape)
    want = want or Tiling.replicated(i.shape.rank)
    pairs = list(zip(i.shape.dims, x.shape.dims))
    own = _cut_along(walk, i, want, old, pairs)
    inner = Tiling(tuple(_within(walk, i.shape, own, x.primary.dims)))
    part = x.get(inner)
    outer = Tiling(tuple([a + b for a, b in zip(own, inner.dims)]))
    return walk.result(i.shape, outer, part, want)
