"""Calls, loops and branches: what they call is partitioned for the tilings that are handed over."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.partitioner import Leaves, Walk, partitions
from hloom.passes.partition.tiling import Tiling
from hloom.passes.partition.value import Value


def _primary(values: Sequence[Value]) -> Leaves:
    return tuple([v.primary for v in values])


def _handed(walk: Walk, x: Instruction, tilings: Leaves) -> Instruction:
    """The parts of an operand as one instruction."""
    parts = [v.get(t) for v, t in zip(walk.values[x], tilings, strict=True)]
    return walk.tuple_of(x.shape, iter(parts))


def _asked(walk: Walk, i: Instruction) -> Leaves | None:
    """How the result is to stand, if its sharding says so of every leaf."""
    found = walk.wanted(i)
    known = [t for t in found if t is not None]
    return tuple(known) if len(known) == len(found) else None


@partitions("call")
def call(walk: Walk, i: Instruction) -> Sequence[Value]:
    given = tuple([_primary(walk.values[x]) for x in i.operands])
    callee, tilings = walk.of.partition(i.called[0], given)
    parts = [_handed(walk, x, t) for x, t in zip(i.operands, given)]
    return _called(walk, i, parts, (callee.root.shape, (callee,)), tilings)


def _called(walk: Walk, i: Instruction, parts, callee, tilings: Leaves) -> list[Value]:
    shape, called = callee
    made = walk.new.append(i.opcode, i.attrs, tuple(parts), shape, i.name, called)
    walk.b.added.append(made)
    made.metadata, made.frontend_attributes = i.metadata, i.frontend_attributes
    made.backend_config = i.backend_config
    return walk.results(i, made, tilings, walk.wanted(i))


@partitions("while")
def while_(walk: Walk, i: Instruction) -> Sequence[Value]:
    condition, body = i.called
    (x,) = i.operands
    # What is said of the loop, of its state inside, or how the state stands before it.
    said = [
        walk.wanted(i),
        walk.wanted(body.parameters[0]),
        walk.wanted(body.root),
        [v.primary for v in walk.values[x]],
    ]
    state = tuple([next(t for t in leaf if t is not None) for leaf in zip(*said)])
    state = tuple([t.whole() for t in state])
    scalar = (Tiling.replicated(0),)
    tested, _ = walk.of.partition(condition, (state,), scalar)
    repeated, _ = walk.of.partition(body, (state,), state)
    part = _handed(walk, x, state)
    return _called(walk, i, [part], (part.shape, (tested, repeated)), state)


@partitions("conditional")
def conditional(walk: Walk, i: Instruction) -> Sequence[Value]:
    given = [_primary(walk.values[x]) for x in i.operands[1:]]
    result = _asked(walk, i)
    branches = []
    for c, t in zip(i.called, given, strict=True):
        # Branches end alike: as the first one does where nothing is said.
        made, ends = walk.of.partition(c, (t,), result)
        result = result or ends
        branches.append(made)
    assert result is not None, "a conditional has branches"
    parts = [walk.value(i.operands[0]).whole()]
    parts += [_handed(walk, x, t) for x, t in zip(i.operands[1:], given)]
    return _called(walk, i, parts, (branches[0].root.shape, tuple(branches)), result)
