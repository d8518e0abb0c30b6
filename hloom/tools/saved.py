"""Saved programs on the command line: files that `hloom compile` writes and `hloom run` runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hloom import api

SAVED_ENDING = ".hloom"
"""Of files that hold a saved program."""


def is_saved(file: str) -> bool:
    """Whether a file is a compiled program, or called as one; standard input is none."""
    return file != "-" and (Path(file).suffix == SAVED_ENDING or api.is_program_file(Path(file)))


def opened(
    file: str, threads: int | None, switches: Mapping[str, Any]
) -> tuple[api.Loaded, api.Executable]:
    """A saved program, and a module that has its parameters, for whoever makes arguments.
    `asked`: what else is wanted of it; `UsageError` if that is anything."""
    if refused := [name for name, value in switches.items() if value]:
        raise api.UsageError(
            f"{file} is a compiled program, for which {' and '.join(refused)} cannot be chosen",
            rule="saved-program",
            hint="run the HLO that it was compiled from",
        )
    exe = api.load_compiled(file, threads)
    return api.Loaded(_parameters(exe), "saved"), exe


def _parameters(exe: api.Executable) -> api.Module:
    """A module with the parameters of a program, which returns them."""
    shapes = exe.program.argument_shapes
    lines = [f"  arg_{k} = {s.text} parameter({k})" for k, s in enumerate(shapes)]
    whole = f"({', '.join([s.text for s in shapes])})"
    names = ", ".join([f"arg_{k}" for k in range(len(shapes))])
    body = "\n".join([*lines, f"  ROOT all_arguments = {whole} tuple({names})"])
    devices = f"replica_count={exe.program.replicas}, num_partitions={exe.program.partitions}"
    module = api.parse(f"HloModule m, {devices}\n\nENTRY all_of_them {{\n{body}\n}}\n")
    module.name = exe.program.name
    for p in module.entry.parameters:
        p.name = exe.argument_names[p.attrs.number]
    return module
