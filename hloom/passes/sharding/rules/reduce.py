"""Factors of folds."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ASSOCIATIVE
from hloom.passes.sharding.factors import RULES, FactorTable, Kind

FOLDS = opcodes(ASSOCIATIVE)


@RULES.of("map")
def map_(table: FactorTable, i: Instruction) -> None:
    """Scalars stand beside arrays of which every element is combined with them."""
    whole = [k for k, x in enumerate(i.operands) if x.shape.rank == i.shape.rank]
    table.same(whole, [0], range(i.shape.rank))


@RULES.of("reduce")
def reduce(table: FactorTable, i: Instruction) -> None:
    """Inputs share all dimensions; those that are left stand in each result, in order."""
    inputs = range(len(i.operands) // 2)
    results = range(len(table.result_dims))
    left = 0
    for d, size in enumerate(table.operand_dims[0]):
        if d in i.attrs.dimensions:
            table.add(size, dict.fromkeys(inputs, d), {}, Kind.REDUCE)
        else:
            table.add(size, dict.fromkeys(inputs, d), dict.fromkeys(results, left))
            left += 1


@RULES.of("reduce-window")
def reduce_window(table: FactorTable, i: Instruction) -> None:
    """Windows overlap with neighbours' parts; one that is as long as the dimension needs all of it,
    unless it runs over it (a running sum): then what each part has in all is enough."""
    inputs = range(len(i.operands) // 2)
    results = range(len(table.result_dims))
    for d, (w, size) in enumerate(zip(i.attrs.window.dimensions, table.operand_dims[0])):
        if w.is_trivial:
            table.same(inputs, results, [d])
        elif w.dilated_size() < size or (_is_known_fold(i) and w.runs_over(size)):
            table.add(size, dict.fromkeys(inputs, d), dict.fromkeys(results, d), Kind.PERMUTE)


def _is_known_fold(i: Instruction) -> bool:
    """Whether one input is folded by an operation of which parts can be put together."""
    fold = i.called[0]
    is_plain = fold.root.opcode in FOLDS and set(fold.root.operands) == set(fold.parameters)
    return is_plain and len(i.operands) == 2


@RULES.of("select-and-scatter")
def select_and_scatter(table: FactorTable, i: Instruction) -> None:
    for d, (w, size) in enumerate(zip(i.attrs.window.dimensions, i.shape.dims)):
        kind = Kind.PASS if w.is_trivial else Kind.PERMUTE
        if w.is_trivial or w.dilated_size() < size:
            table.add(size, {0: d, 1: d}, {0: d}, kind)


@RULES.of("scan")
def scan(table: FactorTable, i: Instruction) -> None:
    """What is called may do anything with a slice: nothing can be cut."""


@RULES.of("batch-norm-inference")
def batch_norm_inference(table: FactorTable, i: Instruction) -> None:
    for d in range(i.shape.rank):
        if d == i.attrs.feature_index:
            table.add(i.shape.dims[d], {0: d, 1: 0, 2: 0, 3: 0, 4: 0}, {0: d})
        else:
            table.same([0], [0], [d])


@RULES.of("batch-norm-training")
def batch_norm_training(table: FactorTable, i: Instruction) -> None:
    """Mean and variance are folded over all dimensions but the features."""
    _normalised(table, i, arrays=[0], vectors=[1, 2])


@RULES.of("batch-norm-grad")
def batch_norm_grad(table: FactorTable, i: Instruction) -> None:
    _normalised(table, i, arrays=[0, 4], vectors=[1, 2, 3])


def _normalised(table: FactorTable, i: Instruction, arrays: list[int], vectors: list[int]) -> None:
    for d, size in enumerate(table.operand_dims[0]):
        whole = dict.fromkeys(arrays, d)
        if d == i.attrs.feature_index:
            table.add(size, {**whole, **dict.fromkeys(vectors, 0)}, {0: d, 1: 0, 2: 0})
        else:
            table.add(size, whole, {0: d}, Kind.REDUCE)
