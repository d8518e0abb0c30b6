"""What devices send to one another, for people and as data: tables of `stats` and `partition`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from hloom import api
from hloom.tools.terminal import (
    bytes_text,
    console,
    count_text,
    print_table,
    table,
    time_text,
    warn,
    write_json,
)

HOST = "host"


def each_device(module: api.Module) -> api.Module:
    """What each device runs of a program that is to be partitioned; others as they are. A fault of
    hloom's partitioner is told, and every device computes the whole program."""
    faults: list[api.Fault] | None = None if api.is_strict(api.Options.from_environment()) else []
    module = api.partitioned(module, faults)
    for fault in faults or ():
        warn(f"hloom has a fault: {fault}")
    return module


class Compared(StrEnum):
    """Which meshes a program is looked at on."""

    own = "own"
    all = "all"


DeviceName = Annotated[
    str,
    typer.Option(
        "--device", metavar="DEVICE", help="What runs it: host, a known one, a file of devices."
    ),
]
MeshText = Annotated[
    str,
    typer.Option("--mesh", metavar="MESH", help="Axes of the devices: data=4,model=2."),
]
Meshes = Annotated[
    Compared,
    typer.Option("--meshes", help="all: compare every mesh of as many devices and axes."),
]


def topology_of(word: str) -> Any:
    """The devices of a word; None: this machine."""
    return None if word == HOST else api.topology_named(word)


def mesh_of(text: str) -> Any:
    """The mesh that `data=4,model=2` describes; None for no text."""
    if not text:
        return None
    axes: list[tuple[str, int]] = []
    for part in text.split(","):
        name, _, size = part.partition("=")
        name = name.strip()
        if name in dict(axes):
            raise api.UsageError(
                f"the mesh names axis {name!r} twice",
                rule="mesh",
                hint="write --mesh data=4,model=2",
            )
        if not name or not size.strip().isdigit() or int(size) < 1:
            raise api.UsageError(
                f"{part!r} is no axis of a mesh", rule="mesh", hint="write --mesh data=4,model=2"
            )
        axes.append((name, int(size)))
    return api.MeshAxes(tuple(axes))


def mesh_for(text: str, module: api.Module) -> Any:
    """The same for the devices of a module, of which there have to be as many."""
    mesh, partitions = mesh_of(text), module.num_partitions
    counts = (partitions, partitions * module.replica_count)
    if mesh is not None and mesh.device_count not in counts:
        raise api.UsageError(
            f"the mesh has {mesh.device_count} devices, the program {partitions} partitions",
            rule="mesh",
            hint="--meshes all compares the meshes that there are",
        )
    return mesh


def show(cost: api.PartitionCost, top: int) -> None:
    """Totals, then communication by kind, by axis and by line."""
    out, step = console(), cost.step
    totals = table("on each device", "", "")
    totals.show_header = False
    for name, text in (
        ("received", bytes_text(cost.received_bytes)),
        ("arguments", bytes_text(cost.argument_bytes)),
        ("memory, before fusion", bytes_text(cost.peak_bytes)),
        ("time, predicted", time_text(step.total_ns * 1e-9)),
        ("computing", time_text(step.compute_ns * 1e-9)),
        ("communicating", time_text(step.communication_ns * 1e-9)),
        ("exposed", time_text(step.exposed_ns * 1e-9)),
    ):
        totals.add_row(name, text)
    print_table(totals, out)
    by = (("kind", cost.by_kind), ("axis", cost.by_axis), ("line", cost.by_place))
    for name, rows in by:
        if name == "line" and all(not r.place for r in cost.rows):
            continue
        shown = table(
            f"communication by {name}", name, ">count", ">runs", ">received", ">time", ">exposed"
        )
        for r in rows[: top or None]:
            times = [time_text(ns * 1e-9) for ns in (r.ns, r.exposed_ns)]
            shown.add_row(r.name, f"{r.count:,}", count_text(r.runs), bytes_text(r.bytes), *times)
        if rest := rows[top:] if top else []:
            shown.add_row(f"{len(rest)} more", f"{sum([r.count for r in rest]):,}", "", "", "", "")
        print_table(shown, out)


def as_data(cost: api.PartitionCost | None) -> dict[str, Any]:
    """The same as plain data; bytes and nanoseconds. Nothing of a program that says nothing to
    others."""
    if cost is None:
        return {}
    parts = {"kind": cost.by_kind, "axis": cost.by_axis, "line": cost.by_place}
    rows = {
        by: [
            {
                "name": r.name,
                "count": r.count,
                "runs": r.runs,
                "received_bytes": r.bytes,
                "ns": r.ns,
                "exposed_ns": r.exposed_ns,
            }
            for r in traffic
        ]
        for by, traffic in parts.items()
    }
    return {"communication": summary(cost) | {f"by_{by}": of for by, of in rows.items()}}


def summary(cost: api.PartitionCost) -> dict[str, float]:
    """The totals as plain data."""
    return {
        "received_bytes": cost.received_bytes,
        "argument_bytes": cost.argument_bytes,
        "peak_bytes": cost.peak_bytes,
        "ns": cost.step.total_ns,
        "compute_ns": cost.step.compute_ns,
        "communication_ns": cost.step.communication_ns,
        "exposed_ns": cost.step.exposed_ns,
    }


def show_meshes(costs: Sequence[tuple[Any, api.PartitionCost]], as_json: bool) -> None:
    """A row for each mesh."""
    named = [(",".join([f"{n}={k}" for n, k in mesh.axes]), cost) for mesh, cost in costs]
    if as_json:
        write_json({"ok": True, "meshes": [{"mesh": n} | summary(c) for n, c in named]})
        return
    columns = "mesh >time >computing >communicating >exposed >received >arguments >memory".split()
    shown = table("meshes, the least predicted time first", *columns)
    for name, cost in named:
        step = cost.step
        times = (step.total_ns, step.compute_ns, step.communication_ns, step.exposed_ns)
        sizes = (cost.received_bytes, cost.argument_bytes, cost.peak_bytes)
        texts = [*[time_text(ns * 1e-9) for ns in times], *map(bytes_text, sizes)]
        shown.add_row(name, *texts)
    print_table(shown, console())
