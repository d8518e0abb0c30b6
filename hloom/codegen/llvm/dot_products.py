"""Instructions that multiply narrow elements and add neighbouring products to wide sums.

    for d in dot_products(machine): a[4k .. 4k+3] . b[4k .. 4k+3] is added to lane k of the sums

x86 has `vdpbf16ps` (AVX512-BF16; subnormal numbers count as zero), `vpdpbusd` (VNNI; one operand is
unsigned), and for 16-bit integers `vpdpwssd` (VNNI) or `vpmaddwd`, whose sums are added by an
instruction of their own; aarch64 has `bfdot` and `sdot`. (Intel's and Arm's manuals of the
instruction sets.)
"""

from __future__ import annotations

from typing import NamedTuple

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.values import V


class DotProduct(NamedTuple):
    """One instruction: types of the operands and of the sums, products for each sum, its lanes."""

    a: str
    b: str
    sums: str
    group: int
    lanes: int
    intrinsic: str
    adds: bool = True
    """Whether it takes the sums."""


def dot_products(machine: Machine) -> tuple[DotProduct, ...]:
    """Those of the machine's widest vectors, the best one for each pair of types."""
    if machine.is_x86 and machine.vector_bytes == 64:
        return _available(
            machine,
            ("avx512bf16", DotProduct("bf16", "bf16", "f32", 2, 16, "x86.avx512bf16.dpbf16ps.512")),
            ("avx512vnni", DotProduct("u8", "s8", "s32", 4, 16, "x86.avx512.vpdpbusd.512")),
            ("avx512vnni", DotProduct("s16", "s16", "s32", 2, 16, "x86.avx512.vpdpwssd.512")),
            ("avx512bw", DotProduct("s16", "s16", "s32", 2, 16, "x86.avx512.pmaddw.d.512", False)),
        )
    if machine.is_x86 and machine.vector_bytes == 32:
        return _available(
            machine,
            ("avxvnni", DotProduct("u8", "s8", "s32", 4, 8, "x86.avx512.vpdpbusd.256")),
            ("avxvnni", DotProduct("s16", "s16", "s32", 2, 8, "x86.avx512.vpdpwssd.256")),
            ("avx2", DotProduct("s16", "s16", "s32", 2, 8, "x86.avx2.pmadd.wd", False)),
        )
    if machine.architecture == "aarch64":
        return _available(
            machine,
            ("bf16", DotProduct("bf16", "bf16", "f32", 2, 4, "aarch64.neon.bfdot.v4f32.v8bf16")),
            ("dotprod", DotProduct("s8", "s8", "s32", 4, 4, "aarch64.neon.sdot.v4i32.v16i8")),
        )
    return ()


def _available(machine: Machine, *known: tuple[str, DotProduct]) -> tuple[DotProduct, ...]:
    products: dict[tuple[str, str], DotProduct] = {}
    for feature, d in known:
        if machine.has(feature):
            products.setdefault((d.a, d.b), d)
    return tuple(products.values())


def added(e: Emit, d: DotProduct, sums: V, a: V, b: V) -> V:
    """`sums` plus the products; `a` and `b` are words of 32 bits, one for each lane."""
    if sums.lanes != d.lanes:
        parts = [
            added(e, d, *[e.slice(x, at, d.lanes) for x in (sums, a, b)])
            for at in range(0, sums.lanes, d.lanes)
        ]
        return e.concat(parts)
    lanes = d.lanes * d.group
    kind = "bf16" if d.a == "bf16" else f"i{32 // d.group}"
    left, right = e.bitcast(a, kind, lanes), e.bitcast(b, kind, lanes)
    depth = max(sums.depth, a.depth, b.depth)
    operands = ", ".join([x.typed for x in ((sums, left, right) if d.adds else (left, right))])
    result = e.pure(f"call {sums.type} @llvm.{d.intrinsic}({operands})", sums.kind, d.lanes, depth)
    return result if d.adds else e.add(sums, result)
