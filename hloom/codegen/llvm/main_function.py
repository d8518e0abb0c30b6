"""The whole program as one native function: thunks in order, loops and choices as branches.

`int32 entry(ptr context, ptr buffers)`: `buffers` holds the base address of every allocation. How a
kind of thunk is run is said by one function of `thunks/`, registered for its class:
`@EMITS.of(Copy)`. A status other than 0 in `%status` ends the program at the label `failed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloom.base.registry import ByClass, load_room
from hloom.device.device import Device
from hloom.program.slice import BufferSlice
from hloom.program.thunks.thunk import Thunk


class MainFunction:
    """Writes the LLVM text of one program's entry function."""

    def __init__(self, entry: str, device: Device) -> None:
        self.entry = entry
        self.device = device
        self.lines: list[str] = []
        self.globals: list[str] = []
        self.declared: dict[str, str] = {}
        """What is called, by symbol: type, name and parameters."""
        self._count = 0
        self._slots = 0
        self._labels = 0
        self._constants: dict[tuple[int, ...] | bytes, str] = {}

    def text(self, thunks: Sequence[Thunk]) -> str:
        """The function with all it declares, without target lines."""
        self.sequence(thunks)
        self.line("ret i32 0")
        self.label("failed")
        self.line("%failure = load i32, ptr %status")
        self.line("ret i32 %failure")
        head = [
            f"define i32 @{self.entry}(ptr %context, ptr %buffers) {{",
            "start:",
            f"  %slots = alloca [{max(self._slots, 1)} x ptr], align 64",
            "  %status = alloca i32",
            "  store i32 0, ptr %status",
        ]
        declared = [f"declare {d}" for d in self.declared.values()]
        return "\n".join([*self.globals, *declared, *head, *self.lines, "}", ""])

    def sequence(self, thunks: Sequence[Thunk]) -> None:
        """Run thunks one after another."""
        for t in thunks:
            EMITS.for_class(type(t))(self, t)

    # -- small pieces

    def line(self, text: str) -> None:
        """One instruction."""
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")

    def name(self) -> str:
        """A name for a value."""
        self._count += 1
        return f"%t{self._count}"

    def new_label(self, what: str) -> str:
        """A name for a block."""
        self._labels += 1
        return f"{what}{self._labels}"

    def pointer(self, s: BufferSlice) -> str:
        """The address of a slice."""
        slot, base = self.name(), self.name()
        self.line(f"{slot} = getelementptr ptr, ptr %buffers, i64 {s.allocation.index}")
        self.line(f"{base} = load ptr, ptr {slot}")
        if not s.offset:
            return base
        place = self.name()
        self.line(f"{place} = getelementptr i8, ptr {base}, i64 {s.offset}")
        return place

    def array(self, pointers: Sequence[str]) -> str:
        """Pointers put side by side on the stack; good until the next such array."""
        self._slots = max(self._slots, len(pointers))
        for k, p in enumerate(pointers):
            if k == 0:
                self.line(f"store ptr {p}, ptr %slots")
                continue
            slot = self.name()
            self.line(f"{slot} = getelementptr ptr, ptr %slots, i64 {k}")
            self.line(f"store ptr {p}, ptr {slot}")
        return "%slots"

    def private_array(self, pointers: Sequence[str]) -> str:
        """Pointers in an array of their own, for calls that take several arrays."""
        place = self.name()
        size = max(len(pointers), 1)
        self.lines.insert(0, f"  {place} = alloca [{size} x ptr], align 8")
        for k, p in enumerate(pointers):
            slot = self.name()
            self.line(f"{slot} = getelementptr ptr, ptr {place}, i64 {k}")
            self.line(f"store ptr {p}, ptr {slot}")
        return place

    def numbers(self, values: tuple[int, ...]) -> str:
        """A constant array of s64."""
        name = self._constants.get(values)
        if name is None:
            name = self._constants[values] = f"@numbers{len(self._constants)}"
            inside = ", ".join([f"i64 {v}" for v in values])
            self.globals.append(
                f"{name} = private unnamed_addr constant [{len(values)} x i64] [{inside}], align 8"
            )
        return name

    def bytes_(self, data: bytes) -> str:
        """Constant bytes, with a 0 behind them."""
        name = self._constants.get(data)
        if name is None:
            name = self._constants[data] = f"@bytes{len(self._constants)}"
            inside = "".join([f"\\{b:02X}" for b in data]) + "\\00"
            self.globals.append(
                f'{name} = private unnamed_addr constant [{len(data) + 1} x i8] c"{inside}"'
            )
        return name


Emit = Callable[[MainFunction, Any], None]

EMITS: ByClass[Emit] = ByClass("native code for a thunk")


def main_text(entry: str, thunks: Sequence[Thunk], device: Device) -> str:
    """The LLVM text of the entry function, without target lines."""
    load_room("hloom.codegen.llvm.thunks")
    return MainFunction(entry, device).text(thunks)
