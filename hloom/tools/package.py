"""`hloom package`: a C library in a folder that build systems and other languages look through."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloom.aot.package import LANGUAGES, package
from hloom.tools.terminal import AsJson, guarded, write_json

Library = Annotated[
    Path, typer.Argument(metavar="LIBRARY", help="What hloom compile wrote: .a, .so, .o, .wasm.")
]
Header = Annotated[Path, typer.Option("--header", help="Its header.", show_default=False)]
Folder = Annotated[Path, typer.Option("--output", "-o", help="The folder.", show_default=False)]
Languages = Annotated[
    str, typer.Option("--languages", help=f"Sources for {', '.join(LANGUAGES)}; commas between.")
]
Version = Annotated[str, typer.Option("--version", help="That build systems ask for.")]


@guarded
def package_(
    library: Library,
    header: Header,
    output: Folder,
    languages: Languages = "",
    version: Version = "1.0.0",
    as_json: AsJson = False,
) -> None:
    """Put a C library in a folder with what CMake and pkg-config look for, and with sources that
    call it from other languages.

    [bold]Examples[/bold]

      hloom compile model.hlo -o libmodel.a --header model.h

      hloom package libmodel.a --header model.h -o model-1.0 --languages rust,go
    """
    chosen = [word.strip() for word in languages.split(",") if word.strip()]
    written = package(library, header, output, chosen, version)
    if as_json:
        write_json({"files": [str(path) for path in written]})
        return
    for path in written:
        typer.echo(f"wrote {path}")
