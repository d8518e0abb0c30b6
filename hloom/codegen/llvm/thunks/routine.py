"""Calls of the runtime; an error ends the program."""

from __future__ import annotations

from hloom.codegen.llvm.main_function import EMITS, MainFunction
from hloom.program.slice import BufferSlice
from hloom.program.thunks.routine import Argument, Function, Numbers, Pointers, Routine, Text


@EMITS.of(Routine)
def routine(f: MainFunction, t: Routine) -> None:
    values = [_argument(f, x) for x in t.arguments]
    types = ", ".join(["ptr"] + [v.split(" ", 1)[0] for v in values])
    f.declared.setdefault(t.symbol, f"i32 @{t.symbol}({types})")
    code, bad = f.name(), f.name()
    f.line(f"{code} = call i32 @{t.symbol}({', '.join(['ptr %context', *values])})")
    f.line(f"store i32 {code}, ptr %status")
    f.line(f"{bad} = icmp ne i32 {code}, 0")
    after = f.new_label("after")
    f.line(f"br i1 {bad}, label %failed, label %{after}")
    f.label(after)


def _argument(f: MainFunction, x: Argument) -> str:
    if x is None:
        return "ptr null"
    if isinstance(x, int):
        return f"i64 {x}"
    if isinstance(x, BufferSlice):
        return f"ptr {f.pointer(x)}"
    if isinstance(x, Numbers):
        return f"ptr {f.numbers(x.values)}" if x.values else "ptr null"
    if isinstance(x, Pointers):
        found = ["null" if s is None else f.pointer(s) for s in x.slices]
        return f"ptr {f.private_array(found)}"
    if isinstance(x, Text):
        return f"ptr {f.bytes_(x.data)}"
    assert isinstance(x, Function)
    f.declared.setdefault(x.symbol, f"i8 @{x.symbol}(ptr)")
    return f"ptr @{x.symbol}"
