"""Every kind of thunk is whole, and a new one needs no other file than its own."""

import ctypes
import dataclasses

import numpy as np
import pytest

from hloom.base.registry import load_room
from hloom.codegen.llvm.compile import module_text
from hloom.codegen.llvm.machine import Machine, object_bytes
from hloom.codegen.llvm.main_function import EMITS, main_text
from hloom.program.graph import execution_graph
from hloom.program.program import Program, Result
from hloom.program.saved import program_from_bytes, program_to_bytes
from hloom.program.saved_thunks import Reader, ThunkWriter, _fields
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.text import show_thunks
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import THUNKS, Rates, Thunk, Use, sequence_ns, thunk_kind
from hloom.runtime.debug import DebugExecutor
from hloom.runtime.debug_steps import STEPS
from hloom.runtime.executor import Executor
from hloom.targets.cpu.device import device_of
from hloom.types.text import shape_from_text

load_room("hloom.program.thunks")
ARENA = Allocation(0, 256, "temp")
A, B = (BufferSlice(ARENA, 64 * k, 64) for k in range(2))


def missing(cls: type[Thunk]) -> list[str]:
    """What a kind of thunk still needs."""
    load_room("hloom.codegen.llvm.thunks")
    found = sorted(getattr(cls, "__abstractmethods__", ()))
    try:
        _fields(cls)
    except TypeError:
        found.append("saved form")
    for what, table in (("native code", EMITS), ("debug step", STEPS)):
        try:
            table.for_class(cls)
        except KeyError:
            found.append(what)
    return found


@pytest.mark.parametrize("kind", THUNKS)
def test_each_kind_is_whole(kind):
    cls = THUNKS[kind]
    assert cls.kind == kind and missing(cls) == []
    assert cls.__doc__ and dataclasses.is_dataclass(cls)


def test_each_file_holds_kinds_that_are_registered():
    """A class that nobody registered would be run, and not come back from a saved program."""
    classes = {Thunk}
    work = [Thunk]
    while work:
        for cls in work.pop().__subclasses__():
            work.append(cls)
            if cls.__module__.startswith("hloom."):
                classes.add(cls)
    assert {c for c in classes if hasattr(c, "kind")} == {
        c for c in THUNKS._items.values() if c.__module__.startswith("hloom.")
    }


def test_what_a_kind_lacks_is_said():
    @dataclasses.dataclass(frozen=True, eq=False)
    class Bare(Thunk):
        kind = "Bare"
        odd: complex

    assert missing(Bare) == [
        "particulars",
        "serial_ns",
        "uses",
        "saved form",
        "native code",
        "debug step",
    ]
    with pytest.raises(TypeError, match="particulars"):
        Bare("b", 1j)  # type: ignore[abstract]


@pytest.fixture
def fill():
    """A kind that is declared here alone: bytes of one value."""
    before = [dict(table._items) for table in (THUNKS, EMITS, STEPS)]

    @thunk_kind
    @dataclasses.dataclass(frozen=True, eq=False)
    class Fill(Thunk):
        """Set all bytes of `target`."""

        kind = "Fill"
        target: BufferSlice
        value: int
        notes: tuple[tuple[str, ...], ...] = ()

        def uses(self) -> tuple[Use, ...]:
            return (Use(self.target, True),)

        def particulars(self) -> str:
            return f" with {self.value}"

        def serial_ns(self, rates: Rates) -> float:
            return self.target.size_bytes * rates.copy_byte_ns / 2

        def states(self) -> tuple[str, ...]:
            return ("paint",)

    @EMITS.of(Fill)
    def emit(f, t):
        f.declared["memset"] = "ptr @memset(ptr, i32, i64)"
        place = f.pointer(t.target)
        f.line(f"call ptr @memset(ptr {place}, i32 {t.value}, i64 {t.target.size_bytes})")

    @STEPS.of(Fill)
    def step(debug, t):
        def prepare(place):
            address = place(t.target)

            def call():
                ctypes.memset(address, t.value, t.target.size_bytes)
                return 0

            return call

        return debug.watched(t, prepare)

    yield Fill
    for table, items in zip((THUNKS, EMITS, STEPS), before, strict=True):
        table._items = items


def test_a_new_kind_needs_no_other_file(fill):
    """Listed, ordered, costed, saved, read, compiled, run, and run step by step."""
    out = Allocation(0, 128, "output")
    low, high = (BufferSlice(out, 64 * k, 64) for k in range(2))
    thunks = (fill("one", low, 1), fill("two", high, 2, (("x", "y"), ())), Copy("c", low, high))
    shape = shape_from_text("u8[128]{0}")
    machine = Machine.host()
    device = device_of(machine, 2)
    object_ = object_bytes(module_text(machine, [main_text("main", thunks, device)]), machine, 2)
    program = Program(
        "p", [out], thunks[:2], [], [Result((), shape, low)], shape, [object_], "main"
    )
    assert missing(fill) == []
    assert show_thunks(thunks[:1]).split() == ["Fill", "one", "with", "1", "writes", "0[0:64]"]
    assert execution_graph(thunks).edges == ((0, 1), (1, 2))
    assert sequence_ns(thunks[:2], device.costs) == 128 * device.costs.copy_byte_ns / 2
    back = program_from_bytes(program_to_bytes(program))
    assert [vars(t) for t in back.thunks] == [vars(t) for t in program.thunks]
    executor = Executor(back)
    [ran] = executor.run(())
    assert np.asarray(ran).tolist() == [1] * 128
    debug = DebugExecutor(executor, device)
    [stepped] = debug.run(())
    assert np.asarray(stepped).tolist() == [1] * 64 + [2] * 64
    assert [s.runs for s in debug.steps.values()] == [1, 1]


def test_saved_forms_refuse_what_is_none(fill):
    to = ThunkWriter()
    [row] = to.thunks((fill("f", A, 7, (("x", "y"), ())),))
    [back] = Reader([ARENA], to.slices, []).thunks([row])
    assert (back.kind, back.name, back.target, back.value) == ("Fill", "f", A, 7)
    for wrong in (["Fill"], [*row, 1], ["Full", *row[1:]], ["Fill", "f", 7, 7, []]):
        with pytest.raises((ValueError, TypeError, IndexError)):
            Reader([ARENA], to.slices, []).thunks([wrong])
    for k, value in ((1, 3), (2, "0"), (2, -1), (2, True), (3, 7.5), (3, None), (4, [["x", 1]])):
        wrong = [*row[:k], value, *row[k + 1 :]]
        with pytest.raises((ValueError, TypeError, IndexError)):
            Reader([ARENA], to.slices, []).thunks([wrong])
