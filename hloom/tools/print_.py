"""`hloom print`: a program for people to read, or as HLO text in every preset."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from typing import Annotated, Any, get_type_hints

import typer

from hloom import api
from hloom.ir.text.readable import show_readable
from hloom.ir.text.show import show_computation, show_instruction, show_module
from hloom.tools.terminal import (
    AsJson,
    InputFile,
    guarded,
    has_colour,
    read,
    write_json,
    write_text,
)

_NOT_SWITCHES = frozenset(("subcomputation_mode", "indent", "nested"))
SWITCHES = tuple(f.name for f in fields(api.PrintOptions) if f.name not in _NOT_SWITCHES)


def _with_switches(command: Any) -> Any:
    """The command with an option `--name/--no-name` for each switch of the printer."""
    signature = inspect.signature(command)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    hints = get_type_hints(command, include_extras=True)
    hints.pop("switches", None)
    for name in SWITCHES:
        flag = name.replace("_", "-")
        option = typer.Option(f"--{flag}/--no-{flag}", rich_help_panel="Switches of HLO text")
        hints[name] = Annotated[bool | None, option]
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=None)
        )
    command.__signature__ = signature.replace(
        parameters=[p.replace(annotation=hints[p.name]) for p in parameters]
    )
    command.__annotations__ = hints
    return command


@_with_switches
@guarded
def print_(
    file: InputFile,
    preset: Annotated[
        str | None,
        typer.Option(
            help="HLO text instead of the readable form: default, short-parsable, canonical, "
            "fingerprint or module-fingerprint."
        ),
    ] = None,
    computation: Annotated[
        str | None, typer.Option("--computation", "-c", help="Only this computation.")
    ] = None,
    instruction: Annotated[
        str | None, typer.Option("--instruction", "-i", help="Only around this instruction.")
    ] = None,
    radius: Annotated[
        int, typer.Option(help="How many steps around it, operands and users.", min=0)
    ] = 2,
    subcomputations: Annotated[
        str | None,
        typer.Option(
            help="Called computations: off, names or full.", rich_help_panel="Switches of HLO text"
        ),
    ] = None,
    as_json: AsJson = False,
    **switches: bool | None,
) -> None:
    """Print a program for reading: places in the source, constants folded into what uses them,
    fusions and reducers as expressions, loops with their bodies under them.

    With --preset, or any of the switches, print HLO text.

    [bold]Examples[/bold]

      hloom print step.hlo

      hloom print step.hlo --instruction dot.42 --radius 3

      hloom print step.hlo --preset short-parsable --metadata-only-op-name

      hloom convert step.pb - | hloom print - --no-metadata
    """
    chosen = {name: value for name, value in switches.items() if value is not None}
    if preset is not None and preset not in api.PRESETS:
        raise api.UsageError(f"no preset {preset!r}", hint=api.did_you_mean(preset, api.PRESETS))
    if subcomputations is not None:
        if subcomputations not in ("off", "names", "full"):
            raise api.UsageError("--subcomputations is off, names or full")
        chosen["subcomputation_mode"] = subcomputations  # type: ignore[assignment]
    module = read(file).module
    if preset is None and not chosen:
        text = readable(module, computation, instruction, radius)
    else:
        options = replace(api.PRESETS[preset or "default"](), **chosen)
        text = hlo_text(module, options, computation, instruction, radius)
    if as_json:
        write_json({"ok": True, "module": module.name, "text": text})
    else:
        write_text(text)


def hlo_text(
    module: api.Module,
    options: api.PrintOptions,
    computation: str | None,
    instruction: str | None,
    radius: int,
) -> str:
    if instruction is not None:
        chosen = around(found_instruction(module, instruction, computation), radius)
        return "\n".join(
            ("ROOT " if i.is_root else "") + show_instruction(i, options) for i in chosen
        )
    if computation is not None:
        return show_computation(found_computation(module, computation), options)
    return show_module(module, options)


def readable(
    module: api.Module, computation: str | None, instruction: str | None, radius: int
) -> str:
    only = None
    if instruction is not None:
        only = around(found_instruction(module, instruction, computation), radius)
    elif computation is not None:
        return show_readable(module, [found_computation(module, computation)], colour=has_colour())
    return show_readable(module, only=only, colour=has_colour())


def found_computation(module: api.Module, name: str) -> api.Computation:
    try:
        return module[name]
    except KeyError:
        raise api.UsageError(
            f"no computation %{name.removeprefix('%')} in {module.name}",
            hint=nearest(name, [c.name for c in module.computations]),
        ) from None


def found_instruction(module: api.Module, name: str, computation: str | None) -> api.Instruction:
    """The instruction of this name; the entry's where several computations have one."""
    plain = name.removeprefix("%")
    if computation is not None:
        places = [found_computation(module, computation)]
    else:
        places = [module.entry, *module.computations]
    for c in places:
        if plain in c.names:
            return c.names[plain]
    raise api.UsageError(
        f"no instruction %{plain} in {module.name}",
        hint=nearest(plain, list(dict.fromkeys(i for c in places for i in c.names))),
    )


def nearest(name: str, known: list[str]) -> str | None:
    return api.did_you_mean(name.removeprefix("%"), known, "%")


def around(i: api.Instruction, radius: int) -> list[api.Instruction]:
    """The instructions at most `radius` steps from one, along operands and users, in order."""
    seen, edge = {i}, [i]
    for _ in range(radius):
        edge = list(dict.fromkeys(x for e in edge for x in (*e.operands, *e.users)))
        edge = [x for x in edge if x not in seen]
        seen.update(edge)
    return [x for x in i.parent.in_order() if x in seen]
