"""`hloom verify`: does a program obey the rules of the language?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hloom import api
from hloom.tools.terminal import (
    AsJson,
    exit_code,
    guarded,
    printable,
    read,
    write_json,
)


@guarded
def verify(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Programs; - is stdin.")],
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Every broken rule, not only the first.")
    ] = False,
    layout_sensitive: Annotated[
        bool, typer.Option(help="Layouts count too: the program is about to be compiled.")
    ] = False,
    deadlocks: Annotated[
        bool, typer.Option(help="Also look for collectives that wait for each other for ever.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check programs: one verdict per file, with instruction, rule and shapes where one is wrong.

    Exit code 0: all are well formed; 1: one is not; 2: one cannot be read.

    [bold]Examples[/bold]

      hloom verify step.hlo

      hloom verify --all --json dumps/*.hlo
    """
    options = api.VerifyOptions(layout_sensitive=layout_sensitive, check_deadlocks=deadlocks)
    worst, verdicts = 0, []
    for file in files:
        errors, count = _errors(file, options, every)
        verdicts.append(
            {
                "file": file,
                "ok": not errors,
                "instructions": count,
                "errors": [e.as_json() for e in errors],
            }
        )
        worst = max([worst, *map(exit_code, errors)])
        if not as_json:
            _show(file, errors, count)
    if as_json:
        write_json({"ok": not worst, "files": verdicts})
    elif len(files) > 1:
        wrong = sum(not v["ok"] for v in verdicts)
        typer.echo(f"{len(files)} files, {wrong} wrong" if wrong else f"{len(files)} files, all ok")
    if worst:
        raise typer.Exit(worst)


def _errors(
    file: str, options: api.VerifyOptions, every: bool
) -> tuple[list[api.HloError], int | None]:
    """What is wrong with a file, and how many instructions it has if it could be read."""
    try:
        module = read(file).module
    except api.HloError as error:
        return [error], None
    errors: list[api.HloError] = []
    for error in api.violations(module, options):
        errors.append(error)
        if not every:
            break
    return errors, module.instruction_count


def _show(file: str, errors: list[Any], count: int | None) -> None:
    if not errors:
        mark = typer.style("ok", fg="green")
        typer.echo(f"{printable(file)}: {mark}, {count:,} instructions")
        return
    for error in errors:
        mark = typer.style("wrong:", fg="red", bold=True)
        text = printable(str(error))
        # A place names the file itself.
        head = "" if error.location and error.location.file == file else f"{printable(file)}: "
        typer.echo(f"{head}{mark} {text}")
