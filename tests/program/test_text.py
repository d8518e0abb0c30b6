"""The text of programs: everything that runs stands in it, in order, what is inside indented."""

import hloom
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.text import show_allocation, show_program, show_thunks
from hloom.program.thunks.call import Call
from hloom.program.thunks.conditional import Conditional
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.sort import Sort
from hloom.program.thunks.thunk import walk
from hloom.program.thunks.while_ import While
from tests.docs.pages import ROOT

ARENA = Allocation(2, 256, "temp")


def piece(start, size):
    return BufferSlice(ARENA, start, size)


def test_each_kind_of_thunk():
    copy = Copy("c", piece(0, 8), piece(8, 8))
    kernel = Kernel("k", "k_add", (piece(0, 8), piece(16, 8)), (False, True), 12, 1500.0)
    thunks = (
        While("loop", (copy,), piece(64, 1), (kernel,), None),
        While("ten", (), piece(64, 1), (copy,), 1000),
        Conditional("choice", piece(72, 4), False, ((copy,), ()), ("first", "second")),
        Call("f", (copy,)),
        Sort("s", "hl_sort_keys", (), (piece(0, 8),), (piece(8, 8), piece(0, 8))),
    )
    assert (
        show_thunks(thunks)
        == """\
While    loop
           reads 2[64:65]
  condition:
    Copy     c
               reads 2[0:8]  writes 2[8:16]
  body:
    Kernel   k @k_add, 12 steps of 1,500 ns
               reads 2[0:8]  writes 2[16:24]
While    ten, 1,000 times
  condition:
  body:
    Copy     c
               reads 2[0:8]  writes 2[8:16]
Conditional choice
           reads 2[72:76]
  first:
    Copy     c
               reads 2[0:8]  writes 2[8:16]
  second:
Call     f
  f:
    Copy     c
               reads 2[0:8]  writes 2[8:16]
Sort     s @hl_sort_keys
           reads 2[0:8]  writes 2[8:16] 2[0:8]
"""
    )


def test_allocations():
    given = Allocation(0, 2048, "parameter", 3, (1, 0), (0,), True)
    assert show_allocation(given) == (
        "0: parameter 2,048 bytes, number 3 {1,0}, donated, returned as output {0}"
    )
    assert show_allocation(Allocation(4, 5, "output", shape_index=(2,))) == "4: output 5 bytes {2}"


def test_a_program_shows_all_its_thunks():
    program = hloom.compile(hloom.load(ROOT / "examples" / "collatz.hlo")).program
    text = show_program(program)
    for t in walk(program.thunks):
        assert f"{t.kind:<8} {t.name}" in text
    assert text.startswith("program jit_collatz: ")
