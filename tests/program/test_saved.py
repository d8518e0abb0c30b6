"""Saved programs: the same program comes back, and no bytes but those of one are taken for one."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.base.diagnostics import HloError
from hloom.program.call_site import CallBuffer, CallSite
from hloom.program.container import Section, opened, sealed
from hloom.program.program import Parameter, Program, Result
from hloom.program.saved import (
    labels_of,
    program_from_bytes,
    program_section,
    program_to_bytes,
)
from hloom.program.saved_form import (
    ALLOCATION,
    PARAMETER,
    PROGRAM,
    RESULT,
    SectionKind,
    SectionReader,
)
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.text import show_program
from hloom.program.thunks.call import Call
from hloom.program.thunks.conditional import Conditional
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.routine import Function, Numbers, Pointers, Text
from hloom.program.thunks.sort import Sort
from hloom.program.thunks.thunk import walk
from hloom.program.thunks.while_ import While
from hloom.types.text import shape_from_text

ALLOCATIONS = [
    Allocation(0, 64, "parameter", 0, (), None),
    Allocation(1, 128, "parameter", 1, (0, 2), (1,), True),
    Allocation(2, 5, "constant", data=b"\x00\x01\xff\n\x80"),
    Allocation(3, 256, "output", shape_index=(0,)),
    Allocation(4, 1024, "temp"),
]
A, B, C, D = (BufferSlice(ALLOCATIONS[n], k * 4, 4) for k, n in enumerate((0, 1, 3, 4)))
SHAPES = ("f32[4,3]{0,1}", "(bf16[<=8]{0}, (pred[], s4[3]{0}), token[])", "c128[]", "token[]")


NO_BYTES = CallBuffer(17, (), None)


def program():
    kernel = Kernel("add.1", "k_add_1", (A, B, C), (False, False, True), 7, 0.1 + 0.2)
    copy = Copy("copy.naïve", A, D)
    routine = Sort(
        "sort.3",
        "hl_sort",
        (None, 3, -(2**40), A, Numbers((1, -2)), Pointers((B, None)), Function("f"), Text(b"\0x")),
        (A, B),
        (C,),
    )
    loop = While("loop", (copy,), D, (kernel, copy), None)
    counted = While("counted", (), D, (kernel,), 12)
    choice = Conditional("if", A, True, ((kernel,), ()), ("yes", "no"))
    shapes = [shape_from_text(s) for s in SHAPES]
    return Program(
        "a program",
        ALLOCATIONS,
        (kernel, copy, routine, loop, Call("called", (counted, choice))),
        [Parameter(0, (), shapes[0], 0), Parameter(1, (0, 2), shapes[2], None)],
        [Result((), shapes[0], C), Result((1,), shapes[3], None)],
        shapes[1],
        [b"\x7fELF object", b""],
        "entry",
        [
            CallSite(
                "c", "t", True, "{a=1}", (CallBuffer(11, (2, 3), A),), (CallBuffer(17, (), None),)
            )
        ],
        [shapes[0]],
        [shapes[1], shapes[3]],
        [shapes[0], shapes[1]],
    )


def fields(thunk):
    """A thunk's fields with those of the thunks in it, to compare."""
    return type(thunk), {
        name: tuple(map(fields, value)) if name in ("condition", "body", "called") else value
        for name, value in vars(thunk).items()
        if name != "branches"
    }


def test_a_program_comes_back():
    old, new = program(), program_from_bytes(program_to_bytes(program()))
    for name, value in vars(old).items():
        if name != "thunks":
            assert getattr(new, name) == value, name
    assert show_program(new) == show_program(old)
    for a, b in zip(walk(old.thunks), walk(new.thunks), strict=True):
        assert fields(a) == fields(b)
    # One object for each allocation, as the slices of a compiled program have it.
    assert all(
        use.slice.allocation in new.allocations for t in walk(new.thunks) for use in t.uses()
    )


def test_equal_programs_are_equal_bytes():
    assert program_to_bytes(program()) == program_to_bytes(program())


def test_constants_are_views_at_aligned_places():
    data = program_to_bytes(program())
    found = program_from_bytes(data).allocations[2].data
    assert isinstance(found, memoryview)
    assert found.obj is data
    assert data.index(ALLOCATIONS[2].data) % 64 == 0


def test_labels_are_read_from_the_beginning():
    labels = {"name": "x", "program": "é" * 40}
    data = program_to_bytes(program(), labels)
    assert labels_of(data[:600]) == labels
    assert vars(program_from_bytes(data))["name"] == "a program"


DATA = program_to_bytes(program(), {"name": "x"})


@settings(max_examples=150)
@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_a_changed_byte_is_noticed(position, change):
    wrong = bytearray(DATA)
    wrong[position] ^= change
    with pytest.raises(HloError):
        program_from_bytes(bytes(wrong))


