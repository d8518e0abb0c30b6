"""`hloom stats`: what is in a program, and what it costs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hloom import api
from hloom.ir.text.expression import shape_short
from hloom.ir.text.readable import Readable
from hloom.tools.terminal import (
    AsJson,
    InputFile,
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
    as_json: AsJson = False,
) -> None:
    """Count a program: opcodes, bytes, FLOPs with trip counts, collectives, the biggest values.

    FLOPs are arithmetic operations of one device in one run: a multiply-add is two, loops count as
    often as they run. Loops whose count cannot be told are named and counted once.

    [bold]Examples[/bold]

      hloom stats step.hlo

      hloom stats step.hlo --json | jq .flops
    """
    module = read(file).module
    api.verify(module)
    found = api.module_statistics(module, top or module.instruction_count)
    if as_json:
        write_json(as_data(found))
    else:
        show(found, top)


def show(found: api.Statistics, top: int) -> None:
    out = console()
    for part in (summary, opcodes, collectives, loops, computations, biggest, custom_calls):
        made = part(found, top)
        if made is not None:
            print_table(made, out)


def summary(found: api.Statistics, top: int) -> Any:
    m, total = found.module, found.cost.total
    made = table(Readable(m).title(), "", "")
    made.show_header = False
    rows = [
        ("parameters", f"{len(m.entry.parameters)}, {bytes_text(found.parameter_bytes)}"),
        ("result", f"{shape_short(m.entry.root.shape)}, {bytes_text(found.output_bytes)}"),
        ("constants", bytes_text(found.constant_bytes)),
        ("FLOPs", count_text(total.flops)),
        ("transcendentals", count_text(total.transcendentals)),
        ("bytes moved", bytes_text(total.bytes)),
        ("intensity", f"{found.intensity:.3g} FLOPs a byte"),
    ]
    if unknown := found.unknown_loops:
        rows.append(("unknown loops", f"{len(unknown)}, counted once each (see loops)"))
    for row in rows:
        made.add_row(*row)
    return made


def shortened(rows: list[Any], top: int) -> list[Any]:
    return rows[:top] if top else rows


def opcodes(found: api.Statistics, top: int) -> Any:
    made = table("opcodes", "opcode", ">count", ">runs", ">FLOPs", ">bytes")
    shown = shortened(found.opcodes, top)
    for o in shown:
        made.add_row(
            o.opcode,
            f"{o.count:,}",
            count_text(o.runs),
            count_text(o.cost.flops + o.cost.transcendentals),
            bytes_text(o.cost.bytes),
        )
    if rest := found.opcodes[len(shown) :]:
        made.add_row(f"{len(rest)} more", f"{sum(o.count for o in rest):,}", "", "", "")
    return made


def collectives(found: api.Statistics, top: int) -> Any:
    if not found.collectives:
        return None
    made = table("collectives", "opcode", "groups", ">count", ">runs", ">bytes")
    for c in shortened(found.collectives, top):
        made.add_row(c.opcode, c.groups, f"{c.count:,}", count_text(c.runs), bytes_text(c.bytes))
    return made


def loops(found: api.Statistics, top: int) -> Any:
    if not found.loops:
        return None
    made = table("loops", "while", ">iterations", ">started", "why")
    for loop in shortened(found.loops, top):
        count = "unknown" if loop.count is None else f"{loop.count:,}"
        made.add_row(loop.instruction.name, count, count_text(loop.runs), loop.why)
    return made


def computations(found: api.Statistics, top: int) -> Any:
    if len(found.computations) < 2:
        return None
    made = table("computations", "computation", ">runs", ">instructions", ">FLOPs a run", ">bytes")
    for c, runs, cost in shortened(found.computations, top):
        made.add_row(
            c.name,
            count_text(runs),
            f"{len(c.instructions):,}",
            count_text(cost.flops),
            bytes_text(cost.bytes),
        )
    return made


def biggest(found: api.Statistics, top: int) -> Any:
    places = Readable(found.module)
    made = table("biggest values", "value", "shape", "opcode", ">bytes", "from")
    for i in found.biggest:
        size = bytes_text(i.shape.size_bytes)
        made.add_row(i.name, shape_short(i.shape), i.opcode, size, places.place(i))
    return made


def custom_calls(found: api.Statistics, top: int) -> Any:
    if not found.custom_calls:
        return None
    made = table("custom calls", "target", ">count")
    for target, count in shortened(found.custom_calls.most_common(), top):
        made.add_row(target, f"{count:,}")
    return made


def as_data(found: api.Statistics) -> dict[str, Any]:
    """All of it as plain data; sizes in bytes."""
    m, total = found.module, found.cost.total
    places = Readable(m)
    return {
        "ok": True,
        "module": m.name,
        "instructions": m.instruction_count,
        "computations": len(m.computations),
        "replicas": m.replica_count,
        "partitions": m.num_partitions,
        "parameters": len(m.entry.parameters),
        "parameter_bytes": found.parameter_bytes,
        "output_bytes": found.output_bytes,
        "constant_bytes": found.constant_bytes,
        "flops": total.flops,
        "transcendentals": total.transcendentals,
        "bytes": total.bytes,
        "intensity": found.intensity,
        "opcodes": [
            {
                "opcode": o.opcode,
                "count": o.count,
                "runs": o.runs,
                "flops": o.cost.flops,
                "transcendentals": o.cost.transcendentals,
                "bytes": o.cost.bytes,
            }
            for o in found.opcodes
        ],
        "collectives": [vars(c) for c in found.collectives],
        "loops": [
            {"name": x.instruction.name, "iterations": x.count, "why": x.why, "started": x.runs}
            for x in found.loops
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
            for i in found.biggest
        ],
        "custom_calls": dict(found.custom_calls),
    }
