"""`hloom runtime-library`: what C programs link to run saved programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloom.aot.runtime_library import HEADERS, runtime_library
from hloom.tools.evaluate import progress
from hloom.tools.terminal import AsJson, bytes_text, guarded, write_json

Folder = Annotated[Path, typer.Option("--output", "-o", help="The folder.", show_default=False)]


@guarded
def runtime_library_(output: Folder, as_json: AsJson = False) -> None:
    """Compile libhloom_rt.a, with which C programs load what hloom compile -o x.hloom writes.

    It takes a C++ compiler (C++20), and about a minute.

    [bold]Examples[/bold]

      hloom runtime-library -o hloom_rt

      cc main.c -Ihloom_rt hloom_rt/libhloom_rt.a -Wl,--gc-sections -lstdc++ -lm -pthread
    """
    with progress("compiling the runtime"):
        library = runtime_library(output)
    if as_json:
        write_json({"library": str(library), "headers": [str(output / name) for name in HEADERS]})
        return
    typer.echo(f"wrote {library}: {bytes_text(library.stat().st_size)}")
    for name in HEADERS:
        typer.echo(f"wrote {output / name}")
