"""Calls, loops and branches: what they call is partitioned for the tilings that are handed over."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.analysis.trip_count import trip_count
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import COLLECTIVE
from hloom.ir.values.group_modes import device_groups, group_mode
from hloom.passes.partition.branch_operands import cheapest_operands
from hloom.passes.partition.loop_accumulators import accumulated
from hloom.passes.partition.partitioner import Leaves, Walk, partitions, refused
from hloom.passes.partition.tiling import Axes, Tiling
from hloom.passes.partition.value import TiledValue

MEETING = opcodes(COLLECTIVE)


def _primary(values: Sequence[TiledValue]) -> Leaves:
    return tuple([v.primary.with_manual(v.manual) for v in values])


def _handed(walk: Walk, x: Instruction, tilings: Leaves) -> Instruction:
    """The parts of an operand as one instruction."""
    parts = [v.get(t.with_manual(())) for v, t in zip(walk.values[x], tilings, strict=True)]
    return walk.tuple_of(x.shape, iter(parts))


def _asked(walk: Walk, i: Instruction) -> Leaves | None:
    """How the result is to stand, if its sharding says so of every leaf."""
    tilings = walk.wanted(i)
    known = [t for t in tilings if t is not None]
    return tuple(known) if len(known) == len(tilings) else None


@partitions("call")
def call(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    arguments = tuple([_primary(walk.values[x]) for x in i.operands])
    callee, tilings = walk.of.partition(i.called[0], arguments)
    parts = [_handed(walk, x, t) for x, t in zip(i.operands, arguments)]
    return _called(walk, i, parts, (callee.root.shape, (callee,)), tilings)


def _called(walk: Walk, i: Instruction, parts, callee, tilings: Leaves) -> list[TiledValue]:
    shape, called = callee
    instruction = walk.new.append(i.opcode, i.attrs, tuple(parts), shape, i.name, called)
    walk.b.added.append(instruction)
    instruction.metadata, instruction.frontend_attributes = i.metadata, i.frontend_attributes
    instruction.backend_config = i.backend_config
    walk.region = frozenset()  # each leaf says its own
    wanted = [
        w and w.without(frozenset(t.manual)) for w, t in zip(walk.wanted(i), tilings, strict=True)
    ]
    return walk.results(i, instruction, tilings, wanted)


def _together(leaves: Sequence[Leaves], also: Axes = ()) -> list[Axes]:
    """The manual axes of leaves that come from several places."""
    return [tuple(sorted({a for t in same for a in t.manual} | set(also))) for same in zip(*leaves)]


def _with(leaves: Leaves, manual: Sequence[Axes]) -> Leaves:
    return tuple(
        [t.without(frozenset(m)).with_manual(m) for t, m in zip(leaves, manual, strict=True)]
    )


def _check_meetings(
    walk: Walk, i: Instruction, decided: Axes, called: Sequence[Computation]
) -> None:
    """Devices that go different ways cannot meet on them, but for those that go together."""
    if not decided or len(decided) == len(walk.mesh.axes):
        return
    if any(not _meets_alike(walk, x, decided) for c in called for x in c.instructions):
        raise refused(
            i,
            "devices decide differently along manual axes, and what they run has collectives",
            "make all axes manual, or decide by a value that is equal everywhere",
        )


def _meets_alike(walk: Walk, x: Instruction, decided: Axes) -> bool:
    """Whether all that meet there are at one place along some axes."""
    if x.opcode not in MEETING:
        return True
    mode = group_mode(x.attrs) if hasattr(x.attrs, "replica_groups") else None
    if mode is None or not x.attrs.replica_groups.groups:
        return False
    count = walk.mesh.device_count
    at = walk.mesh.indices(decided)
    groups = device_groups(x.attrs.replica_groups, mode, walk.mesh.replicas, count)
    return all(len({at[d % count] for d in group}) == 1 for group in groups)


@partitions("while")
def while_(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    condition, body = i.called
    (x,) = i.operands
    values = walk.values[x]
    scalar = (Tiling.replicated(0),)
    manual = [v.manual for v in values]
    while True:  # until the loop makes no more axes manual
        # What is said of the loop, of its state inside, or how the state stands before it.
        said = [
            walk.wanted(i),
            walk.wanted(body.parameters[0]),
            walk.wanted(body.root),
            [v.primary for v in values],
        ]
        first = [next(t for t in leaf if t is not None).whole() for leaf in zip(*said)]
        first = accumulated(walk, i, _gathered_before(walk, i, first))
        state = _with(tuple(first), manual)
        tested, (decision,) = walk.of.partition(condition, (state,), scalar)
        repeated, ends = walk.of.partition(body, (state,), state)
        after = _together([state, ends], decision.manual)
        if after == manual:
            break
        manual = after
    _check_meetings(walk, i, decision.manual, (tested, repeated))
    part = _handed(walk, x, state)
    return _called(walk, i, [part], (part.shape, (tested, repeated)), state)


def _gathered_before(walk: Walk, i: Instruction, state: Sequence[Tiling]) -> list[Tiling]:
    """The state of a loop, whole along dimensions of which every step takes a slice that all
    devices need: to gather it once is fewer bytes than to add up a slice from its holder in each
    step. Only of what is no more than the rest of the state: stacks of weights stay cut."""
    (body_state,) = i.called[1].parameters
    tilings, steps = list(state), trip_count(i).count
    if steps is None or len(body_state.shape.elements) != len(tilings):
        return tilings
    shapes = body_state.shape.elements
    own = [walk.of.local_shape(s, (t,)).size_bytes for s, t in zip(shapes, tilings)]
    for k, dims in _sliced_everywhere(i).items():
        t, rest = tilings[k], sum(own) - own[k]
        cut = [d for d in dims if t.dims[d]]
        whole = t
        for d in cut:
            whole = whole.with_dim(d, ())
        size = walk.of.local_shape(shapes[k], (whole,)).size_bytes
        count = math.prod([walk.mesh.count(t.dims[d]) for d in cut])
        slices = size / math.prod([shapes[k].dims[d] for d in cut])
        if cut and size <= rest and size - own[k] < steps * 2 * slices * (count - 1) / count:
            tilings[k] = whole
    return tilings


def _sliced_everywhere(i: Instruction) -> dict[int, list[int]]:
    """Elements of a loop's state that it does not change and takes dynamic slices of alone, one
    element along these dimensions, in every step."""
    (state,), root = i.called[1].parameters, i.called[1].root
    sliced: dict[int, list[int]] = {}
    if root.opcode != "tuple":
        return sliced
    for x in state.users:
        if x.opcode != "get-tuple-element" or root.operands[x.attrs.index] is not x:
            continue
        readers = [u for u in x.users if u is not root]
        if not readers or not x.shape.is_array or not all(_slices(u, x) for u in readers):
            continue
        dims = range(x.shape.rank)
        sliced[x.attrs.index] = [
            d for d in dims if x.shape.dims[d] > 1 and all(u.shape.dims[d] == 1 for u in readers)
        ]
    return sliced


def _slices(u: Instruction, x: Instruction) -> bool:
    return u.opcode == "dynamic-slice" and u.operands[0] is x


@partitions("conditional")
def conditional(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    chosen = walk.value(i.operands[0])
    result = _asked(walk, i)
    arguments = [_primary(walk.values[x]) for x in i.operands[1:]]
    arguments = cheapest_operands(walk, i, arguments, result)
    branches: list[Computation] = []
    for _ in range(2):
        branches, all_ends = [], []
        for c, t in zip(i.called, arguments, strict=True):
            # Branches end alike: as the first one does where nothing is said.
            branch, ends = walk.of.partition(c, (t,), result)
            result = result or ends
            branches.append(branch)
            all_ends.append(ends)
        assert result is not None, "a conditional has branches"
        # Axes that one branch finds to be manual are so for all of them.
        result = _with(result, _together(all_ends, chosen.manual))
    assert result is not None, "a conditional has branches"
    _check_meetings(walk, i, chosen.manual, branches)
    parts = [chosen.whole()]
    parts += [_handed(walk, x, t) for x, t in zip(i.operands[1:], arguments)]
    return _called(walk, i, parts, (branches[0].root.shape, tuple(branches)), result)


@partitions("fusion")
def fusion(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """What it fuses is partitioned by itself: what is fused is decided on the parts."""
    values = walk.inlined(i.called[0], [walk.values[x] for x in i.operands])
    return [v.seen(w and w.without(frozenset(v.manual))) for v, w in zip(values, walk.wanted(i))]
