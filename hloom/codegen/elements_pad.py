"""Padding inside other kernels: which elements are of the array, and which are the padding.

Where lanes go along what is padded, the array is asked with a mask for its lanes. Where whole rows
of elements take turns with rows of padding, a branch asks it only for rows that are its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.codegen.affine import Affine
from hloom.codegen.elements import ELEMENT, Elements, Index
from hloom.codegen.elements_data import both, choose, equals, lanes_of, within
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value


@ELEMENT.of("pad")
def pad(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    x, filler = i.operands
    at: list[Affine] = []
    inside: Value | None = None
    for d, (position, edge) in enumerate(zip(index, i.attrs.padding.dimensions)):
        position = position.plus(-edge.edge_padding_low)
        step = edge.interior_padding + 1
        low, high = position.bounds()
        if high < 0 or low > (x.shape.dims[d] - 1) * step:
            return e.value(filler, (), mask)  # nothing but padding here
        if edge.interior_padding:
            inside = both(e, inside, equals(e, e.indices.remainder(position, step), 0))
            position = e.indices.quotient(position, step)
        inside = both(e, inside, within(e, position, x.shape.dims[d]))
        at.append(position)
    if x.shape.size == 0:
        return e.value(filler, (), mask)
    if inside is None:
        return e.value(x, tuple(at), mask)
    if not inside.shape and x not in e.sources and _is_spread_across(i, index):
        return _alternately(e, i, at, inside, mask)
    value = e.value(x, tuple(at), both(e, mask, inside))
    return choose(e, inside, value, e.value(filler, ()))


def _is_spread_across(i: Instruction, index: Index) -> bool:
    """Whether rows of elements take turns with rows of padding."""
    widths = i.attrs.padding.dimensions
    return any(w.interior_padding and not x.axes for x, w in zip(index, widths))


def _alternately(
    e: Elements, i: Instruction, at: Sequence[Affine], inside: Value, mask: Value | None
) -> Value:
    """What is spread, computed only where it stands: not for the rows between, where it would be
    computed in vain, and behind several such pads (`lax.associative_scan`) most of the time."""
    x, filler = i.operands
    shape = lanes_of(e, tuple(at), mask)

    def spread() -> Sequence[Value]:
        floor, e.floor = e.floor, e.builder.depth
        value = e.builder.broadcast(e.value(x, tuple(at), mask), shape)
        e.forget(e.builder.depth)
        e.floor = floor
        return [value]

    def between() -> Sequence[Value]:
        return [e.builder.broadcast(e.value(filler, ()), shape)]

    [value] = e.builder.if_(inside, spread, between)
    return value
