"""A program as text to read: its memory, and its thunks in order with what they read and write.

    program jit_softmax: 4 allocations, 3 thunks, temp 128 bytes
      0: parameter 128 bytes, number 0
      1: output 128 bytes
    main:
      Kernel   exponential_fusion @k_exponential_fusion, 4 steps of 120 ns
                 reads 0[0:128]  writes 2[0:128]
      While    loop.3, 10 times
        body:
          Copy ...

`2[0:128]` are the bytes 0 to 128 of allocation 2. The sequences inside a thunk stand indented under
it, each with its name.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloom.program.program import Program
from hloom.program.slice import Allocation
from hloom.program.thunks.thunk import Thunk, walk

COLUMN = 8
"""Width of the kinds of thunks."""


def show_program(program: Program) -> str:
    """The whole program: allocations, then thunks."""
    count = sum([1 for _ in walk(program.thunks)])
    head = (
        f"program {program.name}: {len(program.allocations)} allocations, {count} thunks, "
        f"temp {program.temp_bytes:,} bytes"
    )
    lines = [head, *[f"  {show_allocation(a)}" for a in program.allocations]]
    return "\n".join([*lines, "main:", *_sequence(program.thunks, 1)]) + "\n"


def show_thunks(thunks: tuple[Thunk, ...]) -> str:
    """A sequence of thunks, those inside others indented."""
    return "".join([f"{line}\n" for line in _sequence(thunks, 0)])


def show_allocation(a: Allocation) -> str:
    """`3: temp 1,024 bytes`."""
    text = f"{a.index}: {a.kind} {a.size_bytes:,} bytes"
    if a.space:
        text += f" in S({a.space})"
    if a.parameter_number is not None:
        text += f", number {a.parameter_number}{_part(a.shape_index)}"
    elif a.kind == "output":
        text += _part(a.shape_index)
    if a.is_donated:
        text += ", donated"
    if a.output_index is not None:
        text += f", returned as output{_part(a.output_index) or ' {}'}"
    return text


def show_thunk(t: Thunk) -> str:
    """One thunk without what it reads and writes: kind, name, what is particular to it."""
    return f"{t.kind:<{COLUMN}} {t.name}{t.particulars()}"


def _sequence(thunks: tuple[Thunk, ...], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for t in thunks:
        yield indent + show_thunk(t)
        if uses := _uses(t):
            yield f"{indent}{'':{COLUMN + 3}}{uses}"
        for part in t.nested():
            yield f"{indent}  {part.name}:"
            yield from _sequence(part.thunks, depth + 2)


def _uses(t: Thunk) -> str:
    uses = t.uses()
    words = []
    for title, is_write in (("reads", False), ("writes", True)):
        places = dict.fromkeys([str(u.slice) for u in uses if u.writes is is_write])
        if places:
            words.append(f"{title} {' '.join(places)}")
    return "  ".join(words)


def _part(index: tuple[int, ...]) -> str:
    return f" {{{','.join(map(str, index))}}}" if index else ""
