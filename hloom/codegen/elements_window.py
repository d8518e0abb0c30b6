"""Windows: every element of the result folds its own part of the operands."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.codegen.affine import ZERO, Affine
from hloom.codegen.blocked_fold import fold_kinds, identity, restart_of
from hloom.codegen.combiner import combined
from hloom.codegen.elements import ELEMENT, Elements, Index, Result
from hloom.codegen.elements_data import both, choose, lanes_of, within
from hloom.codegen.elements_fold import initial_values
from hloom.codegen.fold import nest
from hloom.ir.instruction import Instruction
from hloom.ir.values.window import WindowDimension
from hloom.kernel.kernel import Value


@ELEMENT.of("reduce-window")
def reduce_window(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Result:
    count = len(i.operands) // 2
    inputs, inits = i.operands[:count], i.operands[count:]
    sizes = inputs[0].shape.dims
    dims = i.attrs.window.dimensions
    kinds = fold_kinds(i.called[0])
    initial = initial_values(e, i.called[0], inits)
    walked = [d for d, w in enumerate(dims) if w.size != 1]

    def step(position: Sequence[Affine], *values: Value) -> Sequence[Value]:
        offsets = [ZERO] * len(sizes)
        for d, x in zip(walked, position):
            offsets[d] = x
        at, inside = window_position(e, index, offsets, dims, sizes)
        both_masks = both(e, mask, inside)
        elements = [e.value(x, at, both_masks) for x in inputs]
        if inside is None:
            return combined(e, i.called[0], kinds, values, elements)
        if kinds is not None:
            blank = [
                e.builder.constant(x.dtype, identity(k, x.dtype)) for k, x in zip(kinds, elements)
            ]
            elements = [choose(e, inside, x, y) for x, y in zip(elements, blank)]
            return combined(e, i.called[0], kinds, values, elements)
        new = combined(e, i.called[0], kinds, values, elements)
        return [choose(e, inside, x, y) for x, y in zip(new, values)]

    if 0 in sizes:
        results: Sequence[Value] = initial
    else:
        shape = lanes_of(e, index, mask)
        carried = [e.builder.broadcast(x, shape) for x in initial]

        def shaped(position: Sequence[Affine], *values: Value) -> Sequence[Value]:
            return [e.builder.broadcast(x, shape) for x in step(position, *values)]

        restart = restart_of(e, kinds, carried)
        results = nest(e, [dims[d].size for d in walked], carried, shaped, restart)
    return tuple(results) if count > 1 else results[0]


def unpadded(x: Affine, k: Affine, w: WindowDimension) -> Affine:
    """Where place `k` of a window at `x` is along the base with its dilation."""
    return x.times(w.stride).plus(k.times(w.window_dilation)).plus(-w.padding_low)


def window_position(
    e: Elements, index: Index, offsets: Sequence[Affine], dims: Sequence, sizes: Sequence[int]
) -> tuple[Index, Value | None]:
    """The index into the base under one element of the window, and whether it is one."""
    at: list[Affine] = []
    inside: Value | None = None
    for x, k, w, size in zip(index, offsets, dims, sizes):
        position = unpadded(x, k, w)
        if w.base_dilation != 1:
            rest = e.indices.remainder(position, w.base_dilation)
            if not (rest.is_constant and rest.const == 0):
                number = e.numbers(rest)
                zero = e.builder.constant(number.dtype, 0, number.shape)
                inside = both(e, inside, e.builder.compare("EQ", number, zero))
            position = e.indices.quotient(position, w.base_dilation)
        inside = both(e, inside, within(e, position, size))
        at.append(position)
    return tuple(at), inside
