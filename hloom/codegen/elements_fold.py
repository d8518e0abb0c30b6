"""Folds as loops: reduce, reduce-window, map.

A fold whose index has lanes carries a tile and walks the folded dimensions one by one; one whose
index is a scalar puts lanes along the fastest dimension of what it folds, and joins them at the
end (`fold.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.codegen.affine import ZERO, Affine
from hloom.codegen.blocked_fold import fold_kinds
from hloom.codegen.combiner import apply
from hloom.codegen.elements import ELEMENT, Elements, Index, Result, is_simple, strides_of
from hloom.codegen.elements_data import lanes_of
from hloom.codegen.fold import WORD, Fold
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value


@ELEMENT.of("map")
def map_(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Result:
    [mapped] = apply(e, i.called[0], e.matched([e.value(x, index, mask) for x in i.operands]))
    return mapped


@ELEMENT.of("get-tuple-element")
def get_tuple_element(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Result:
    operand_result = e.result(i.operands[0], index, mask)
    return operand_result[i.attrs.index] if isinstance(operand_result, tuple) else operand_result


# -- reduce


@ELEMENT.of("reduce")
def reduce(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Result:
    count = len(i.operands) // 2
    inputs, inits = i.operands[:count], i.operands[count:]
    sizes = inputs[0].shape.dims
    folded = list(i.attrs.dimensions)
    kept_dims = [d for d in range(len(sizes)) if d not in folded]
    at: list[Affine] = [ZERO] * len(sizes)
    for d, x in zip(kept_dims, index):
        at[d] = x

    def elements(position: Sequence[Affine]) -> list[Value]:
        for group, x in zip(groups, position):
            for d, digit in zip(group, e.indices.digits(x, [sizes[d] for d in group])):
                at[d] = digit
        here = tuple(at)
        return [e.value(x, here, mask) for x in inputs]

    order = _memory_order(inputs[0], folded)
    initial = initial_values(e, i.called[0], inits)
    kinds = fold_kinds(i.called[0])
    if 0 in [sizes[d] for d in folded]:
        results = initial
    elif folded and not any(x.axes for x in index) and mask is None:
        groups = _merged(inputs[0], order)
        extents = [prod(sizes[d] for d in group) for group in groups]
        fold = Fold(e, i.called[0], kinds, elements)
        fold.is_read = all(x in e.sources for x in inputs)
        results = fold.row(initial, extents, max([_widest(e, x) for x in inputs]))
    else:
        groups = [[d] for d in order]
        extents = [sizes[d] for d in order]
        shape = lanes_of(e, index, mask)
        fold = Fold(e, i.called[0], kinds, elements)
        results = fold.tiles(initial, extents, shape)
    return tuple(results) if count > 1 else results[0]


def initial_values(e: Elements, c: Computation, inits: Sequence[Instruction]) -> list[Value]:
    """The initial values of a fold in the types that it folds in."""
    return [e.builder.convert(e.value(x, ()), p.shape.dtype) for x, p in zip(inits, c.parameters)]


def folds_own_types(x: Instruction) -> bool:
    """Whether a fold's computation takes its operands in their own types."""
    return all(y.shape.dtype is p.shape.dtype for y, p in zip(x.operands, x.called[0].parameters))


def _widest(e: Elements, x: Instruction) -> int:
    """The bytes of the widest element that one of an array is made of, in registers."""
    seen: set[Instruction] = set()
    work, widest = [x], 1
    while work:
        y = work.pop()
        if y in seen or not y.shape.is_array:
            continue
        seen.add(y)
        if y.shape.rank:
            widest = max(widest, min(y.shape.dtype.size_bytes, WORD))
        if y not in e.sources and is_simple(y):
            work += y.operands
    return widest


def _memory_order(x: Instruction, folded: Sequence[int]) -> list[int]:
    """The folded dimensions from slowest to fastest in memory."""
    layout = x.shape.layout
    if layout is None:
        return sorted(folded)
    return [d for d in layout.minor_to_major[::-1] if d in folded]


# Dimensions of rows shorter than this are walked together with the next slower one.
SHORT_ROW = 64


def _merged(x: Instruction, order: Sequence[int]) -> list[list[int]]:
    """The folded dimensions in groups, slowest first: a short fastest one is joined with others
    that follow it in memory without a gap."""
    strides, sizes = strides_of(x.shape), x.shape.dims
    solid = [d for d in order if sizes[d] != 1] or list(order[-1:])
    groups = [[solid[-1]]]
    for d in reversed(solid[:-1]):
        first = groups[0][0]
        length = prod(sizes[k] for k in groups[0])
        is_next = strides[d] == strides[first] * sizes[first]
        if len(groups) == 1 and length < SHORT_ROW and is_next:
            groups[0].insert(0, d)
        else:
            groups.insert(0, [d])
    return groups
