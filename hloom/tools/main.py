"""The command `hloom`: its commands, each in a file of its own.

A process runs one of them, and imports no other: that takes longer than most commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer

from hloom import __version__


class Command(NamedTuple):
    """Where a command is: a function of a module beside this one."""

    module: str
    function: str
    takes_options: bool = False
    """Whether it takes the compiler's options, too."""


COMMANDS = {
    "print": Command("print_", "print_"),
    "verify": Command("verify", "verify"),
    "stats": Command("stats", "stats"),
    "eval": Command("evaluate", "evaluate"),
    "run": Command("run", "run", True),
    "compile": Command("compile_", "compile_", True),
    "package": Command("package", "package_"),
    "runtime-library": Command("runtime_library", "runtime_library_"),
    "explain": Command("explain", "explain"),
    "partition": Command("partition", "partition"),
    "opt": Command("opt", "opt", True),
    "convert": Command("convert", "convert"),
    "bench": Command("bench", "bench", True),
    "conformance": Command("conformance", "conformance"),
    "doctor": Command("doctor", "doctor"),
    "device": Command("device", "device"),
    "calibrate": Command("calibrate", "calibrate"),
    "cache": Command("cache", "cache"),
}
"""In the order in which `hloom --help` lists them; each word is of one command or of one group."""
GROUPS = ("cache",)


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"hloom {__version__}")
        raise typer.Exit


def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def application(words: Sequence[str] = ()) -> typer.Typer:
    """The command with all its commands; where the words behind it begin with one of them, with
    that one alone."""
    app = typer.Typer(
        name="hloom",
        help="Read, check, evaluate, rewrite, compile and run HLO programs.\n\n"
        "A program is HLO text (.hlo, .txt), a proto or a snapshot (.pb, .pbtxt, .textproto) or "
        "StableHLO (.mlir, .mlirbc), compressed or not, by name or by what they hold; - is "
        "standard input. Every command has --help with examples, and --json.",
        epilog="Exit codes: 0 all is well; 1 the program is wrong, or a check found a difference; "
        "2 the command line is wrong; 3 a bug of hloom; 130 interrupted; 141 nobody reads the "
        "output.",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(main)
    for word in words[:1] if words and words[0] in COMMANDS else COMMANDS:
        module, function, takes_options = COMMANDS[word]
        command = getattr(import_module(f"hloom.tools.{module}"), function)
        if word in GROUPS:
            app.add_typer(command)
        elif takes_options:
            from hloom.tools.opt import OptionsCommand

            app.command(word, cls=OptionsCommand)(command)
        else:
            app.command(word)(command)
    return app


def __getattr__(name: str) -> Any:
    if name == "app":
        return application()
    raise AttributeError(name)


if __name__ == "__main__":
    from hloom.tools.entry import main as run

    run()
