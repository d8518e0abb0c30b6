"""One nest of loops: how it walks the elements, and which results it computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from hloom.codegen.kept import Passes
from hloom.codegen.row_order import row_order
from hloom.codegen.tile import Body, is_update
from hloom.codegen.walk import Loops, domain, is_flat
from hloom.device.device import Device


@dataclass
class Nest:
    """One nest of loops of a kernel: how it walks, and which roots it computes.

    `elements` are the roots computed for every element of the domain, that of root `first`;
    `rows` those with one element for each step of the outer dimensions.
    """

    loops: Loops
    first: int
    order: tuple[int, ...]
    flat: bool
    elements: list[int]
    rows: list[int]


def one_nest(body: Body, device: Device, work: float) -> Nest | None:
    """The nest that computes all roots at once; None if they must follow one another."""
    counts = [prod(domain(*r)[0]) for r in body.roots]
    largest = max(range(len(counts)), key=lambda k: counts[k])
    sizes, order = domain(*body.roots[largest])
    flat = is_flat(body) and not any(is_update(r) for r, _ in body.roots)
    loops = Loops.of(body, (prod(sizes),) if flat else sizes, device, work)
    rows = prod(loops.outer)
    if not all(n in (counts[largest], rows) for n in counts):
        return None
    if loops.blocks > 1 and min(counts) < counts[largest]:
        return None  # a block is not the whole of a row
    elements = [k for k, n in enumerate(counts) if n == counts[largest]]
    others = [k for k, n in enumerate(counts) if n != counts[largest]]
    if loops.blocks == 1 and not loops.middle and not others:
        loops = loops.in_long_steps(device, work)
    return Nest(loops, largest, order, flat, elements, others)


def in_row_order(body: Body, nest: Nest, device: Device, work: float) -> Nest:
    """The nest with its rows walked so that what is large is read once."""
    loops = nest.loops
    rows = (*loops.outer, *loops.middle)
    order = None if nest.flat or nest.rows else row_order(body, device)
    if order is None or order == nest.order:
        return nest
    if loops.blocks > 1:
        inner = len(nest.order) - len(rows)
        first = set(order[:inner]) == set(nest.order[len(rows) :])
        return replace(nest, loops=replace(loops, blocks_first=first))
    sizes = dict(zip(nest.order, rows))
    order = (*[d for d in order if d in sizes], *nest.order[len(rows) :])
    outer = tuple([sizes[d] for d in order[: len(rows)]])
    walk = replace(loops, outer=outer, middle=()).in_long_steps(device, work)
    return replace(nest, loops=walk, order=order)


def kept_passes(body: Body, nest: Nest, device: Device) -> Passes | None:
    """The passes over the rows of a nest, if they have anything to keep for one another."""
    rows = prod(nest.loops.outer)
    inputs = [x.operands[0].shape.size for x in body.instructions if x.opcode == "reduce"]
    columns = inputs[0] // max(rows, 1) if inputs else 0
    if columns < 2 or nest.flat or nest.loops.blocks != 1:
        return None
    passes = Passes.of(body, rows, columns, device)
    return passes if passes.kept else None
