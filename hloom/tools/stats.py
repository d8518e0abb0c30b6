"""`hloom stats`: what is in a program, and what it costs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hloom import api
from hloom.ir.text.expression import shape_short
from hloom.ir.text.readable import Readable
from hloom.tools import communication
from hloom.tools.terminal import (
    AsJson,
    InputFile,
    Partitions,
    Spmd,
    bytes_text,
    console,
    count_text,
    guarded,
    print_table,
    read,
    table,
    write_json,
)


@guarded
def stats(
    file: InputFile,
    top: Annotated[int, typer.Option(help="Rows in each table; 0 is all.", min=0)] = 12,
    spmd: Spmd = False,
    partitions: Partitions = None,
    device: communication.DeviceName = "host",
    mesh: communication.MeshText = "",
    meshes: communication.Meshes = communication.Compared.own,
    as_json: AsJson = False,
) -> None:
    """Count a program: opcodes, bytes, FLOPs with trip counts, collectives, the biggest values.

    FLOPs are arithmetic operations of one device in one run: a multiply-add is two, loops count as
    often as they run. Loops whose count cannot be told are named and counted once.

    Of a program with collectives also: bytes that a device receives by kind, axis of the mesh and
    line of the source, what time they take on a device and how much of it nothing can hide.
    [bold]--spmd[/bold] partitions a program of whole arrays first; [bold]--meshes all[/bold] does
    so for every mesh of as many devices and axes, and compares.

    [bold]Examples[/bold]

      hloom stats step.hlo

      hloom stats step.hlo --json | jq .flops

      hloom stats step.hlo --spmd --device h100

      hloom stats step.hlo --spmd --device h100 --meshes all
    """
    module = read(file, partitions=partitions, spmd=spmd).module
    api.verify(module)
    topology = communication.topology_of(device)
    if meshes is communication.Compared.all:
        communication.show_meshes(api.costs_of_meshes(module, topology), as_json)
        return
    module = communication.each_device(module)
    axes = communication.mesh_for(mesh, module)
    statistics = api.module_statistics(module, top or module.instruction_count)
    cost = None
    if statistics.collectives:
        cost = api.partition_cost(module, topology, axes)
    if as_json:
        write_json(as_data(statistics) | communication.as_data(cost))
        return
    show(statistics, top)
    if cost is not None:
        communication.show(cost, top)


def show(statistics: api.Statistics, top: int) -> None:
    out = console()
    for part in (summary, opcodes, collectives, loops, computations, biggest, custom_calls):
        rich_table = part(statistics, top)
        if rich_table is not None:
            print_table(rich_table, out)


def summary(statistics: api.Statistics, top: int) -> Any:
    m, total = statistics.module, statistics.cost.total
    rich_table = table(Readable(m).title(), "", "")
    rich_table.show_header = False
    rows = [
        ("parameters", f"{len(m.entry.parameters)}, {bytes_text(statistics.parameter_bytes)}"),
        ("result", f"{shape_short(m.entry.root.shape)}, {bytes_text(statistics.output_bytes)}"),
        ("constants", bytes_text(statistics.constant_bytes)),
        ("FLOPs", count_text(total.flops)),
        ("transcendentals", count_text(total.transcendentals)),
        ("bytes moved", bytes_text(total.bytes)),
        ("intensity", f"{statistics.intensity:.3g} FLOPs a byte"),
    ]
    if unknown := statistics.unknown_loops:
        rows.append(("unknown loops", f"{len(unknown)}, counted once each (see loops)"))
    for row in rows:
        rich_table.add_row(*row)
    return rich_table


def shortened(rows: list[Any], top: int) -> list[Any]:
    return rows[:top] if top else rows


def opcodes(statistics: api.Statistics, top: int) -> Any:
    rich_table = table("opcodes", "opcode", ">count", ">runs", ">FLOPs", ">bytes")
    shown = shortened(statistics.opcodes, top)
    for o in shown:
        rich_table.add_row(
            o.opcode,
            f"{o.count:,}",
            count_text(o.runs),
            count_text(o.cost.flops + o.cost.transcendentals),
            bytes_text(o.cost.bytes),
        )
    if rest := statistics.opcodes[len(shown) :]:
        rich_table.add_row(f"{len(rest)} more", f"{sum(o.count for o in rest):,}", "", "", "")
    return rich_table


def collectives(statistics: api.Statistics, top: int) -> Any:
    if not statistics.collectives:
        return None
    rich_table = table("collectives", "opcode", "groups", ">count", ">runs", ">bytes")
    for c in shortened(statistics.collectives, top):
        rich_table.add_row(
            c.opcode, c.groups, f"{c.count:,}", count_text(c.runs), bytes_text(c.bytes)
        )
    return rich_table


def loops(statistics: api.Statistics, top: int) -> Any:
    if not statistics.loops:
        return None
    rich_table = table("loops", "while", ">iterations", ">started", "why")
    for loop in shortened(statistics.loops, top):
        count = "unknown" if loop.count is None else f"{loop.count:,}"
        rich_table.add_row(loop.instruction.name, count, count_text(loop.runs), loop.why)
    return rich_table


def computations(statistics: api.Statistics, top: int) -> Any:
    if len(statistics.computations) < 2:
        return None
    rich_table = table(
        "computations", "computation", ">runs", ">instructions", ">FLOPs a run", ">bytes"
    )
    for c, runs, cost in shortened(statistics.computations, top):
        rich_table.add_row(
            c.name,
            count_text(runs),
            f"{len(c.instructions):,}",
            count_text(cost.flops),
            bytes_text(cost.bytes),
        )
    return rich_table


def biggest(statistics: api.Statistics, top: int) -> Any:
    places = Readable(statistics.module)
    rich_table = table("biggest values", "value", "shape", "opcode", ">bytes", "from")
    for i in statistics.biggest:
        size = bytes_text(i.shape.size_bytes)
        rich_table.add_row(i.name, shape_short(i.shape), i.opcode, size, places.place(i))
    return rich_table


def custom_calls(statistics: api.Statistics, top: int) -> Any:
    if not statistics.custom_calls:
        return None
    rich_table = table("custom calls", "target", ">count")
    for target, count in shortened(statistics.custom_calls.most_common(), top):
        rich_table.add_row(target, f"{count:,}")
    return rich_table


def as_data(statistics: api.Statistics) -> dict[str, Any]:
    """All of it as plain data; sizes in bytes."""
    m, total = statistics.module, statistics.cost.total
    places = Readable(m)
    return {
        "ok": True,
        "module": m.name,
        "instructions": m.instruction_count,
        "computations": len(m.computations),
        "replicas": m.replica_count,
        "partitions": m.num_partitions,
        "parameters": len(m.entry.parameters),
        "parameter_bytes": statistics.parameter_bytes,
        "output_bytes": statistics.output_bytes,
        "constant_bytes": statistics.constant_bytes,
        "flops": total.flops,
        "transcendentals": total.transcendentals,
        "bytes": total.bytes,
        "intensity": statistics.intensity,
        "opcodes": [
            {
                "opcode": o.opcode,
                "count": o.count,
                "runs": o.runs,
                "flops": o.cost.flops,
                "transcendentals": o.cost.transcendentals,
                "bytes": o.cost.bytes,
            }
            for o in statistics.opcodes
        ],
        "collectives": [vars(c) for c in statistics.collectives],
        "loops": [
            {"name": x.instruction.name, "iterations": x.count, "why": x.why, "started": x.runs}
            for x in statistics.loops
        ],
        "biggest": [
            {
                "name": i.name,
                "computation": i.parent.name,
                "shape": i.shape.text,
                "opcode": i.opcode,
                "bytes": i.shape.size_bytes,
                "place": places.place(i),
            }
            for i in statistics.biggest
        ],
        "custom_calls": dict(statistics.custom_calls),
    }
