"""What `hloom run` says: times of runs, stages, passes and kernels; memory; differences."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import typer

from hloom import api
from hloom.program.text import show_thunk
from hloom.tools.arrays import leaves
from hloom.tools.compare import Difference
from hloom.tools.evaluate import FEW, plain, show, summary
from hloom.tools.roofline import roofline_data, show_roofline
from hloom.tools.terminal import bytes_text, console, print_table, table, time_text
from hloom.tools.timeline import show_timeline, timeline_data

SUBNORMAL_HINT = """\
hint: native code takes subnormal numbers for zero, the interpreter does not; with
HLOOM_SUBNORMALS=keep both keep them, which shows whether that is why"""
PRECISION_HINT = """\
hint: native code computes bf16 and narrower floats in f32 within a kernel and rounds what
it stores; --allow_excess_precision=false rounds every operation, as the interpreter does"""


@dataclass(frozen=True)
class Ran:
    """All that one `hloom run` found out. Seconds."""

    exe: api.Executable
    origin: str
    """Where the arguments came from."""
    first_s: float
    times: list[float]
    results: list[api.Literal]
    """Of each device that is asked for."""
    differing: list[Difference] | None
    """How the results differ from the interpreter's, if that was asked for."""
    steps: list[list[Any]] | None
    """The time of each step on each device, if that was asked for."""
    timeline: api.Timeline | None = None
    """What simulated devices did when."""
    roofline: api.Roofline | None = None
    """How far it is from what the machine allows, if that was asked for."""


def show_run(
    ran: Ran, values: bool, time_passes: bool, top: int, files: Sequence[Path | None]
) -> None:
    """Results, times, memory, whatever else was asked for, and which files were written."""
    exe = ran.exe
    verb = "loaded" if is_saved(exe) else "compiled"
    about = f"{ran.origin}, {verb} in {time_text(sum(exe.seconds.values()))}"
    about += f", first run {time_text(ran.first_s)}"
    if ran.results:
        show(exe.program.name, ran.results, about, values, top)
    else:
        typer.echo(f"{exe.program.name} ({about})")
    if ran.times:
        typer.echo(times_line(ran.times))
    typer.echo(memory_line(exe.memory))
    if time_passes:
        show_passes(exe, top)
    if ran.steps is not None:
        repeats = max(len(ran.times), 1)
        if len(ran.steps) == 1:
            show_steps(ran.steps[0], repeats, top)
        else:
            show_devices(ran.steps, repeats)
            show_steps_of_devices(ran.steps, repeats, top)
    if ran.roofline is not None:
        show_roofline(ran.roofline, top)
    if ran.timeline is not None:
        show_timeline(ran.timeline, top)
    if ran.differing is not None:
        show_differences(ran.differing, top, ran.exe)
    for written in filter(None, files):
        typer.echo(f"wrote {written}")


def times_line(times: list[float]) -> str:
    """The times of repeated runs in one line."""
    return (
        f"{len(times):,} runs: median {time_text(median(times))}, "
        f"best {time_text(min(times))}, worst {time_text(max(times))}"
    )


def memory_line(memory: api.MemoryUse) -> str:
    """Where the memory goes, in one line."""
    rows = [f"{name} {bytes_text(size)}" for name, size in memory.as_dict().items() if size]
    return f"memory: {', '.join(rows)}"


# -- compiling


def pass_times(exe: api.Executable) -> list[tuple[str, int, float, int]]:
    """(pass, how often it ran, seconds, rewrites) in order of the first run.

    Fixed points are left out: they are the time of the passes in them.
    """
    runs: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    fired: Counter[str] = Counter()
    for r in exe.pass_records:
        if r.name in ("simplification", "fixed-point"):
            continue
        runs[r.name] += 1
        seconds[r.name] = seconds.get(r.name, 0.0) + r.end_s - r.start_s
        fired[r.name] += r.fired.total()
    return [(name, runs[name], s, fired[name]) for name, s in seconds.items()]


