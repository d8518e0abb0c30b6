"""`hloom opt`: run passes over a program and write what came out."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from hloom import api
from hloom.tools import dump, opt_report
from hloom.tools.dump import Dumper
from hloom.tools.pass_names import passes_named
from hloom.tools.terminal import (
    AsJson,
    Partitions,
    Replicas,
    guarded,
    read,
    warn,
    write_json,
    write_text,
)

READ = frozenset(
    (
        "disable_hlo_passes",
        "enable_hlo_passes_only",
        "disable_all_hlo_passes",
        "hlo_pass_fix_detect_cycles",
        "unsupported_crash_on_hlo_pass_fix_max_iterations",
        "unsupported_crash_on_hlo_pass_noop_change",
        "unsupported_crash_on_hlo_pass_silent_hlo_change",
        *dump.READ,
    )
)
"""The compiler options that this command acts on."""
OPTION_WORDS: str = "hloom.option_words"
"""Where the words of compiler options are kept for a command."""


class OptionsCommand(TyperCommand):
    """A command that also takes the compiler's options, with and without `xla_` in front."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words, rest = [], []
        own = {name for p in self.params for name in p.opts}
        for k, word in enumerate(args):
            if word == "--":
                rest += args[k:]
                break
            name = word[2:].partition("=")[0] if word.startswith("--") else ""
            # A misspelt option of the compiler's has an underscore, of the command's few have.
            known = name in api.OPTIONS or ("_" in name and f"--{name}" not in own)
            (words if known else rest).append(word)
        ctx.meta[OPTION_WORDS] = words
        return super().parse_args(ctx, rest)


OptionalFile = Annotated[
    str | None, typer.Argument(metavar="FILE", help="Program; - is stdin.", show_default=False)
]
PassList = Annotated[
    str,
    typer.Option("--passes", "-p", help="Names with commas; options in braces: a,b{level=2},c."),
]
OutFile = Annotated[
    str, typer.Option("--out", "-o", help="Where the result goes; - is standard output.")
]
FixPoint = Annotated[
    bool, typer.Option("--fix-point", help="Repeat the passes until nothing changes.")
]
Stats = Annotated[
    bool, typer.Option("--stats", help="What each pass did and how long it took, on stderr.")
]
Disabled = Annotated[str, typer.Option(help="Passes or pipelines not to run, with commas.")]
Checked = Annotated[
    bool, typer.Option(help="Verify the program before, and after each pass that changed it.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="A line before every pass: count and hash.")
]
ListPasses = Annotated[
    bool, typer.Option("--list-passes", help="Every pass with summary, options and rules.")
]


ListOptions = Annotated[
    bool,
    typer.Option(
        "--list-options",
        help="Every option of the compiler with its default, and whether anything reads it yet.",
    ),
]

Traced = Annotated[
    bool, typer.Option("--trace", help="Every rewrite, before and after, on stderr.")
]


@guarded
def opt(
    ctx: typer.Context,
    file: OptionalFile = None,
    passes: PassList = "",
    out: OutFile = "-",
    fix_point: FixPoint = False,
    stats: Stats = False,
    trace: Traced = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also every rule that declined, and why.")
    ] = False,
    disable_passes: Disabled = "",
    check: Checked = True,
    replicas: Replicas = None,
    partitions: Partitions = None,
    verbose: Verbose = False,
    list_passes: ListPasses = False,
    list_options: ListOptions = False,
    as_json: AsJson = False,
) -> None:
    """Run passes over a program and print the result, or write it with -o.

    The options of the compiler are taken too, with or without xla_ in front, and from XLA_FLAGS:
    --disable_hlo_passes, --enable_hlo_passes_only, --disable_all_hlo_passes, --dump_to and its
    companions, ... An option that nothing reads yet is said to do nothing.

    [bold]Examples[/bold]

      hloom opt --list-passes

      hloom opt step.hlo --passes=call-inliner,algsimp,cse,dce -o better.hlo --stats

      hloom opt step.hlo --passes=algsimp --fix-point --trace > /dev/null

      hloom opt step.hlo --passes=dce,cse --dump_to=dumps --dump_hlo_pass_re='.*'
    """
    if list_passes or list_options:
        opt_report.show_lists(list_passes, READ | api.COMPILE_OPTIONS, as_json)
        return
    if file is None:
        raise typer.BadParameter("a FILE is needed, or --list-passes, --list-options")
    options = _options(ctx.meta.get(OPTION_WORDS, []), disable_passes)
    steps = passes_named(passes)
    _check_names(options)
    recorded = api.Trace(text=trace or explain)
    loaded, pipeline = read(file, replicas, partitions), _pipeline(steps, fix_point)
    module, result, records = _optimised(loaded.module, pipeline, options, recorded, check, verbose)
    if trace or explain:
        opt_report.show_trace(recorded, explain)
    if stats:
        opt_report.show_records(records)
    if out != "-":
        api.save(module, out)
    if as_json:
        write_json(opt_report.as_data(result, records, recorded, module, out))
    elif out == "-":
        write_text(api.show(module, large_constants=True))


