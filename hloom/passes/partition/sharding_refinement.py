"""Cut values further than propagation does where elements move, if that is fewer bytes.

Propagation cuts dimensions evenly. Behind a slice, a pad or a concatenation to an uneven size it
says nothing of an axis, which is as good as to say that every device has the whole: an associative
scan gathers half of its array in every step. Here such a program is partitioned with all values
*open* of which it says nothing (`open_values.py`), and how they came to stand is written down as
their shardings, if a device then receives less.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import chain

from hloom.base.diagnostics import UnsupportedError
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.passes.partition.loop_state_sharding import received_bytes
from hloom.passes.partition.open_values import OpenValues
from hloom.passes.partition.spmd_partitioner import is_partitionable, partition_once
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.sharding.factors import Kind
from hloom.passes.sharding.nodes import Node
from hloom.passes.sharding.propagate import Propagation
from hloom.passes.sharding.sharding_propagation import ShardingPropagation, propagated
from hloom.rewrite.driver import Trace
from hloom.types.sizes import data_bytes

FEW_INSTRUCTIONS = 500
"""Of a program that is tried whatever it moves: it is partitioned up to three times more, two
seconds for each thousand instructions."""
LEAST_BYTES = 2000
"""Cut short for each instruction of a longer program that is tried: 12 layers of a transformer,
3,300 instructions, took 7 s of compilation to save nothing of the 10 us that a device takes for
the last token of each sequence."""


@register
class ShardingRefinement(Pass):
    """Cut values further than propagation does, where that is fewer bytes."""

    name = "sharding-refinement"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> RefinementResult:
        if not is_partitionable(module):
            return RefinementResult()
        propagation = propagated(module)
        short, count = _bytes_cut_short(propagation), module.instruction_count
        if not short or (count > FEW_INSTRUCTIONS and short < LEAST_BYTES * count):
            return RefinementResult(propagation=propagation)
        least = received_bytes(module)
        said = _refined(module) if least else {}
        for i, sharding in said.items():
            i.sharding = sharding
        if said and received_bytes(module) >= least:
            for i in said:
                i.sharding = None
            said = {}
        if said:
            return RefinementResult(True, Counter({"refined": len(said)}))
        return RefinementResult(propagation=propagation)


@dataclass
class RefinementResult(PassResult):
    """What refinement did, and where that is nothing what it knows of the module."""

    propagation: Propagation | None = None


def _bytes_cut_short(propagation: Propagation) -> int:
    """The bytes of whole arrays whose elements move along a cut dimension to a value that is not
    cut along that axis, and of which the program says nothing."""
    total = 0
    for step in propagation.all_steps:
        i, table = step.at, step.table
        if i.sharding is not None or not i.shape.is_array:
            continue
        permuted = {k for k, f in enumerate(table.factors) if f.kind == Kind.PERMUTE}
        moved = permuted.intersection(chain(*table.results[0]))
        result = step.nodes[len(table.operands)]
        for x, node, dims in zip(i.operands, step.nodes, table.operands) if moved else ():
            if x.shape.is_array and _leaves_axes(node, dims, moved, result):
                total += data_bytes(x.shape)
    return total


def _leaves_axes(
    node: Node, dims: tuple[tuple[int, ...], ...], moved: set[int], result: Node
) -> bool:
    """Whether a moved dimension of an operand is cut along axes that cut nothing of the result."""
    return any(
        axes and not moved.isdisjoint(numbers) and result.used.isdisjoint(axes)
        for axes, numbers in zip(node.dims, dims)
    )


def _refined(module: Module) -> dict[Instruction, Sharding]:
    """How open values of a module stand when it is partitioned, as shardings."""
    copied = copy_module(module)
    own = dict(zip(copied.instructions(), module.instructions(), strict=True))
    root = copied.entry.root
    ShardingPropagation().run(copied)
    values = OpenValues({i for i, before in own.items() if before.sharding is None})
    try:
        run = partition_once(copied, Counter(), open_values=values)
    except UnsupportedError:
        return {}
    returned = {root, *(root.operands if root.opcode == "tuple" else ())}
    said: dict[Instruction, Sharding] = {}
    for i, t in values.stands.items():
        if i not in own or t is None or t.is_replicated or t.manual:
            continue
        sizes = zip(i.shape.dims, t.dims, strict=True)
        if i in returned and any(n % math.prod([run.mesh.sizes[a] for a in x]) for n, x in sizes):
            continue
        said[own[i]] = run.mesh.sharding(t)
    return said
