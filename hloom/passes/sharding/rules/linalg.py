"""Factors of what works on whole rows or matrices: the other dimensions are batches."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.sharding.factors import RULES, FactorTable


def _batches(table: FactorTable, inner: int) -> None:
    """All dimensions but the last `inner` ones, of all operands and results."""
    operands, results = range(len(table.operand_dims)), range(len(table.result_dims))
    table.same(operands, results, range(len(table.operand_dims[0]) - inner))


@RULES.of("cholesky")
def cholesky(table: FactorTable, i: Instruction) -> None:
    _batches(table, 2)


@RULES.of("triangular-solve")
def triangular_solve(table: FactorTable, i: Instruction) -> None:
    """Right-hand sides are solved each for itself."""
    _batches(table, 2)
    rank = i.shape.rank
    table.same([1], [0], [rank - 1 if i.attrs.left_side else rank - 2])


@RULES.of("fft")
def fft(table: FactorTable, i: Instruction) -> None:
    _batches(table, len(i.attrs.fft_length))


@RULES.of("topk")
def topk(table: FactorTable, i: Instruction) -> None:
    _batches(table, 1)


@RULES.of("sort")
def sort(table: FactorTable, i: Instruction) -> None:
    everything = range(len(i.operands))
    rest = [d for d in range(len(table.operand_dims[0])) if d not in i.attrs.dimensions]
    table.same(everything, range(len(table.result_dims)), rest)


@RULES.of("rng", "rng-bit-generator")
def random(table: FactorTable, i: Instruction) -> None:
    """A device keeps its part of the numbers; the state is everybody's."""
    last = len(table.result_dims) - 1
    table.same([], [last], range(len(table.result_dims[last])))


@RULES.of("rng-get-and-update-state")
def state(table: FactorTable, i: Instruction) -> None:
    """The state of all devices is one."""
