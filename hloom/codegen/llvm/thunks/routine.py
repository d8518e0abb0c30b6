"""Calls of the runtime; an error ends the program."""

from __future__ import annotations

from hloom.codegen.llvm.main_function import EMITS, MainFunction
from hloom.program.slice import BufferSlice
from hloom.program.thunks.routine import (
    Addresses,
    Argument,
    Function,
    NamedRoutine,
    Numbers,
    Pointers,
    Routine,
    Text,
)


@EMITS.of(Routine)
@EMITS.of(NamedRoutine)
def routine(f: MainFunction, t: Routine | NamedRoutine) -> None:
    values = [_argument(f, x) for x in t.arguments]
    types = ", ".join(["ptr"] + [v.split(" ", 1)[0] for v in values])
    f.declared.setdefault(t.symbol, f"i32 @{t.symbol}({types})")
    f.checked_call(f"@{t.symbol}({', '.join(['ptr %context', *values])})")


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
        pointers = ["null" if s is None else f.pointer(s) for s in x.slices]
        return f"ptr {f.private_array(pointers)}"
    if isinstance(x, Addresses):
        pointers = [
            f.pointer(p) if isinstance(p, BufferSlice) else _function(f, p) for p in x.places
        ]
        return f"ptr {f.private_array(pointers)}"
    if isinstance(x, Text):
        return f"ptr {f.bytes_(x.data)}"
    return f"ptr {_function(f, x)}"


def _function(f: MainFunction, x: Function) -> str:
    f.declared.setdefault(x.symbol, f"i8 @{x.symbol}(ptr)")
    return f"@{x.symbol}"
