"""`hloom partition`: find shardings for a program's arguments, and write it with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hloom import api
from hloom.ir.text.expression import shape_short
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
    warn,
    write_json,
)


@guarded
def partition(
    file: InputFile,
    mesh: Annotated[str, typer.Option(metavar="MESH", help="Axes of the devices: data=4,model=2.")],
    out: Annotated[
        str, typer.Option("-o", "--out", metavar="FILE", help="Write the program with shardings.")
    ] = "",
    each: Annotated[str, typer.Option(metavar="FILE", help="Write what each device runs.")] = "",
    device: communication.DeviceName = "host",
    seconds: Annotated[float, typer.Option(help="How long to search.", min=0)] = 60.0,
    top: Annotated[int, typer.Option(help="Rows in each table; 0 is all.", min=0)] = 20,
    as_json: AsJson = False,
) -> None:
    """Propose shardings for a program: which dimensions of its arguments to cut along which axes.

    Searches by cost: time as the device description predicts it, with what communication nothing
    hides, and memory, which has to fit. Shardings that the program states are kept. What the search
    does not decide follows by propagation.

    [bold]Examples[/bold]

      hloom partition step.hlo --mesh data=4,model=2 --device h100

      hloom partition step.hlo --mesh data=8 -o sharded.hlo && hloom run sharded.hlo --spmd --check
    """
    axes = communication.mesh_of(mesh)
    if axes is None:
        raise api.UsageError("the mesh has no axes", hint="write --mesh data=4,model=2")
    module = read(file).module
    api.verify(module)
    topology = communication.topology_of(device)
    proposal = api.proposed_shardings(module, axes, topology, seconds)
    each_device = communication.each_device(proposal.module)
    cost = api.partition_cost(each_device, topology, axes)
    for path, written in ((out, proposal.module), (each, each_device)):
        if path:
            Path(path).write_text(api.show(written, large_constants=True))
    if as_json:
        write_json(_as_data(proposal, cost))
        return
    for axis, why in proposal.idle.items():
        warn(f"axis {axis}={dict(axes.axes)[axis]} cuts no argument: {why}")
    _show(proposal, top)
    communication.show(cost, top)


def _rows(proposal: api.Proposal) -> list[dict[str, Any]]:
    rows = []
    for p in proposal.module.entry.parameters:
        for k, leaf in enumerate(p.shape.leaves()):
            sharding = None if p.sharding is None else p.sharding.for_leaf(k)
            chosen = proposal.decided.get((p.attrs.number, k))
            name = p.name + (f"{{{k}}}" if p.shape.is_tuple else "")
            whose = "search" if chosen else "program or propagation"
            text = "replicated" if sharding is None else sharding.text.strip("{}")
            rows.append({"value": name, "shape": leaf, "sharding": text, "by": whose})
    return rows


def _show(proposal: api.Proposal, top: int) -> None:
    rows = _rows(proposal)
    shown = table(
        f"arguments on {proposal.mesh.text}", "value", "shape", ">bytes", "sharding", "by"
    )
    for r in rows[: top or None]:
        size = bytes_text(api.size_bytes(r["shape"]))
        text = r["sharding"].removeprefix(f"{proposal.mesh.text}, ")
        shown.add_row(r["value"], shape_short(r["shape"]), size, text, r["by"])
    if top and len(rows) > top:
        shown.add_row(f"{len(rows) - top} more", "", "", "", "--top 0 shows all")
    print_table(shown, console())
    end = "nothing is cheaper one step away" if proposal.is_finished else "--seconds were up"
    typer.echo(
        f"{proposal.tried} partitioned programs priced ({end}): "
        f"{proposal.cost / max(proposal.cost_before, 1e-9):.3g} of the cost of nothing cut\n"
    )


def _as_data(proposal: api.Proposal, cost: api.PartitionCost) -> dict[str, Any]:
    rows = [r | {"shape": r["shape"].text} for r in _rows(proposal)]
    return {
        "ok": True,
        "mesh": dict(proposal.mesh.axes),
        "arguments": rows,
        "idle_axes": proposal.idle,
        "tried": proposal.tried,
        "finished": proposal.is_finished,
        "cost": proposal.cost,
        "cost_before": proposal.cost_before,
    } | communication.as_data(cost)
