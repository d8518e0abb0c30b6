"""Reshapes of arrays of run-time size (rules of the dynamic padder)."""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.passes.expand.dynamic_rules import RULES, again
from hloom.passes.expand.dynamic_values import Masks, Sized, Sizes, counting_type
from hloom.passes.expand.expansion import refuse
from hloom.types.dtype import S32
from hloom.types.shape import Shape


def _prefixes(dims: tuple[int, ...]) -> list[int]:
    return [prod(dims[:d]) for d in range(len(dims))]


def _matched(before: Shape, after: Shape, dynamic: list[int]) -> dict[int, int] | None:
    """For each dynamic dimension the equal one behind equally many elements; None when one has
    none."""
    left, right = _prefixes(before.dims), _prefixes(after.dims)
    matched: dict[int, int] = {}
    for d in dynamic:
        for e, prefix in enumerate(right):
            if prefix == left[d] and after.dims[e] == before.dims[d] and e not in matched.values():
                matched[d] = e
                break
        else:
            return None
    return matched


@RULES.of("reshape")
def reshape(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    b, (x,) = m.b, operands
    flags = [e for e in range(i.shape.rank) if i.shape.is_dynamic_dim(e)]
    if not flags or not x.sizes:
        return Sized(again(m, i, x.value))
    same = _matched(x.value.shape, i.shape, list(x.sizes))
    if same is not None and set(same.values()) >= set(flags):
        return Sized(again(m, i, x.value), {same[d]: s for d, s in x.sizes.items()})
    if len(flags) > 1:
        known = {same[d]: s for d, s in x.sizes.items()} if same is not None else {}
        open_ = [e for e in flags if e not in known]
        if len(open_) != 1:
            raise refuse(
                i,
                f"the sizes of {i.shape.text_without_layout} do not follow from its operand",
                "dynamic-shape",
                "use dynamic-reshape, which says them",
            )
        flags = open_
    else:
        known = {}
    counted = counting_type(x.value.shape, i.shape)
    count = m.product((m.size(x, d) for d in range(x.value.shape.rank)), counted)
    others = [e for e in range(i.shape.rank) if e != flags[0]]
    sizes_ = (known.get(e, m.number(i.shape.dims[e])) for e in others)
    rest = m.product(sizes_, counted)
    size = b.converted(b.divide(count, b.maximum(rest, b.scalar(1, counted))), S32)
    sizes = {**known, flags[0]: size}
    return Sized(compacted(m, x, i.shape, sizes), sizes)


@RULES.of("dynamic-reshape")
def dynamic_reshape(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    x, *sizes = operands
    flags = [d for d in range(i.shape.rank) if i.shape.is_dynamic_dim(d)]
    flag_sizes = {d: m.b.reshaped(sizes[d].value, ()) for d in flags}
    return Sized(compacted(m, x, i.shape, flag_sizes), flag_sizes)


def compacted(m: Masks, x: Sized, of: Shape, sizes: Sizes) -> Instruction:
    """The elements of `x` in row-major order of run-time sizes, as an array of other sizes.

    Each place of the result is the number of an element; that number is the place of the element
    in the operand, both counted by run-time sizes. One gather fetches them all.
    """
    b, full = m.b, of.dims
    if not x.value.shape.size:
        return b.full(0, of.dtype, full)
    counted = counting_type(x.value.shape, of)
    number = b.full(0, counted, full)
    for d in range(of.rank):
        size = b.converted(sizes[d], counted) if d in sizes else b.scalar(full[d], counted)
        number = b.add(b.multiply(number, b.spread(size, full)), b.iota(counted, full, d))
    at = b.full(0, counted, full)
    stride, rest = 1, number
    for d in range(x.value.shape.rank - 1, -1, -1):
        size = b.spread(b.converted(b.maximum(m.size(x, d), m.number(1)), counted), full)
        at = b.add(at, b.multiply(b.remainder(rest, size), b.full(stride, counted, full)))
        rest = b.divide(rest, size)
        stride *= x.value.shape.dims[d]
    flat = b.reshaped(x.value, (x.value.shape.size,))
    return b.emit(
        "gather",
        flat,
        at,
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=of.rank,
        slice_sizes=(1,),
    )
