"""In which order the rows that a kernel folds are walked, so that what is large is read once."""

from __future__ import annotations

from hloom.codegen.elements import is_simple
from hloom.codegen.tile import Body
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.types.sizes import top_bytes

# Another order pays where the array that is then read once has so many times the bytes of those
# that are read again for each of its rows.
LEAST_LARGER = 4
# What leaves elements in their dimension, if not at their place.
STILL = opcodes(also=("copy", "get-tuple-element", "pad", "reverse", "slice"))

Place = tuple[int | None, ...]
"""For each dimension of a value the one of the results that it is; None for those folded."""


def row_order(body: Body, device: Device) -> tuple[int, ...] | None:
    """The dimensions of the results, slowest first, where reductions of rows read a large array
    that is the same along some of the slower ones; None where the order in which results lie is
    as good.

    In the forces `sum((x[c, i] - x[c, j]) * f[i, j], j)` of three coordinates the coordinates come
    last: otherwise all of `f` is read three times, by threads that have not written it.
    """
    dims = {root.shape.subshape(part).dims for root, part in body.roots}
    if len(dims) != 1:
        return None
    [sizes] = dims
    if all(x.opcode != "reduce" for x in body.instructions):
        return None
    reads = _reads(body, len(sizes))
    if not reads:
        return None
    size, along = max(reads, key=lambda read: read[0])
    others = [d for d, n in enumerate(sizes) if n != 1 and d not in along]
    again = sum(bytes_ for bytes_, dims in reads if not dims.isdisjoint(others))
    if not along or not others or min(others) > max(along):
        return None
    if size <= device.nearest_bytes or size < LEAST_LARGER * again:
        return None
    return (*sorted(along), *[d for d in range(len(sizes)) if d not in along])


def _reads(body: Body, rank: int) -> list[tuple[int, frozenset[int]]]:
    """The bytes of each leaf and the dimensions of the results along which it varies; nothing where
    some value is made in ways that do not tell."""
    leaves = {leaf for leaf, _ in body.leaves}
    reads: list[tuple[int, frozenset[int]]] = []
    start: Place = tuple(range(rank))
    work = [(root, start) for root, _ in body.roots]
    seen: set[tuple[Instruction, Place]] = set()
    while work:
        x, place = work.pop()
        if (x, place) in seen:
            continue
        seen.add((x, place))
        if x in leaves:
            pairs = zip(place, x.shape.dims, strict=True)
            along = frozenset([p for p, n in pairs if n != 1 and p is not None])
            reads.append((top_bytes(x.shape), along))
            continue
        steps = _operand_places(x, place)
        if steps is None:
            return []
        work += steps
    return reads


def _operand_places(x: Instruction, place: Place) -> list[tuple[Instruction, Place]] | None:
    """The operands of which a value's elements are made, and where these lie."""
    if not x.operands:
        return []
    if x.opcode == "reduce":
        kept = iter(place)
        folded = x.attrs.dimensions
        inputs = x.operands[: len(x.operands) // 2]
        rank = inputs[0].shape.rank
        inner = tuple([None if d in folded else next(kept) for d in range(rank)])
        return [(y, inner) for y in inputs]
    if x.opcode == "broadcast":
        return [(x.operands[0], tuple([place[d] for d in x.attrs.dimensions]))]
    if x.opcode == "transpose":
        back = dict(zip(x.attrs.dimensions, place, strict=True))
        return [(x.operands[0], tuple([back[d] for d in range(len(place))]))]
    if is_simple(x) or x.opcode in STILL:
        return [(y, place) for y in x.operands if y.shape.is_tuple or y.shape.rank == len(place)]
    return None
