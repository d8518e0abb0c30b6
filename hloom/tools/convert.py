"""`hloom convert`: the same program in another form of file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloom import api
from hloom.tools.arrays import arguments_per_device, read_arrays
from hloom.tools.terminal import (
    AsJson,
    InputFile,
    Partitions,
    Replicas,
    Shapes,
    guarded,
    read,
    warn_of_elided,
    write_bytes,
    write_json,
)

TEXT = tuple([x + c for x in (".hlo", ".txt") for c in ("", ".gz", ".xz", ".bz2")])
SNAPSHOTS = ("snapshot", "unoptimized-snapshot", "custom-snapshot")


Form = Annotated[
    str | None,
    typer.Option(
        help="Form: text, proto, hlo-proto, snapshot, unoptimized-snapshot, custom-snapshot, "
        "stablehlo, stablehlo-bytecode, stablehlo-artifact.",
        show_default="by the extension",
    ),
]


Output = Annotated[
    str | None, typer.Option("--output", "-o", help="OUT, as other commands take it.")
]


def is_text(out: str, to: str | None) -> bool:
    """Whether what is written is HLO text, which can say that a constant is elided."""
    return to == "text" or (to is None and (out == "-" or out.endswith(TEXT)))


@guarded
def convert(
    file: InputFile,
    out: Annotated[
        str | None,
        typer.Argument(metavar="OUT", help="Where to; its extension says the form."),
    ] = None,
    output: Output = None,
    to: Form = None,
    inputs: Annotated[
        Path | None, typer.Option(help="An .npz with the arguments that a snapshot holds.")
    ] = None,
    text_proto: Annotated[
        bool, typer.Option(help="For OUT -: the text of the proto instead of its bytes.")
    ] = False,
    replicas: Replicas = None,
    partitions: Partitions = None,
    shapes: Shapes = "",
    as_json: AsJson = False,
) -> None:
    """Write a program in another form: text, HloModuleProto, HloProto, a snapshot, StableHLO.

    OUT appears whole or not at all. .hlo and .txt are text, .pb is a binary proto, .pbtxt and
    .textproto are the text of one, .mlir and .mlirbc are StableHLO; .gz, .xz or .bz2 behind
    compresses. OUT - is standard output.

    [bold]Examples[/bold]

      hloom convert step.hlo step.pb

      hloom convert step.hlo step.snapshot.pb --to snapshot --inputs arguments.npz

      hloom convert dump.pb.gz - | less

      hloom convert model.mlir -o model.hlo
    """
    out = _one_of(out, output)
    loaded = read(file, replicas, partitions, shapes)
    module = loaded.module
    given_partitions, result = loaded.partitions, loaded.result
    if inputs is not None:
        if to not in SNAPSHOTS:
            raise api.UsageError("--inputs is for snapshots", hint=f"--to {' or '.join(SNAPSHOTS)}")
        count = 1 if to == "snapshot" else module.num_partitions
        given_partitions = arguments_per_device(module, read_arrays(inputs), count, str(inputs))
        result = None
    snapshot = api.Snapshot(module, given_partitions, result, loaded.execution_platform)
    _check_form(to, len(given_partitions))
    if not is_text(out, to):
        warn_of_elided(module)
    if out == "-":
        if as_json:
            raise api.UsageError("--json and OUT - both write to standard output")
        form = "text-proto" if text_proto else "binary"
        write_bytes(api.file_bytes(module, to or "text", form, snapshot=snapshot))
        return
    api.save(module, out, to, snapshot=snapshot)
    if as_json:
        size = Path(out).stat().st_size
        write_json({"ok": True, "from": loaded.format, "file": out, "size_bytes": size})


def _one_of(out: str | None, output: str | None) -> str:
    """OUT, whichever way it was said."""
    if out is not None and output is not None:
        raise api.UsageError(f"two files to write: {out} and, by -o, {output}", hint="one of them")
    name = out if out is not None else output
    if name is None:
        raise api.UsageError("no file to write is named", hint="hloom convert FILE OUT; - prints")
    return name


def _check_form(to: str | None, partitions: int) -> None:
    """Refuse a form that does not exist, or that cannot hold so many partitions' arguments."""
    if to is not None and to not in api.FORMATS:
        raise api.UsageError(f"no form {to!r}", hint=api.did_you_mean(to, api.FORMATS))
    if to == "snapshot" and partitions > 1:
        raise api.UsageError(
            f"a snapshot holds the arguments of one partition, not of {partitions}",
            hint="--to unoptimized-snapshot",
        )
