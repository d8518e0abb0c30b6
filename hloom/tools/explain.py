"""`hloom explain`: why values were or were not fused, placed, copied, laid out, run slowly."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from hloom import api
from hloom.tools import communication
from hloom.tools.terminal import (
    AsJson,
    InputFile,
    bytes_text,
    console,
    guarded,
    print_table,
    read,
    table,
    write_json,
)


class Topic(StrEnum):
    """What can be asked about."""

    fusion = "fusion"
    memory = "memory"
    layout = "layout"
    fallback = "fallback"
    kernels = "kernels"
    concurrency = "concurrency"
    sharding = "sharding"
    cutting = "partition"


ABOUT = {
    "fusion": "each value and each kernel that reads it: computed inside, or read from memory",
    "memory": "each value: where it stands, and whose buffer it uses",
    "layout": "each array of two dimensions or more: the order of its elements",
    "fallback": "what runs through a general path that is slower than a special one",
    "kernels": "each kernel: the family that wrote it; first, what was left out for a fault",
    "concurrency": "each sequence of steps: what of it runs side by side, or what it waits for",
    "sharding": "each value: how it is cut over devices, and where that came from",
    "partition": "each collective that partitioning brings in (bytes a device receives), and what "
    "several devices compute alike",
}


@guarded
def explain(
    file: InputFile,
    topic: Annotated[Topic, typer.Argument(help="What to explain.", show_default=False)],
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="The same as --only VALUE.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what names this instruction.")
    ] = None,
    mesh: communication.MeshText = "",
    top: Annotated[int, typer.Option(help="Rows in the table; 0 is all.", min=0)] = 40,
    as_json: AsJson = False,
) -> None:
    """Say why the compiler did what it did: for every value, one line.

    [bold]fusion[/bold]: which values are computed in the kernels that read them, and why not.
    [bold]memory[/bold]: where each value stands, why it shares a buffer, why it was copied.
    [bold]layout[/bold]: the order of the elements of each array.
    [bold]fallback[/bold]: what runs through a general slow path, and why.
    [bold]kernels[/bold]: which family of kernels wrote each, and faults of hloom.
    [bold]concurrency[/bold]: which steps run side by side, and why others wait.
    [bold]sharding[/bold]: how each value is cut over devices, and from where that came.
    [bold]partition[/bold]: which collectives that brings in, for what, along which axis, how many
    bytes; what is computed whole all the same. [bold]--mesh[/bold] names the axes.

    [bold]Examples[/bold]

      hloom explain step.hlo fusion

      hloom explain step.hlo memory --only loop.3

      hloom explain step.hlo sharding %dot.3

      hloom explain step.hlo partition --mesh data=4,model=2

      hloom explain step.hlo fallback --json
    """
    axes = communication.mesh_of(mesh)
    explained = api.explained(read(file).module, topic.value, mesh=axes)
    only = value if only is None else only
    if only is not None:
        explained = explained.about(only)
        if not explained.rows:
            raise api.UsageError(
                f"nothing about {only} here",
                hint="names are those of the optimised program: hloom run --json, or leave out "
                "--only",
            )
    if as_json:
        counts = [{"verdict": v, "why": w, "count": n} for v, w, n in explained.counts]
        rows = [asdict(r) for r in explained.rows]
        write_json({"ok": True, "topic": explained.topic, "rows": rows, "counts": counts})
        return
    show(explained, top)


def show(explained: api.Explained, top: int) -> None:
    """The rows, and where they are many how often each reason stands there."""
    topic = explained.topic
    if not explained.rows:
        typer.echo(f"{topic}: nothing to say ({ABOUT[topic]})")
        return
    rich_table = table(
        f"{topic}: {ABOUT[topic]}", "value", "opcode", ">bytes", "what", "with", "why"
    )
    shown = explained.rows[: top or None]
    for r in shown:
        size = "" if r.size_bytes is None else bytes_text(r.size_bytes)
        rich_table.add_row(r.value, r.opcode, size, r.verdict, r.other or "", r.why)
    if rest := len(explained.rows) - len(shown):
        rich_table.add_row(f"{rest:,} more", "", "", "", "", "--top 0 shows all")
    print_table(rich_table, console())
    if topic in ("fusion", "fallback") and len(explained.rows) > 5:
        counts = table("reasons", ">count", "what", "why")
        for verdict, why, count in explained.counts:
            counts.add_row(f"{count:,}", verdict, why)
        print_table(counts, console())
