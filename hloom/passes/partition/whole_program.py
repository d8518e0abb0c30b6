"""A program of whole arrays made ready for several partitions: propagated, cut, its arguments
split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.ir.values.sharding_data import split_array
from hloom.passes.control.call_inliner import CallInliner
from hloom.passes.partition.partitioner import Partitioner
from hloom.passes.partition.spmd_partitioner import is_partitionable, partition_module
from hloom.passes.sharding.sharding_propagation import ShardingPropagation
from hloom.passes.simplify.dce import DeadCodeElimination
from hloom.types.literal import Literal, built

PREPARED = (CallInliner(), ShardingPropagation())
"""What runs before a program is cut. Each call of a function is a program of its own: those that
share one often have arguments that are cut in different ways (JAX slices all stacks of weights and
activations by the same few functions)."""


def partitioned(module: Module) -> Module:
    """What each partition runs, where the module says that it is to be partitioned
    (`use_spmd_partitioning`) and is not yet; else the module itself. It is not changed."""
    if not (module.use_spmd_partitioning and is_partitionable(module)):
        return module
    cut = copy_module(module)
    partition_in_place(cut)
    return cut


def partition_in_place(module: Module) -> Partitioner:
    """Propagate shardings and put what each partition runs in place of a program of whole arrays,
    whatever it says of itself; what comes back knows what is computed whole, and why."""
    for step in PREPARED:
        step.run(module)
    run = partition_module(module, Counter())
    DeadCodeElimination().run(module)
    return run


def split_arguments(cut: Module, arguments: Sequence[Literal]) -> list[list[Literal]]:
    """What each device of a partitioned module is handed of whole arguments."""
    partitions = cut.num_partitions
    shardings = cut.spmd_parameters_shardings
    parts = [_split(x, s, partitions) for x, s in zip(arguments, shardings, strict=True)]
    return [[p[d] for p in parts] for _ in range(cut.replica_count) for d in range(partitions)]


def _split(x: Literal, sharding: Sharding | None, devices: int) -> list[Literal]:
    leaves: list[list[Literal]] = []
    for k, leaf in enumerate(x.leaves()):
        own = None if sharding is None else sharding.for_leaf(k)
        if not leaf.shape.is_array or own is None:
            leaves.append([leaf] * devices)
            continue
        pieces = split_array(leaf.array, own, devices)
        leaves.append([Literal.of(p, leaf.shape.with_dims(p.shape)) for p in pieces])
    return [_nested(x, iter([leaf[d] for leaf in leaves])) for d in range(devices)]


def _nested(like: Literal, leaves: Iterator[Literal]) -> Literal:
    return built(like.shape, lambda _: next(leaves))
