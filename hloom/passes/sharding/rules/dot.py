"""Factors of contractions."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.sharding.factors import RULES, FactorTable, Kind


@RULES.of("dot")
def dot(table: FactorTable, i: Instruction) -> None:
    _contraction(table, i, frozenset(), frozenset())


@RULES.of("ragged-dot")
def ragged_dot(table: FactorTable, i: Instruction) -> None:
    """As of a dot; the ragged dimension and that of the groups stay whole.

    The dimension of the groups stands in rhs, or in the result's front where the ragged dimension
    is contracted; in a batch dimension the groups are inside each batch.
    """
    a = i.attrs
    ragged = frozenset(a.lhs_ragged_dims)
    in_front = int(bool(ragged & set(a.lhs_contracting_dims)))
    _contraction(table, i, ragged, frozenset(a.rhs_group_dims), in_front)


@RULES.of("scaled-dot")
def scaled_dot(table: FactorTable, i: Instruction) -> None:
    """As of a dot, each dimension cut into blocks of one scale: both factors are cut alike."""
    _contraction(table, i, frozenset(), frozenset(), scales=True)


def _contraction(
    table: FactorTable,
    i: Instruction,
    lhs_whole: frozenset[int],
    rhs_whole: frozenset[int],
    in_front: int = 0,
    scales: bool = False,
) -> None:
    a = i.attrs
    lhs, rhs = table.operand_dims[:2]

    def add(size: int, operands: dict[int, int], results: dict[int, int], kind: Kind) -> None:
        if not scales:
            table.add(size, operands, results, kind)
            return
        # A scale stands for a block of elements: blocks outside, elements inside.
        scaled = {k + 2: d for k, d in operands.items() if table.operand_dims[k + 2]}
        counts = {table.operand_dims[k][d] for k, d in scaled.items()} - {size}
        blocks = counts.pop() if len(counts) == 1 else size
        if counts or not blocks or size % blocks:
            table.add(size, operands, results, Kind.WHOLE)
            return
        fitting = {k: d for k, d in scaled.items() if table.operand_dims[k][d] == blocks}
        table.add(blocks, {**operands, **fitting}, results, kind)
        if blocks != size:
            inner = {k: d for k, d in scaled.items() if k not in fitting}
            table.add(size // blocks, {**operands, **inner}, results, kind)

    at = in_front
    for left, right in zip(a.lhs_batch_dims, a.rhs_batch_dims):
        if left not in lhs_whole:
            add(lhs[left], {0: left, 1: right}, {0: at}, Kind.PASS)
        at += 1
    for left, right in zip(a.lhs_contracting_dims, a.rhs_contracting_dims):
        if left not in lhs_whole:
            add(lhs[left], {0: left, 1: right}, {}, Kind.REDUCE)
    for k, dims, batch, summed, whole in (
        (0, lhs, a.lhs_batch_dims, a.lhs_contracting_dims, lhs_whole),
        (1, rhs, a.rhs_batch_dims, a.rhs_contracting_dims, rhs_whole),
    ):
        for d, size in enumerate(dims):
            if d in batch or d in summed:
                continue
            if k == 1 and d in whole:
                continue  # not in the result
            if d not in whole:
                add(size, {k: d}, {0: at}, Kind.PASS)
            at += 1
