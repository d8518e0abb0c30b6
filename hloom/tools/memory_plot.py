"""A plot of a program's memory over time: as HTML, which needs nothing, or as PNG by matplotlib.

Two pictures over the steps of the program: the bytes of temporaries that are alive, and the arena
itself, each value a rectangle from its first to its last byte and from its birth to its last use.
"""

from __future__ import annotations

import html
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from hloom import api
from hloom.tools.terminal import bytes_text

WIDTH, HEIGHT, LEFT, TOP = 1000, 260, 70, 20
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#bab0ac")
MOST_RECTANGLES = 5000
STEP = 3
"""Units of a plan's time in one step."""


def write_memory_plot(memory: api.MemoryUse, name: str, path: Path) -> None:
    """Write the plot of a program to a .html or .png file."""
    kind = path.suffix.lower()
    if kind == ".html":
        api.write_whole(path, page(memory, name).encode())
    elif kind == ".png":
        _png(memory, name, path)
    else:
        raise api.UsageError(f"--memory-plot {path}: the name ends in .html or .png")


def page(memory: api.MemoryUse, name: str) -> str:
    """The whole page; rectangles tell their value under the pointer."""
    timeline = memory.timeline
    end = max([t for t, _ in timeline], default=1) or 1
    sums = ", ".join([f"{k} {bytes_text(v)}" for k, v in memory.as_dict().items()])
    title = html.escape(f"memory of {name}")
    return "\n".join(
        [
            f'<!doctype html><meta charset="utf-8"><title>{title}</title>',
            "<style>body{font:14px sans-serif;margin:2em}svg{display:block;margin:1em 0}"
            "rect:hover{stroke:#000;stroke-width:1.5}text{font-size:11px}</style>",
            f"<h1>{title}</h1><p>{html.escape(sums)}</p>",
            "<h2>temporaries alive, by step</h2>",
            _svg(_alive(memory, end), memory.temp, end),
            "<h2>the arena: which value is where, by step</h2>",
            _svg(_arena(memory, end), memory.temp, end),
            "",
        ]
    )


def _x(time: float, end: float) -> float:
    return round(LEFT + (WIDTH - LEFT) * time / end, 2)


def _y(size: float, most: float) -> float:
    return round(TOP + HEIGHT * (1 - size / (most or 1)), 2)


def _svg(content: list[str], most: int, end: int) -> str:
    marks = []
    for part in range(5):
        y = _y(part, 4)
        marks.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        label = bytes_text(most * part / 4)
        marks.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{label}</text>')
        step = round(end / STEP * part / 4)
        x = _x(part, 4)
        marks.append(f'<text x="{x}" y="{TOP + HEIGHT + 15}" text-anchor="middle">{step}</text>')
    size = f'width="{WIDTH + 20}" height="{TOP + HEIGHT + 24}"'
    return "\n".join([f"<svg {size}>", *marks, *content, "</svg>"])


def _alive(memory: api.MemoryUse, end: int) -> list[str]:
    most, points, last = memory.temp, [], 0
    for time, size in memory.timeline:
        points += [(time, last), (time, size)]
        last = size
    text = " ".join([f"{_x(t, end)},{_y(s, most)}" for t, s in [(0, 0), *points, (end, 0)]])
    return [f'<polygon points="{text}" fill="{COLOURS[0]}" fill-opacity="0.7"/>']


def _arena(memory: api.MemoryUse, end: int) -> list[str]:
    most, lines = memory.temp, []
    shown = [v for v in memory.largest(MOST_RECTANGLES) if v.slice.allocation.kind == "temp"]
    for k, v in enumerate(shown):
        place, colour = v.slice, COLOURS[k % len(COLOURS)]
        note = f"; {v.note}" if v.note else ""
        about = html.escape(f"{v.name}: {bytes_text(place.size_bytes)} at {place.offset:,}{note}")
        for start, stop in v.alive:
            x, y = _x(start, end), _y(place.end, most)
            width = max(_x(stop, end) - x, 0.5)
            height = max(_y(place.offset, most) - y, 0.5)
            lines.append(
                f'<rect x="{x}" y="{y}" width="{width:.2f}" height="{height:.2f}" fill="{colour}">'
                f"<title>{about}</title></rect>"
            )
    return lines


def _png(memory: api.MemoryUse, name: str, path: Path) -> None:
    if find_spec("matplotlib") is None:
        raise api.UsageError(
            "a .png needs matplotlib, which is not installed",
            hint=f"pip install matplotlib, or --memory-plot {path.with_suffix('.html')}",
        )
    import_module("matplotlib").use("Agg")
    plots = import_module("matplotlib.pyplot")
    figure, axis = plots.subplots(figsize=(10, 4))
    times = [t / STEP for t, _ in memory.timeline]
    axis.step(times, [size / 2**20 for _, size in memory.timeline], where="post")
    axis.axhline(memory.temp / 2**20, linestyle=":", color="grey")
    axis.set(title=f"memory of {name}", xlabel="step", ylabel="temporaries alive, MiB")
    figure.savefig(path)
    plots.close(figure)
