"""A program of whole arrays made ready for several partitions: propagated, cut, its arguments
split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from hloom.base.collection import paused_collection
from hloom.base.diagnostics import HloError
from hloom.base.faults import CompilerFaultError, Culprit, Fault, blamed, culprit_of, is_fault
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.ir.values.sharding_data import split_array
from hloom.ir.verify import verify
from hloom.passes.partition.computed_whole import computed_whole
from hloom.passes.partition.notes import Replicated
from hloom.passes.partition.partitioner import Partitioner
from hloom.passes.partition.shardy_xla import PREPARED, ShardyXla, left_out_with, prepare
from hloom.passes.partition.spmd_partitioner import (
    SpmdPartitioner,
    is_partitionable,
    partition_module,
)
from hloom.passes.simplify.dce import DeadCodeElimination
from hloom.types.literal import Literal, built

CLEANED = DeadCodeElimination()
OPTIONAL = frozenset([p.name for p in (*PREPARED, CLEANED)])
"""Passes without which a program is cut all the same."""
NAMED = (*sorted(OPTIONAL), ShardyXla.name, SpmdPartitioner.name)
"""What may be asked not to run."""


def partitioned(
    module: Module,
    faults: list[Fault] | None = None,
    runs: Callable[[str], bool] = lambda name: True,
) -> Module:
    """What each partition runs, where the module says that it is to be partitioned
    (`use_spmd_partitioning`) and is not yet; else the module itself. It is not changed.
    `faults` and `runs`: see `partitioned_anyway`."""
    if not (module.use_spmd_partitioning and is_partitionable(module)):
        return module
    return partitioned_anyway(module, faults, runs)[0]


@paused_collection()
def partitioned_anyway(
    module: Module,
    faults: list[Fault] | None,
    runs: Callable[[str], bool] = lambda name: True,
) -> tuple[Module, list[Replicated]]:
    """What each partition runs, whatever the module says of itself, and what is computed whole in
    it, and why. The module is not changed.

    `faults` gets hloom's own, and what was done instead: a pass left out, or every device computes
    the whole program; None: a fault is raised as it is. `runs` says of a pass's name whether it is
    to run: without the partitioner every device computes the whole program.
    """
    unwanted = frozenset([name for name in NAMED if not runs(name)])
    if SpmdPartitioner.name in unwanted:
        return computed_whole(module), []
    unwanted = left_out_with(unwanted, module)
    left_out = set(unwanted)
    while True:
        cut = copy_module(module)
        try:
            run = partition_in_place(cut, frozenset(left_out))
            verify(cut)
            return cut, run.replicated
        except Exception as error:
            # What is refused for want of a pass that was left out is no matter of the program's.
            if faults is None or not (is_fault(error) or left_out > unwanted):
                raise
            culprit = culprit_of(error) or Culprit("pass", SpmdPartitioner.name)
            if culprit.name not in OPTIONAL - left_out:
                return _computed_whole(module, error, culprit, faults), []
            left_out.add(culprit.name)
            faults.append(Fault.of(error, culprit, "that pass was left out"))


def _computed_whole(
    module: Module, error: Exception, culprit: Culprit, faults: list[Fault]
) -> Module:
    """What each partition runs where the partitioner has a fault."""
    if not faults or is_fault(error):
        faults.append(Fault.of(error, culprit, "every device computes the whole program"))
    try:
        return computed_whole(module)
    except Exception as why:
        messages = "; ".join([f"{f.culprit}: {f.error}" for f in faults])
        raise CompilerFaultError(
            f"hloom has a fault, and cannot partition {module.name}: {messages}; {_said(why)}",
            rule="compiler-fault",
            hint="please report it with the program",
        ) from error


def _said(error: Exception) -> str:
    """What went wrong in one line."""
    is_told = isinstance(error, HloError)
    return error.message if is_told else f"{type(error).__name__}: {error}"


def partition_in_place(module: Module, left_out: frozenset[str] = frozenset()) -> Partitioner:
    """Propagate shardings and put what each partition runs in place of a program of whole arrays,
    whatever it says of itself; what comes back knows what is computed whole, and why."""
    prepare(module, left_out)
    with blamed("pass", SpmdPartitioner.name):
        run = partition_module(module, Counter())
    if CLEANED.name not in left_out:
        with blamed("pass", CLEANED.name):
            CLEANED.run(module)
    return run


def split_arguments(cut: Module, arguments: Sequence[Literal]) -> list[list[Literal]]:
    """What each device of a partitioned module is handed of whole arguments: all of them, where
    nothing was there to partition."""
    partitions = cut.num_partitions
    shardings = cut.spmd_parameters_shardings or (None,) * len(arguments)
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
