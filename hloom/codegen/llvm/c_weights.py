"""The weights of a C library as an object of their own.

An assembler reads them from a file: a model of 500 MB does not become text. Where LLVM brings no
assembler for an architecture they are a constant of a module.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hloom.codegen.llvm.compile import module_text
from hloom.codegen.llvm.constant_bytes import constant_bytes
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.other_machine import machine_of, object_for
from hloom.program.c_weights import Weights
from hloom.program.program import Processor
from hloom.program.slice import ALIGNMENT

_SECTIONS = {
    "linux": ".section .rodata,\\22a\\22,@progbits",
    "": ".section .rodata,\\22a\\22,@progbits",
    "macos": ".section __TEXT,__const",
    "windows": ".section .rdata,\\22dr\\22",
}
_HIDDEN = {"linux": ".hidden", "": ".hidden", "macos": ".private_extern"}


def weights_bytes(weights: Weights) -> bytes:
    """All of them, one behind another."""
    whole = bytearray(weights.size_bytes)
    for offset, data in weights.items:
        whole[offset : offset + len(data)] = data
    return bytes(whole)


def weights_object(library: str, weights: Weights, processor: Processor) -> bytes:
    """The object that defines `library_weights`."""
    machine = machine_of(processor)
    data = weights_bytes(weights)
    if machine.architecture != Machine.host().architecture:
        text = f"@{library}_weights = hidden constant {constant_bytes(data)}, align {ALIGNMENT}"
        return object_for(module_text(machine, [text], ()), machine, 0)
    symbol = f"_{library}_weights" if machine.system == "macos" else f"{library}_weights"
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(data)
        file.flush()
        lines = [_SECTIONS[machine.system], f".globl {symbol}"]
        if word := _HIDDEN.get(machine.system):
            lines.append(f"{word} {symbol}")
        log = ALIGNMENT.bit_length() - 1
        lines += [f".p2align {log}", f"{symbol}:", f".incbin \\22{_quoted(file.name)}\\22"]
        text = "\n".join([f'module asm "{line}"' for line in lines])
        return object_for(module_text(machine, [text], ()), machine, 0)


def _quoted(path: str) -> str:
    """A path inside the quotes of an assembler, inside those of LLVM."""
    return Path(path).as_posix().replace("\\", "\\5C\\5C").replace('"', "\\5C\\22")