@pytest.mark.parametrize("size", [0, 7, 8, 20, 63, 64, 100, len(DATA) - 1])
def test_a_cut_file_is_noticed(size):
    with pytest.raises(HloError):
        program_from_bytes(DATA[:size])


def test_what_is_behind_a_program_is_noticed():
    with pytest.raises(HloError, match="bytes has"):
        program_from_bytes(DATA + b"x")


def changed(section_kind, change):
    """The saved program with something else in a section, under right checksums."""
    sections = [
        Section(SectionKind(kind), [change(bytes(section)) if kind == section_kind else section])
        for kind, section in opened(DATA)
    ]
    return sealed(sections)


def test_what_is_not_changed_is_the_same():
    assert changed(SectionKind.PROGRAM, lambda section: section) == DATA


def in_record(kind, number, field, value):
    """A change of one field of a record in the section PROGRAM."""

    def change(section):
        reader = SectionReader(memoryview(section))
        tables = {ALLOCATION: "allocations", PARAMETER: "parameters", RESULT: "results"}
        first = reader.first(PROGRAM)
        at = 0 if kind is PROGRAM else getattr(first, tables[kind]).at
        at += number * kind.format.size + kind.offsets()[field]
        packed = value if isinstance(value, bytes) else struct.pack("<q", value)
        return section[:at] + packed + section[at + len(packed) :]

    return SectionKind.PROGRAM, change


def in_thunks(old, new):
    return SectionKind.THUNKS, lambda section: section.replace(old, new, 1)


@pytest.mark.parametrize(
    ("section", "change"),
    [
        in_thunks(b'"thunks":[["', b'"thunks":[["z'),
        in_thunks(b"[3,8,4]", b"[9,8,4]"),
        in_thunks(b"[3,8,4]", b"[3,9,999]"),
        in_thunks(b'"blobs":[', b'"blobs":[7,'),
        in_record(PROGRAM, 0, "name", -1),
        in_record(PROGRAM, 0, "allocations", struct.pack("<qq", 0, 1 << 40)),
        in_record(PROGRAM, 0, "entry", struct.pack("<qq", 1 << 62, 1 << 62)),
        in_record(ALLOCATION, 0, "kind", 4),
        in_record(ALLOCATION, 0, "kind", -1),
        in_record(ALLOCATION, 2, "constant_bytes", 6),
        in_record(ALLOCATION, 2, "constant_at", 1 << 40),
        in_record(PARAMETER, 0, "allocation", 99),
        in_record(PARAMETER, 0, "size_bytes", 1),
        in_record(PARAMETER, 0, "shape", struct.pack("<qq", 8, 3)),
        in_record(RESULT, 0, "offset", 4096),
        in_record(RESULT, 0, "size_bytes", -1),
        (SectionKind.PROGRAM, lambda section: section[:100]),
        (SectionKind.CONSTANTS, lambda section: section[:4]),
        (SectionKind.OBJECTS, lambda section: section[:4]),
        (SectionKind.THUNKS, lambda section: b""),
    ],
)
def test_what_is_malformed_is_one_clear_error(section, change):
    """Even where the checksum is right, as a program that writes nonsense would make it."""
    with pytest.raises(HloError, match="malformed"):
        program_from_bytes(changed(section, change))


def test_a_program_for_another_runtime_says_what_to_do():
    with pytest.raises(HloError, match="version 99 of the runtime, this is"):
        program_from_bytes(changed(*in_record(PROGRAM, 0, "runtime", 99)))


def test_c_structs_are_as_they_are_described():
    """The header is what the generator writes; it asserts each size and offset."""
    import runpy

    folder = Path(__file__).parents[2] / "hloom/runtime/native"
    made = runpy.run_path(str(folder / "make_saved_form.py"))["header"]()
    assert (folder / "saved_form.h").read_text() == made + "\n", "run make_saved_form.py"


def test_reading_needs_no_compiler():
    """What runs a saved program must not need llvmlite or the graph."""
    import subprocess
    import sys

    path = Path(__file__).parents[2]
    code = (
        "import sys, hloom.runtime.cache, hloom.runtime.executor\n"
        "print([m for m in sys.modules if m.startswith(('llvmlite', 'hloom.ir', 'hloom.passes'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=path)
    assert out.stdout.strip() == "[]", out.stdout + out.stderr


def test_the_record_is_the_one_that_was_read():
    """Loading hands it on as it stands; a copy that is changed has none."""
    original = program()
    assert original.record is None
    again = program_from_bytes(program_to_bytes(original))
    assert again.record == program_section(again) == program_section(original)
    assert replace(again, name="other").record is None
    assert again == again