def _optimised(
    module: api.Module,
    pipeline: api.Pipeline,
    options: api.Options,
    trace: api.Trace,
    check: bool,
    verbose: bool,
) -> tuple[api.Module, api.PassResult, list[api.PassRecord]]:
    """What the passes made of the module, with dumps before and after."""
    dumper = Dumper(options, module.name, pass_names(pipeline))
    dumper.dump("before_optimizations", module)
    result, records = pipeline.run_recorded(
        module, _pipeline_options(options, dumper, check, verbose), trace=trace
    )
    module = result.module or module
    dumper.dump("after_optimizations", module)
    return module, result, records


def _options(words: list[str], disable_passes: str) -> api.Options:
    """The compiler's options, those of the command line winning over `XLA_FLAGS`."""
    options = api.Options.parsed(words, api.Options.from_environment())
    if disable_passes:
        both = (*options["disable_hlo_passes"], *disable_passes.split(","))
        options = options.with_(disable_hlo_passes=tuple(p.strip() for p in both if p.strip()))
    for name in options.unread(READ):
        warn(f"--{name} does nothing: no part of hloom reads it yet")
    return options


def _check_names(options: api.Options) -> None:
    """A misspelt pass in a list of passes would change nothing silently."""
    for option in ("disable_hlo_passes", "enable_hlo_passes_only"):
        for name in options[option]:
            if name not in api.PASSES and name not in ("opt", "fixed-point"):
                warn(f"--{option}: no pass named {name!r} here; see hloom opt --list-passes")


def _pipeline(steps: tuple[api.Pass, ...], fix_point: bool) -> api.Pipeline:
    try:
        pipeline = api.Pipeline.assuming("opt", steps)
        return (
            api.Pipeline("fix-point", (api.FixedPoint(pipeline),), pipeline.assumes)
            if fix_point
            else pipeline
        )
    except ValueError as error:
        raise api.UsageError(str(error), rule="pass-order") from None


def pass_names(step: api.Pass) -> tuple[str, ...]:
    """The names of the passes in a pipeline, in the order they run."""
    if isinstance(step, api.Pipeline):
        return tuple(name for inner in step.passes for name in pass_names(inner))
    return pass_names(step.inner) if isinstance(step, api.FixedPoint) else (step.name,)


def _pipeline_options(
    options: api.Options, dumper: Dumper, check: bool, verbose: bool
) -> api.PipelineOptions:
    pattern = options["dump_hlo_pass_re"]
    return api.PipelineOptions(
        disable_hlo_passes=frozenset(options["disable_hlo_passes"]),
        enable_hlo_passes_only=frozenset(options["enable_hlo_passes_only"]),
        disable_all_hlo_passes=options["disable_all_hlo_passes"],
        crash_on_noop_change=options["unsupported_crash_on_hlo_pass_noop_change"],
        crash_on_silent_change=options["unsupported_crash_on_hlo_pass_silent_hlo_change"],
        crash_on_fix_max_iterations=options["unsupported_crash_on_hlo_pass_fix_max_iterations"],
        detect_cycles=options["hlo_pass_fix_detect_cycles"],
        invariants=(api.verify,) if check else (),
        dump_pass_re=pattern or None,
        dump=dumper.dump if dumper.is_on and pattern else None,
        log=(lambda line: typer.echo(line, err=True)) if verbose else warn_only,
    )


def warn_only(line: str) -> None:
    """Lines about each pass are not wanted; what a fixed point finds is."""
    if "came back" in line:
        warn(line)