def show_passes(exe: api.Executable, top: int) -> None:
    """Tables of stages and of the slowest passes."""
    total = sum(exe.seconds.values())
    rich_table = table(f"compilation, {time_text(total)}", "stage", ">time", ">share")
    for name, seconds in exe.seconds.items():
        rich_table.add_row(name, time_text(seconds), f"{seconds / total:.0%}")
    print_table(rich_table, console())
    rows = sorted(pass_times(exe), key=lambda row: -row[2])
    rich_table = table("slowest passes", "pass", ">runs", ">time", ">rewrites")
    for name, runs, seconds, fired in rows[: top or None]:
        rich_table.add_row(name, f"{runs}", time_text(seconds), f"{fired:,}" if fired else "-")
    print_table(rich_table, console())


# -- running


def touched_bytes(thunk: Any) -> int:
    """Bytes of the buffers that a step reads and writes."""
    return sum([u.slice.size_bytes for u in thunk.uses()])


def show_steps(steps: list[Any], repeats: int, top: int) -> None:
    """A table of the slowest steps."""
    total = sum([s.seconds for s in steps]) or 1e-9
    title = f"steps, {time_text(total / repeats)} a run when called one by one"
    rich_table = table(title, "kind", "name", ">runs", ">time", ">share", ">each", ">GB/s", "of")
    rows = sorted(steps, key=lambda s: -s.seconds)
    for s in rows[: top or None]:
        each = s.seconds / s.runs
        kind, _, rest = show_thunk(s.thunk).partition(" ")
        rich_table.add_row(
            kind,
            s.thunk.name,
            f"{s.runs // repeats:,}",
            time_text(s.seconds / repeats),
            f"{s.seconds / total:.1%}",
            time_text(each),
            f"{touched_bytes(s.thunk) / max(each, 1e-9) / 1e9:.3g}",
            rest.strip().partition("@")[2],
        )
    if len(rows) > top > 0:
        left = sum([s.seconds for s in rows[top:]])
        rich_table.add_row(
            "", f"{len(rows) - top} more", "", time_text(left / repeats), "", "", "", ""
        )
    print_table(rich_table, console())


def show_devices(steps: list[list[Any]], repeats: int) -> None:
    """A table of the devices: how long each worked, and waited for others."""
    rich_table = table(
        "devices, their steps called one by one", ">device", ">time", ">work", ">waits"
    )
    for device, own in enumerate(steps):
        total = sum([s.seconds for s in own]) / repeats
        waits = sum([s.waited_s for s in own]) / repeats
        rich_table.add_row(
            f"{device}", time_text(total), time_text(total - waits), time_text(waits)
        )
    print_table(rich_table, console())


def show_steps_of_devices(steps: list[list[Any]], repeats: int, top: int) -> None:
    """A table of the steps that took most work: on an average device, and on the slowest."""
    by_step: dict[Any, list[Any]] = {}
    for own in steps:
        for s in own:
            by_step.setdefault(s.thunk, []).append(s)
    rows = []
    for thunk, own in by_step.items():
        work = [(s.seconds - s.waited_s) / repeats for s in own]
        waits = sum([s.waited_s for s in own]) / repeats / len(steps)
        rows.append((sum(work) / len(steps), max(work), waits, len(own), thunk))
    rows.sort(key=lambda row: -row[0] - row[2])
    columns = ("kind", "name", ">devices", ">work", ">most", ">waits", "of")
    rich_table = table("steps, on an average device and on the slowest", *columns)
    for mean, most, waits, count, thunk in rows[: top or None]:
        kind, _, rest = show_thunk(thunk).partition(" ")
        times = [time_text(mean), time_text(most), time_text(waits) if waits else "-"]
        rich_table.add_row(kind, thunk.name, f"{count}", *times, rest.strip().partition("@")[2])
    if len(rows) > top > 0:
        rich_table.add_row("", f"{len(rows) - top} more", "", "", "", "", "")
    print_table(rich_table, console())


