"""Pads of pads, and parts of what is padded, as one pad each.

A stencil pads an array by what it reads beyond the edge, and slices what was padded for every
neighbour: `jnp.pad(x, 1)[2:, 1:-1]`. Each of these slices has the size of the array itself, and is
the array moved by some places: a pad, negative on one side. So devices that have parts of it hand
on what moves and no more, where what was padded has a size that they cannot share evenly.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import Padding
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register

Edges = list[tuple[int, int]]
"""Of each dimension what is added in front and behind; below 0: taken away."""


@register
class PadTrimmer(Expander):
    """Pad once where a pad is padded or sliced."""

    name = "pad-trimmer"
    opcodes = frozenset(["pad", "slice"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        inner = i.operands[0]
        if inner.opcode != "pad" or inner.sharding is not None or inner.has_control_edges:
            return None
        x, v = inner.operands
        first, more = _edges(inner), _edges(i)
        if first is None or more is None or i.shape.is_dynamic or x.shape.is_dynamic:
            return None
        if i.opcode == "pad" and not _is_same(v, i.operands[1]):
            return None
        if i.opcode == "pad" and any(min(edges) < 0 for edges in first):
            return None  # what is taken away does not come back
        edges = [(a + c, d + e) for (a, d), (c, e) in zip(first, more, strict=True)]
        sizes = x.shape.dims
        if any(min(low, high) < -n for n, (low, high) in zip(sizes, edges, strict=True)):
            return None  # nothing of it is left
        if all(max(low, high) <= 0 for low, high in edges):
            ranges = [(-low, n + high, 1) for n, (low, high) in zip(sizes, edges, strict=True)]
            kept = b.cut(x, ranges)
            return kept if kept is not x or i.sharding is None else None
        return b.emit("pad", x, v, padding=Padding.of(*edges))


def _edges(i: Instruction) -> Edges | None:
    """What a pad or a slice adds at both ends; None where it puts elements between, or skips."""
    if i.opcode == "pad":
        dims = i.attrs.padding.dimensions
        if any(d.interior_padding for d in dims):
            return None
        return [(d.edge_padding_low, d.edge_padding_high) for d in dims]
    (x,) = i.operands
    ranges = list(zip(x.shape.dims, i.attrs.slice.dimensions, strict=True))
    if any(d.stride != 1 for _, d in ranges):
        return None
    return [(-d.start, d.limit - n) for n, d in ranges]


def _is_same(v: Instruction, w: Instruction) -> bool:
    """Whether two scalars are certainly one value, in every bit."""
    if v is w:
        return True
    if not (v.opcode == w.opcode == "constant" and v.shape.dtype is w.shape.dtype):
        return False
    return v.attrs.literal.array.tobytes() == w.attrs.literal.array.tobytes()
