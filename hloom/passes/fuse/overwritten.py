"""What a kernel may not read of arrays that it overwrites.

An array that a loop carries is overwritten by its next value where each element of that is computed
from its own alone. A row and a column of it that all elements need (elimination, shortest paths)
are values of their own then: read in the same kernel they would cost two arrays and a copy.
"""

from __future__ import annotations

from collections.abc import Collection

from hloom.analysis.fusible import INDEX_MAPS, POINTWISE, RENAMES
from hloom.ir.instruction import Instruction

# Parts of an array that are so much smaller are as well read before; looked for among so many.
SHARE = 8
MOST_READERS = 16
MOST_BEHIND = 64
"""Instructions behind a value that are looked at, to see what it reads."""


def updates_several(p: Instruction, roots: Collection[Instruction]) -> bool:
    """Whether an elementwise producer is computed of several places of an array that a result
    updates in place: each would be an array of its own, where the producer is one."""
    updated = {r.operands[0] for r in roots if r.opcode == "dynamic-update-slice"}
    if not updated or p.opcode not in POINTWISE or p.opcode in INDEX_MAPS:
        return False
    return any(len(places_read(p, x)) > 1 for x in updated)


def reads_of_next(p: Instruction, roots: Collection[Instruction]) -> bool:
    """Whether a producer is a small part of an array that a loop carries, of which all else that
    reads it needs other such parts, or each element at its own place; and a result is its next
    value, or what that is an update of."""
    if p.opcode not in ("dynamic-slice", "slice"):
        return False
    x = p.operands[0]
    if not _is_carried(x) or not _is_part(p, x) or len(x.users) > MOST_READERS:
        return False
    root = x.parent.root
    after = root.operands[x.attrs.index] if root.opcode == "tuple" else root
    is_here = after in roots
    while after.opcode == "dynamic-update-slice":
        after = after.operands[0]
        is_here = is_here or after in roots
    rest = [u for u in x.users if not _is_part(u, x)]
    return is_here and bool(rest) and all(_is_own(u, x) for u in rest)


def _is_carried(x: Instruction) -> bool:
    """Whether it is an array of the state of a loop, in its body."""
    if x.opcode != "get-tuple-element" or x.operands[0].opcode != "parameter":
        return False
    return any(caller.opcode == "while" for caller in x.parent.callers)


def _is_part(u: Instruction, x: Instruction) -> bool:
    is_slice = u.opcode in ("dynamic-slice", "slice")
    return is_slice and SHARE * u.shape.size <= x.shape.size


def _is_own(u: Instruction, x: Instruction) -> bool:
    """Whether it needs each element at its own place."""
    is_moved = u.opcode in INDEX_MAPS or u.opcode not in POINTWISE
    return not is_moved and u.shape.dims == x.shape.dims


def places_read(p: Instruction, x: Instruction) -> set[Instruction]:
    """The slices and other views of `x` that lead to `p` by elementwise operations; of those that
    are near."""
    while x.opcode in RENAMES:
        x = x.operands[0]
    views: set[Instruction] = set()
    seen, stack = {p}, [p]
    while stack and len(seen) < MOST_BEHIND:
        y = stack.pop()
        for z in y.operands:
            below = z
            while below.opcode in RENAMES:
                below = below.operands[0]
            if below is x and y.opcode in INDEX_MAPS and y.opcode not in RENAMES:
                views.add(y)
            if z not in seen and z.opcode in POINTWISE:
                seen.add(z)
                stack.append(z)
    return views
