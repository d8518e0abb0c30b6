"""The plans of Fourier transforms as constants of a C library (aot/native/transforms.cc).

A plan is the very struct that fft_plan.h declares for libraries: numbers, tables as a pointer and a
count, other plans as pointers. So a call looks for a length and computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hloom.codegen.llvm.constant_bytes import constant_bytes
from hloom.program.c_fft import fft_length

TABLES = ("twiddles", "step_real", "step_imag", "chirp", "spectrum", "half")
_TABLE = "{ ptr, i64 }"
_PASS = "{ i32, i64, i64 }"
_PLAN = (
    f"{{ i64, {_TABLE}, {_TABLE}, i64, i64, ptr, ptr, {_TABLE}, {_TABLE}, i64, ptr, {_TABLE},"
    f" {_TABLE}, {_TABLE} }}"
)
"""As FftPlan has it: n, passes, twiddles, n1, n2, first, second, step_real, step_imag, step_stride,
convolution, chirp, spectrum, half."""


class FftTables(NamedTuple):
    """What the runtime knows of a length."""

    passes: Sequence[tuple[int, int, int]]
    """Radix, length, where its twiddles begin."""
    step_stride: int
    tables: Mapping[str, bytes]
    """By name."""


def fft_plans_text(prefix: str, plans: Mapping[tuple[int, bool], FftTables]) -> str:
    """The module of a library's plans, by length and whether of f64."""
    lines, rows = [], []
    for (n, is_double), plan in sorted(plans.items()):
        lines += _plan(n, is_double, plan)
        rows.append(
            f"{{ i64, i64, ptr }} {{ i64 {n}, i64 {int(is_double)}, ptr @{_name(n, is_double)} }}"
        )
    rows.append("{ i64, i64, ptr } zeroinitializer")
    inside = ", ".join(rows)
    lines.append(
        f"@{prefix}_fft_plans = hidden constant [{len(rows)} x {{ i64, i64, ptr }}] [{inside}]"
    )
    return "\n".join([*lines, ""])


def _name(n: int, is_double: bool) -> str:
    return f"plan{'d' if is_double else 's'}{n}"


def _plan(n: int, is_double: bool, plan: FftTables) -> list[str]:
    name, size = _name(n, is_double), 8 if is_double else 4
    shape = fft_length(n)
    lines, places = [], {}
    for table in TABLES:
        data = plan.tables[table]
        places[table] = f"{_TABLE} {{ ptr null, i64 0 }}"
        if data:
            lines.append(f"@{name}.{table} = private constant {constant_bytes(data)}, align 64")
            places[table] = f"{_TABLE} {{ ptr @{name}.{table}, i64 {len(data) // size} }}"
    places["passes"] = f"{_TABLE} {{ ptr null, i64 0 }}"
    if plan.passes:
        inside = ", ".join([f"{_PASS} {{ i32 {r}, i64 {m}, i64 {w} }}" for r, m, w in plan.passes])
        lines.append(f"@{name}.passes = private constant [{len(plan.passes)} x {_PASS}] [{inside}]")
        places["passes"] = f"{_TABLE} {{ ptr @{name}.passes, i64 {len(plan.passes)} }}"
    first, second, convolution = [
        f"ptr @{_name(k, is_double)}" if k else "ptr null"
        for k in (shape.n1, shape.n2, shape.convolution)
    ]
    fields = [
        *(f"i64 {n}", places["passes"], places["twiddles"], f"i64 {shape.n1}", f"i64 {shape.n2}"),
        *(first, second, places["step_real"], places["step_imag"], f"i64 {plan.step_stride}"),
        *(convolution, places["chirp"], places["spectrum"], places["half"]),
    ]
    lines.append(f"@{name} = private constant {_PLAN} {{ {', '.join(fields)} }}")
    return lines
