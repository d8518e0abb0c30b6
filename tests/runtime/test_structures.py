"""Structures that Python shares with C++ are laid out alike, as a compiler asserts."""

import ctypes
import subprocess

import pytest

from hloom.runtime import call_frame, ffi, loaded_program, pjrt
from hloom.runtime.build import SOURCES, BuildError, compiler

HEADERS = ("context.h", "call_site.h", "loaded_program.h", "pjrt/compiler.h")
STRUCTURES = {
    "hl_context": ffi.RawContext,
    "hl_buffer": call_frame.ArgumentBuffer,
    "hl_attribute": call_frame.RawAttribute,
    "hl_call_frame": call_frame.RawCallFrame,
    "hl_program_parts": loaded_program.RawParts,
    "hl_problem": loaded_program.RawProblem,
    "hl_argument": loaded_program.RawArray,
    "hl_result": loaded_program.RawArray,
    "hl_pjrt_program": pjrt.RawProgram,
    "hl_pjrt_compiler": pjrt.RawCompiler,
    "hl_pjrt_key_values": pjrt.RawKeyValues,
}
READ_IN_PART = {"hl_context"}


def structures_of(module):
    """The structures that a module declares."""
    found = [x for x in vars(module).values() if isinstance(x, type)]
    return {x for x in found if issubclass(x, ctypes.Structure) and x.__module__ == module.__name__}


def assertions(changed=None):
    """A C++ source that compiles if all are alike; `changed` adds to one offset."""
    lines = [f'#include "{SOURCES / header}"' for header in HEADERS]
    for name, structure in STRUCTURES.items():
        if name not in READ_IN_PART:
            lines.append(f"static_assert(sizeof({name}) == {ctypes.sizeof(structure)});")
        for field, *_ in structure._fields_:
            at = getattr(structure, field).offset + ((name, field) == changed)
            lines.append(f"static_assert(offsetof({name}, {field}) == {at});")
    return "\n".join([*lines, ""])


def compiles(source):
    try:
        command = compiler()
    except BuildError:
        pytest.skip("there is no C++ compiler here")
    flags = ["-std=c++20", "-fsyntax-only", "-fno-rtti", "-Wno-invalid-offsetof", "-x", "c++", "-"]
    return subprocess.run([*command, *flags], input=source, text=True, capture_output=True)


def test_every_structure_is_asserted():
    modules = (call_frame, ffi, loaded_program, pjrt)
    assert set().union(*map(structures_of, modules)) == set(STRUCTURES.values())


def test_structures_are_laid_out_alike():
    done = compiles(assertions())
    assert done.returncode == 0, done.stderr[:2000]


def test_a_difference_is_seen():
    done = compiles(assertions(changed=("hl_pjrt_program", "launch_spec")))
    assert done.returncode != 0 and "static assertion failed" in done.stderr.replace("_", " ")
