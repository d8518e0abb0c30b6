"""What is not only a value: feeds, random numbers with a state, what one device does for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.expand.rng_expander import Words, drawn, key_of
from hloom.passes.partition.partitioner import (
    Walk,
    as_it_is,
    nothing_cut,
    partitions,
    refused,
)
from hloom.passes.partition.reshard import Emitter
from hloom.passes.partition.tiling import Tiling
from hloom.passes.partition.value import TiledValue
from hloom.rewrite.build import RuleBuilder
from hloom.types.dtype import S32, U64, DType, dtype
from hloom.types.shape import Shape


def only_device(i: Instruction) -> int | None:
    """The one device that is to run an instruction, by its sharding."""
    s = i.sharding
    if s is None:
        return None
    devices = {e.tiled().device for e in (s.elements if s.is_tuple else (s,))}
    return devices.pop() if len(devices) == 1 else None


@partitions("infeed")
def infeed(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """Every device reads its part from its own queue, or the one that it is given to reads all."""
    if i.sharding is None:
        raise refused(i, _UNSAID, "give it a sharding for all devices: each reads its part")
    if only_device(i) is not None:
        return on_one_device(walk, i)
    tilings = _evenly(walk, i, i.sharding, i.shape)
    shape = walk.local_shape(i.shape, tilings)
    fed = walk.b.emit_like(i, [walk.whole(i.operands[0])], shape)
    return walk.results(i, fed, tilings)


@partitions("outfeed")
def outfeed(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """Every device writes its part to its own queue, or the one that it is given to writes all."""
    if i.sharding is None:
        raise refused(i, _UNSAID, "give it a sharding for all devices: each writes its part")
    if only_device(i) is not None:
        return on_one_device(walk, i)
    data = i.operands[0]
    tilings = _evenly(walk, i, i.sharding, data.shape)
    parts = [v.get(t) for v, t in zip(walk.values[data], tilings, strict=True)]
    part = walk.tuple_of(data.shape, iter(parts))
    changed = {}
    if getattr(i.attrs, "outfeed_shape", None) is not None:
        changed["outfeed_shape"] = walk.local_shape(i.attrs.outfeed_shape, tilings)
    fed = walk.b.emit_like(i, [part, walk.whole(i.operands[1])], i.shape, **changed)
    return walk.results(i, fed, [nothing_cut(i.shape)])


_UNSAID = "nothing says which part of the data is whose"


def _evenly(walk: Walk, i: Instruction, sharding, shape: Shape) -> list[Tiling]:
    """How the leaves of data stand by a sharding, which cuts them into equal parts."""
    tilings = []
    for leaf, t in zip(shape.leaves(), walk.of.tilings(sharding, shape)):  # without the token
        if t is None or t.partial:
            raise refused(i, "its sharding is not one of all that it feeds")
        for n, axes in zip(leaf.dims if leaf.is_array else (), t.dims):
            if n % walk.mesh.count(axes):
                raise refused(i, f"{n} elements are not the same number for each device")
        tilings.append(t)
    return tilings


@partitions("rng", "rng-get-and-update-state")
def random(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """Every device draws, and takes what the first one has drawn: all have the same numbers. Where
    tiles are drawn by themselves, one that is cut draws its own."""
    b = walk.b
    axes = frozenset(walk.mesh.axes) - walk.region
    (want,) = walk.wanted(i)
    if walk.of.draws_tiles and i.opcode == "rng" and want is not None and any(want.dims):
        want = want.whole()
        words = TileWords(b, key_of(next(walk.of.random_keys)), tuple(sorted(want.used)), axes)
        bounds = [walk.whole(x) for x in i.operands]
        part = drawn(b, i, walk.local_shape(i.shape, [want]), bounds, words)
        return [walk.result(i.shape, want, part, want)]
    (whole,) = as_it_is(walk, i)
    part = everywhere(b, whole.whole(), 0, axes)
    return [walk.result(i.shape, nothing_cut(i.shape), part, want)]


@dataclass(frozen=True)
class TileWords(Words):
    """Random bits of one tile: the state is that of the first device, whose 16 bytes all others
    get, and each tile has a key of its own."""

    b: Emitter
    tiles: tuple[int, ...]
    """The axes along which tiles differ."""
    axes: frozenset[int]

    def state(self, blocks: int) -> Instruction:
        return everywhere(self.b, super().state(blocks), 0, self.axes)

    def key_here(self) -> Instruction:
        tile = self.b.converted(self.b.of_device(self.b.mesh.indices(self.tiles)), U64)
        return self.b.add(super().key_here(), tile)


def everywhere(b: Emitter, x: Instruction, device: int, axes: frozenset[int]) -> Instruction:
    """What one device has, bit for bit: all others have zeros, and the bits are or-ed. Devices
    that differ along other axes have one of their own."""
    own = x.shape.dtype
    if own.is_complex:
        real, imaginary = [everywhere(b, b.emit(o, x), device, axes) for o in ("real", "imag")]
        return b.emit("complex", real, imaginary)
    bits = _bits_type(own)
    if bits is not own:
        x = b.emit("bitcast-convert", x, shape=x.shape.with_dtype(bits))
    first = b.of_device([int(is_it) for is_it in _placed_as(b, device, axes)])
    here = b.spread(b.compared(first, b.scalar(1, S32), "EQ"), x.shape.dims)
    x = b.select(here, x, b.spread(b.zero(bits), x.shape.dims))
    x = b.all_reduce(x, tuple(sorted(axes)), "or")
    return x if bits is own else b.emit("bitcast-convert", x, shape=x.shape.with_dtype(own))


def _placed_as(b: Emitter, device: int, axes: frozenset[int]) -> list[bool]:
    """Of each device whether it is where that one is along some axes."""
    numbers = b.mesh.indices(tuple(sorted(axes)))
    return [n == numbers[device] for n in numbers]


def _bits_type(of: DType) -> DType:
    return dtype(f"u{of.bits}") if of.is_floating else of


def on_one_device(walk: Walk, i: Instruction) -> list[TiledValue]:
    """One device does it, inside of a conditional, and all get its result: the one that its
    sharding names, else the first one of each place along manual axes. Tokens go through the
    conditional on every device."""
    device = only_device(i) or 0
    leaves = [leaf for s in (*(x.shape for x in i.operands), i.shape) for leaf in s.leaves()]
    if any(not leaf.is_token and (not leaf.is_array or leaf.is_dynamic) for leaf in leaves):
        raise refused(i, "one device is to run it, and it has run-time sizes")
    if not 0 <= device < walk.mesh.device_count:
        raise refused(i, f"there is no device {device}")
    b = walk.b
    bundle = b.tuple(*[walk.whole(x) for x in i.operands])
    branches = (_calling(walk, i, bundle.shape), _giving_zeros(walk, i, bundle.shape))
    axes = frozenset(walk.mesh.axes) - walk.region
    index = b.of_device([int(not is_it) for is_it in _placed_as(b, device, axes)])
    call = b.emit("conditional", index, bundle, bundle, called=branches, shape=i.shape)
    values = walk.results(i, call, [nothing_cut(s) for s in i.shape.leaves()])
    return [
        v
        if v.shape.is_token
        else walk.result(v.shape, nothing_cut(v.shape), everywhere(b, v.whole(), device, axes), w)
        for v, w in zip(values, walk.wanted(i))
    ]


def _calling(walk: Walk, i: Instruction, shape: Shape) -> Computation:
    c = walk.of.module.add_computation(f"{i.name}.here")
    b = RuleBuilder(c)
    p = b.emit("parameter", number=0, name="p", shape=shape)
    parts = [b.emit("get-tuple-element", p, index=k) for k in range(len(i.operands))]
    c.root = c.append(i.opcode, i.attrs, tuple(parts), i.shape, i.name, i.called)
    c.root.backend_config, c.root.metadata = i.backend_config, i.metadata
    c.root.frontend_attributes = i.frontend_attributes
    return c


def _giving_zeros(walk: Walk, i: Instruction, shape: Shape) -> Computation:
    c = walk.of.module.add_computation(f"{i.name}.elsewhere")
    b = Emitter(c, walk.of.combiners)
    b.emit("parameter", number=0, name="p", shape=shape)

    def zeros(s: Shape) -> Instruction:
        if s.is_tuple:
            return b.tuple(*[zeros(e) for e in s.elements])
        if s.is_token:
            return b.emit("after-all")
        return b.spread(b.zero(s.dtype), s.dims)

    c.root = zeros(i.shape)
    return c
