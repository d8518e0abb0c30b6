"""Triples as people write them, with every part in its place for LLVM."""

import pytest

from hloom.codegen.llvm.machine import Machine, object_bytes
from hloom.codegen.llvm.triple import full_triple, unknown_system

FULL = {
    "x86_64-unknown-linux-gnu": "x86_64-unknown-linux-gnu",
    "x86_64-pc-windows-msvc": "x86_64-pc-windows-msvc",
    "aarch64-apple-macos": "aarch64-apple-macos",
    "wasm32-unknown-unknown": "wasm32-unknown-unknown",
    "x86_64-windows-gnu": "x86_64-unknown-windows-gnu",
    "x86_64-w64-mingw32": "x86_64-w64-windows-gnu",
    "aarch64-macos": "aarch64-apple-macos",
    "x86_64-darwin": "x86_64-apple-darwin",
    "aarch64-linux": "aarch64-unknown-linux",
    "aarch64-linux-gnu": "aarch64-unknown-linux-gnu",
    "arm-linux-gnueabihf": "arm-unknown-linux-gnueabihf",
    "aarch64-none-linux-gnu": "aarch64-none-linux-gnu",
    "aarch64-none-elf": "aarch64-unknown-none-elf",
    "riscv32-unknown-elf": "riscv32-unknown-none-elf",
    "thumbv7em-none-eabihf": "thumbv7em-unknown-none-eabihf",
    "thumbv7em-eabi": "thumbv7em-unknown-none-eabi",
    "wasm32-wasi": "wasm32-unknown-wasi",
    "aarch64-linux-android": "aarch64-unknown-linux-android",
    "x86_64": "x86_64-unknown",
}


@pytest.mark.parametrize(
    "triple", [*FULL, "aarch64-unknown-fuchsia", "x86_64-pc", "arm64-macosx14"]
)
def test_systems_that_are_known(triple):
    assert unknown_system(triple) == ""


@pytest.mark.parametrize(
    ("triple", "word"),
    [
        *(("x86_64-unknown-plan9", "plan9"), ("x86_64-pc-linus-gnu", "linus")),
        *(("aarch64-linus-gnu", "linus"), ("aarch64-linuks", "linuks"), ("aarch64-gnu", "gnu")),
    ],
)
def test_systems_that_are_none(triple, word):
    assert unknown_system(triple) == word


@pytest.mark.parametrize("triple", FULL)
def test_every_part_has_its_place(triple):
    assert full_triple(triple) == FULL[triple] == full_triple(FULL[triple])


@pytest.mark.parametrize(
    ("triple", "head"),
    [
        ("x86_64-windows-gnu", b"\x64\x86"),
        ("x86_64-w64-mingw32", b"\x64\x86"),
        ("aarch64-windows-msvc", b"\x64\xaa"),
        ("aarch64-macos", b"\xcf\xfa\xed\xfe"),
        ("x86_64-darwin", b"\xcf\xfa\xed\xfe"),
        ("aarch64-linux", b"\x7fELF"),
        ("aarch64-none-elf", b"\x7fELF"),
        ("wasm32-wasi", b"\0asm"),
    ],
)
def test_objects_have_the_format_of_the_system(triple, head):
    machine = Machine.of(triple)
    text = f'target datalayout = "{machine.data_layout}"\ntarget triple = "{machine.full_triple}"\n'
    text += "define i32 @f(i32 %x) { ret i32 %x }\n"
    assert object_bytes(text, machine).startswith(head)
