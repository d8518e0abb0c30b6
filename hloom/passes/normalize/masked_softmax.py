"""Softmax that is zero where a row is masked whole, without a second look at the scores.

A row whose scores are all -inf has no softmax: its maximum is -inf, and -inf - -inf is no number.
PyTorch's attention therefore chooses zeros where no score is above -inf:

    select(any(s != -inf), exp(s - max(s)) / sum(exp(s - max(s))), 0)

Against the least finite number such a row's maximum is finite, its exponentials are 0, and so are
they divided by a sum that is kept above 0. No other row sees either bound: a maximum above -inf is
at least the least finite number, and its own exponential is 1. NaN goes through both. So that is
the softmax alone, with the two bounds on what a row has one of.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from hloom.analysis.attention import SPREADING, Softmax, is_fold, softmax_of
from hloom.analysis.indexing import IndexMap, Space, flat, operand_maps
from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.casts import preserves_values
from hloom.types.limits import min_finite_value

MOVING = SPREADING - {"reduce-precision"}
LEAST_TOTAL = 0.5
"""What a sum of exponentials is kept above: less than the 1 that the largest score adds."""


class Found(NamedTuple):
    """What is below some operations that only move values: where it is read, whether negated, and
    whether every value came through as it is."""

    x: Instruction
    at: IndexMap
    is_negated: bool = False
    is_exact: bool = True


@register
class MaskedSoftmax(Expander):
    """Fold the choice of zeros for rows that are masked whole into bounds of the softmax."""

    name = "masked-softmax"
    opcodes = frozenset(["select"])

    def wants(self, i: Instruction) -> bool:
        return i.shape.dtype.is_floating and any(_is_zero(x) for x in i.operands[1:])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.shape.is_dynamic or i.operands[0].shape.rank != i.shape.rank:
            return None
        space = Space()
        at = tuple([space.append(n) for n in i.shape.dims])
        side = 1 if _is_zero(i.operands[2]) else 2
        guard = _below(i.operands[0], at, space)
        division = _below(i.operands[side], at, space)
        if division.x.opcode != "divide" or guard.x.opcode != "reduce":
            return None
        softmax = softmax_of(division.x)
        if isinstance(softmax, str) or softmax.total_floors:
            return None
        if not _is_guarded(softmax, division, guard, space):
            return None
        if _says_any(guard) is not (side == 1):
            return None
        between = _between(i.operands[side], softmax)
        if any(u not in between and u is not i for x in between for u in x.users):
            return None  # both would have to be computed
        return _bounded(b, i.operands[side], softmax, between)


def _is_zero(x: Instruction) -> bool:
    x = x.operands[0] if x.opcode == "broadcast" else x
    return x.opcode == "constant" and x.attrs.literal.is_zero


def _is_everywhere(x: Instruction, value: float) -> bool:
    """Whether it is this number in every place."""
    x = x.operands[0] if x.opcode == "broadcast" else x
    if x.opcode != "constant" or x.attrs.literal.is_elided or not x.attrs.literal.is_all_equal:
        return False
    return float(x.attrs.literal.array.reshape(-1)[0]) == value


def _below(x: Instruction, at: IndexMap, space: Space) -> Found:
    """What is below operations that move values, negate truth, or convert."""
    is_negated, is_exact = False, True
    while x.opcode in MOVING or (x.opcode == "not" and x.shape.dtype.is_pred):
        below = x.operands[0]
        is_negated ^= x.opcode == "not"
        is_exact &= x.opcode != "convert" or preserves_values(below.shape.dtype, x.shape.dtype)
        (at,) = operand_maps(x, at, space)
        x = below
    return Found(x, at, is_negated, is_exact)


# -- whether it is the softmax of what is compared with -inf


def _is_guarded(softmax: Softmax, division: Found, guard: Found, space: Space) -> bool:
    """Whether maximum, sum and guard fold the same scores along the same dimension."""
    above, below = division.x.operands
    e = _below(above, division.at, space)
    total = _below(below, division.at, space)
    difference = _below(e.x.operands[0], e.at, space)
    if difference.x.opcode != "subtract" or not difference.is_exact:
        return False
    left, right = difference.x.operands
    scores = _below(left, difference.at, space)
    peak = _below(right, difference.at, space)
    is_exact = scores.is_exact and peak.is_exact
    if peak.x.opcode == "maximum":
        if not all(_is_everywhere(x, -inf) for x in softmax.floors):
            return False
        sides = [_below(x, peak.at, space) for x in peak.x.operands]
        peak = next((side for side in sides if side.x is softmax.maximum), peak)
        is_exact &= peak.is_exact
    folds = (total, peak, guard)
    if not is_exact or total.x is not softmax.total or peak.x is not softmax.maximum:
        return False
    if not _begin_with_nothing(*folds):
        return False
    missing = {*range(len(space.sizes))} - {k for k, _, _ in flat(total.at)}
    compared = _compared(guard)
    if len(missing) != 1 or compared is None:
        return False
    [key] = missing
    summed, largest, tested = [_read(fold, key, space) for fold in folds]
    if summed is None or largest is None or tested is None:
        return False
    tested = _below(compared, tested.at, space)
    return (
        (summed.x, summed.at) == (e.x, e.at)
        and (largest.x, largest.at, largest.is_exact) == (scores.x, scores.at, True)
        and (tested.x, tested.at, tested.is_exact) == (scores.x, scores.at, True)
    )


def _begin_with_nothing(total: Found, peak: Found, guard: Found) -> bool:
    """Whether each fold begins with what changes nothing."""
    begin = 0.0 if is_fold(guard.x, "or") else 1.0
    return (
        _is_everywhere(total.x.operands[1], 0.0)
        and _is_everywhere(peak.x.operands[1], -inf)
        and _is_everywhere(guard.x.operands[1], begin)
    )


def _read(fold: Found, key: int, space: Space) -> Found | None:
    """What a fold reads, with the folded dimension as a dimension of the space; None where it
    folds several, or another number of elements."""
    reduce, n = fold.x, space.sizes[key]
    kept, at = iter(fold.at), []
    for d, size in enumerate(reduce.operands[0].shape.dims):
        if d not in reduce.attrs.dimensions:
            at.append(next(kept))
        elif size == 1:
            at.append(())
        elif size == n and ((key, 1, n),) not in at:
            at.append(((key, 1, n),))
        else:
            return None
    return _below(reduce.operands[0], tuple(at), space)


def _compared(guard: Found) -> Instruction | None:
    """What is compared with -inf in the fold of truths."""
    compare = guard.x.operands[0]
    while compare.opcode in MOVING or compare.opcode == "not":
        compare = compare.operands[0]
    if compare.opcode != "compare" or compare.attrs.direction not in ("EQ", "NE"):
        return None
    x, y = compare.operands
    if not x.shape.dtype.is_floating:
        return None
    return x if _is_everywhere(y, -inf) else y if _is_everywhere(x, -inf) else None


def _says_any(guard: Found) -> bool | None:
    """Whether the guard says that some score is not -inf, or that none is; None for neither."""
    x, differs = guard.x.operands[0], False
    while x.opcode != "compare":
        differs ^= x.opcode == "not"
        x = x.operands[0]
    differs ^= x.attrs.direction == "NE"
    if is_fold(guard.x, "or" if differs else "and"):
        return differs is not guard.is_negated
    return None


# -- the bounds


def _between(top: Instruction, softmax: Softmax) -> dict[Instruction, None]:
    """What is computed from the maximum, itself included, up to the softmax; operands first."""
    known: dict[Instruction, bool] = {softmax.maximum: True, softmax.masked: False}
    order: dict[Instruction, None] = {softmax.maximum: None}
    stack = [top]
    while stack:
        x = stack[-1]
        waiting = [y for y in x.operands if y not in known] if x not in known else []
        if waiting and x.opcode != "constant":
            stack.extend(waiting)
            continue
        stack.pop()
        if x not in known:
            known[x] = any(known[y] for y in x.operands)
            if known[x]:
                order[x] = None
    return order


def _bounded(
    b: Expansion, top: Instruction, softmax: Softmax, between: dict[Instruction, None]
) -> Instruction:
    """The softmax with its maximum and its sum between bounds."""
    bounded: dict[Instruction, Instruction] = {}
    for x in between:
        if x is softmax.maximum:
            bounded[x] = _at_least(b, x, min_finite_value(x.shape.dtype))
            continue
        new = b.like(x, *[bounded.get(y, y) for y in x.operands])
        bounded[x] = _at_least(b, new, LEAST_TOTAL) if x is softmax.total else new
    return bounded[top]


def _at_least(b: Expansion, x: Instruction, least: float) -> Instruction:
    return b.emit("maximum", x, b.full(least, x.shape.dtype, x.shape.dims))
