"""The custom calls of a C library, as constants that aot/native/dense.cc reads.

A call is described by its target, how many operands, results and attributes it has, and type, rank
and dimensions of each operand and result; each attribute by name, type and value. All are numbers
of 64 bits, names 32 bytes that end with zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from hloom.program.c_scratch import NAME_BYTES, scalar_attributes
from hloom.program.call_site import CallSite

CALL_SITE = "declare i32 @hl_call_site_run(ptr, i64, ptr)"
_RUN = """define internal i32 @hl_call_site_run(ptr %c, i64 %site, ptr %addresses) {
start:
  %row = getelementptr [2 x ptr], ptr @call_sites, i64 %site
  %second = getelementptr ptr, ptr %row, i64 1
  %described = load ptr, ptr %row
  %attributes = load ptr, ptr %second
  %status = call i32 @hl_library_call(ptr %c, ptr %described, ptr %attributes, ptr %addresses)
  ret i32 %status
}"""


def call_sites_text(sites: Sequence[CallSite]) -> str:
    """The constants, and the function that runs a call by its number."""
    lines, rows = ["declare i32 @hl_library_call(ptr, ptr, ptr, ptr)"], []
    for k, site in enumerate(sites):
        lines.append(_numbers(f"call_site{k}", _description(site)))
        lines.append(_numbers(f"call_attributes{k}", _attributes(site)))
        rows.append(f"[2 x ptr] [ptr @call_site{k}, ptr @call_attributes{k}]")
    table = f"@call_sites = private constant [{len(rows)} x [2 x ptr]] [{', '.join(rows)}]"
    return "\n".join([*lines, table, _RUN])


def _description(site: CallSite) -> list[int]:
    attributes = scalar_attributes(site) or []
    numbers = [*_name(site.target), len(site.operands), len(site.results), len(attributes)]
    for b in (*site.operands, *site.results):
        numbers += [b.dtype, len(b.dims), *b.dims]
    return numbers


def _attributes(site: CallSite) -> list[int]:
    rows = scalar_attributes(site) or []
    return [n for name, dtype, value in rows for n in (*_name(name), dtype, value)]


def _name(text: str) -> tuple[int, ...]:
    """A name as numbers."""
    return struct.unpack(f"<{NAME_BYTES // 8}q", text.encode().ljust(NAME_BYTES, b"\0"))


def _numbers(name: str, values: Sequence[int]) -> str:
    inside = ", ".join([f"i64 {v}" for v in values])
    return f"@{name} = private unnamed_addr constant [{len(values)} x i64] [{inside}], align 8"
