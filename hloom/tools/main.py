"""The command `hloom`: its commands, each in a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from hloom import __version__
from hloom.tools.bench import bench
from hloom.tools.cache import cache
from hloom.tools.calibrate import calibrate
from hloom.tools.compile_ import compile_
from hloom.tools.conformance import conformance
from hloom.tools.convert import convert
from hloom.tools.device import device
from hloom.tools.doctor import doctor
from hloom.tools.evaluate import evaluate
from hloom.tools.explain import explain
from hloom.tools.opt import OptionsCommand, opt
from hloom.tools.package import package_
from hloom.tools.partition import partition
from hloom.tools.print_ import print_
from hloom.tools.run import run
from hloom.tools.runtime_library import runtime_library_
from hloom.tools.stats import stats
from hloom.tools.verify import verify

app = typer.Typer(
    name="hloom",
    help="Read, check, evaluate, rewrite, compile and run HLO programs.\n\n"
    "A program is HLO text (.hlo, .txt), a proto or a snapshot (.pb, .pbtxt, .textproto) or "
    "StableHLO (.mlir, .mlirbc), also with .gz behind; - is standard input. Every command has "
    "--help with examples, and --json.",
    epilog="Exit codes: 0 all is well; 1 the program is wrong, or a check found a difference; "
    "2 the command line is wrong; 3 a bug of hloom; 130 interrupted; 141 nobody reads the output.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"hloom {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


app.command("print")(print_)
app.command("verify")(verify)
app.command("stats")(stats)
app.command("eval")(evaluate)
app.command("run", cls=OptionsCommand)(run)
app.command("compile", cls=OptionsCommand)(compile_)
app.command("package")(package_)
app.command("runtime-library")(runtime_library_)
app.command("explain")(explain)
app.command("partition")(partition)
app.command("opt", cls=OptionsCommand)(opt)
app.command("convert")(convert)
app.command("bench", cls=OptionsCommand)(bench)
app.command("conformance")(conformance)
app.command("doctor")(doctor)
app.command("device")(device)
app.command("calibrate")(calibrate)
app.add_typer(cache)


if __name__ == "__main__":
    from hloom.tools.entry import main as run

    run()
