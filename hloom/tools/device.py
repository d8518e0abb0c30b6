"""`hloom device`: machines that hloom knows, and the one at hand, as text to read and to change."""

from __future__ import annotations

from typing import Annotated

import typer

from hloom import api
from hloom.device.text import show_device
from hloom.tools.terminal import (
    AsJson,
    bytes_text,
    console,
    guarded,
    print_table,
    table,
    write_json,
)

HOST = "host"
SIMULATED = "sim:"
ALL_REDUCE_BYTES = 64 << 20


@guarded
def device(
    name: Annotated[
        str | None,
        typer.Argument(help="A machine: host, a known one, a .toml file, sim:TOPOLOGY."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the machines that are known; or one of them, as the text that describes it.

    The text is a file that can be changed and named wherever a device is asked for.

    [bold]Examples[/bold]

      hloom device

      hloom device host > mine.toml

      hloom device h100 --json | jq .compute

      hloom device sim:two-gpus

      hloom device mesh.toml
    """
    if name is None:
        devices = [api.host_device(), *map(api.device_named, api.known_names())]
        if as_json:
            write_json([api.device_table(d) for d in devices])
        else:
            _show(devices)
        return
    if name.startswith(SIMULATED):
        _show_simulated(name.removeprefix(SIMULATED), as_json)
        return
    if (mesh := api.mesh_named(name)) is not None:
        _show_mesh(mesh, as_json)
        return
    chosen = api.host_device() if name == HOST else api.device_named(name)
    if as_json:
        write_json(api.device_table(chosen))
    else:
        typer.echo(show_device(chosen), nl=False)


def _show_simulated(name: str, as_json: bool) -> None:
    """The topology that a simulated target runs on, with its devices."""
    topology = api.topology_named(name)
    devices = list(dict.fromkeys([m.device for m in topology]))
    if as_json:
        tables = [api.device_table(d) for d in devices]
        links = [{"devices": x.devices, "rate": x.bandwidth_bytes_per_s} for x in topology.links]
        about = {"name": topology.name, "devices": len(topology)}
        write_json({**about, "kinds": tables, "links": links})
        return
    typer.echo(topology.text, nl=False)
    for d in devices:
        typer.echo(f"\n# {d.name}\n\n{show_device(d)}", nl=False)


def _show_mesh(mesh: api.Mesh, as_json: bool) -> None:
    """Each axis of a mesh, who is along it, and what an all-reduce over it takes."""
    rows = []
    for name, size in mesh.axes.axes:
        groups = [[d.value for d in g] for g in mesh.groups(name)]
        ns = mesh.collective_ns("all-reduce", ALL_REDUCE_BYTES, name)
        rows.append({"axis": name, "size": size, "groups": groups, "all_reduce_ns": ns})
    if as_json:
        write_json({"mesh": mesh.axes.text, "topology": mesh.topology.name, "axes": rows})
        return
    title = f"{mesh.axes.text} of {mesh.topology.name}"
    rich_table = table(title, "axis", ">size", "first group", ">all-reduce of 64 MiB")
    for row in rows:
        first = ", ".join(map(str, row["groups"][0]))
        time = f"{row['all_reduce_ns'] / 1e6:.3f} ms"
        rich_table.add_row(row["axis"], str(row["size"]), first, time)
    print_table(rich_table, console())


def _show(devices: list[api.Device]) -> None:
    rich_table = table(
        "devices", "name", "kind", ">units", ">clock", ">f32", ">bf16 matrices", ">memory", ">rate"
    )
    for k, d in enumerate(devices):
        rate = d.compute.operations_per_s("f32")
        matrix = d.compute.operations_per_s("bf16", matrix=True)
        space = d.memory_spaces[0]
        rich_table.add_row(
            f"{d.name} (host)" if k == 0 else d.name,
            d.kind,
            str(d.compute.units),
            f"{d.compute.clock_hz / 1e9:.2f} GHz",
            f"{rate / 1e12:.2f} T/s" if rate else "",
            f"{matrix / 1e12:.0f} T/s" if matrix else "",
            bytes_text(space.size_bytes),
            f"{space.bandwidth_bytes_per_s / 1e9:.0f} GB/s",
        )
    print_table(rich_table, console())
