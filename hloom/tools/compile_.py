"""`hloom compile`: compile a program to a file that runs without the compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hloom import api
from hloom.aot.export import CLibrary, export_c
from hloom.aot.kinds import kind_of
from hloom.tools.evaluate import progress
from hloom.tools.opt import OPTION_WORDS
from hloom.tools.run import TargetName, Threads, compiled
from hloom.tools.terminal import (
    AsJson,
    InputFile,
    Partitions,
    Replicas,
    Shapes,
    Spmd,
    bytes_text,
    guarded,
    read,
    warn_of_elided,
    write_json,
)

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", help="The file to write: step.hloom, or a C library, .so, .a, .o, ..."
    ),
]
Header = Annotated[Path | None, typer.Option("--header", help="The header of a C library.")]
Name = Annotated[str, typer.Option("--name", help="Its function; else as the file is called.")]
Names = Annotated[str, typer.Option(help="Of a C library's arrays, with commas between.")]


@guarded
def compile_(
    ctx: typer.Context,
    file: InputFile,
    output: Output,
    threads: Threads = None,
    replicas: Replicas = None,
    partitions: Partitions = None,
    spmd: Spmd = False,
    shapes: Shapes = "",
    target: TargetName = "cpu",
    header: Header = None,
    name: Name = "",
    argument_names: Names = "",
    result_names: Names = "",
    as_json: AsJson = False,
) -> None:
    """Compile a program to a file that `hloom run` and `hloom.load_compiled` load in milliseconds,
    or to a C library that needs nothing of hloom.

    Both hold machine code and constants, and need a processor with the same instructions: this one,
    or what target_triple, target_cpu and target_features name. Compiler options are taken too, with
    xla_ or without, and those of XLA_FLAGS.

    [bold]Examples[/bold]

      hloom compile step.hlo -o step.hloom

      hloom compile step.hlo -o step.hloom --cpu_max_isa=AVX2

      hloom compile step.hlo -o libstep.so --header step.h

      hloom compile step.hlo -o libstep.a --target_triple=aarch64-linux-gnu --target_cpu=neoverse-n1
    """
    words = ctx.meta.get(OPTION_WORDS, [])
    loaded = read(file, replicas, partitions, shapes, spmd)
    warn_of_elided(loaded.module)
    if kind_of(output):
        _check_threads(output, threads)
        library = export_c(
            loaded.module,
            output,
            header,
            name=name or None,
            argument_names=_split(argument_names),
            result_names=_split(result_names),
            options=words,
            target=target,
        )
        _tell_of(library, as_json)
        return
    if refused := _of_libraries(header, name, argument_names, result_names):
        raise api.UsageError(
            f"{refused} is for C libraries, and {output.name} is none", hint="-o libstep.so"
        )
    program = _saved(loaded.module, output, threads, words, target)
    size = output.stat().st_size
    if as_json:
        write_json({"file": str(output), "bytes": size, "program": _about(program)})
    else:
        typer.echo(f"wrote {output}: {program.name}, {bytes_text(size)}")


def _saved(
    module: api.Module, output: Path, threads: int | None, words: list[str], target: str
) -> Any:
    """Write a program to a file; one for a machine that was named is not loaded here."""
    options = api.Options.parsed(words, api.Options.from_environment())
    if any(options[name] for name in api.TARGET_OPTIONS):
        with progress(f"compiling {module.name}") as stage:
            return api.compile_saved(module, output, options, target=target, progress=stage)
    exe = compiled(module, threads, words, target)
    exe.save(output)
    return exe.program


def _check_threads(output: Path, threads: int | None) -> None:
    """Refuse threads that a library does not have."""
    if threads not in (None, 1):
        raise api.UsageError(
            f"{output.name} runs on the thread that calls it, {threads} threads are asked for",
            rule="library-threads",
            hint="leave --threads out",
        )


def _split(names: str) -> list[str] | None:
    return [n.strip() for n in names.split(",")] if names else None


def _of_libraries(header: Path | None, name: str, arguments: str, results: str) -> str:
    """The first option that is given and has a meaning for C libraries only."""
    options = {
        "--header": header,
        "--name": name,
        "--argument-names": arguments,
        "--result-names": results,
    }
    return next((k for k, v in options.items() if v), "")


def _tell_of(library: CLibrary, as_json: bool) -> None:
    size = library.path.stat().st_size
    if as_json:
        write_json(
            {
                "file": str(library.path),
                "bytes": size,
                "function": library.name,
                "inputs": list(library.inputs),
                "outputs": list(library.outputs),
                "workspace_bytes": library.workspace_bytes,
            }
        )
        return
    workspace = bytes_text(library.workspace_bytes)
    typer.echo(
        f"wrote {library.path}: {library.name}({', '.join(library.inputs)}), {bytes_text(size)},"
        f" workspace {workspace}"
    )
    if library.header is not None:
        typer.echo(f"wrote {library.header}")


def _about(program: Any) -> dict[str, object]:
    return {
        "name": program.name,
        "arguments": [shape.text_without_layout for shape in program.argument_shapes],
        "result": program.result_shape.text_without_layout,
        "features": [] if program.processor is None else list(program.processor.features),
    }
