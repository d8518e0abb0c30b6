"""States of loops stand as their steps keep them, where that is fewer bytes.

What is said around a loop and what is said in its steps may differ. Propagation lets either reach
the state of the loop first: with the former a step brings its state to what it says itself, and
back again, as often as the loop runs. Loops of which both disagree are told apart by what they
cost: the program is partitioned both ways, and those ways are kept by which devices receive less.
A state that is larger on a device is not taken: weights that are cut around a loop stay so, and a
step gathers what it needs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hloom.analysis.communication import communications
from hloom.base.diagnostics import UnsupportedError
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.sharding import REPLICATED, Sharding
from hloom.passes.partition.spmd_partitioner import is_partitionable, partition_once
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.sharding.nodes import Node, Nodes
from hloom.passes.sharding.propagate import LoopOrder
from hloom.passes.sharding.sharding_propagation import (
    ShardingPropagation,
    propagated,
    sharding_of,
)
from hloom.passes.simplify.dce import DeadCodeElimination
from hloom.rewrite.driver import Trace
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes

SLICES = frozenset(["dynamic-slice", "dynamic-update-slice"])
MOST_LOOPS = 8
"""So many loops are tried; each is one more partitioning of the program."""


@register
class LoopStateSharding(Pass):
    """Shard the states of loops as their steps say, where that is fewer bytes."""

    name = "loop-state-sharding"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        if not is_partitionable(module) or not _loops(module):
            return PassResult()
        least, kept = None, 0
        for place, said in _differing(module)[:MOST_LOOPS]:
            if least is None:
                least = received_bytes(module)
            loop = _loops(module)[place]
            before, loop.sharding = loop.sharding, said
            received = received_bytes(module)
            if received < least:
                least = received
                kept += 1
            else:
                loop.sharding = before
        return PassResult.of(Counter({"resharded": kept} if kept else {}))


def _loops(module: Module) -> list[Instruction]:
    return [i for i in module.instructions() if i.opcode == "while"]


@dataclass(frozen=True)
class _Decided:
    """How the state of a loop stands by one order of propagation."""

    sharding: Sharding | None
    size_bytes: int
    """Of a device's part."""


def _decided(nodes: Nodes, loop: Instruction) -> _Decided:
    sharding = sharding_of(nodes, loop)
    return _Decided(sharding, _part_bytes(loop.shape, sharding))


def _part_bytes(shape: Shape, sharding: Sharding | None) -> int:
    size = 0
    for k, leaf in enumerate(shape.leaves()):
        own = REPLICATED if sharding is None else sharding.for_leaf(k).tiled()
        if leaf.is_array:
            dims = own.tile_sizes(leaf.dims) if own.kind == "tiled" else leaf.dims
            size += data_bytes(leaf.with_dims(dims))
    return size


def _differing(module: Module) -> list[tuple[int, Sharding]]:
    """The loops of which their steps say something else than what is around them, and what."""
    around = propagated(module).nodes
    within = [
        propagated(module, loops=x).nodes for x in (LoopOrder.FIRST, LoopOrder.FIRST_AND_ALONE)
    ]
    candidates: list[tuple[int, Sharding]] = []
    for place, loop in enumerate(_loops(module)):
        if loop.parent not in around.flow.depths:
            continue
        seen = [_decided(around, loop)]
        ways = [_decided(nodes, loop) for nodes in within]
        for way in [*ways, *_as_sliced(around, loop, seen[0])]:
            if way.sharding is None or way.size_bytes > seen[0].size_bytes:
                continue
            if not any(s.sharding is not None and way.sharding.same(s.sharding) for s in seen):
                seen.append(way)
                candidates.append((place, way.sharding))
    return candidates


def _as_sliced(nodes: Nodes, loop: Instruction, around: _Decided) -> list[_Decided]:
    """The state as steps slice it, or write slices of it: what is cut along the dimension by whose
    places steps go is exchanged once, before the loop, instead of in each of them. Its axes cut
    nothing then, or another dimension: the first or the last one that they can."""
    sharding = around.sharding
    if sharding is None or not sharding.is_tuple:
        return []
    if not all(s.is_array for s in loop.shape.elements):
        return []
    ways = [list(sharding.elements) for _ in range(3)]
    for x, part, u in _slices(nodes, loop):
        tiled = part.tiled()
        k, sliced = x.attrs.index, _sliced(x, u)
        if tiled.kind == "tiled":
            tile = tiled.tile_sizes(_part(u).shape.dims)
            if all(tile[d] == _part(u).shape.dims[d] for d in sliced):
                ways[0][k] = part
        for way, moved in zip(ways[1:], _moved(nodes, nodes.of(loop, k), sliced)):
            way[k] = moved
    wholes = [Sharding.tuple_of(*leaves) for leaves in ways]
    return [_Decided(whole, _part_bytes(loop.shape, whole)) for whole in wholes]


def _slices(nodes: Nodes, loop: Instruction) -> Iterator[tuple[Instruction, Sharding, Instruction]]:
    """Elements of the state of which nothing is said and slices are read or written, how these
    stand, and who does so."""
    for x in loop.called[1].parameters[0].users:
        if x.opcode != "get-tuple-element" or _is_stated(nodes, loop, x):
            continue
        for u in x.users:
            if u.opcode in SLICES and u.operands[0] is x and x not in u.operands[1:]:
                yield x, sharding_of(nodes, _part(u)) or REPLICATED, u


def _part(u: Instruction) -> Instruction:
    """The slice that is read or written."""
    return u if u.opcode == "dynamic-slice" else u.operands[1]


def _sliced(x: Instruction, u: Instruction) -> list[int]:
    """The dimensions of which a slice has a part."""
    sizes = zip(x.shape.dims, _part(u).shape.dims, strict=True)
    return [d for d, (whole, n) in enumerate(sizes) if whole != n]


def _moved(nodes: Nodes, node: Node, sliced: list[int]) -> list[Sharding]:
    """How a value can stand whose sliced dimensions are cut, with another one cut instead."""
    axes = tuple([a for d in sliced for a in node.dims[d]])
    if node.space is None or not axes:
        return []
    space, ways = nodes.spaces.spaces[node.space], list[Sharding]()
    for d, n in enumerate(node.shape.dims):
        if d not in sliced and n % space.size((*node.dims[d], *axes)) == 0:
            dims = [() if k in sliced else own for k, own in enumerate(node.dims)]
            dims[d] = (*node.dims[d], *axes)
            ways.append(space.sharding(replace(node.state(), dims=tuple(dims))))
    return [ways[0], ways[-1]] if ways else []


def _is_stated(nodes: Nodes, loop: Instruction, element: Instruction) -> bool:
    """Whether the program says how an element of the state is to stand."""
    whole = nodes.of(loop, element.attrs.index)
    return any(node.stated is not None for node in (whole, nodes.of(element)))


def received_bytes(module: Module) -> float:
    """The bytes that a device receives in the partitioned program; infinite: it is refused."""
    cut = copy_module(module)
    ShardingPropagation().run(cut)
    try:
        partition_once(cut, Counter())
    except UnsupportedError:
        return math.inf
    DeadCodeElimination().run(cut)
    return sum([r.total_bytes for r in communications(cut)])
