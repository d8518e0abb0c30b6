"""The whole program as one native function: thunks in order, loops and choices as branches.

`int32 entry(ptr context, ptr buffers)`: `buffers` holds the base address of every allocation. How a
kind of thunk is run is said by one function of `thunks/`, registered for its class:
`@EMITS.of(Copy)`. A status other than 0 in `%status` ends the program at the label `failed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hloom.base.registry import ByClass, load_room
from hloom.codegen.llvm.alternation import exchanged
from hloom.device.device import Device
from hloom.program.slice import BufferSlice
from hloom.program.thunks.thunk import Thunk


@dataclass
class Shared:
    """What the functions of one program have in common."""

    device: Device
    globals: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    """What is called, by symbol: type, name and parameters."""
    functions: list[str] = field(default_factory=list)
    """The text of each."""
    constants: dict[tuple[int, ...] | bytes, str] = field(default_factory=dict)
    count: int = 0
    """Of runs, for their names."""


class MainFunction:
    """Writes the LLVM text of one program's entry function, or of a run of its thunks."""

    def __init__(self, symbol: str, shared: Shared) -> None:
        self.symbol = symbol
        self.shared = shared
        self.device = shared.device
        self.declared = shared.declared
        self.lines: list[str] = []
        self._count = 0
        self._slots = 0
        self._labels = 0
        self._exchanged: tuple[tuple[BufferSlice, BufferSlice], ...] = ()

    def write(self, thunks: Sequence[Thunk], linkage: str = "") -> None:
        """Add the function that runs these thunks to those of the program."""
        self.sequence(thunks)
        self.line("ret i32 0")
        self.label("failed")
        self.line("%failure = load i32, ptr %status")
        self.line("ret i32 %failure")
        head = [
            f"define {linkage}i32 @{self.symbol}(ptr %context, ptr %buffers) {{",
            "start:",
            f"  %slots = alloca [{max(self._slots, 1)} x ptr], align 64",
            "  %status = alloca i32",
            "  store i32 0, ptr %status",
        ]
        self.shared.functions.append("\n".join([*head, *self.lines, "}"]))

    def function(self, thunks: Sequence[Thunk]) -> str:
        """The symbol of one more function, with the same parameters, that runs these thunks."""
        self.shared.count += 1
        symbol = f"run{self.shared.count}"
        MainFunction(symbol, self.shared).write(thunks, "internal ")
        return symbol

    def sequence(self, thunks: Sequence[Thunk]) -> None:
        """Run thunks one after another."""
        for t in thunks:
            EMITS.for_class(type(t))(self, t)

    def alternated(
        self, thunks: Sequence[Thunk], pairs: tuple[tuple[BufferSlice, BufferSlice], ...]
    ) -> None:
        """Run thunks one after another, with the places of each pair exchanged."""
        before, self._exchanged = self._exchanged, (*self._exchanged, *pairs)
        self.sequence(thunks)
        self._exchanged = before

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
        for pair in reversed(self._exchanged):
            s = exchanged(s, [pair])
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
        name = self.shared.constants.get(values)
        if name is None:
            name = self.shared.constants[values] = f"@numbers{len(self.shared.constants)}"
            inside = ", ".join([f"i64 {v}" for v in values])
            self.shared.globals.append(
                f"{name} = private unnamed_addr constant [{len(values)} x i64] [{inside}], align 8"
            )
        return name

    def bytes_(self, data: bytes) -> str:
        """Constant bytes, with a 0 behind them."""
        name = self.shared.constants.get(data)
        if name is None:
            name = self.shared.constants[data] = f"@bytes{len(self.shared.constants)}"
            inside = "".join([f"\\{b:02X}" for b in data]) + "\\00"
            self.shared.globals.append(
                f'{name} = private unnamed_addr constant [{len(data) + 1} x i8] c"{inside}"'
            )
        return name

    def state(self, count: int) -> str:
        """Numbers of 64 bits that are 0 when the program is loaded, and are kept between runs."""
        name = f"@state{len(self.shared.globals)}"
        self.shared.globals.append(
            f"{name} = internal global [{count} x i64] zeroinitializer, align 8"
        )
        return name

    def checked_call(self, call: str) -> None:
        """Call what gives a status, which ends the program where it is not 0."""
        code, bad = self.name(), self.name()
        self.line(f"{code} = call i32 {call}")
        self.line(f"store i32 {code}, ptr %status")
        self.line(f"{bad} = icmp ne i32 {code}, 0")
        after = self.new_label("after")
        self.line(f"br i1 {bad}, label %failed, label %{after}")
        self.label(after)


Emit = Callable[[MainFunction, Any], None]

EMITS: ByClass[Emit] = ByClass("native code for a thunk")


def main_text(entry: str, thunks: Sequence[Thunk], device: Device) -> str:
    """The LLVM text of the entry function, without target lines."""
    load_room("hloom.codegen.llvm.thunks")
    shared = Shared(device)
    MainFunction(entry, shared).write(thunks)
    declared = [f"declare {d}" for d in shared.declared.values()]
    return "\n".join([*shared.globals, *declared, *shared.functions, ""])
