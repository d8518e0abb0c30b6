"""Effects of a program that every device computes whole: each is still had once, in its order.

One device of those that compute alike has the effect, inside of a conditional, and hands its result
to the others: the one that a sharding names, else the first. Feeds whose sharding cuts them stay
cut: each device reads and writes the parts of its own queue. Regions that the program cuts along
all axes have their effects on every device, as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hloom.base.diagnostics import UnsupportedError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import (
    ASYNC_CHAIN,
    COLLECTIVE,
    CONTROL_FLOW,
    DEVICE_ID,
    HOST,
    SIDE_EFFECT,
    TRANSFER,
)  # fmt: skip
from hloom.ir.values.groups import ReplicaGroups
from hloom.ir.values.sharding import Sharding
from hloom.passes.control.flatten_call_graph import FlattenCallGraph
from hloom.passes.expand.async_simplifier import AsyncSimplifier
from hloom.passes.expand.defuser import Defuser
from hloom.passes.partition.effects import only_device
from hloom.passes.partition.region_places import Places, RegionPlaces
from hloom.rewrite.build import RuleBuilder
from hloom.types.dtype import S32
from hloom.types.shape import Shape, shape, tuple_shape

if TYPE_CHECKING:
    from hloom.passes.partition.computed_whole import WholeEdges

MEETING = opcodes(COLLECTIVE, DEVICE_ID)
ONCE = opcodes(SIDE_EFFECT, also=("rng",)) - MEETING
"""What every device would do by itself, or otherwise than the others."""
BETWEEN = opcodes(TRANSFER)
"""Halves, of which one alone cannot stand in a conditional."""
STEPS = opcodes(CONTROL_FLOW) - opcodes(ASYNC_CHAIN)
"""Callers whose computations may have conditionals in them."""
FEEDS = opcodes(HOST) - BETWEEN


def unlike(i: Instruction, why: str) -> UnsupportedError:
    """The error for what cannot be computed whole on every device."""
    where = f"{i.parent.name}/%{i.name}"
    return UnsupportedError(
        f"{i.opcode} cannot be computed whole on every device: {why}",
        instruction=where,
        rule="partition",
    )


def have_effects_once(module: Module, edges: WholeEdges, has_regions: bool) -> None:
    """Let one device have each effect of a program that all compute. Raises `UnsupportedError` for
    halves of transfers, and what is of run-time size."""
    if not _effects(module):
        return
    for step in (Defuser(), AsyncSimplifier()):
        if any(c.opcode not in STEPS for i in _effects(module) for c in i.parent.callers):
            step.run(module)
    if has_regions:
        FlattenCallGraph().run(module)  # a function may be called inside of a region, and outside
    places = RegionPlaces(module)
    for i in _effects(module):
        at = places.of(i)
        if len(set(at)) == len(at):
            continue  # every device has a value of its own, and the effect
        if i.opcode in BETWEEN:
            raise unlike(i, "every device would do it by itself")
        if any(c.opcode not in STEPS for c in i.parent.callers):
            raise unlike(i, "what calls it cannot let one device do it")
        edges.builder = RuleBuilder(i.parent)
        if i.opcode in FEEDS and only_device(i) is None:
            _fed_by_parts(i, edges, at)
        else:
            _done_by_one(i, edges, at)


def _effects(module: Module) -> list[Instruction]:
    """What has effects by itself, in the order of each computation."""
    return [
        i
        for c in module.computations
        for i in c.in_order()
        if i.opcode in ONCE or (i.opcode == "custom-call" and i.has_side_effect)
    ]


def _fed_by_parts(i: Instruction, edges: WholeEdges, at: Places) -> None:
    """Each device reads or writes its part of a feed."""
    data = i.shape.elements[0] if i.opcode == "infeed" else i.operands[0].shape
    s, leaves = i.sharding, list(data.leaves())
    if s is None:
        raise unlike(i, "nothing says which part of the data is whose")
    shardings = [s.for_leaf(k).tiled() for k in range(len(leaves))]
    for own, leaf in zip(shardings, leaves, strict=True):
        if own.kind == "tiled" and any(
            n % m for n, m in zip(leaf.dims, own.tile_dims[: leaf.rank])
        ):
            raise unlike(i, f"{leaf} is not cut into the same number for each device")
    b, part = edges.builder, part_shape(data, shardings)
    if i.opcode == "infeed":
        fed = b.like(i, *i.operands, shape=tuple_shape([part, i.shape.elements[1]]))
        read = b.emit("get-tuple-element", fed, index=0)
        whole = edges.moved(read, data, iter(shardings), partial(edges.whole, at=at))
        new = b.emit("tuple", whole, b.emit("get-tuple-element", fed, index=1))
    else:
        written = edges.moved(i.operands[0], data, iter(shardings), edges.part)
        new = fed = b.like(i, written, i.operands[1])
        stated = i.attrs.outfeed_shape
        if stated is not None:
            fed.attrs = replace(fed.attrs, outfeed_shape=part_shape(stated, shardings))
    _put(i, new, fed)


def part_shape(of: Shape, shardings: Sequence[Sharding]) -> Shape:
    """The shape of a device's part of a value, a sharding for each leaf."""
    left = iter(shardings)

    def part(s: Shape) -> Shape:
        if s.is_tuple:
            return tuple_shape([part(e) for e in s.elements])
        own = next(left)
        return s if own.kind != "tiled" else s.with_dims(own.tile_sizes(s.dims))

    return part(of)


