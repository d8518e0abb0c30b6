"""`hloom compile`: compile a program to a file that runs without the compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloom import api
from hloom.tools.opt import OPTION_WORDS
from hloom.tools.run import TargetName, Threads, compiled
from hloom.tools.terminal import (
    AsJson,
    InputFile,
    Partitions,
    Replicas,
    Shapes,
    bytes_text,
    guarded,
    read,
    warn_of_elided,
    write_json,
)

Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write, e.g. step.hloom.")]


@guarded
def compile_(
    ctx: typer.Context,
    file: InputFile,
    output: Output,
    threads: Threads = None,
    replicas: Replicas = None,
    partitions: Partitions = None,
    shapes: Shapes = "",
    target: TargetName = "cpu",
    as_json: AsJson = False,
) -> None:
    """Compile a program to a file that `hloom run` and `hloom.load_compiled` load in milliseconds.

    It holds machine code and constants, and needs a processor with the same instructions. Compiler
    options are taken too, with xla_ or without, and those of XLA_FLAGS.

    [bold]Examples[/bold]

      hloom compile step.hlo -o step.hloom

      hloom compile step.hlo -o step.hloom --cpu_max_isa=AVX2
    """
    loaded = read(file, replicas, partitions, shapes)
    warn_of_elided(loaded.module)
    exe = compiled(loaded.module, threads, ctx.meta.get(OPTION_WORDS, []), target)
    exe.save(output)
    size = output.stat().st_size
    if as_json:
        write_json({"file": str(output), "bytes": size, "program": _about(exe)})
    else:
        typer.echo(f"wrote {output}: {exe.program.name}, {bytes_text(size)}")


def _about(exe: api.Executable) -> dict[str, object]:
    program = exe.program
    return {
        "name": program.name,
        "arguments": [shape.text_without_layout for shape in program.argument_shapes],
        "result": program.result_shape.text_without_layout,
        "features": [] if program.processor is None else list(program.processor.features),
    }
