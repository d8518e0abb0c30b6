"""What a kernel must know of an attention: which dimension of every value is what.

An attention (`attention.py`) is walked from its end with index maps (`indexing.py`), over a space
of three dimensions: batch, row (query) and key. That proves that the softmax runs along the keys
of the first dot and nothing else, however reshapes and transposes stand between, and gives the
place in every value at which a kernel finds what it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from hloom.analysis.attention import PASSING, Attention, through
from hloom.analysis.indexing import (
    Expression,
    IndexMap,
    Space,
    flat,
    is_opaque,
    operand_maps,
)
from hloom.ir.instruction import Instruction

BATCH, ROW, KEY = range(3)
MOST_WIDE = 1024
"""Elements of a key and a value together: a kernel keeps some of each, and what it saves (scores
in memory) is little beside longer products."""


@dataclass(frozen=True)
class AttentionForm:
    """An attention as `out[b, m, :] = sum over n of softmax(masked[b, m, n]) * v[b, n, :]`."""

    of: Attention
    batch: int
    rows: int
    keys: int
    keys_left: bool
    """Whether the keys are the first operand of the dot of scores."""
    values_left: bool
    """Whether the values are the first operand of the last dot."""
    masked_at: IndexMap
    """Where the value of the softmax is for a batch element, row and key."""
    floor: float
    """The least maximum: what the fold of the maximum begins with."""
    least_total: float
    """What the sum of exponentials is kept above; 0 for nothing."""

    @property
    def depth(self) -> int:
        """Elements of a query or key."""
        return _depth(self.of)

    @property
    def columns(self) -> int:
        """Elements of a value."""
        return _columns(self.of)


def attention_form(attention: Attention) -> AttentionForm | str:
    """The form of an attention; a text says why there is none."""
    output, scores = attention.output, attention.scores
    sides = [_free(scores, 0), _free(scores, 1)]
    p_free, v_free = (
        _free(output, s) for s in (attention.probabilities_side, attention.values_side)
    )
    if any(len(x) != 1 for x in (*sides, p_free, v_free)):
        return "a dot has several free dimensions, or none"
    if any(len(x.attrs.lhs_contracting_dims) != 1 for x in (output, scores)):
        return "a dot contracts several dimensions, or none"
    weights = output.operands[attention.probabilities_side].shape
    batch_dims = _batch(output, attention.probabilities_side)
    contracted = _contracted(output, attention.probabilities_side)
    batches = [weights.dims[d] for d in batch_dims]
    sizes = (prod(batches), weights.dims[p_free[0]], weights.dims[contracted])
    if min(sizes[ROW:]) < 2:
        return "one row or one key"
    if _depth(attention) + _columns(attention) > MOST_WIDE:
        return "keys and values are long: products take most of the time"
    space = Space()
    whole = [_whole(space, n, k) for k, n in enumerate(sizes)]
    at: list[Expression] = [()] * len(weights.dims)
    at[p_free[0]], at[contracted] = whole[ROW], whole[KEY]
    below = sizes[BATCH]
    for d, n in zip(batch_dims, batches):
        below //= n
        at[d] = ((BATCH, below, n),) if n > 1 else ()
    maps = _maps(attention, tuple(at), space)
    if isinstance(maps, str):
        return maps
    score_map = maps[scores]
    rank = len(scores.attrs.lhs_batch_dims)
    first, second = score_map[rank:]
    if flat(score_map[:rank]) != (whole[BATCH] if sizes[BATCH] > 1 else ()):
        return "batches are in another order"
    if (first, second) not in ((whole[ROW], whole[KEY]), (whole[KEY], whole[ROW])):
        return "rows and keys are not the dimensions of the scores"
    floor = _floor(attention)
    if isinstance(floor, str):
        return floor
    least_totals = [_scalar(x) for x in attention.total_floors]
    if any(x is None or not 0 <= x < inf for x in least_totals):
        return "a least sum that is no positive constant"
    return AttentionForm(
        attention,
        *sizes,
        first == whole[KEY],
        attention.values_side == 0,
        maps[attention.masked],
        floor,
        max([x for x in least_totals if x is not None], default=0.0),
    )


def _depth(attention: Attention) -> int:
    scores = attention.scores
    return scores.operands[0].shape.dims[_contracted(scores, 0)]


def _columns(attention: Attention) -> int:
    side = attention.values_side
    return attention.output.operands[side].shape.dims[_free(attention.output, side)[0]]


def _whole(space: Space, size: int, number: int) -> Expression:
    """A dimension of the space as a digit, also one of size 1: so that numbers stay."""
    space.steps.append(size * (space.steps[-1] if space.steps else 1))
    space.sizes.append(size)
    return ((number, 1, size),)


def _free(dot: Instruction, side: int) -> list[int]:
    bound_dims = (*_batch(dot, side), *_contracting(dot, side))
    return [d for d in range(dot.operands[side].shape.rank) if d not in bound_dims]


def _batch(dot: Instruction, side: int) -> tuple[int, ...]:
    return dot.attrs.rhs_batch_dims if side else dot.attrs.lhs_batch_dims


def _contracting(dot: Instruction, side: int) -> tuple[int, ...]:
    return dot.attrs.rhs_contracting_dims if side else dot.attrs.lhs_contracting_dims


def _contracted(dot: Instruction, side: int) -> int:
    return _contracting(dot, side)[0]


def _maps(attention: Attention, at: IndexMap, space: Space) -> dict[Instruction, IndexMap] | str:
    """Where each value between the dots is read; every one at a single place."""
    start = attention.output.operands[attention.probabilities_side]
    maps: dict[Instruction, IndexMap] = {start: at}
    for p in reversed(attention.members):
        here = maps.get(p)
        if here is None or p is attention.output or p is attention.scores:
            continue
        if p in (attention.maximum, attention.total):
            operand_maps_here: list[IndexMap] = [_along_keys(p, here)]
            reads = [p.operands[0]]
        else:
            reads = list(p.operands)
            operand_maps_here = list(operand_maps(p, here, space))
        for x, where in zip(reads, operand_maps_here):
            if x not in attention.dependent:
                continue
            if is_opaque(where):
                return f"%{x.name} is read at places that are no plain index"
            if maps.setdefault(x, where) != where:
                return f"%{x.name} is read at two places"
    for fold in (attention.maximum, attention.total):
        if any(k == KEY for expression in maps[fold] for k, _, _ in expression):
            return f"%{fold.name} does not fold all keys"
    return maps


def _along_keys(fold: Instruction, here: IndexMap) -> IndexMap:
    """Where the operand of a fold is read: the last of the folded dimensions is that of keys."""
    dims = fold.operands[0].shape.dims
    folded = sorted(fold.attrs.dimensions)
    rest = iter(here)
    keys_map: list[Expression] = []
    for d, n in enumerate(dims):
        if d not in folded:
            keys_map.append(next(rest))
        else:
            keys_map.append(((KEY, 1, n),) if n > 1 else ())
    return tuple(keys_map)


def _floor(attention: Attention) -> float | str:
    """The least value of the maximum; a text where a fold begins with something else."""
    if _scalar(attention.total.operands[1]) != 0.0:
        return "the sum does not begin with 0"
    least = _scalar(attention.maximum.operands[1])
    if least is None:
        return "the maximum begins with something unknown"
    for x in attention.floors:
        value = _scalar(x)
        if value is None:
            return "a least maximum that is no constant"
        least = max(least, value)
    return least if least < inf else "the maximum begins with infinity"


def _scalar(x: Instruction) -> float | None:
    """The value of a constant that is one number everywhere."""
    x = through(x, PASSING | {"broadcast"})
    if x.opcode != "constant" or x.attrs.literal.is_elided or not x.attrs.literal.is_all_equal:
        return None
    return float(x.attrs.literal.array.reshape(-1)[0])
