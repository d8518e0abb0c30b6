"""A module as the code of a C library: one object, and what its function takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hloom.codegen.llvm.c_entry import library_text
from hloom.codegen.llvm.other_machine import object_for
from hloom.ir.copy import copy_module
from hloom.ir.verify import verify
from hloom.program.c_interface import LibraryCode, c_interface

if TYPE_CHECKING:
    from hloom.ir.module import Module
    from hloom.program.c_weights import LibraryRequest
    from hloom.targets.cpu.target import CpuTarget


def library_code(target: CpuTarget, module: Module, asked: LibraryRequest) -> LibraryCode:
    """The code for a module: kernels and steps as they are for this process, one after another on
    the thread that calls."""
    target.check(module)
    verify(module)
    stages = replace(target, scheduler="memory").written(copy_module(module))
    program = stages.program
    interface = c_interface(program, 8 * target.machine.address_bytes)
    text = library_text(asked, program, interface, stages.texts, target.machine)
    return LibraryCode(program, interface, object_for(text, target.machine, target.opt_level))
