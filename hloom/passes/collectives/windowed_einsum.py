"""Products of what is gathered, and products that are scattered, as loops that communicate while
they multiply (collective matmul).

Devices of a group stand in a ring. Of a gathered operand each device multiplies the shard that it
has while it hands that on, and so all of them come past. What is summed and scattered is computed
tile by tile: a sum goes round, each device adds its product for the tile, and it arrives where it
belongs. Shards of even size go round in two halves, one each way, since links carry both ways at
once. There are as many bytes as before, n - 1 shards a device, and the products of all steps but
one hide them.

It pays where a step's product takes as long as its permute, and is still large enough to be
efficient: with `device` the times of that device decide, else the bytes of what is gathered or
scattered.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.device.ids import GlobalDeviceId
from hloom.device.known import device_named
from hloom.device.timing import collective_ns, kernel_ns
from hloom.device.topology import alike
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.values.group_modes import Groups, group_mode
from hloom.passes.collectives.dot_parts import (
    dot_of_parts,
    free_dimensions,
    is_number,
    operand_dimensions,
    sum_type,
)
from hloom.passes.collectives.exchanged_dots import dot_of_exchanged, exchanged_dot
from hloom.passes.collectives.groups import (
    devices_of,
    group_size,
    is_plain,
    module_of,
    reduction_of,
    sole_reader,
)
from hloom.passes.collectives.own_entry import place_in_group
from hloom.passes.collectives.pairs import pairs_in_mode
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.loops import State, counted_loop, rows_from, with_rows
from hloom.passes.pass_ import register
from hloom.types.dtype import S32

MIB = 1 << 20


@register
class WindowedEinsum(Expander):
    """Replace dots of an all-gather, and reduce-scatters of a dot, by loops of permutes and
    dots."""

    name = "windowed-einsum"
    opcodes = frozenset(["dot", "reduce-scatter", "all-to-all"])

    least_mib: int = 100_000
    """What is gathered, or scattered, has to have more than so many MiB, where no device is named
    (or 0 of any size)."""
    device: str = ""
    """A known device whose times decide instead."""
    bidirectional: bool = True
    """Send halves both ways round."""
    all_to_all: bool = False
    """Cut dots of an all-to-all, and all-to-alls of a dot, into as many as there are devices."""

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.opcode == "reduce-scatter":
            return self._scattered(b, i)
        if i.opcode == "all-to-all":
            return exchanged_dot(b, i) if self.all_to_all else None
        for side, x in enumerate(i.operands):
            if x.opcode == "all-gather" and i.operands[1 - side] is not x and sole_reader(x) is i:
                new = self._gathered(b, i, side, x)
                if new is not None:
                    return new
            new = dot_of_exchanged(b, i, side) if self.all_to_all else None
            if new is not None:
                return new
        return None

    def _gathered(
        self, b: Expansion, i: Instruction, side: int, gather: Instruction
    ) -> Instruction | None:
        ring = _Ring.of(gather)
        (d,) = gather.attrs.dimensions
        if ring is None or not is_number(i) or not is_plain(gather):
            return None
        (x,) = gather.operands
        if not self._pays(ring, i, gather.shape.size_bytes):
            return None
        tile, role = x.shape.dims[d], _Role.of(i, side, d)
        other, place = i.operands[1 - side], place_in_group(b, ring.groups)
        ways = self._ways(tile)
        total = sum_type(i.shape.dtype) if role.out is None else i.shape.dtype
        pieces = [b.sliced(x, d, w.start, w.start + w.size) for w in ways]

        def added(b: Expansion, k: Instruction, state: State, fixed: State) -> Instruction:
            result, (y, me) = state[0], fixed
            for w, piece in zip(ways, state[1:]):
                at = ring.begin(b, me, k, -w.direction, tile, w.start)
                operands = [piece, y]
                if role.other is not None:
                    operands[1] = rows_from(b, y, role.other, at, w.size)
                part = dot_of_parts(b, i, operands if side == 0 else operands[::-1], total)
                if role.out is None:
                    result = b.add(result, part)
                else:
                    result = with_rows(b, result, part, role.out, at)
            return result

        def step(b: Expansion, k: Instruction, state: State, fixed: State) -> State:
            moved = [ring.passed_on(b, p, w.direction) for w, p in zip(ways, state[1:])]
            return [added(b, k, state, fixed), *moved]

        start = [b.full(0, total, i.shape.dims), *pieces]
        trips = b.scalar(ring.count - 1, S32)
        state = counted_loop(b, "windowed_einsum", trips, start, [other, place], step)
        # Nothing else reads what was gathered, and a collective is removed by whom makes it so.
        i.set_operands((x, other) if side == 0 else (other, x))
        i.parent.erase(gather)
        return b.converted(added(b, trips, state, [other, place]), i.shape.dtype)

    def _scattered(self, b: Expansion, i: Instruction) -> Instruction | None:
        ring = _Ring.of(i)
        dot = i.operands[0]
        if ring is None or dot.opcode != "dot" or sole_reader(dot) is not i or not is_plain(i):
            return None
        if reduction_of(i) != "add" or not is_number(dot) or i.shape.dtype is not dot.shape.dtype:
            return None
        if not self._pays(ring, dot, dot.shape.size_bytes):
            return None
        (o,) = i.attrs.dimensions
        tile = i.shape.dims[o]
        cuts = operand_dimensions(dot, o)
        operands, place = list(dot.operands), place_in_group(b, ring.groups)
        ways, n = self._ways(tile), ring.count

        def part(b: Expansion, k: Instruction, w: _Way, fixed: State) -> Instruction:
            *sides, me = fixed
            # The sum is as many hops from its tile as steps are left.
            left = b.subtract(b.scalar(n - 1, S32), k)
            at = ring.begin(b, me, left, w.direction, tile, w.start)
            for side, d in cuts:
                sides[side] = rows_from(b, sides[side], d, at, w.size)
            return dot_of_parts(b, dot, sides, dot.shape.dtype)

        def step(b: Expansion, k: Instruction, state: State, fixed: State) -> State:
            after = b.add(k, b.scalar(1, S32))
            moved = [ring.passed_on(b, s, w.direction) for w, s in zip(ways, state)]
            return [b.add(s, part(b, after, w, fixed)) for w, s in zip(ways, moved)]

        fixed = [*operands, place]
        start = [part(b, b.scalar(0, S32), w, fixed) for w in ways]
        trips = b.scalar(n - 1, S32)
        return b.joined(counted_loop(b, "windowed_einsum", trips, start, fixed, step), o)

    def _ways(self, tile: int) -> list[_Way]:
        """What goes which way round."""
        if self.bidirectional and tile % 2 == 0 and tile:
            half = tile // 2
            return [_Way(1, 0, half), _Way(-1, half, half)]
        return [_Way(1, 0, tile)]

    def _pays(self, ring: _Ring, dot: Instruction, size_bytes: int) -> bool:
        if not self.device:
            return not self.least_mib or size_bytes > self.least_mib * MIB
        before, after = before_and_after_ns(self.device, ring.groups[0], dot, size_bytes)
        return after < before


def before_and_after_ns(
    device: str, members: Sequence[int], dot: Instruction, size_bytes: int
) -> tuple[float, float]:
    """What a product takes with its all-gather or reduce-scatter of so many bytes, one after the
    other, and as a loop, on devices of a known kind."""
    kind, n = device_named(device), len(members)
    topology = alike(kind, max(members) + 1)
    ids = [GlobalDeviceId(d) for d in members]
    depth = prod([dot.operands[0].shape.dims[d] for d in dot.attrs.lhs_contracting_dims])
    flops = 2.0 * dot.shape.size * depth
    moved = {0: float(sum([v.shape.size_bytes for v in (*dot.operands, dot)]))}
    name = dot.shape.dtype.name
    whole = kernel_ns(kind, flops, moved, name, matrix=True)
    # The other operand is read in each step.
    fixed = moved[0] - size_bytes
    each = {0: size_bytes / n + fixed}
    one = kernel_ns(kind, flops / n, each, name, matrix=True)
    apart = collective_ns(topology, ids, float(size_bytes), "all-gather")
    hop = collective_ns(topology, ids[:2], size_bytes / n, "permute")
    return apart + whole, (n - 1) * max(one, hop) + one


class _Way:
    """A part of each shard: which way it goes, where in the shard it begins, how long it is."""

    def __init__(self, direction: int, start: int, size: int) -> None:
        self.direction, self.start, self.size = direction, start, size


class _Ring:
    """The groups of a collective as rings."""

    def __init__(self, i: Instruction, groups: Groups, count: int, pairs: dict) -> None:
        self.groups, self.count, self.pairs = groups, count, pairs
        channel = i.attrs.channel_id
        self.channels = {1: channel, -1: channel and _next_channel(module_of(i))}

    @staticmethod
    def of(i: Instruction) -> _Ring | None:
        """None where permutes cannot say it."""
        groups = devices_of(i)
        count = group_size(groups) if groups is not None else None
        if groups is None or count is None or count < 2:
            return None
        mode = group_mode(OPS["collective-permute"].attrs(channel_id=i.attrs.channel_id))
        pairs = {}
        for way in (1, -1):
            hops = tuple([(g[k], g[(k + way) % count]) for g in groups for k in range(count)])
            pairs[way] = pairs_in_mode(hops, mode, module_of(i))
        return None if None in pairs.values() else _Ring(i, groups, count, pairs)

    def passed_on(self, b: Expansion, x: Instruction, way: int) -> Instruction:
        """What the neighbour against the way had."""
        return b.emit(
            "collective-permute",
            x,
            channel_id=self.channels[way],
            source_target_pairs=self.pairs[way],
            shape=x.shape,
        )

    def begin(
        self, b: Expansion, place: Instruction, k: Instruction, way: int, tile: int, start: int
    ) -> Instruction:
        """Where the tile of the device k hops on begins, and `start` behind it."""
        n = b.scalar(self.count, S32)
        hops = k if way > 0 else b.subtract(n, k)
        index = b.emit("remainder", b.add(place, hops), n)
        at = b.multiply(index, b.scalar(tile, S32))
        return b.add(at, b.scalar(start, S32))


def _next_channel(module: Module) -> int:
    used = [getattr(i.attrs, "channel_id", None) or 0 for i in module.instructions()]
    return max(used) + 1


class _Role:
    """What a dimension of an operand is to a dot: a dimension of the other operand, of the result,
    or of both."""

    def __init__(self, other: int | None, out: int | None) -> None:
        self.other, self.out = other, out

    @staticmethod
    def of(dot: Instruction, side: int, d: int) -> _Role:
        a = dot.attrs
        batch = (a.lhs_batch_dims, a.rhs_batch_dims)
        depth = (a.lhs_contracting_dims, a.rhs_contracting_dims)
        if d in batch[side]:
            k = batch[side].index(d)
            return _Role(batch[1 - side][k], k)
        if d in depth[side]:
            return _Role(depth[1 - side][depth[side].index(d)], None)
        return _Role(None, free_dimensions(dot, side)[d])
