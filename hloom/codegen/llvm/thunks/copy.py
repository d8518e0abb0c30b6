"""Copies: calls of memcpy, or loads and stores."""

from __future__ import annotations

from hloom.codegen.llvm.main_function import EMITS, MainFunction
from hloom.program.thunks.copy import Copy

# Copies of as many vectors, or fewer, are loads and stores instead of a call.
INLINE_VECTORS = 4


@EMITS.of(Copy)
def copy(f: MainFunction, t: Copy) -> None:
    size = t.target.size_bytes
    if not size:
        return
    source, target = f.pointer(t.source), f.pointer(t.target)
    if size <= INLINE_VECTORS * f.device.compute.vector_bytes:
        _inline_copy(f, source, target, size)
        return
    f.declared["memcpy"] = "ptr @memcpy(ptr, ptr, i64)"
    f.line(f"call ptr @memcpy(ptr {target}, ptr {source}, i64 {size})")


def _inline_copy(f: MainFunction, source: str, target: str, size: int) -> None:
    """Few bytes, as loads and stores; all are read before any is written."""
    pieces: list[tuple[int, int]] = []
    at = 0
    for width in (64, 32, 16, 8, 4, 2, 1):
        while size - at >= width:
            pieces.append((at, width))
            at += width
    values = []
    for at, width in pieces:
        place, value = f.name(), f.name()
        kind = f"<{width // 8} x i64>" if width > 8 else f"i{8 * width}"
        f.line(f"{place} = getelementptr i8, ptr {source}, i64 {at}")
        f.line(f"{value} = load {kind}, ptr {place}, align 1")
        values.append((at, kind, value))
    for at, kind, value in values:
        place = f.name()
        f.line(f"{place} = getelementptr i8, ptr {target}, i64 {at}")
        f.line(f"store {kind} {value}, ptr {place}, align 1")
