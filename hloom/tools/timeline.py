"""What simulated devices did when: a chart of their streams, tables, a file for Perfetto."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hloom import api
from hloom.tools.terminal import console, print_table, table, time_text

CHART = 64
"""Characters that the whole time takes."""
BUSY, PARTLY, IDLE = "#", "-", "."


def show_timeline(timeline: api.Timeline, top: int) -> None:
    """A row for each stream, then the spans that took longest."""
    total = timeline.total_ns or 1.0
    title = f"{timeline.topology.name}: {time_text(total / 1e9)} simulated, {timeline.waits} waits"
    rich_table = table(title, ">device", "stream", ">thunks", ">busy", "when")
    for (device, stream), spans in _by_stream(timeline).items():
        busy = sum([s.end_ns - s.start_ns for s in spans])
        row = (str(device), stream, f"{len(spans):,}", f"{busy / total:.0%}", chart(spans, total))
        rich_table.add_row(*row)
    print_table(rich_table, console())
    rich_table = table("longest", "kind", "name", ">device", "stream", ">start", ">time")
    spans = sorted(own_spans(timeline), key=lambda s: s.start_ns - s.end_ns)
    for s in spans[: top or None]:
        start, time = time_text(s.start_ns / 1e9), time_text((s.end_ns - s.start_ns) / 1e9)
        rich_table.add_row(s.kind, s.name, str(s.device), s.stream, start, time)
    print_table(rich_table, console())


def own_spans(timeline: api.Timeline) -> list[Any]:
    """What engines did; loops, branches, calls and meetings are what happens in them."""
    return [s for s in timeline.spans if not s.is_outer]


def _by_stream(timeline: api.Timeline) -> dict[tuple[int, str], list[Any]]:
    spans: dict[tuple[int, str], list[Any]] = {}
    for s in own_spans(timeline):
        spans.setdefault((s.device, s.stream), []).append(s)
    return dict(sorted(spans.items()))


def chart(spans: list[Any], total_ns: float) -> str:
    """When a stream is busy: a character for each part of the time."""
    busy = [0.0] * CHART
    part = total_ns / CHART
    for s in spans:
        first = min(int(s.start_ns / part), CHART - 1)
        last = min(int(s.end_ns / part), CHART - 1)
        for k in range(first, last + 1):
            inside = min(s.end_ns, (k + 1) * part) - max(s.start_ns, k * part)
            busy[k] += max(inside, 0.0) / part
    return "".join([BUSY if b > 0.5 else PARTLY if b > 0.02 else IDLE for b in busy])


def timeline_data(timeline: api.Timeline) -> dict[str, Any]:
    """The timeline as plain data."""
    return {
        "topology": timeline.topology.name,
        "total_ns": timeline.total_ns,
        "waits": timeline.waits,
        "spans": [
            {
                "device": s.device,
                "stream": s.stream,
                "kind": s.kind,
                "name": s.name,
                "start_ns": s.start_ns,
                "end_ns": s.end_ns,
            }
            for s in timeline.spans
        ],
    }


def write_trace(timeline: api.Timeline, path: Path) -> None:
    """Write the timeline in the trace event format, which Perfetto and chrome://tracing read:
    a process for each device, a thread for each stream, microseconds."""
    events: list[dict[str, Any]] = []
    threads: dict[tuple[int, str], int] = {}
    for s in timeline.spans:
        thread = threads.setdefault((s.device, s.stream), len(threads))
        times = {"ts": s.start_ns / 1e3, "dur": (s.end_ns - s.start_ns) / 1e3}
        what = {"name": s.name, "cat": s.kind, "ph": "X"}
        events.append({**what, **times, "pid": s.device, "tid": thread})
    for (device, stream), thread in threads.items():
        name = f"device {device}: {timeline.topology.members[device].device.name}"
        about = {"ph": "M", "pid": device, "tid": thread}
        events.append({**about, "name": "process_name", "args": {"name": name}})
        events.append({**about, "name": "thread_name", "args": {"name": stream}})
    try:
        path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}))
    except OSError as error:
        raise api.UsageError(f"cannot write {path}: {error}") from None
