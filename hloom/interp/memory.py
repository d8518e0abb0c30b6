"""How much memory an evaluation will hold, worked out before it starts.

A module may state shapes of any size, and numpy would try to allocate them. Sizes follow from the
shapes, and when a value dies from the order of steps, so the most that is alive at once is known
without running anything: first the sum of all values, which settles nearly every module, and only
where that is too much a walk that frees what nobody reads any more. Operations that return views
hold the storage of what they view. Scratch memory of a single operation is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from hloom.base.diagnostics import EvalError, HloError
from hloom.interp.step_list import needed as steps_needed
from hloom.interp.values import MORE_MEMORY, MOST_LEAVES, refused, value_bytes
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import FORWARDS, RESHAPES, STRIDED
from hloom.types.shape import Shape

_VIEWS = opcodes(STRIDED, RESHAPES, FORWARDS, also=("copy", "get-tuple-element", "tuple"))
"""What shares the memory of its operands, or (iota) has nearly none."""
_COPIED_BY_RESHAPE = opcodes(STRIDED)

Storage = frozenset[Instruction]


Peak = tuple[int, Instruction | None]
"""Bytes, and the instruction where that much is alive."""


def check_memory(computation: Computation, limit: int, devices: int = 1) -> None:
    """`EvalError` when the values alive at once, on all devices, need more than `limit` bytes.

    Counts the arguments, and for a dynamic size its bound. Computations that call themselves are
    left to the evaluator's own guard.
    """
    try:
        needed, where = memory_needed(computation, limit // max(devices, 1))
    except HloError:
        raise
    except Exception as error:
        raise refused(error, None) from error
    if needed * devices > limit:
        on = f" on {devices} devices" if devices > 1 else ""
        raise EvalError(
            f"the values alive at once take {needed * devices} bytes{on}, more than the {limit} "
            "that an evaluation may hold",
            instruction=f"%{where.name}" if where is not None else None,
            hint=MORE_MEMORY,
        )


def memory_needed(computation: Computation, enough: int = 0) -> Peak:
    """The most bytes alive at once, and where; the sum of all values when that is `enough`."""
    order = _reachable(computation)
    sizes: dict[Shape, int] = {}
    total = 0
    for c in order:
        for i in c.instructions:
            if i.shape.leaf_count > MOST_LEAVES:
                raise EvalError(
                    f"a tuple of {i.shape.leaf_count} elements is more than can be evaluated",
                    instruction=f"%{i.name}",
                )
            if i.opcode in ("tuple", "get-tuple-element"):
                continue
            size = sizes.get(i.shape)
            if size is None:
                size = sizes[i.shape] = value_bytes(i.shape)
            total += size
    if total <= enough:
        return total, None
    peaks: dict[Computation, Peak] = {}
    for c in order:
        peaks[c] = _peak(c, sizes, peaks)
    arguments = sum(sizes[p.shape] for p in computation.parameters)
    most, where = peaks[computation]
    return most + arguments, where


def _reachable(computation: Computation) -> list[Computation]:
    """What a computation calls, directly or not, callees first; cycles are cut somewhere."""
    done: dict[Computation, None] = {}
    open_: set[Computation] = set()
    stack = [computation]
    while stack:
        c = stack[-1]
        waiting = [x for i in c.instructions for x in i.called if x not in done and x not in open_]
        if c in open_ or not waiting:
            done[c] = None
            stack.pop()
            continue
        open_.add(c)
        stack.extend(dict.fromkeys(waiting))
    return list(done)


def _peak(
    c: Computation,
    sizes: dict[Shape, int],
    peaks: dict[Computation, Peak],
) -> Peak:
    """The most bytes alive while a computation runs, without its arguments, and where."""
    try:
        order = c.in_order()
        needed = steps_needed(c, order)
    except ValueError as error:
        raise EvalError(str(error)) from error
    order = [i for i in order if i in needed]
    last = {x: i for i in order for x in i.operands}
    root = c.root
    storage_of: dict[Instruction, Storage] = {}
    readers: dict[Instruction, int] = {}
    alive, most, where = 0, 0, None
    for i in order:
        storage = storage_of[i] = lies_in(i, storage_of)
        for x in storage:
            readers[x] = readers.get(x, 0) + 1
        if i in storage and readers[i] == 1:
            alive += sizes[i.shape]
        inside = max((peaks[x][0] for x in i.called if x in peaks), default=0)
        if alive + inside > most:
            most, where = alive + inside, i
        for x in _dying(i, last, root):
            for s in storage_of[x]:
                readers[s] -= 1
                if not readers[s]:
                    alive -= sizes[s.shape]
    return most, where


def _dying(
    i: Instruction, last: dict[Instruction, Instruction], root: Instruction
) -> Iterable[Instruction]:
    """What nobody reads after `i`: operands it reads last, and itself when it is not read."""
    for x in dict.fromkeys(i.operands):
        if last[x] is i and x is not root:
            yield x
    if i not in last and i is not root:
        yield i


def lies_in(i: Instruction, storage_of: dict[Instruction, Storage]) -> Storage:
    """The instructions in whose memory a value lies; a parameter's is the caller's."""
    opcode = i.opcode
    if opcode in ("parameter", "iota"):
        return frozenset()
    if opcode not in _VIEWS or not i.operands:
        return frozenset((i,))
    x = i.operands[0]
    if opcode == "reshape" and x.opcode in _COPIED_BY_RESHAPE:
        return frozenset((i,))
    if opcode == "get-tuple-element" and x.opcode == "tuple":
        index = i.attrs.index
        return (
            storage_of.get(x.operands[index], frozenset())
            if index < len(x.operands)
            else frozenset()
        )
    if opcode == "tuple":
        return frozenset().union(*(storage_of.get(y, frozenset()) for y in i.operands))
    return storage_of.get(x, frozenset())
