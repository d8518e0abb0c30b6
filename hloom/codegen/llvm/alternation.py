"""Loops whose steps copy their result to where they read it take turns between the two places.

A step that cannot compute in place (each element is made of its neighbours) writes its result
beside the state, and a copy puts it where the next step reads. Two steps are written out instead,
the second with the two places exchanged in all that it touches: no copy is left. It is the same
step under another naming of memory, so that it is right wherever the whole step uses each place
as a whole, or parts of it, but nothing that lies in it and beside it, and where the place of the
result is no part of the state itself: what it holds is forgotten with the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hloom.program.slice import ALIGNMENT, BufferSlice
from hloom.program.thunks.conditional import Conditional
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import Thunk, Use, all_uses, walk
from hloom.program.thunks.while_ import While

LEAST_TRIPS = 4
LEAST_BYTES = 512
"""Smaller copies take less than the code of a second step is worth."""
MOST_THUNKS = 64
"""Steps with more, those of loops inside counted, are written once."""
PLAIN = (Kernel, Copy, While, Conditional)
"""Kinds that touch memory by what they are given, and call nothing else."""


@dataclass(frozen=True)
class Alternation:
    """What a loop runs instead of its body."""

    step: tuple[Thunk, ...]
    """The body without the copies."""
    moved: tuple[tuple[BufferSlice, BufferSlice], ...]
    """Places that change their roles with every step."""


def alternation(t: While) -> Alternation | None:
    """How a loop can take turns; None if it cannot, or nothing is saved."""
    if t.trip_count is None or t.trip_count < LEAST_TRIPS:
        return None
    copies = [x for x in t.body if isinstance(x, Copy) and x.target.size_bytes >= LEAST_BYTES]
    if not copies:
        return None
    inside = list(walk(t.body))
    if len(inside) > MOST_THUNKS or not all(isinstance(x, PLAIN) for x in inside):
        return None
    chosen: list[Copy] = []
    for copy in copies:
        pairs = [(c.source, c.target) for c in chosen]
        if _is_exchange(t, copy) and not any(
            a.overlaps(b) for pair in pairs for a in pair for b in (copy.source, copy.target)
        ):
            chosen.append(copy)
    if not chosen:
        return None
    step = tuple([x for x in t.body if x not in chosen])
    return Alternation(step, tuple([(c.source, c.target) for c in chosen]))


def _is_exchange(t: While, copy: Copy) -> bool:
    """Whether the step may exchange the two places of a copy instead of copying."""
    pair = (copy.source, copy.target)
    if copy.source.overlaps(copy.target) or copy.source.size_bytes != copy.target.size_bytes:
        return False
    if any(copy.source.overlaps(p) for p in t.carried):
        return False
    if any(p.offset % ALIGNMENT or p.allocation.is_read_only for p in pair):
        return False
    at = t.body.index(copy)
    uses = [_all(t.body[:at]), _all(t.body[at + 1 :])]
    if any(u.slice.overlaps(p) for u in uses[1] for p in pair):
        return False
    return all(
        _is_within(u.slice, p) for u in uses[0] for p in pair if u.slice.overlaps(p)
    ) and not any(t.pred.overlaps(p) for p in pair)


def _all(thunks: Iterable[Thunk]) -> list[Use]:
    return [use for x in thunks for use in all_uses(x)]


def _is_within(inner: BufferSlice, outer: BufferSlice) -> bool:
    return outer.offset <= inner.offset and inner.end <= outer.end


def exchanged(s: BufferSlice, pairs: Sequence[tuple[BufferSlice, BufferSlice]]) -> BufferSlice:
    """Where a slice is in a step that has the places of each pair exchanged."""
    for pair in pairs:
        for here, there in (pair, pair[::-1]):
            if s.overlaps(here):
                offset = there.offset + s.offset - here.offset
                return BufferSlice(there.allocation, offset, s.size_bytes)
    return s
