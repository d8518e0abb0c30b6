"""Compiles functions of LLVM text and runs them on numpy arrays; reads what objects call."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from hloom.codegen.llvm.emit import Emit, module_text
from hloom.codegen.llvm.machine import Machine, object_bytes
from hloom.codegen.llvm.values import V

NUMPY = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f32": np.float32,
    "f64": np.float64,
}

HOST = Machine.host()
X86 = "x86_64-unknown-linux-gnu"
MACHINES = {
    "avx512": Machine.of(X86, "x86-64-v4"),
    "avx2": Machine.of(X86, "x86-64-v3"),
    "sse2": Machine.of(X86, "x86-64"),
    "aarch64": Machine.of("aarch64-unknown-linux-gnu", "generic"),
}


class Code:
    """Machine code in memory, and its functions as Python calls that take addresses."""

    def __init__(self, text: str, machine: Machine = HOST, opt_level: int = 2) -> None:
        self.module = llvm.parse_assembly(text)
        self.module.verify()
        target = llvm.Target.from_triple(machine.triple).create_target_machine(
            cpu=machine.cpu, features=machine.features, opt=opt_level, reloc="pic", jit=True
        )
        self.engine = llvm.create_mcjit_compiler(self.module, target)
        self.engine.finalize_object()

    def function(self, name: str, arguments: int) -> Callable[..., None]:
        """The function of this name, which takes that many addresses or integers."""
        made = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * arguments)
        function = made(self.engine.get_function_address(name))
        function.code = self  # type: ignore[attr-defined]  the memory lives as long as this
        return function


def mapped(
    body: Callable[..., Any],
    kinds: Sequence[str],
    results: Sequence[str],
    lanes: int,
    machine: Machine,
    name: str = "f",
) -> Emit:
    """A function (inputs.., outputs.., n) that runs `body` on `lanes` elements at a time."""
    words = [f"p{k}" for k in range(len(kinds) + len(results))]
    e = Emit(name, machine, [*(("ptr", w) for w in words), ("i64", "n")])
    bytes_ = [max(1, np.dtype(NUMPY[k]).itemsize) for k in (*kinds, *results)]
    with e.loop(e.const("i64", 0), e.args[-1], e.const("i64", lanes)) as loop:
        where = [e.gep(p, e.mul(loop.index, e.const("i64", b))) for p, b in zip(e.args, bytes_)]
        made = body(e, *(e.load(p, k, lanes) for p, k in zip(where, kinds)))
        made = [made] if isinstance(made, V) else made
        for p, value, kind in zip(where[len(kinds) :], made, results):
            e.store(e.zext(value, "i8") if kind == "i1" else value, p)
    e.ret()
    return e


def run(
    body: Callable[..., Any],
    inputs: Sequence[np.ndarray[Any, Any]],
    kinds: Sequence[str],
    results: Sequence[str],
    lanes: int = 16,
    machine: Machine = HOST,
) -> list[np.ndarray[Any, Any]]:
    """The arrays that `body` makes of equally long flat arrays, run in machine code."""
    n = inputs[0].size
    padded = -(-n // lanes) * lanes
    full = [np.concatenate([x, np.resize(x[-1:], padded - n)]) for x in inputs]
    outputs = [np.zeros(padded, NUMPY[r]) for r in results]
    code = Code(module_text([mapped(body, kinds, results, lanes, machine)], machine), machine)
    addresses = [x.ctypes.data for x in (*full, *outputs)]
    code.function("f", len(addresses) + 1)(*addresses, padded)
    return [x[:n] for x in outputs]


def undefined_symbols(data: bytes) -> set[str]:
    """The names that a 64-bit ELF object uses and does not define."""
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + k * size) for k in range(count)]
    found = set()
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = sections[link][4]
        for at in range(offset + entry, offset + length, entry):
            name, _, _, section = struct.unpack_from("<IBBH", data, at)
            if section == 0:
                end = data.index(b"\0", names + name)
                found.add(data[names + name : end].decode())
    return found


def symbols_of(functions: Sequence[Emit], machine: Machine) -> set[str]:
    """What the object of these functions calls."""
    return undefined_symbols(object_bytes(module_text(functions, machine), machine, 1))
