"""How the operands of a conditional stand where they are handed to its branches.

As they stand by then, as the branches' parameters are said to, or as the result is: that is taken
by which a device receives least, before the branches and in the one that runs. What is brought
there before them is there for all other readers, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloom.analysis.communication import communication
from hloom.analysis.mesh_names import MeshNames
from hloom.analysis.trip_count import trip_count
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import COLLECTIVE, DEVICE_ID, SIDE_EFFECT
from hloom.passes.partition.reshard_plan import STEP_BYTES
from hloom.passes.partition.tiling import Tiling

if TYPE_CHECKING:
    from hloom.passes.partition.partitioner import Leaves, Walk

COMMUNICATES = opcodes(COLLECTIVE)
SHARED = 1.01
"""What a byte received in a branch counts beside one before it, which others may read, too."""
KEPT_AS_THEY_ARE = opcodes(COLLECTIVE, DEVICE_ID, SIDE_EFFECT)
"""What is not to be partitioned a second time, to see what it takes: it names its partners."""


def cheapest_operands(
    walk: Walk, i: Instruction, primary: Sequence[Leaves], result: Leaves | None
) -> list[Leaves]:
    """The tilings of the leaves of each branch's operand; `primary`: as they stand by then."""
    options = dict.fromkeys([_as_result(walk, i, primary, result), _as_said(walk, i, primary)])
    if set(options) == {tuple(primary)} or _is_kept(walk, i.called):
        return list(primary)
    options[tuple(primary)] = None
    return list(min(options, key=lambda option: _price(walk, i, option, result)))


def _is_kept(walk: Walk, branches: Sequence[Computation]) -> bool:
    reached = walk.of.module.computations_in_order(list(dict.fromkeys(branches)))
    return any(x.opcode in KEPT_AS_THEY_ARE for c in reached for x in c.instructions)


def _as_said(walk: Walk, i: Instruction, primary: Sequence[Leaves]) -> tuple[Leaves, ...]:
    """As the parameters of the branches are to stand, where that is said."""
    leaves: list[Leaves] = []
    for c, own in zip(i.called, primary, strict=True):
        (p,) = c.parameters
        said = walk.of.tilings(p.sharding, p.shape)
        leaves.append(tuple([_or_own(walk, t, o) for t, o in zip(said, own, strict=True)]))
    return tuple(leaves)


def _as_result(
    walk: Walk, i: Instruction, primary: Sequence[Leaves], result: Leaves | None
) -> tuple[Leaves, ...]:
    """As the leaf of the result that has the same dimensions, where one has."""
    wanted = {s.dims: t for s, t in zip(i.shape.leaves(), result or ()) if s.is_array}
    leaves: list[Leaves] = []
    for x, own in zip(i.operands[1:], primary, strict=True):
        shapes = x.shape.leaves()
        leaves.append(
            tuple([_or_own(walk, wanted.get(s.dims), o) for s, o in zip(shapes, own, strict=True)])
        )
    return tuple(leaves)


def _or_own(walk: Walk, t: Tiling | None, own: Tiling) -> Tiling:
    if t is None or len(t.dims) != len(own.dims):
        return own
    return t.whole().without(walk.region).with_manual(own.manual)


def _price(walk: Walk, i: Instruction, option: tuple[Leaves, ...], result: Leaves | None) -> float:
    """Bytes that a device receives before the branches, and in one of them."""
    outside: dict[tuple[int, Tiling], float] = {}
    inside = 0.0
    for x, c, tilings in zip(i.operands[1:], i.called, option, strict=True):
        for v, t in zip(walk.values[x], tilings, strict=True):
            t = t.with_manual(())
            outside[id(v.forms), t] = v.cost(t)
        inside += _received(walk, walk.of.partition(c, (tilings,), result)[0])
    return sum(outside.values()) + inside / len(i.called) * SHARED


def _received(walk: Walk, c: Computation) -> float:
    """What a device receives in one run of a partitioned computation, and a little for each
    collective."""
    module, total = walk.of.module, 0.0
    names = MeshNames(None, module.replica_count * module.num_partitions)
    for x in c.instructions:
        if x.opcode in COMMUNICATES:
            total += communication(x, module, names, 1.0).bytes + STEP_BYTES
        elif x.opcode == "while":
            total += _received(walk, x.called[1]) * (trip_count(x).count or 1)
        elif x.opcode == "conditional":
            total += sum([_received(walk, b) for b in x.called]) / len(x.called)
        elif x.opcode == "call":
            total += _received(walk, x.called[0])
    return total
