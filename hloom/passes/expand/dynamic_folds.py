"""Folds over arrays of run-time size: what they find where there is no element.

That changes nothing in a sum or product. It is what the fold begins with where meeting that again
changes nothing: in extremes, and where one of two is chosen, as in the place of a maximum. All
other folds carry with each element whether there is one (`told`): a fold of nothing and something
is the something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.copy import copy_instructions
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import IDEMPOTENT
from hloom.passes.expand.dynamic_rules import (
    RULES,
    again,
    least_sizes,
    several,
    values,
    window_size,
)
from hloom.passes.expand.dynamic_values import Masks, Sized, static_shape
from hloom.types import limits
from hloom.types.dtype import PRED, DType
from hloom.types.shape import shape, tuple_shape

NEUTRAL: dict[str, Callable[[DType], Any]] = {
    "add": limits.zero,
    "multiply": limits.multiplicative_identity,
}
"""What changes nothing, for folds that count what they begin with each time they meet it."""
REPEATABLE = opcodes(IDEMPOTENT)


def fillers(m: Masks, fold: Computation, starts: list[Instruction]) -> list[Instruction] | None:
    """What stands for elements that are not there, which changes no result; None where only the
    fold itself can leave them out."""
    root, count = fold.root, len(starts)
    parts = root.operands if root.opcode == "tuple" and count > 1 else (root,)
    if len(parts) != count:
        return None
    pairs = [{fold.parameters[k], fold.parameters[count + k]} for k in range(count)]
    chosen = [
        p.opcode == "select" and set(p.operands[1:]) == pair
        for p, pair in zip(parts, pairs, strict=True)
    ]
    known = [_known_filler(m, *x) for x in zip(parts, pairs, starts, strict=True)]
    if any(chosen):  # by what the others are, perhaps, so that all must be what they begin with
        alike = [k or f is start for k, f, start in zip(chosen, known, starts, strict=True)]
        return starts if all(alike) else None
    return None if None in known else [f for f in known if f is not None]


def _known_filler(
    m: Masks, part: Instruction, pair: set[Instruction], start: Instruction
) -> Instruction | None:
    dtype = start.shape.dtype
    if part.shape.dtype is not dtype or set(part.operands) != pair:
        return None
    if part.opcode in REPEATABLE or (part.opcode in NEUTRAL and dtype.is_pred):
        return start
    if part.opcode not in NEUTRAL:
        return None
    neutral = NEUTRAL[part.opcode](dtype)
    if start.opcode == "constant" and start.attrs.literal.first() == neutral:
        return start
    return m.b.scalar(neutral, dtype)


def told(m: Masks, fold: Computation) -> Computation:
    """The fold of elements that tell, in one more operand, whether they are there; so does its
    result."""
    module, count = m.b.module, len(fold.parameters) // 2
    of = [p.shape for p in fold.parameters]
    new = module.add_computation(f"{fold.name}_present")
    flag = shape(PRED)
    places = [*of[:count], flag, *of[count:], flag]
    arguments = [
        new.add("parameter", shape=s, number=k, name=f"p{k}") for k, s in enumerate(places)
    ]
    ours, has_ours = arguments[:count], arguments[count]
    theirs, has_theirs = arguments[count + 1 : -1], arguments[-1]
    new_for_old = dict(zip(fold.parameters, [*ours, *theirs], strict=True))
    copy_instructions([i for i in fold.in_order() if i.opcode != "parameter"], new, new_for_old)
    root = new_for_old[fold.root]
    joined = (
        [new.add("get-tuple-element", root, index=k) for k in range(count)]
        if fold.root.shape.is_tuple
        else [root]
    )
    both = new.add("and", has_ours, has_theirs)
    results = [
        new.add("select", both, x, new.add("select", has_ours, a, b))
        for x, a, b in zip(joined, ours, theirs, strict=True)
    ]
    new.root = new.add("tuple", *results, new.add("or", has_ours, has_theirs))
    return new


def folded(
    m: Masks, i: Instruction, inputs: list[Sized], starts: list[Instruction], dims: list[int]
) -> Instruction:
    """The fold `i` of the elements that are there, along `dims`."""
    b, present = m.b, m.valid(inputs[0], dims)
    if present is None:
        return again(m, i, *values(inputs), *starts)
    if (fills := fillers(m, i.called[0], starts)) is not None:
        masked = [m.masked(x, fill, dims) for x, fill in zip(inputs, fills, strict=True)]
        return again(m, i, *masked, *starts)
    parts = [static_shape(s) for s in i.shape.leaves()]
    of = tuple_shape([*parts, shape(PRED, parts[0].dims)]).with_default_layouts()
    with_flags = b.like(i, *values(inputs), present, *starts, b.scalar(1, PRED), shape=of)
    with_flags.set_called((told(m, i.called[0]),))
    results = [b.element(with_flags, k) for k in range(len(parts))]
    return b.tuple(*results) if i.shape.is_tuple else results[0]


@RULES.of("reduce")
def reduce(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    count, gone = len(operands) // 2, i.attrs.dimensions
    inputs, starts = operands[:count], values(operands[count:])
    sizes = least_sizes(m, inputs)
    alike = [Sized(x.value, sizes) for x in inputs]
    kept_dims = [d for d in range(inputs[0].value.shape.rank) if d not in gone]
    left = {k: sizes[d] for k, d in enumerate(kept_dims) if d in sizes}
    return several(m, folded(m, i, alike, starts, list(gone)), left)


@RULES.of("reduce-window")
def reduce_window(m: Masks, i: Instruction, operands: list[Sized]) -> Sized:
    count, rows = len(operands) // 2, i.attrs.window.dimensions
    inputs, starts = operands[:count], values(operands[count:])
    moving = [d for d, row in enumerate(rows) if not row.is_trivial]
    sizes_before = least_sizes(m, inputs)
    alike = [Sized(x.value, sizes_before) for x in inputs]
    sizes = {
        d: window_size(m, rows[d], size) if d in moving else size
        for d, size in sizes_before.items()
    }
    return several(m, folded(m, i, alike, starts, moving), sizes)
