"""Kernels: short ones are called at once, others are handed to the pool."""

from __future__ import annotations

from hloom.codegen.llvm.main_function import EMITS, MainFunction
from hloom.program.thunks.kernel import Kernel


@EMITS.of(Kernel)
def kernel(f: MainFunction, t: Kernel) -> None:
    if t.steps == 0:
        return
    f.declared.setdefault(t.symbol, f"void @{t.symbol}(ptr, i64, i64)")
    array = f.array([f.pointer(s) for s in t.arguments])
    # A long one of one step cannot be cut, but profiles show it.
    grain = f.device.costs.grain(t.steps, t.cost_ns, f.device.compute.units)
    if not grain:
        f.line(f"call void @{t.symbol}(ptr {array}, i64 0, i64 {t.steps})")
        return
    f.declared["hl_parallel_for_ns"] = "void @hl_parallel_for_ns(ptr, ptr, ptr, i64, i64, i64)"
    f.line(
        f"call void @hl_parallel_for_ns(ptr %context, ptr @{t.symbol}, ptr {array},"
        f" i64 {t.steps}, i64 {grain}, i64 {int(t.steps * t.cost_ns)})"
    )
