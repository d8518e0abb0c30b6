"""Loops, which look at the context's cancel flag, choices and calls: branches of one function."""

from __future__ import annotations

from collections.abc import Callable

from hloom.codegen.llvm.alternation import alternation
from hloom.codegen.llvm.main_function import EMITS, MainFunction
from hloom.program.thunks.async_call import AsyncDone
from hloom.program.thunks.async_copy import CopyDone
from hloom.program.thunks.call import Call
from hloom.program.thunks.conditional import Conditional
from hloom.program.thunks.while_ import While

CANCELLED = 1
"""HL_CANCELLED of native/hl.h."""


@EMITS.of(While)
def while_(f: MainFunction, t: While) -> None:
    turns = alternation(t)
    if turns is None or t.trip_count is None:
        _while(f, t, t.trip_count, lambda: f.sequence(t.body))
        return

    def two_steps() -> None:
        f.sequence(turns.step)
        f.alternated(turns.step, turns.moved)

    _while(f, t, t.trip_count // 2, two_steps)
    if t.trip_count % 2:
        f.sequence(t.body)


def _while(f: MainFunction, t: While, trip_count: int | None, step: Callable[[], None]) -> None:
    """A loop over what `step` writes, so many times or as long as its condition holds."""
    check, body, done = (f.new_label(w) for w in ("check", "body", "done"))
    counter = None
    if trip_count is not None:
        counter = f.name()
        f.lines.insert(0, f"  {counter} = alloca i64")
        f.line(f"store i64 0, ptr {counter}")
    f.line(f"br label %{check}")
    f.label(check)
    _cancel_check(f)
    go = f.name()
    if counter is not None:
        now = f.name()
        f.line(f"{now} = load i64, ptr {counter}")
        f.line(f"{go} = icmp slt i64 {now}, {trip_count}")
    else:
        f.sequence(t.condition)
        byte = f.name()
        f.line(f"{byte} = load i8, ptr {f.pointer(t.pred)}")
        f.line(f"{go} = icmp ne i8 {byte}, 0")
    f.line(f"br i1 {go}, label %{body}, label %{done}")
    f.label(body)
    step()
    if counter is not None:
        old, new = f.name(), f.name()
        f.line(f"{old} = load i64, ptr {counter}")
        f.line(f"{new} = add i64 {old}, 1")
        f.line(f"store i64 {new}, ptr {counter}")
    f.line(f"br label %{check}")
    f.label(done)


def _cancel_check(f: MainFunction) -> None:
    slot, flag, stop = f.name(), f.name(), f.name()
    go = f.new_label("go")
    f.line(f"{slot} = getelementptr i8, ptr %context, i64 4")
    f.line(f"{flag} = load atomic i32, ptr {slot} monotonic, align 4")
    f.line(f"{stop} = icmp ne i32 {flag}, 0")
    f.line(f"store i32 {CANCELLED}, ptr %status")
    f.line(f"br i1 {stop}, label %failed, label %{go}")
    f.label(go)


@EMITS.of(Conditional)
def conditional(f: MainFunction, t: Conditional) -> None:
    names = [f.new_label("branch") for _ in t.branches]
    done = f.new_label("joined")
    place = f.pointer(t.selector)
    chosen = f.name()
    if t.is_pred:
        byte = f.name()
        f.line(f"{byte} = load i8, ptr {place}")
        f.line(f"{chosen} = icmp ne i8 {byte}, 0")
        f.line(f"br i1 {chosen}, label %{names[0]}, label %{names[1]}")
    else:
        f.line(f"{chosen} = load i32, ptr {place}")
        cases = " ".join([f"i32 {k}, label %{n}" for k, n in enumerate(names[:-1])])
        f.line(f"switch i32 {chosen}, label %{names[-1]} [ {cases} ]")
    for name, thunks in zip(names, t.branches):
        f.label(name)
        f.sequence(thunks)
        f.line(f"br label %{done}")
    f.label(done)


@EMITS.of(Call)
def call(f: MainFunction, t: Call) -> None:
    """The first half of a computation in two is one, too: who waits for it stands in runs."""
    f.sequence(t.called)


@EMITS.of(AsyncDone)
@EMITS.of(CopyDone)
def async_done(f: MainFunction, t: AsyncDone | CopyDone) -> None:
    """Its run waits for the start; in one run, the start has ended."""
