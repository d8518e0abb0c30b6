"""The kernels that combine what the members of a group put down.

They take the operands of all members and write the results of all: everything is read and written
once, so that sums of narrow floats can be kept wide from the first member to the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hloom.base.diagnostics import UnsupportedError
from hloom.codegen.key import computation_key
from hloom.codegen.loops import loop_kernel
from hloom.codegen.tile import Body, Emitted
from hloom.ir.builder import Builder
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.widened_fold import widened_fold
from hloom.passes.expand.expansion import Expansion
from hloom.passes.expand.map_inliner import inlined
from hloom.program.thunks.collective import Fold
from hloom.targets.cpu.lowering import Lowering, unsupported
from hloom.types.dtype import F32, DType
from hloom.types.shape import Shape, shape
from hloom.types.sizes import size_bytes

FOLDING = frozenset(("all-reduce", "reduce-scatter", "reduce"))
EVERYWHERE = frozenset(("all-reduce",))
"""What gives its result to all members; else a fold has one result."""


def fold_body(to_apply: Computation, dtype: DType, size: int, members: int, results: int) -> Body:
    """`to_apply` over one row of each member, in group order; sums and products of floats below
    32 bits in f32, rounded once."""
    b = Builder("fold")
    rows = [b.parameter(shape(dtype, (size,)), name=f"of{k}") for k in range(members)]
    opcode = widened_fold(to_apply)
    body = b.copy_of(to_apply) if opcode is None else None
    module = b.build(rows[0])
    expansion = Expansion(module.entry, {})
    total = rows[0] if opcode is None else expansion.converted(rows[0], F32)
    for row in rows[1:]:
        if body is not None:
            total = inlined(expansion, total, body, (total, row))
        elif opcode is not None:
            wide = expansion.converted(row, F32)
            total = expansion.emit(opcode, total, wide, shape=total.shape)
    total = expansion.converted(total, dtype)
    module.entry.root = total
    fold = Body.of_computation(module.entry)
    return replace(fold, several=True, roots=[(total, ())] * results)


def folds(
    cpu: Lowering,
    i: Instruction,
    exchange: str,
    groups: Sequence[tuple[int, ...]],
    rows: Sequence[Shape],
) -> tuple[Fold, ...]:
    """The kernels that fold each array, of one row, in groups of each size."""
    folds_: list[Fold] = []
    sizes = sorted({len(g) for g in groups} - {1})
    for number, row in enumerate(rows):
        size = prod(row.dims)
        for members in sizes if size else ():
            results = members if exchange in EVERYWHERE else 1
            symbol, emitted = _fold(cpu, i, row.dtype, size, members, results)
            which = [what if isinstance(what, int) else -1 - what[0] for what in emitted.arguments]
            k = emitted.kernel
            step_bytes = emitted.step_elements * size_bytes(row) // size
            folds_.append(
                Fold(number, members, k.steps, k.cost_ns, symbol, tuple(which), step_bytes)
            )
    return tuple(folds_)


def _fold(
    cpu: Lowering, i: Instruction, dtype: DType, size: int, members: int, results: int
) -> tuple[str, Emitted]:
    to_apply = i.called[0]

    def write() -> Emitted:
        try:
            body = fold_body(to_apply, dtype, size, members, results)
        except UnsupportedError as error:
            why = f"combines values by %{to_apply.name}, which is more than operations on elements"
            raise unsupported(i, f"{why} ({error.message})") from error
        return loop_kernel(body, cpu.device)

    key = ("fold", computation_key(to_apply), dtype, size, members, results)
    return cpu.function(i, key, write, "fold")