def show_differences(differing: list[Difference], top: int, exe: api.Executable) -> None:
    """How far each result is from the interpreter's; where there are many, of the worst. What by
    design may be why."""
    rich_table = table(
        "against the interpreter",
        "result",
        "shape",
        ">difference",
        ">allowed",
        "worst at",
        "found",
        "expected",
    )
    rows = differing
    if len(differing) > top > 0:
        rows = sorted(differing, key=lambda d: (d.is_within, -d.error))[:top]
    for d in rows:
        mark = "" if d.is_within else "  <- too far"
        rich_table.add_row(
            d.name,
            d.shape,
            f"{d.error:.3g}",
            f"{d.tolerance:.3g}",
            str(list(d.index)) if d.error else "",
            str(d.found) if d.error else "",
            (str(d.expected) if d.error else "") + mark,
        )
    if len(rows) < len(differing):
        rich_table.add_row(
            "", f"{len(differing) - len(rows):,} more", "", "", "--top 0 shows all", "", ""
        )
    print_table(rich_table, console())
    wrong = sum([not d.is_within for d in differing])
    good = typer.style("the same as the interpreter within tolerances", fg="green")
    bad = typer.style(f"{wrong} of {len(differing)} results differ from the interpreter", fg="red")
    typer.echo(bad if wrong else good)
    if wrong and has_excess_precision(exe):
        typer.echo(PRECISION_HINT)
    if wrong and os.environ.get("HLOOM_SUBNORMALS") != "keep":
        typer.echo(SUBNORMAL_HINT)


def has_excess_precision(exe: api.Executable) -> bool:
    """Whether floats narrower than f32 may be kept in more digits than the program says."""
    if is_saved(exe) or not getattr(exe.target, "excess_precision", False):
        return False
    shapes = [leaf for i in exe.stages.module.instructions() for leaf in i.shape.leaves()]
    return any(s.is_array and s.dtype.is_floating and s.dtype.bits < 32 for s in shapes)


def is_saved(exe: api.Executable) -> bool:
    """Whether it came from a file of machine code, and has no graph."""
    return [*exe.seconds] == ["load"]


def as_data(ran: Ran, values: bool) -> dict[str, Any]:
    """All of it as plain data; seconds and bytes."""
    exe, differing, steps = ran.exe, ran.differing, ran.steps
    rows = []
    for device, result in enumerate(ran.results):
        for name, shape, array in leaves(result, "result"):
            row = {"name": name, "device": device, "shape": shape.text_without_layout}
            row |= summary(array)
            if values or array.size <= FEW:
                row["values"] = plain(array)
            rows.append(row)
    cost = None if is_saved(exe) else exe.cost
    data: dict[str, Any] = {
        "ok": differing is None or all(d.is_within for d in differing),
        "module": exe.program.name,
        "arguments": ran.origin,
        "compile": {
            "seconds": exe.seconds,
            "passes": [
                {"name": name, "runs": runs, "seconds": seconds, "rewrites": fired}
                for name, runs, seconds, fired in pass_times(exe)
            ],
        },
        "first_run_seconds": ran.first_s,
        "seconds": ran.times,
        "memory": exe.memory.as_dict(),
        "cost": cost
        and {
            "flops": cost.flops,
            "transcendentals": cost.transcendentals,
            "bytes": cost.bytes,
        },
        "results": rows,
    }
    if differing is not None:
        data["check"] = [d.as_dict() for d in differing]
    if ran.timeline is not None:
        data["timeline"] = timeline_data(ran.timeline)
    if ran.roofline is not None:
        data["roofline"] = roofline_data(ran.roofline)
    if steps is not None:
        data["steps"] = [
            {
                "kind": s.thunk.kind,
                "name": s.thunk.name,
                "device": device,
                "runs": s.runs,
                "seconds": s.seconds,
                "waited_seconds": s.waited_s,
                "bytes": touched_bytes(s.thunk),
            }
            for device, own in enumerate(steps)
            for s in own
        ]
    return data
