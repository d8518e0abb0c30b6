"""`hloom compile`: compile a program to a file that runs without the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hloom import api
from hloom.aot.buckets import bucket_shapes, sizes_of_words
from hloom.aot.export import CLibrary, export_c
from hloom.aot.kinds import KINDS, kind_of
from hloom.aot.names import c_name
from hloom.aot.report import library_report, report_text
from hloom.aot.tensors_in_file import named_in_file
from hloom.tools.evaluate import progress
from hloom.tools.opt import OPTION_WORDS
from hloom.tools.result_file import STAGES, ResultOutput, with_result
from hloom.tools.run import TargetName, Threads, compiled
from hloom.tools.saved import SAVED_ENDING
from hloom.tools.terminal import (
    AsJson,
    Partitions,
    Replicas,
    Shapes,
    Spmd,
    bytes_text,
    guarded,
    read,
    warn,
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
Names = Annotated[str, typer.Option(help="Of arrays, with commas between.")]
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="HLO text, protos, snapshots or StableHLO; - is standard input. A C library has a "
        "function of each.",
        show_default=False,
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option("--weights", help="The file to write a C library's constants to, which it maps."),
]
NamedWeights = Annotated[
    Path | None,
    typer.Option(
        "--named-weights",
        help="A safetensors file: parameters that are called as its tensors are weights, which a "
        "C library takes from any such file.",
    ),
]
Pool = Annotated[bool, typer.Option("--pool", help="A C library that takes the caller's threads.")]
Versions = Annotated[
    str,
    typer.Option(
        "--target-versions",
        "--target_versions",
        help="Processors that a C library has code for, side by side: x86-64-v2,x86-64-v4.",
    ),
]
Buckets = Annotated[
    list[str],
    typer.Option(
        "--buckets",
        metavar="NAME=SIZES",
        help="Sizes that a C library has code for: batch=1,8,32. --shapes names them "
        "(f32[batch,3]), or there is a file for each.",
    ),
]
Report = Annotated[
    bool, typer.Option("--report", help="Tell what a C library is made of, step by step.")
]

MOST_NAMES = 8
"""That are told of one function."""


@guarded
@with_result
def compile_(
    ctx: typer.Context,
    files: Files,
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
    weights: Weights = None,
    named_weights: NamedWeights = None,
    pool: Pool = False,
    versions: Versions = "",
    buckets: Buckets = [],  # noqa: B006
    report: Report = False,
    result_output: ResultOutput = None,
    as_json: AsJson = False,
) -> None:
    """Compile to a file that `hloom run` loads in milliseconds, or to a C library.

    Both hold machine code and constants, and need a processor with the same instructions: this one,
    or what target_triple, target_cpu and target_features name. Compiler options are taken too, with
    xla_ or without, and those of XLA_FLAGS.

    [bold]Examples[/bold]

      hloom compile step.hlo -o step.hloom

      hloom compile prefill.hlo decode.hlo -o libmodel.so --header model.h --weights model.bin

      hloom compile b1.hlo b8.hlo -o libnet.so --header net.h --buckets batch=1,8

      hloom compile step.hlo -o libstep.a --target_triple=aarch64-linux-gnu --target_cpu=neoverse-n1
    """
    clock: api.StageClock = ctx.meta[STAGES]
    words, sizes = ctx.meta.get(OPTION_WORDS, []), sizes_of_words(buckets)
    with clock.stage("read"):
        modules = _modules(files, shapes, sizes, asked := (replicas, partitions, spmd))
    names = {"argument_names": _split(argument_names), "result_names": _split(result_names)}
    of_libraries: dict[str, Any] = {"header_path": header, "name": name or None, "pool": pool}
    of_libraries |= {"weights": weights, "named_weights": named_weights}
    of_libraries |= {"versions": _split(versions) or (), "buckets": sizes or None}
    if kind_of(output):
        of_libraries |= {"options": words, "target": target}
        of_libraries |= _named(named_weights, weights, files, modules, bool(sizes))
        of_libraries["threads"] = 1 if threads is None else threads
        programs = _programs(files, shapes, sizes, asked, modules)
        with clock.stage("compile"):
            library = export_c(programs, output, **names, **of_libraries)
        _tell_of(library, as_json, report)
    else:
        _refuse_options_of_libraries({**of_libraries, "report": report}, len(files), output)
        with clock.stage("compile"):
            program = _saved(modules[0], output, threads, words, target, names)
        _tell_of_saved(program, output, as_json)


def _check_ending(output: Path) -> None:
    """The ending says what is to be written; a saved program may do without one."""
    if output.suffix.lower() not in ("", SAVED_ENDING, *KINDS):
        raise api.UsageError(
            f"{output.name} is neither a saved program nor a C library",
            rule="library-file",
            hint=f"-o NAME{SAVED_ENDING}, or one of {', '.join(KINDS)}",
        )


def _of_sizes(file: str, shapes: str, asked: _Asked) -> Callable[..., api.Module]:
    """What gives the program of a file for sizes that its shapes name."""

    def of_sizes(**chosen: int) -> api.Module:
        (of_one,) = bucket_shapes(shapes, {n: (s,) for n, s in chosen.items()})
        replicas, partitions, spmd = asked
        return read(file, replicas, partitions, of_one, spmd).module

    return of_sizes


def _named(
    file: Path | None,
    weights: Path | None,
    files: list[str],
    modules: list[api.Module],
    has_buckets: bool,
) -> dict[str, Any]:
    """What `export_c` is told of weights by name."""
    if file is None:
        return {}
    if weights is not None:
        raise api.UsageError(
            "--weights writes constants to a file, --named-weights reads names from one: not both",
            rule="weights-file",
        )
    keys = [""] if has_buckets or len(files) == 1 else [c_name(Path(f).stem) for f in files]
    return {"named_weights": named_in_file(file, dict(zip(keys, modules)))}


_Asked = tuple[int | None, int | None, bool]
"""Replicas, partitions, and whether the partitioner makes them."""


def _modules(
    files: list[str], shapes: str, sizes: dict[str, tuple[int, ...]], asked: _Asked
) -> list[api.Module]:
    """The programs; of one file for several buckets that for the first, to say what is wrong."""
    of_first = bucket_shapes(shapes, sizes)[0] if sizes and len(files) == 1 else shapes
    replicas, partitions, spmd = asked
    modules = [read(f, replicas, partitions, of_first, spmd).module for f in files]
    for module in modules:
        warn_of_elided(module)
    return modules


def _refuse_options_of_libraries(options: dict[str, Any], count: int, output: Path) -> None:
    _check_ending(output)
    if count > 1:
        raise api.UsageError(
            f"{count} programs become one C library, and {output.name} is none",
            hint="-o libstep.so",
        )
    called = {"header_path": "header", "versions": "target-versions"}
    if refused := next((k for k, v in options.items() if v), ""):
        word = called.get(refused, refused.replace("_", "-"))
        raise api.UsageError(
            f"--{word} is for C libraries, and {output.name} is none", hint="-o libstep.so"
        )


def _programs(
    files: list[str],
    shapes: str,
    sizes: dict[str, tuple[int, ...]],
    asked: _Asked,
    modules: list[api.Module],
) -> Any:
    """What a C library is made of, as `export_c` takes it."""
    if not sizes:
        return _by_file(files, modules)
    return _of_sizes(files[0], shapes, asked) if len(files) == 1 else modules


def _by_file(files: list[str], modules: list[api.Module]) -> api.Module | dict[str, api.Module]:
    """Of one size: a program, or several by the names of their files."""
    keys = [Path(file).stem for file in files]
    if len(set(keys)) < len(keys):
        raise api.UsageError(
            f"functions are called as the files are: {', '.join(keys)}", rule="library-names"
        )
    return dict(zip(keys, modules)) if len(files) > 1 else modules[0]


def _tell_of_saved(program: Any, output: Path, as_json: bool) -> None:
    size = output.stat().st_size
    if as_json:
        write_json({"file": str(output), "bytes": size, "program": _about(program)})
    else:
        typer.echo(f"wrote {output}: {program.name}, {bytes_text(size)}")


def _saved(
    module: api.Module,
    output: Path,
    threads: int | None,
    words: list[str],
    target: str,
    names: dict[str, list[str] | None],
) -> Any:
    """Write a program to a file; one for a machine that was named is not loaded here, nor is one
    whose custom calls nobody handles here: whoever loads it gives it the handlers."""
    options = api.Options.parsed(words, api.Options.from_environment())
    if not any(options[name] for name in api.TARGET_OPTIONS):
        try:
            exe = compiled(module, threads, words, target)
        except api.HloError as error:
            if error.rule != "custom-call-handler" or _calls_python(module):
                raise
            warn(f"{error.message}: who loads {output.name} needs a handler")
        else:
            exe.save(output, **names)
            return exe.program
    with progress(f"compiling {module.name}") as stage:
        return api.compile_saved(module, output, options, target=target, progress=stage, **names)


def _calls_python(module: api.Module) -> bool:
    """Whether JAX put calls of functions in, which no other process knows."""
    instructions = [i for c in module.computations_in_order() for i in c.instructions]
    targets = [i.attrs.custom_call_target for i in instructions if i.opcode == "custom-call"]
    return any("python" in t and "callback" in t for t in targets)


def _split(names: str) -> list[str] | None:
    return [n.strip() for n in names.split(",")] if names else None


def _tell_of(library: CLibrary, as_json: bool, with_report: bool) -> None:
    size = library.path.stat().st_size
    if as_json:
        functions = [
            {
                "function": e.name,
                "inputs": list(e.inputs),
                "outputs": list(e.outputs),
                "workspace_bytes": e.interface.workspace_bytes,
            }
            for e in library.entries
        ]
        about = {"file": str(library.path), "bytes": size, **functions[0]}
        if library.weights is not None:
            about |= {"weights": str(library.weights)}
        about |= {"functions": functions} if len(functions) > 1 else {}
        if (b := library.buckets) is not None:
            about["buckets"] = {
                "function": b.name,
                "sizes": dict(b.sizes),
                "refuses_others": b.why_exact or None,
                "workspace_bytes": b.workspace_bytes,
            }
        write_json({**about, "report": library_report(library)} if with_report else about)
        return
    for e in library.entries:
        workspace = bytes_text(e.interface.workspace_bytes)
        typer.echo(
            f"wrote {library.path}: {e.name}({_short(e.inputs)}), {bytes_text(size)},"
            f" workspace {workspace}"
        )
    if library.buckets is not None:
        b = library.buckets
        what = f"refuses others: {b.why_exact}" if b.why_exact else "pads others to the next"
        listed = "; ".join([f"{n} {', '.join(map(str, s))}" for n, s in b.sizes.items()])
        typer.echo(f"wrote {library.path}: {b.name}({', '.join(b.sizes)}, ...), {listed}; {what}")
    if library.header is not None:
        typer.echo(f"wrote {library.header}")
    if library.weights is not None:
        typer.echo(f"wrote {library.weights}: {bytes_text(library.weights.stat().st_size)}")
    for line in report_text(library) if with_report else ():
        typer.echo(line)


def _short(names: Sequence[str]) -> str:
    """The first of many names, and how many there are."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMES])}, ... {len(names)} arrays"


def _about(program: Any) -> dict[str, object]:
    return {
        "name": program.name,
        "arguments": [shape.text_without_layout for shape in program.argument_shapes],
        "result": program.result_shape.text_without_layout,
        "features": [] if program.processor is None else list(program.processor.features),
    }
