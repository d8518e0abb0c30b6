"""How far the kernels of a program are from what the machine allows, for people and as data."""

from __future__ import annotations

from typing import Any

import typer

from hloom import api
from hloom.program.text import show_thunk
from hloom.tools.terminal import bytes_text, console, print_table, table, time_text

COLUMNS = "kind name >runs >bytes >operations >floor bound >predicted >measured >distance".split()


def show_roofline(roofline: api.Roofline, top: int) -> None:
    """A table of the steps, those first in which most is lost, and a line for the program."""
    rich_table = table("distance from the floor, most lost first", *COLUMNS)
    for s in roofline.steps[: top or None]:
        kind, _, _ = show_thunk(s.thunk).partition(" ")
        rich_table.add_row(
            kind,
            s.thunk.name,
            f"{s.runs:,}",
            bytes_text(int(s.bytes)),
            _count(s.operations + s.transcendentals),
            time_text(s.floor_s),
            s.bound,
            time_text(s.predicted_s),
            time_text(s.measured_s),
            f"{s.distance:.3g}",
        )
    if len(roofline.steps) > top > 0:
        rest = roofline.steps[top:]
        floors, measured = sum(s.floor_s for s in rest), sum(s.measured_s for s in rest)
        predicted = time_text(sum(s.predicted_s for s in rest))
        rich_table.add_row("", f"{len(rest)} more", "", "", "", time_text(floors), "", predicted,
                     time_text(measured), f"{measured / max(floors, 1e-12):.3g}")  # fmt: skip
    print_table(rich_table, console())
    typer.echo(
        f"steps: floors {time_text(roofline.steps_floor_s)}, "
        f"predicted {time_text(roofline.predicted_s)}, "
        f"measured {time_text(roofline.steps_s)} one by one"
    )
    typer.echo(
        f"program: floor {time_text(roofline.floor_s)} ({roofline.bound}), "
        f"measured {time_text(roofline.measured_s)}, {roofline.distance:.3g} times its floor"
    )


def roofline_data(roofline: api.Roofline) -> dict[str, Any]:
    """The same as plain data; seconds and bytes."""
    return {
        "device": api.device_table(roofline.device),
        "floor_seconds": roofline.floor_s,
        "bound": roofline.bound,
        "predicted_seconds": roofline.predicted_s,
        "measured_seconds": roofline.measured_s,
        "distance": roofline.distance,
        "steps": [
            {
                "kind": s.thunk.kind,
                "name": s.thunk.name,
                "runs": s.runs,
                "bytes": s.bytes,
                "operations": s.operations,
                "transcendentals": s.transcendentals,
                "floor_seconds": s.floor_s,
                "bound": s.bound,
                "predicted_seconds": s.predicted_s,
                "measured_seconds": s.measured_s,
                "distance": s.distance,
            }
            for s in roofline.steps
        ],
    }


def _count(n: float) -> str:
    """A number of operations: 1.5 G."""
    for unit in ("", "k", "M", "G"):
        if n < 1000:
            return f"{n:.3g} {unit}".strip()
        n /= 1000
    return f"{n:,.3g} T"
