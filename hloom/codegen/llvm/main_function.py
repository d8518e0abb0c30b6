"""The whole program as one native function: thunks in order, loops and choices as branches.

`int32 entry(ptr context, ptr buffers)`: `buffers` holds the base address of every allocation.
Kernels with little to do are called directly; others are handed to the pool. A routine's error
status ends the program at once; loops look at the context's cancel flag.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.device.device import Device
from hloom.program.slice import BufferSlice
from hloom.program.thunks.control import Call, Conditional, While
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.routine import Argument, Function, Numbers, Pointers, Routine, Text
from hloom.program.thunks.thunk import Thunk

CANCELLED = 1
# Copies up to this size are loads and stores instead of a call.
INLINE_COPY_BYTES = 256


class MainFunction:
    """Writes the LLVM text of one program's entry function."""

    def __init__(self, entry: str, device: Device) -> None:
        self.entry = entry
        self.device = device
        self.lines: list[str] = []
        self.globals: list[str] = []
        self.declared: dict[str, str] = {}
        self.count = 0
        self.slots = 0
        self.labels = 0
        self.constants: dict[tuple[int, ...] | bytes, str] = {}

    def text(self, thunks: Sequence[Thunk]) -> str:
        """The function with all it declares, without target lines."""
        self._sequence(thunks)
        self._line("ret i32 0")
        self._label("failed")
        self._line("%failure = load i32, ptr %status")
        self._line("ret i32 %failure")
        head = [
            f"define i32 @{self.entry}(ptr %context, ptr %buffers) {{",
            "start:",
            f"  %slots = alloca [{max(self.slots, 1)} x ptr], align 64",
            "  %status = alloca i32",
            "  store i32 0, ptr %status",
        ]
        declared = [f"declare {d}" for d in self.declared.values()]
        return "\n".join([*self.globals, *declared, *head, *self.lines, "}", ""])

    # -- small pieces

    def _line(self, text: str) -> None:
        self.lines.append("  " + text)

    def _label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def _name(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def _new_label(self, what: str) -> str:
        self.labels += 1
        return f"{what}{self.labels}"

    def _pointer(self, s: BufferSlice) -> str:
        slot, base = self._name(), self._name()
        self._line(f"{slot} = getelementptr ptr, ptr %buffers, i64 {s.allocation.index}")
        self._line(f"{base} = load ptr, ptr {slot}")
        if not s.offset:
            return base
        place = self._name()
        self._line(f"{place} = getelementptr i8, ptr {base}, i64 {s.offset}")
        return place

    def _array(self, pointers: Sequence[str]) -> str:
        """Pointers put side by side on the stack; good until the next such array."""
        self.slots = max(self.slots, len(pointers))
        for k, p in enumerate(pointers):
            if k == 0:
                self._line(f"store ptr {p}, ptr %slots")
                continue
            slot = self._name()
            self._line(f"{slot} = getelementptr ptr, ptr %slots, i64 {k}")
            self._line(f"store ptr {p}, ptr {slot}")
        return "%slots"

    def _private_array(self, pointers: Sequence[str]) -> str:
        """Pointers in an array of their own, for calls that take several arrays."""
        place = self._name()
        size = max(len(pointers), 1)
        self.lines.insert(0, f"  {place} = alloca [{size} x ptr], align 8")
        for k, p in enumerate(pointers):
            slot = self._name()
            self._line(f"{slot} = getelementptr ptr, ptr {place}, i64 {k}")
            self._line(f"store ptr {p}, ptr {slot}")
        return place

    def _numbers(self, values: tuple[int, ...]) -> str:
        name = self.constants.get(values)
        if name is None:
            name = self.constants[values] = f"@numbers{len(self.constants)}"
            inside = ", ".join([f"i64 {v}" for v in values])
            self.globals.append(
                f"{name} = private unnamed_addr constant [{len(values)} x i64] [{inside}], align 8"
            )
        return name

    def _bytes(self, data: bytes) -> str:
        name = self.constants.get(data)
        if name is None:
            name = self.constants[data] = f"@bytes{len(self.constants)}"
            inside = "".join([f"\\{b:02X}" for b in data]) + "\\00"
            self.globals.append(
                f'{name} = private unnamed_addr constant [{len(data) + 1} x i8] c"{inside}"'
            )
        return name

    # -- thunks

    def _sequence(self, thunks: Sequence[Thunk]) -> None:
        for t in thunks:
            if isinstance(t, Kernel):
                self._kernel(t)
            elif isinstance(t, Copy):
                self._copy(t)
            elif isinstance(t, While):
                self._while(t)
            elif isinstance(t, Conditional):
                self._conditional(t)
            elif isinstance(t, Call):
                self._sequence(t.called)
            elif isinstance(t, Routine):
                self._routine(t)
            else:
                raise TypeError(f"no native code for a {t.kind} thunk")

    def _kernel(self, t: Kernel) -> None:
        if t.steps == 0:
            return
        self.declared.setdefault(t.symbol, f"void @{t.symbol}(ptr, i64, i64)")
        array = self._array([self._pointer(s) for s in t.arguments])
        # A long one of one step cannot be cut, but profiles show it.
        grain = self.device.costs.grain(t.steps, t.cost_ns, self.device.compute.units)
        if not grain:
            self._line(f"call void @{t.symbol}(ptr {array}, i64 0, i64 {t.steps})")
            return
        self.declared["hl_parallel_for_ns"] = (
            "void @hl_parallel_for_ns(ptr, ptr, ptr, i64, i64, i64)"
        )
        self._line(
            f"call void @hl_parallel_for_ns(ptr %context, ptr @{t.symbol}, ptr {array},"
            f" i64 {t.steps}, i64 {grain}, i64 {int(t.steps * t.cost_ns)})"
        )

    def _copy(self, t: Copy) -> None:
        size = t.target.size_bytes
        if not size:
            return
        source, target = self._pointer(t.source), self._pointer(t.target)
        if size <= INLINE_COPY_BYTES:
            self._inline_copy(source, target, size)
            return
        self.declared["memcpy"] = "ptr @memcpy(ptr, ptr, i64)"
        self._line(f"call ptr @memcpy(ptr {target}, ptr {source}, i64 {size})")

    def _inline_copy(self, source: str, target: str, size: int) -> None:
        """Few bytes, as loads and stores; all are read before any is written."""
        pieces: list[tuple[int, int]] = []
        at = 0
        for width in (64, 32, 16, 8, 4, 2, 1):
            while size - at >= width:
                pieces.append((at, width))
                at += width
        values = []
        for at, width in pieces:
            place, value = self._name(), self._name()
            kind = f"<{width // 8} x i64>" if width > 8 else f"i{8 * width}"
            self._line(f"{place} = getelementptr i8, ptr {source}, i64 {at}")
            self._line(f"{value} = load {kind}, ptr {place}, align 1")
            values.append((at, kind, value))
        for at, kind, value in values:
            place = self._name()
            self._line(f"{place} = getelementptr i8, ptr {target}, i64 {at}")
            self._line(f"store {kind} {value}, ptr {place}, align 1")

    def _routine(self, t: Routine) -> None:
        values = [self._argument(x) for x in t.arguments]
        types = ", ".join(["ptr"] + [v.split(" ", 1)[0] for v in values])
        self.declared.setdefault(t.symbol, f"i32 @{t.symbol}({types})")
        code, bad = self._name(), self._name()
        self._line(f"{code} = call i32 @{t.symbol}({', '.join(['ptr %context', *values])})")
        self._line(f"store i32 {code}, ptr %status")
        self._line(f"{bad} = icmp ne i32 {code}, 0")
        after = self._new_label("after")
        self._line(f"br i1 {bad}, label %failed, label %{after}")
        self._label(after)

    def _argument(self, x: Argument) -> str:
        if x is None:
            return "ptr null"
        if isinstance(x, int):
            return f"i64 {x}"
        if isinstance(x, BufferSlice):
            return f"ptr {self._pointer(x)}"
        if isinstance(x, Numbers):
            return f"ptr {self._numbers(x.values)}" if x.values else "ptr null"
        if isinstance(x, Pointers):
            found = ["null" if s is None else self._pointer(s) for s in x.slices]
            return f"ptr {self._private_array(found)}"
        if isinstance(x, Text):
            return f"ptr {self._bytes(x.data)}"
        assert isinstance(x, Function)
        self.declared.setdefault(x.symbol, f"i8 @{x.symbol}(ptr)")
        return f"ptr @{x.symbol}"

    def _while(self, t: While) -> None:
        check, body, done = (self._new_label(w) for w in ("check", "body", "done"))
        counter = None
        if t.trip_count is not None:
            counter = self._name()
            self.lines.insert(0, f"  {counter} = alloca i64")
            self._line(f"store i64 0, ptr {counter}")
        self._line(f"br label %{check}")
        self._label(check)
        self._cancel_check()
        go = self._name()
        if counter is not None:
            now = self._name()
            self._line(f"{now} = load i64, ptr {counter}")
            self._line(f"{go} = icmp slt i64 {now}, {t.trip_count}")
        else:
            self._sequence(t.condition)
            byte = self._name()
            self._line(f"{byte} = load i8, ptr {self._pointer(t.pred)}")
            self._line(f"{go} = icmp ne i8 {byte}, 0")
        self._line(f"br i1 {go}, label %{body}, label %{done}")
        self._label(body)
        self._sequence(t.body)
        if counter is not None:
            old, new = self._name(), self._name()
            self._line(f"{old} = load i64, ptr {counter}")
            self._line(f"{new} = add i64 {old}, 1")
            self._line(f"store i64 {new}, ptr {counter}")
        self._line(f"br label %{check}")
        self._label(done)

    def _cancel_check(self) -> None:
        slot, flag, stop = self._name(), self._name(), self._name()
        go = self._new_label("go")
        self._line(f"{slot} = getelementptr i8, ptr %context, i64 4")
        self._line(f"{flag} = load atomic i32, ptr {slot} monotonic, align 4")
        self._line(f"{stop} = icmp ne i32 {flag}, 0")
        self._line(f"store i32 {CANCELLED}, ptr %status")
        self._line(f"br i1 {stop}, label %failed, label %{go}")
        self._label(go)

    def _conditional(self, t: Conditional) -> None:
        names = [self._new_label("branch") for _ in t.branches]
        done = self._new_label("joined")
        place = self._pointer(t.selector)
        chosen = self._name()
        if t.is_pred:
            byte = self._name()
            self._line(f"{byte} = load i8, ptr {place}")
            self._line(f"{chosen} = icmp ne i8 {byte}, 0")
            self._line(f"br i1 {chosen}, label %{names[0]}, label %{names[1]}")
        else:
            self._line(f"{chosen} = load i32, ptr {place}")
            cases = " ".join([f"i32 {k}, label %{n}" for k, n in enumerate(names[:-1])])
            self._line(f"switch i32 {chosen}, label %{names[-1]} [ {cases} ]")
        for name, thunks in zip(names, t.branches):
            self._label(name)
            self._sequence(thunks)
            self._line(f"br label %{done}")
        self._label(done)


def main_text(entry: str, thunks: Sequence[Thunk], device: Device) -> str:
    """The LLVM text of the entry function, without target lines."""
    return MainFunction(entry, device).text(thunks)
