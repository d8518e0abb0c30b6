"""A sum of all-reduces as the all-reduce of a sum."""

from __future__ import annotations

from hloom.passes.collectives.reassociation import Reassociation
from hloom.passes.pass_ import register


@register
class AllReduceReassociate(Reassociation):
    """Replace op(all-reduce(x), all-reduce(y)) by all-reduce(op(x, y))."""

    name = "all-reduce-reassociate"
    opcode = "all-reduce"
