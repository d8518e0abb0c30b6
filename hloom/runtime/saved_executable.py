"""Saved executables: a program in the saved form with all that JAX, or a C program, asks of it.

To the program come where it runs, the compile options and its HLO.
"""

from __future__ import annotations

from typing import NamedTuple

from hloom.program.container import Piece, Section, malformed, opened, sealed
from hloom.program.program import Program
from hloom.program.saved import program_of, program_sections
from hloom.program.saved_form import SectionKind
from hloom.runtime.launch_spec import LaunchSpec
from hloom.runtime.loaded_program import crc32
from hloom.runtime.saved_launch import launch_section, launch_spec_of_section


class SavedExecutable(NamedTuple):
    """What is read of one; its bytes are held by the views."""

    program: Program
    launch_spec: LaunchSpec
    options: bytes
    module: memoryview


def executable_to_bytes(
    program: Program,
    launch_spec: LaunchSpec,
    options: bytes,
    module: bytes,
) -> bytes:
    """The bytes of an executable."""
    sections = [
        *program_sections(program, {"name": program.name}),
        Section(SectionKind.LAUNCH, [launch_section(program, launch_spec)]),
        Section(SectionKind.OPTIONS, [options]),
        Section(SectionKind.MODULE, [module]),
    ]
    return sealed(sorted(sections, key=lambda section: section.kind))


def executable_from_bytes(data: Piece) -> SavedExecutable:
    """What is in these bytes; `HloError` where they are no saved executable, or damaged."""
    sections = dict(opened(data, crc32))
    for kind in (SectionKind.LAUNCH, SectionKind.OPTIONS, SectionKind.MODULE):
        if kind not in sections:
            raise malformed(f"a saved program has no {kind.name.lower()}, so is no executable")
    return SavedExecutable(
        program_of(sections),
        launch_spec_of_section(sections[SectionKind.LAUNCH]),
        bytes(sections[SectionKind.OPTIONS]),
        sections[SectionKind.MODULE],
    )
