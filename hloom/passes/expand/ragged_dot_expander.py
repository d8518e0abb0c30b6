"""ragged-dot as dots of tiles in a loop, so that work follows the sizes of the groups.

Rows (or, in the contracting mode, terms) are cut into tiles (`grouped_rows.py`).

What does not fit two matrices (batch dimensions, several free ones) is one masked dot for each
group, in a loop where there are many; a ragged batch dimension changes nothing, and gives a plain
dot.
"""

from __future__ import annotations

from hloom.ir.infer.dot import group_prefix
from hloom.ir.instruction import Instruction
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.expansion import Expansion, refuse
from hloom.passes.expand.grouped_rows import (
    MOST_ROWS,
    Group,
    GroupedExpander,
    Runs,
    mask_of,
    one_of,
    plain_dot,
    tiled_rows,
    tiled_terms,
)
from hloom.passes.expand.loops import counted_loop, with_rows
from hloom.passes.expand.product_types import product_types
from hloom.passes.facts import no_dead_code, without
from hloom.passes.pass_ import register
from hloom.types.dtype import S32

MOST_WRITTEN = 8
"""Groups whose masked dots are written out one by one, which may run side by side."""
MOST_LOOPED = (1 << 31) - 1
"""Groups that an s32 counts."""


@register
class RaggedDotExpander(GroupedExpander):
    """Write ragged-dot as a loop over tiles of its groups, or as masked dots."""

    name = "ragged-dot-expander"
    gives = (without("ragged-dot"),)
    breaks = (canonical_dots, no_dead_code)
    opcodes = frozenset(["ragged-dot"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.shape.is_dynamic or any(o.shape.is_dynamic for o in i.operands):
            return None
        a, (x, y, sizes) = i.attrs, i.operands
        if len(a.lhs_ragged_dims) != 1:
            raise refuse(i, "it needs one ragged dimension", "ragged-dot")
        ragged = a.lhs_ragged_dims[0]
        numbers = (
            tuple(a.lhs_batch_dims),
            tuple(a.lhs_contracting_dims),
            tuple(a.rhs_batch_dims),
            tuple(a.rhs_contracting_dims),
        )
        if ragged in a.lhs_batch_dims:
            return plain_dot(b, i, x, y, numbers, i.shape.dtype)
        if 0 in (*x.shape.dims, *y.shape.dims, *i.shape.dims):
            return b.full(0, i.shape.dtype, i.shape.dims)
        operands, dtype = product_types(x.shape.dtype, y.shape.dtype, i.shape.dtype)
        x, y = b.converted(x, operands), b.converted(y, operands)
        matrices = not a.lhs_batch_dims and x.shape.rank == 2 and len(a.lhs_contracting_dims) == 1
        runs = Runs.of_sizes(b, sizes, x.shape.dims[ragged])
        matrices = matrices and sizes.shape.rank == 1
        matrices = matrices and x.shape.dims[ragged] <= MOST_ROWS
        if ragged in a.lhs_contracting_dims:
            if matrices and y.shape.rank == 2:
                axes = numbers[1][0], numbers[3][0]
                result = tiled_terms(b, i, (x, y), axes, runs, dtype, self.tile)
            else:
                result = self.masked_terms(b, i, x, y, runs, numbers, dtype)
        elif matrices and y.shape.rank == 3:
            axes = ragged, numbers[1][0], a.rhs_group_dims[0], numbers[3][0]
            result = tiled_rows(b, i, (x, y), axes, runs, dtype, self.tile)
        else:
            result = self.masked_rows(b, i, x, y, runs, numbers, dtype)
        return b.converted(result, i.shape.dtype)

    def masked_rows(self, b: Expansion, i: Instruction, x, y, runs: Runs, numbers, dtype):
        """As `tiled_rows`, for any dimensions: each group's dot of all rows, and a choice."""
        group_axis = i.attrs.rhs_group_dims[0]
        lhs_batch, lhs_contracting, *rhs = numbers
        # Without the group dimension, those behind it move up by one.
        batch, contracting = (tuple(d - (d > group_axis) for d in dims) for dims in rhs)
        numbers = (lhs_batch, lhs_contracting, batch, contracting)
        free = [d for d in range(x.shape.rank) if d not in (*lhs_batch, *lhs_contracting)]
        order = [*lhs_batch, *free]  # the dimensions of lhs as they stand in the result
        axis = order.index(i.attrs.lhs_ragged_dims[0])
        prefix = tuple(order.index(d) for d in group_prefix(i.attrs, x.shape.rank))
        sizes = [n for d, n in enumerate(y.shape.dims) if d != group_axis]

        def step(b: Expansion, g: Group, state, fixed):
            x, y, *table = fixed
            matrix = b.reshaped(one_of(b, y, group_axis, g), sizes)
            part = plain_dot(b, i, x, matrix, numbers, dtype)
            own = mask_of(b, table, g, i.shape.dims, axis, prefix)
            return [b.select(own, part, state[0])]

        return _each_group(b, i, runs, b.full(0, dtype, i.shape.dims), [x, y], step)

    def masked_terms(self, b: Expansion, i: Instruction, x, y, runs: Runs, numbers, dtype):
        """As `tiled_terms`, for any dimensions."""
        ragged = i.attrs.lhs_ragged_dims[0]
        at = numbers[1].index(ragged)
        sides = (
            (ragged, (*numbers[0], *numbers[1][:at])),
            (numbers[3][at], (*numbers[2], *numbers[3][:at])),
        )

        def step(b: Expansion, g: Group, state, fixed):
            *factors, starts, ends = fixed
            lhs, rhs = (
                b.select(
                    mask_of(b, [starts, ends], g, v.shape.dims, axis, prefix),
                    v,
                    b.full(0, v.shape.dtype, v.shape.dims),
                )
                for v, (axis, prefix) in zip(factors, sides, strict=True)
            )
            part = plain_dot(b, i, lhs, rhs, numbers, dtype)
            part = b.reshaped(part, (1, *part.shape.dims))
            if isinstance(g, int):
                return [*state, part]
            return [with_rows(b, state[0], part, 0, g)]

        if runs.count <= MOST_WRITTEN:
            parts: list[Instruction] = []
            for g in range(runs.count):
                parts = step(b, g, parts, [x, y, *runs.table])
            return b.joined(parts, 0)
        return _each_group(b, i, runs, b.full(0, dtype, i.shape.dims), [x, y], step)


def _each_group(b: Expansion, i: Instruction, runs: Runs, start: Instruction, factors, step):
    """The state after a step for each group: few are written out, many are a loop."""
    fixed = [*factors, *runs.table]
    if runs.count > MOST_LOOPED:
        raise refuse(i, f"{runs.count} groups; at most {MOST_LOOPED} are counted", "ragged-dot")
    if runs.count > MOST_WRITTEN:
        trips = b.scalar(runs.count, S32)
        return counted_loop(b, "ragged_dot", trips, [start], fixed, step)[0]
    state = [start]
    for g in range(runs.count):
        state = step(b, g, state, fixed)
    return state[0]
