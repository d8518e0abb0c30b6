"""What every command shares: output, errors, numbers for people.

Tables and colours are for a terminal; a pipe gets plain text and JSON. Wrong inputs end in one
message on standard error (an object on standard output with `--json`) and an exit code:

      0  all is well
      1  the input is wrong: it does not parse, verify, evaluate; or a check found a difference
      2  the command line is wrong: unknown option or pass, a file that cannot be read or written
      3  a bug of hloom; the traceback is shown when HLOOM_TRACEBACK is set
    130  interrupted by Ctrl-C
    141  nobody reads the output any more (`| head`)
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hloom import api

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WRONG_INPUT, WRONG_USAGE, BUG, INTERRUPTED, NO_READER = 1, 2, 3, 130, 141
PIPE_WIDTH = 160
"""Columns of a table that does not go to a terminal."""

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]
InputFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="HLO text, proto, snapshot or StableHLO; - is standard input.",
        show_default=False,
    ),
]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replicas", "--num_replicas", help="Replace the module's number of replicas.", min=1
    ),
]
Partitions = Annotated[
    int | None,
    typer.Option(
        "--partitions", "--num_partitions", help="Replace the module's number of partitions.", min=1
    ),
]
Spmd = Annotated[
    bool,
    typer.Option(
        "--spmd", help="The program is one of whole arrays: partition it as its shardings say."
    ),
]

Shapes = Annotated[
    str,
    typer.Option(
        metavar="SHAPES",
        help="Shapes of the arguments of StableHLO that leaves sizes open: f32[8,3],s32[].",
    ),
]

F = TypeVar("F", bound=Callable[..., Any])


def guarded(command: F) -> F:
    """The command, with every wrong input ending in one message and its exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except api.HloError as error:
            report(error, as_json=bool(kwargs.get("as_json")))
            raise typer.Exit(exit_code(error)) from None
        except BrokenPipeError:
            close_output()
            raise typer.Exit(NO_READER) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except MemoryError:
            report(api.HloError("not enough memory"), as_json=bool(kwargs.get("as_json")))
            raise typer.Exit(WRONG_INPUT) from None
        except OSError as error:
            close_output()
            report(api.UsageError(f"cannot write: {error.strerror or error}"))
            raise typer.Exit(WRONG_USAGE) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            report_bug(error)
            raise typer.Exit(BUG) from None

    return run  # type: ignore[return-value]


def exit_code(error: api.HloError) -> int:
    return WRONG_USAGE if isinstance(error, api.UsageError) else WRONG_INPUT


def report(error: api.HloError, *, as_json: bool = False) -> None:
    """One message for a wrong input."""
    if as_json:
        write_json({"ok": False, **error.as_json()})
        return
    head = typer.style("error:", fg="red", bold=True)
    typer.echo(f"{head} {printable(str(error))}", err=True)


def warn(message: str) -> None:
    """A line on standard error that does not stop anything."""
    typer.echo(f"{typer.style('warning:', fg='yellow', bold=True)} {message}", err=True)


def warn_of_elided(module: api.Module) -> None:
    """Say so when constants of a program are written `{...}`: their values were left out of the
    dump, so what is computed from them is made up."""
    count = sum(
        1 for i in module.instructions() if i.opcode == "constant" and i.attrs.literal.is_elided
    )
    if count:
        warn(
            f"the values of {count} elided constants ({{...}}) are made up; dump the program with "
            "large constants (--xla_dump_large_constants)"
        )


def report_bug(error: Exception) -> None:
    if os.environ.get("HLOOM_TRACEBACK"):
        typer.echo("".join(traceback.format_exception(error)), err=True)
    what = f"{type(error).__name__}: {error}".split("\n")[0]
    typer.echo(
        f"{typer.style('bug:', fg='red', bold=True)} {printable(what)}\n"
        "  hint: this is a fault of hloom, not of the input; HLOOM_TRACEBACK=1 shows where",
        err=True,
    )


def printable(text: str) -> str:
    """The text without what a terminal or UTF-8 cannot take."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def close_output() -> None:
    """Nobody takes the output any more: write the rest of it nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # closed, or no file at all
        pass


