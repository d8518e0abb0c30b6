"""`hloom cache`: what the compile cache holds, why a program is not in it, emptying it."""

from __future__ import annotations

from dataclasses import asdict

import typer

from hloom import api
from hloom.tools.opt import OPTION_WORDS, OptionsCommand
from hloom.tools.terminal import AsJson, InputFile, bytes_text, guarded, read, warn, write_json

OFF_HINT = "HLOOM_CACHE=0 turns it off: unset it"

cache = typer.Typer(
    name="cache",
    help="The compiled programs that are kept on disk: what is there, why one is not, clear.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _cache() -> api.ProgramCache:
    cache = api.program_cache()
    if cache is None:
        raise api.UsageError("the compile cache is turned off", rule="cache", hint=OFF_HINT)
    return cache


@cache.command("info")
@guarded
def info(as_json: AsJson = False) -> None:
    """Where the cache is, how much it holds, and how often it helped.

    HLOOM_CACHE_DIR names another folder, HLOOM_CACHE_BYTES its bound, HLOOM_CACHE=0 turns it off.
    """
    information = _cache().info()
    if as_json:
        write_json({"ok": True, **asdict(information)})
        return
    share = information.size_bytes / information.limit_bytes if information.limit_bytes else 0.0
    requests = information.hits + information.misses
    helped = f", {information.hits / requests:.0%}" if requests else ""
    typer.echo(f"folder   {information.path}")
    typer.echo(f"entries  {information.entries:,}")
    typer.echo(f"objects  {information.objects:,} of kernels, for programs that share them")
    size, limit = bytes_text(information.size_bytes), bytes_text(information.limit_bytes)
    typer.echo(f"size     {size} of {limit} ({share:.0%})")
    typer.echo(f"used     {information.hits:,} of {requests:,} times asked{helped}")


@cache.command("why", cls=OptionsCommand)
@guarded
def why(ctx: typer.Context, file: InputFile, as_json: AsJson = False) -> None:
    """Whether a program is in the cache; if not, in what the nearest entry differs.

    The options of the compiler are part of the answer: give those that the program is run with.

    [bold]Examples[/bold]

      hloom cache why step.hlo

      hloom cache why step.hlo --cpu_max_isa=AVX2
    """
    module = read(file).module
    words = ctx.meta.get(OPTION_WORDS, [])
    options = api.Options.parsed(words, api.Options.from_environment())
    for name in api.options_without_effect(options):
        warn(f"--{name} does nothing when compiling for a CPU")
    cached = api.why_cached(_cache(), module, options)
    if as_json:
        write_json({"ok": True, **asdict(cached.answer), "reasons": cached.reasons})
        return
    if cached.answer.is_hit:
        typer.echo(f"{module.name} is in the cache: it would not be compiled")
    elif cached.answer.nearest is None:
        typer.echo(f"{module.name} is not in the cache, which is empty")
    else:
        typer.echo(
            f"{module.name} is not in the cache; the nearest entry, {cached.answer.nearest},"
        )
        typer.echo("differs in")
        for line in cached.reasons:
            typer.echo(f"  {line}")


@cache.command("clear")
@guarded
def clear(as_json: AsJson = False) -> None:
    """Remove every program from the cache."""
    count = _cache().clear()
    if as_json:
        write_json({"ok": True, "removed": count})
    else:
        typer.echo(f"removed {count:,} programs")
