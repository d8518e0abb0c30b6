"""Factors of what devices already do together: along other dimensions each part by itself."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.sharding.factors import RULES, FactorTable


@RULES.of(
    "all-reduce", "collective-permute", "collective-broadcast", "all-gather", "reduce-scatter",
    "all-to-all",
)  # fmt: skip
def across(table: FactorTable, i: Instruction) -> None:
    """Operand k and result k, but for the dimension along which pieces are cut or joined."""
    cut = getattr(i.attrs, "dimensions", None) or ()
    if i.opcode == "all-to-all" and not cut:
        return  # pieces of several operands make up each result
    if getattr(i.attrs, "slice_sizes", ()) or getattr(i.attrs, "has_dynamic_root", False):
        return
    for k, dims in enumerate(table.result_dims):
        table.same([k], [k], [d for d in range(len(dims)) if d not in cut])
