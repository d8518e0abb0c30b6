"""Tile registers for processors that have none: what AMX's instructions do, as LLVM text.

The code of a kernel for a machine with AMX is what it is elsewhere, but each of those instructions
is a call of a function here, whose registers are memory of the kernel's own, and behind them how
many rows each has. Products are added in
the order of the processor's manual; bf16 ones by plain multiplications in f32.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hloom.codegen.llvm import machine as machines
from hloom.codegen.llvm.machine import Machine

FEATURES = ("amx-tile", "amx-bf16", "amx-int8")
_CALL = re.compile(r"call void @llvm\.x86\.(tile\w+|tdp\w+|ldtilecfg)\(")
_MOVE = """
define internal void @emulated_{name}(ptr %tiles, i8 %t, ptr %p, i64 %stride) noinline {{
  %at = zext i8 %t to i64
  %tile = getelementptr [1024 x i8], ptr %tiles, i64 %at
  %counts = getelementptr [1024 x i8], ptr %tiles, i64 8
  %place = getelementptr i8, ptr %counts, i64 %at
  %byte = load i8, ptr %place
  %count = zext i8 %byte to i64
  br label %rows
rows:
  %m = phi i64 [0, %0], [%next, %rows]
  %row = getelementptr [64 x i8], ptr %tile, i64 %m
  %away = mul i64 %m, %stride
  %far = getelementptr i8, ptr %p, i64 %away
  %x = load <16 x i32>, ptr {source}, align 1
  store <16 x i32> %x, ptr {target}, align 1
  %next = add i64 %m, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %rows, label %done
done:
  ret void
}}
"""
_PRODUCT = """
define internal void @emulated_{name}(ptr %tiles, i8 %c, i8 %a, i8 %b) noinline {{
  %cat = zext i8 %c to i64
  %aat = zext i8 %a to i64
  %bat = zext i8 %b to i64
  %ct = getelementptr [1024 x i8], ptr %tiles, i64 %cat
  %at = getelementptr [1024 x i8], ptr %tiles, i64 %aat
  %bt = getelementptr [1024 x i8], ptr %tiles, i64 %bat
  br label %rows
rows:
  %m = phi i64 [0, %0], [%nextm, %last]
  %row = getelementptr [64 x i8], ptr %ct, i64 %m
  %arow = getelementptr [64 x i8], ptr %at, i64 %m
  %start = load <16 x {of}>, ptr %row, align 1
  br label %depth
depth:
  %k = phi i64 [0, %rows], [%nextk, %depth]
  %sum = phi <16 x {of}> [%start, %rows], [%sum{count}, %depth]
  %place = getelementptr i32, ptr %arow, i64 %k
  %word = load i32, ptr %place, align 1
  %one = insertelement <16 x i32> poison, i32 %word, i32 0
  %x = shufflevector <16 x i32> %one, <16 x i32> poison, <16 x i32> zeroinitializer
  %brow = getelementptr [64 x i8], ptr %bt, i64 %k
  %y = load <16 x i32>, ptr %brow, align 1
{steps}
  %nextk = add i64 %k, 1
  %morek = icmp ult i64 %nextk, 16
  br i1 %morek, label %depth, label %last
last:
  store <16 x {of}> %sum{count}, ptr %row, align 1
  %nextm = add i64 %m, 1
  %morem = icmp ult i64 %nextm, 16
  br i1 %morem, label %rows, label %done
done:
  ret void
}}
"""


def _all(number: int) -> str:
    return "<" + ", ".join([f"i32 {number}"] * 16) + ">"


def _integers(signs: str) -> str:
    lines = []
    for j in range(4):
        for x, sign in zip("xy", signs):
            shift = "ashr" if sign == "s" else "lshr"
            lines.append(f"  %{x}l{j} = shl <16 x i32> %{x}, {_all(24 - 8 * j)}")
            lines.append(f"  %{x}{j} = {shift} <16 x i32> %{x}l{j}, {_all(24)}")
        lines.append(f"  %p{j} = mul <16 x i32> %x{j}, %y{j}")
        before = "%sum" if j == 0 else f"%sum{j}"
        lines.append(f"  %sum{j + 1} = add <16 x i32> {before}, %p{j}")
    return "\n".join(lines)


def _floats() -> str:
    lines = []
    for j in range(2):
        for x in "xy":
            if j == 0:
                lines.append(f"  %{x}b0 = shl <16 x i32> %{x}, {_all(16)}")
            else:
                lines.append(f"  %{x}b1 = and <16 x i32> %{x}, {_all(-65536)}")
            lines.append(f"  %{x}f{j} = bitcast <16 x i32> %{x}b{j} to <16 x float>")
        lines.append(f"  %p{j} = fmul <16 x float> %xf{j}, %yf{j}")
        before = "%sum" if j == 0 else f"%sum{j}"
        lines.append(f"  %sum{j + 1} = fadd <16 x float> {before}, %p{j}")
    return "\n".join(lines)


_FUNCTIONS = (
    _MOVE.format(name="tileloadd64", source="%far", target="%row")
    + _MOVE.format(name="tilestored64", source="%row", target="%far")
    + _PRODUCT.format(name="tdpbf16ps", of="float", count=2, steps=_floats())
    + "".join(
        _PRODUCT.format(name=f"tdpb{name}d", of="i32", count=4, steps=_integers(signs))
        for name, signs in (("ss", "ss"), ("us", "us"), ("su", "su"), ("uu", "uu"))
    )
    + """
define internal void @emulated_tilezero(ptr %tiles, i8 %t) {
  %at = zext i8 %t to i64
  %tile = getelementptr [1024 x i8], ptr %tiles, i64 %at
  store <256 x i32> zeroinitializer, ptr %tile, align 1
  ret void
}
define internal void @emulated_ldtilecfg(ptr %tiles, ptr %p) {
  %counts = getelementptr [1024 x i8], ptr %tiles, i64 8
  %said = getelementptr i8, ptr %p, i64 48
  %rows = load i64, ptr %said, align 1
  store i64 %rows, ptr %counts, align 1
  ret void
}
define internal void @emulated_tilerelease(ptr %tiles) {
  ret void
}
"""
)


def emulated(text: str) -> str:
    """A module without instructions of AMX."""
    if "llvm.x86.tile" not in text:
        return text
    lines = []
    for line in text.splitlines():
        line = _CALL.sub(r"call void @emulated_\1(ptr %emulated_tiles, ", line)
        lines.append(line.replace("(ptr %emulated_tiles, )", "(ptr %emulated_tiles)"))
        if line == "entry:":
            lines.append("  %emulated_tiles = alloca [8256 x i8], align 64")
    return "\n".join(lines) + _FUNCTIONS


def machine_with_tiles() -> Machine:
    """This machine, as if it had AMX."""
    host = Machine.host()
    gone = [f"-{f}" for f in host.disabled if f not in FEATURES]
    features = [f"+{f}" for f in sorted({*host.enabled, *FEATURES})]
    return Machine.of(host.triple, host.cpu, ",".join([*features, *gone]))


@contextmanager
def tiles_emulated() -> Iterator[Machine]:
    """Code is compiled as it runs here; the machine to compile for."""
    with pytest.MonkeyPatch.context() as patch:
        emitted = machines._emitted

        def here(text: str, *rest: object, **more: object) -> bytes:
            return emitted(emulated(text), *rest, **more)  # type: ignore[arg-type]

        patch.setattr(machines, "_emitted", here)
        patch.setenv("HLOOM_MISSING_FEATURES", "warn")
        patch.setenv("HLOOM_CACHE", "0")
        yield machine_with_tiles()