def standard_input() -> bytes:
    """All of it; `UsageError` where the shell has closed it (`<&-`), or it cannot be read."""
    if sys.stdin is None:
        raise api.UsageError("cannot read <stdin>: it is closed", hint="give the name of a file")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise api.UsageError(f"cannot read <stdin>: {error.strerror}") from None


def write_text(text: str) -> None:
    """Text of a program on standard output, byte for byte as a file would hold it."""
    if not text.endswith("\n"):
        text += "\n"
    write_bytes(text.encode("utf-8", "surrogateescape"))


def write_bytes(data: bytes) -> None:
    if sys.stdout is None:
        raise api.UsageError("cannot write: standard output is closed")
    sys.stdout.flush()
    stream = sys.stdout.buffer
    stream.write(data)
    stream.flush()


def write_json(value: object) -> None:
    write_text(json.dumps(value, indent=2, ensure_ascii=False, default=str, allow_nan=False))


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def has_colour() -> bool:
    """Whether standard output takes colours (https://no-color.org)."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console() -> Console:
    """Where tables go: as wide as the terminal, wide enough for every column in a pipe."""
    from rich.console import Console

    return Console(
        highlight=False,
        markup=False,
        soft_wrap=False,
        width=None if is_terminal() or os.environ.get("COLUMNS") else PIPE_WIDTH,
    )


def print_table(shown: Table, out: Console, *, err: bool = False) -> None:
    """A table without the blanks that rich leaves at the end of lines."""
    title, shown.caption = str(shown.caption or ""), None
    with out.capture() as captured:
        out.print(shown)
    text = "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    if title:
        text = f"{typer.style(title, bold=True) if has_colour() else title}\n{text}"
    typer.echo(text, err=err)


def table(title: str, *columns: str) -> Table:
    """A plain table; a column whose name starts with `>` is flush right."""
    from rich import box
    from rich.table import Table

    rich_table = Table(
        header_style="dim",
        box=box.SIMPLE_HEAD if is_terminal() else None,
        pad_edge=False,
        show_edge=False,
        padding=(0, 2, 0, 0),
    )
    for name in columns:
        right = name.startswith(">")
        rich_table.add_column(name.lstrip(">"), justify="right" if right else "left", no_wrap=right)
    # Printed above by `print_table`: rich would break it at the width of the table.
    rich_table.caption = title
    return rich_table


def read(
    file: str,
    replicas: int | None = None,
    partitions: int | None = None,
    shapes: str = "",
    spmd: bool = False,
) -> api.Loaded:
    """What is in a file, or in standard input for `-`.

    The numbers of devices win over those of the header; where they come to one, it is alone.
    `spmd`: it is to be partitioned, which HLO text has no word for.
    """
    if file == "-":
        loaded = api.load_bytes(standard_input(), "<stdin>")
    elif Path(file).is_dir():
        raise api.UsageError(f"{file} is a directory", hint="name a file in it")
    else:
        loaded = api.load_file(
            file, replica_count=replicas, num_partitions=partitions, shapes=shapes
        )
    module = loaded.module
    if replicas is not None:
        module.replica_count = replicas
    if partitions is not None:
        module.num_partitions = partitions
    if (replicas or partitions) and module.replica_count * module.num_partitions == 1:
        api.run_alone(module)
    if spmd:
        if partitions is None:
            api.count_partitions(module)
        if not (api.is_partitionable(module) or api.is_computed_alike(module)):
            raise api.UsageError(
                f"there is nothing to partition in {file}",
                rule="partition",
                hint="it needs num_partitions above 1 (--partitions), shardings, and no "
                "collectives but in regions that the shardings call manual",
            )
        module.use_spmd_partitioning = True
    return loaded


def bytes_text(count: float) -> str:
    """`1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.4g} {unit}"
        count /= 1024
    raise AssertionError


def count_text(count: float) -> str:
    """`1.23 G`; whole numbers up to 9,999 as they are."""
    if abs(count) < 10_000:
        return f"{count:,.0f}" if count == int(count) else f"{count:.3g}"
    units = "kMGTPE"
    power = min(len(units), int(math.log10(abs(count)) // 3))
    return f"{count / 1000**power:.4g} {units[power - 1]}"


def time_text(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
