"""Compiled programs as bytes, for JAX's compilation cache and for `serialize`: in the saved form.

To the program come the sections of where it runs, of JAX's compile options and of its HLO. Nothing
is compiled when one is loaded, and the module is read when somebody looks at it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hloom.api import (
    Executable,
    LaterStages,
    Module,
    cpu_target,
    executable_from_bytes,
    executable_to_bytes,
    file_bytes,
    load_bytes,
)
from hloom.plugin.compiling import Compiled
from hloom.plugin.handlers import have_handlers_for
from hloom.plugin.options import request_of


def saved(compiled: Compiled) -> bytes:
    """The bytes of a program."""
    return executable_to_bytes(
        compiled.executable.program,
        compiled.launch_spec,
        compiled.options,
        file_bytes(compiled.module(), "proto"),
    )


def loaded(data: bytes | memoryview, options: bytes) -> Compiled:
    """The program in these bytes; `options`, where given, say anew where it runs."""
    saved_ = executable_from_bytes(data)
    options = options or saved_.options
    request = request_of(options)
    launch_spec = replace(
        saved_.launch_spec,
        replicas=request.replicas,
        devices=request.devices,
        is_portable=request.is_portable,
    )
    have_handlers_for({site.target for site in saved_.program.call_sites})

    def module() -> Module:
        return load_bytes(bytes(saved_.module)).module

    target = partial(cpu_target, request.options)
    executable = Executable(LaterStages(saved_.program, module, target), target=target)
    return Compiled(executable, launch_spec, options, module)
