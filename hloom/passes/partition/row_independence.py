"""Whether the rows of a program know nothing of each other: those that a batch is padded with do
not change the others.

The proof is a partitioned program: with as many partitions as there are rows each has one of them,
and where nobody meets anybody, a row of the results follows from that row of the arguments alone.
What a row is computed from besides must not know how many there are: two programs for different
numbers are compared, and every array that they have in different sizes is cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from hloom.base.diagnostics import UnsupportedError
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import RANDOM, READS_PART
from hloom.ir.values.sharding import REPLICATED, Sharding
from hloom.passes.control.call_inliner import CallInliner
from hloom.passes.partition.spmd_partitioner import COLLECTIVES, partition_once
from hloom.passes.sharding.sharding_propagation import ShardingPropagation
from hloom.passes.simplify.dce import DeadCodeElimination
from hloom.types.shape import Shape

Cuts = Mapping[int, int]
"""By number of a leaf, the dimension whose indices are rows."""
DRAWS = opcodes(RANDOM)
"""The numbers of a row depend on how many there are."""
SIZED = opcodes(READS_PART)
"""Their attributes are sizes of results, which are looked at by themselves."""


def why_rows_depend(few: Module, many: Module, rows: int, cuts: Cuts, results: Cuts) -> str:
    """Why rows of `many`, which is `few` with more of them, `rows`, may depend on the others; ""
    where they do not. Leaves of arguments (`cuts`) and of the result are counted in order."""
    few, many = copy_module(few), copy_module(many)
    for module in (few, many):
        for step in (CallInliner(), DeadCodeElimination()):
            step.run(module)
    varying, reason = _compared(few, many)
    if reason:
        return reason
    many.num_partitions, many.use_spmd_partitioning = rows, True
    leaves = iter(range(sum([p.shape.leaf_count for p in many.entry.parameters])))
    for p in many.entry.parameters:
        p.sharding = _sharding(
            p.shape, [cuts.get(k) for _, k in zip(p.shape.leaves(), leaves)], rows
        )
    root = many.entry.root
    of_root = [results.get(k) for k in range(root.shape.leaf_count)]
    many.spmd_output_sharding = root.sharding = _sharding(root.shape, of_root, rows)
    try:
        ShardingPropagation().run(many)
        live = [i for c in many.computations_in_order([many.entry]) for i in c.instructions]
        for i in live:
            if i in varying and not _is_cut(i, varying[i], rows):
                return f"%{i.name}, {i.shape.text_without_layout}, is not one part for each row"
        # Done alike by all, a reversed count would ask nobody how many rows there are.
        partition_once(many, Counter(), repeats_few=False)
    except UnsupportedError as error:
        return error.message
    return next(
        (f"rows meet in an {i.opcode}" for i in many.instructions() if i.opcode in COLLECTIVES), ""
    )


def _compared(few: Module, many: Module) -> tuple[dict[Instruction, list[int]], str]:
    """The instructions of `many` whose arrays have other sizes in `few`, which leaves; and what
    else is different, or depends on the sizes in ways that no partition shows."""
    varying: dict[Instruction, list[int]] = {}
    twins: dict[Instruction, Instruction] = {}
    sides = [m.computations_in_order([m.entry]) for m in (few, many)]
    if len(sides[0]) != len(sides[1]):
        return {}, "programs for other sizes call other computations"
    for a, b in zip(*sides):
        if len(a.instructions) != len(b.instructions):
            return {}, f"%{b.name} has other instructions for other sizes"
        for x, y in zip(a.in_order(), b.in_order()):
            twins[x] = y
            if reason := _difference(x, y, twins):
                return {}, reason
            pairs = enumerate(zip(x.shape.leaves(), y.shape.leaves()))
            if leaves := [k for k, (s, t) in pairs if s.dims != t.dims]:
                varying[y] = leaves
                if y.opcode in DRAWS:
                    return {}, f"%{y.name} draws other numbers for other sizes"
    return varying, ""


def _difference(x: Instruction, y: Instruction, twins: Mapping[Instruction, Instruction]) -> str:
    """What makes an instruction another one than that of the same place, but for sizes."""
    kind = (x.opcode, len(x.called), x.shape.leaf_count)
    if kind != (y.opcode, len(y.called), y.shape.leaf_count):
        return f"%{y.name} is another instruction for other sizes"
    if [twins[o] for o in x.operands] != list(y.operands):
        return f"%{y.name} reads other values for other sizes"
    if y.opcode == "constant":
        a, b = x.attrs.literal.array, y.attrs.literal.array
        both = tuple([slice(min(n, m)) for n, m in zip(a.shape, b.shape)])
        if a.ndim != b.ndim or a[both].tobytes() != b[both].tobytes():
            return f"%{y.name} has another value for other sizes"
    elif x.attrs != y.attrs and y.opcode not in SIZED:
        return f"%{y.name} has other attributes for other sizes"
    return ""


def _sharding(shape: Shape, cuts: Sequence[int | None], rows: int) -> Sharding:
    leaves = [
        REPLICATED
        if d is None
        else Sharding.tile(tuple([rows if k == d else 1 for k in range(s.rank)]))
        for s, d in zip(shape.leaves(), cuts, strict=True)
    ]
    return Sharding.tuple_of(*leaves) if shape.is_tuple else leaves[0]


def _is_cut(i: Instruction, leaves: Sequence[int], rows: int) -> bool:
    """Whether each of these arrays is in as many parts as there are rows."""
    if i.sharding is None:
        return False
    parts = [i.sharding.for_leaf(k).tiled() for k in leaves]
    return all(s.kind == "tiled" and prod(s.tile_dims[: s.data_rank]) == rows for s in parts)