def _done_by_one(i: Instruction, edges: WholeEdges, at: Places) -> None:
    """One device of each place does it, in a conditional, and the others get its result."""
    leaves = [leaf for s in (*(x.shape for x in i.operands), i.shape) for leaf in s.leaves()]
    if any(not leaf.is_token and (not leaf.is_array or leaf.is_dynamic) for leaf in leaves):
        raise unlike(i, "one device is to run it, and it has run-time sizes")
    named, b = only_device(i), edges.builder
    if named is not None and not 0 <= named < len(at):
        raise unlike(i, f"there is no device {named}")
    groups = []
    for place in dict.fromkeys(at):
        members = [d for d, p in enumerate(at) if p == place]
        first = named if named in members else members[0]
        groups.append((first, *[d for d in members if d != first]))
    holders = {g[0] for g in groups}
    bundle = b.emit("tuple", *i.operands)
    module = edges.module
    branches = (_calling(module, i, bundle.shape), _giving_zeros(module, i, bundle.shape))
    table = np.array([[int(d not in holders)] for d in range(len(at))], np.int32)
    index = b.emit("reshape", edges.of_device(table), shape=shape(S32, ()))
    call = b.emit("conditional", index, bundle, bundle, called=branches, shape=i.shape)
    _put(i, _handed_on(call, i.shape, edges, tuple(groups)), call)


def _handed_on(
    x: Instruction, of: Shape, edges: WholeEdges, groups: tuple[tuple[int, ...], ...]
) -> Instruction:
    """What the first device of each group has, on all of the group."""
    b = edges.builder
    if of.is_tuple:
        elements = [b.emit("get-tuple-element", x, index=k) for k in range(len(of.elements))]
        parts = [_handed_on(e, s, edges, groups) for e, s in zip(elements, of.elements)]
        return b.emit("tuple", *parts)
    if not of.is_array:
        return x
    return b.emit(
        "collective-broadcast",
        x,
        replica_groups=ReplicaGroups(groups),
        channel_id=next(edges.channels),
        shape=of,
    )


def _put(i: Instruction, new: Instruction, effect: Instruction) -> None:
    """Put what was made in place of an instruction; its effect waits for what that waited for."""
    for before in list(i.control_predecessors):
        effect.add_control_predecessor(before)
    for after in list(i.control_successors):
        after.add_control_predecessor(effect)
    i.parent.replace(i, new)
    i.parent.erase(i)


def _calling(module: Module, i: Instruction, of: Shape) -> Computation:
    c = module.add_computation(f"{i.name}.here")
    b = RuleBuilder(c)
    p = b.emit("parameter", number=0, name="p", shape=of)
    parts = [b.emit("get-tuple-element", p, index=k) for k in range(len(i.operands))]
    c.root = b.like(i, *parts)
    return c


def _giving_zeros(module: Module, i: Instruction, of: Shape) -> Computation:
    c = module.add_computation(f"{i.name}.elsewhere")
    b = RuleBuilder(c)
    b.emit("parameter", number=0, name="p", shape=of)

    def zeros(s: Shape) -> Instruction:
        if s.is_tuple:
            return b.emit("tuple", *[zeros(e) for e in s.elements])
        return b.emit("after-all") if s.is_token else b.filled(0, s)

    c.root = zeros(i.shape)
    return c
