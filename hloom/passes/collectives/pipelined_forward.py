"""Collectives whose results a loop writes into buffers, made a step later: see
`collective_pipeliner`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hloom.analysis.trip_count import source
from hloom.ir.copy import copy_instructions
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES
from hloom.passes.collectives.loop_results import element_readers
from hloom.passes.collectives.peeling import CountedLoop, Values, erase_unread, order_effects
from hloom.passes.collectives.stacked_updates import constant
from hloom.passes.normalize.loop_state import unchanged_elements

if TYPE_CHECKING:
    from hloom.passes.collectives.collective_pipeliner import CollectivePipeliner

Members = dict[Instruction, None]
_REPEATS = opcodes(RESHAPES, also=("broadcast", "convert"))
_MOST_STEPS = 1 << 16
"""Of longer loops it is not said which slots a step reads."""


def pipeline_forward(p: CollectivePipeliner, loop: CountedLoop) -> int:
    """Make a loop communicate and write in each step what the step before computed; how many
    collectives moved."""
    moved, members = _writes(p, loop)
    if not moved:
        return 0
    c, old = loop.loop.parent, list(loop.body.root.operands)
    readers, count = list(loop.loop.users), len(old)
    buffers = [k for k, x in enumerate(old) if x in members]
    outside = _read_outside(loop, members)
    # The first step without its write, before the loop.
    initial, known = loop.initial(), loop.next_values(1)
    first = loop.written_out(initial, members)
    parts = [
        initial[k] if k in buffers else known[k] if k in known else first[x]
        for k, x in enumerate(old)
    ]
    order_effects(loop.loop, first, is_before=True)
    loop.begin_with(parts)
    # In each step the write of the one before.
    before = dict(zip(outside, loop.grow([first[i] for i in outside]), strict=True))
    for i in members:
        i.set_operands(tuple([before.get(o, o) for o in i.operands]))
    loop.hand_on([*old, *outside])
    loop.state_count(loop.count - 1)
    # The last write after it.
    results = loop.results()
    last: Values = {before[i]: x for i, x in zip(outside, results[count:], strict=True)}
    rest = _made_of(loop, members, last, results)
    copy_instructions(rest, c, last)
    ends = [last[x] if k in buffers else results[k] for k, x in enumerate(old)]
    loop.end_with(readers, ends)
    erase_unread(c, [])
    return len(moved)


def _writes(p: CollectivePipeliner, loop: CountedLoop) -> tuple[list[Instruction], Members]:
    """The collectives to move, and all between them and the buffers that they are written into."""
    order = loop.body.in_order()
    moved: list[Instruction] = []
    members: Members = {}
    for i in order:
        if not p.wants(i) or i in members:
            continue
        if loop.element_of(i.operands[0]) is not None:
            continue  # It begins with the step already.
        chain = _chain(p, loop, i)
        if chain is None:
            continue
        both = dict.fromkeys([*members, *chain])
        size = sum(x.shape.size_bytes for x in _read_outside(loop, both))
        if p.is_within(len(moved) + 1, size):
            moved.append(i)
            members = both
    while moved:
        # A buffer is of use if all that is written there is, and what is read lies elsewhere.
        bad = {x for x in members if _is_write(x) and not _is_free(loop, members, x)}
        if not bad:
            break
        chains = {i: _chain(p, loop, i) or [] for i in moved}
        moved = [i for i in moved if bad.isdisjoint(chains[i])]
        members = dict.fromkeys([x for i in moved for x in chains[i]])
    number = {i: k for k, i in enumerate(order)}
    return moved, dict.fromkeys(sorted(members, key=number.__getitem__))


def _chain(p: CollectivePipeliner, loop: CountedLoop, i: Instruction) -> list[Instruction] | None:
    """A collective and all that reads it, up to buffers of the state; None where it is read
    otherwise."""
    root, chain, stack = loop.body.root, {i: None}, [i]
    while stack:
        x = stack.pop()
        is_tree = p.has_uses_as_tree and not _is_write(x)
        if x.is_root or not x.users or (len(x.users) > 1 and not is_tree):
            return None
        for u in x.users:
            if u is root:
                if not _is_write(x) or list(root.operands).count(x) != 1:
                    return None
            elif _is_write(u):
                if u.has_control_edges or list(u.operands).count(x) != 1 or x in u.operands[2:]:
                    return None
                is_buffer = x is u.operands[0]
                if is_buffer and not _is_write(x):
                    return None
            elif not p.is_on_the_way(u) or _is_write(x):
                return None
            if u is not root and u not in chain:
                chain[u] = None
                stack.append(u)
    return list(chain)


def _is_write(i: Instruction) -> bool:
    return i.opcode == "dynamic-update-slice"


def _is_free(loop: CountedLoop, members: Members, write: Instruction) -> bool:
    """Whether a write goes into an element of the state, with other members alone, and what else
    reads that in the next step reads other slots."""
    writes = [write]
    while _is_write(writes[-1].operands[0]):
        writes.append(writes[-1].operands[0])
    buffer = writes[-1].operands[0]
    k = loop.element_of(buffer)
    last = write
    while loop.body.root not in last.users:
        (last,) = last.users
        writes.append(last)
    root = list(loop.body.root.operands)
    if k is None or root.index(last) != k or any(w not in members for w in writes):
        return False
    if element_readers(loop.condition.parameters[0], k):
        return False
    for reader in element_readers(loop.state, k):
        for u in reader.users:
            if u in members:
                continue
            if u.opcode != "dynamic-slice" or u.is_root or reader in u.operands[1:]:
                return False
            if not all(_is_elsewhere(loop, u, w) for w in writes):
                return False
    return True


def _is_elsewhere(loop: CountedLoop, read: Instruction, write: Instruction) -> bool:
    """Whether a slice is never of what the step before wrote."""
    if loop.count > _MOST_STEPS:
        return False
    apart = np.zeros(loop.count - 1, bool)
    sizes = zip(read.shape.dims, write.operands[1].shape.dims, read.operands[0].shape.dims)
    starts = zip(read.operands[1:], write.operands[2:], strict=True)
    for (r, w), (read_size, written, whole) in zip(starts, sizes, strict=True):
        at, to = _values(loop, r), _values(loop, w)
        if at is None or to is None:
            continue
        at = np.clip(at[1:], 0, whole - read_size)
        to = np.clip(to[:-1], 0, whole - written)
        apart |= (at + read_size <= to) | (to + written <= at)
    return bool(apart.all())


def _values(loop: CountedLoop, i: Instruction, depth: int = 0) -> np.ndarray | None:
    """What a number is in each step; None where that is not known."""
    i = source(i)
    if i.opcode == "constant":
        value = constant(i)
        return None if value is None else np.full(loop.count, value, np.int64)
    k = loop.element_of(i)
    if k is not None:
        if k not in loop.counters:
            return None
        start, by = loop.counters[k]
        return start + by * np.arange(loop.count, dtype=np.int64)
    if depth > 8 or not i.shape.is_array or not i.shape.dtype.is_integral:
        return None
    if i.opcode not in ("add", "subtract", "multiply", "convert"):
        return None
    of = [_values(loop, o, depth + 1) for o in i.operands]
    known = [x for x in of if x is not None and np.abs(x).max(initial=0) < 1 << 30]
    if len(known) < len(of):
        return None
    value = known[0]
    if i.opcode != "convert":
        value = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}[i.opcode](*known)
    dtype = i.shape.dtype
    low, high = (-(1 << dtype.bits - 1), 1 << dtype.bits - 1)
    if not dtype.is_signed:
        low, high = 0, 1 << dtype.bits
    return value if value.min() >= low and value.max() < high else None


def _read_outside(loop: CountedLoop, members: Members) -> list[Instruction]:
    """What members read that the step computes and that has to be carried to the next: no
    constants, nothing that the loop does not change."""
    same = set(unchanged_elements(loop.loop))
    values: dict[Instruction, None] = {}
    for i in members:
        for n, o in enumerate(i.operands):
            k = loop.element_of(o)
            is_buffer = _is_write(i) and n == 0
            if o in members or is_buffer or _is_fixed(o) or (k is not None and k in same):
                continue
            values[o] = None
    return list(values)


def _is_fixed(i: Instruction) -> bool:
    """Whether a value is made of constants alone, and cheap to make again."""
    while i.opcode in _REPEATS and not i.has_control_edges:
        (i,) = i.operands
    return i.opcode in ("constant", "iota")


def _made_of(
    loop: CountedLoop, members: Members, known: Values, results: list[Instruction]
) -> list[Instruction]:
    """Members and the constants that they read, in order; `known` gets what stands in the state."""
    rest: dict[Instruction, None] = {}
    for i in members:
        for o in i.operands:
            k = loop.element_of(o)
            if o in known or o in members:
                continue
            if k is not None:
                known[o] = results[k]
            else:
                fixed = [o]
                while fixed[-1].operands:
                    fixed.append(fixed[-1].operands[0])
                rest.update(dict.fromkeys(reversed(fixed)))
        rest[i] = None
    return list(rest)
