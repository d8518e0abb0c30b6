"""The page of `hloom bench --page`: losses, every ratio as a bar, means over time. HTML and SVG,
which need nothing from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from hloom.tools.bench_rows import LOSS, Results, Row, mean_ratio, quantity_text

WIDTH, LABEL, BAR, GAP = 1000, 470, 14, 4
HISTORY_HEIGHT = 180
FASTER, SLOWER, EQUAL = "#3b8f5a", "#c8453b", "#9a9a9a"
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#72b7b2", "#9d755d", "#e45756", "#79706e")
STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;max-width:64em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.15em .7em;text-align:right;"
    "border-bottom:1px solid #8883}td+td{white-space:nowrap}"
    "td:first-child,th:first-child{text-align:left}"
    "text{font-size:11px;fill:currentColor}svg{display:block;margin:.5em 0;max-width:100%}"
    ":root{color-scheme:light dark}"
)


def page(results: Results, earlier: Sequence[Results]) -> str:
    """The whole page; `earlier`: runs to plot over time, oldest first."""
    about = ", ".join(f"{k} {v}" for k, v in results.machine.items())
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>hloom bench</title><style>{STYLE}</style><h1>hloom bench</h1>",
        f"<p>{escape(about)}. Ratios of medians to the best other: below 1, hloom is better.</p>",
        _losses(results),
        _means(results),
    ]
    if len(earlier) > 1:
        parts += ["<h2>over time</h2>", _history(earlier)]
    for (suite, quantity), rows in results.groups().items():
        with_peer = [r for r in rows if r.ratio]
        if with_peer:
            parts += [f"<h2>{escape(suite)}: {escape(quantity)}</h2>", _bars(with_peer)]
        if rows[0].floor is not None:
            parts += [f"<h3>{escape(suite)}: times the floor of this machine</h3>", _floors(rows)]
    if results.failures:
        cells = [(f.suite, f.name, f.why) for f in results.failures]
        parts += ["<h2>no numbers</h2>", _table(("suite", "name", "why"), cells)]
    return "\n".join(parts) + "\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join([f"<th>{escape(h)}</th>" for h in heads])
    lines = ["<tr>" + "".join([f"<td>{escape(c)}</td>" for c in row]) + "</tr>" for row in rows]
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _losses(results: Results) -> str:
    losses = results.losses()
    if not losses:
        return f"<h2>losses</h2><p>No row is above {LOSS} of the best other.</p>"
    rows = []
    for r in losses:
        best = r.best or ""
        numbers = quantity_text(r.hloom, r.unit), quantity_text(r.peers[best], r.unit)
        distance = "" if r.distance is None else f"{r.distance:.2f}"
        rows.append((r.name, r.suite, r.quantity, *numbers, best, f"{r.ratio:.2f}", distance))
    heads = ("losses", "suite", "what", "hloom", "best other", "which", "ratio", "of floor")
    return _table(heads, rows)


def _means(results: Results) -> str:
    rows = []
    for (suite, quantity), group in results.groups().items():
        mean = mean_ratio(group)
        losing = sum((r.ratio or 0) > LOSS for r in group)
        cells = (f"{suite}: {quantity}", f"{len(group)}", f"{losing}")
        rows.append((*cells, "" if mean is None else f"{mean:.3f}"))
    return _table(("suite", "rows", "losses", "geometric mean"), rows)


def _bars(rows: Sequence[Row]) -> str:
    """Every ratio on a logarithmic scale about 1, worst first."""
    ranked = sorted([(r.ratio or 1.0, r) for r in rows], key=lambda pair: -pair[0])
    reach = max(math.log(2), *[abs(math.log(ratio)) for ratio, _ in ranked])
    middle, half = (LABEL + WIDTH) / 2, (WIDTH - LABEL) / 2 - 40
    marks = []
    for ratio, row in ranked:
        length = math.log(ratio) / reach * half
        colour = SLOWER if ratio > LOSS else FASTER if ratio < 1 else EQUAL
        peer = row.best or ""
        about = f"{quantity_text(row.hloom, row.unit)}; {peer} "
        about += quantity_text(row.peers[peer], row.unit)
        marks.append((row.name, min(middle, middle + length), abs(length), colour, ratio, about))
    return _bar_chart(marks, middle)


def _floors(rows: Sequence[Row]) -> str:
    """How many times its floor every row takes, on a logarithmic scale, worst first."""
    far = sorted([(max(r.distance or 1.0, 1.0), r) for r in rows], key=lambda pair: -pair[0])
    reach = max(math.log(2), math.log(far[0][0]))
    marks = []
    for distance, row in far:
        length = math.log(distance) / reach * (WIDTH - LABEL - 60)
        about = f"{quantity_text(row.hloom, row.unit)}; floor "
        about += quantity_text(row.floor or 0.0, row.unit)
        colour = SLOWER if distance > 5 else FASTER
        marks.append((row.name, float(LABEL), length, colour, distance, about))
    return _bar_chart(marks, LABEL)


def _bar_chart(marks: Sequence[tuple[str, float, float, str, float, str]], axis: float) -> str:
    """Bars with their names left and their numbers right of them."""
    height = len(marks) * (BAR + GAP) + GAP
    lines = [f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">']
    lines.append(f'<line x1="{axis}" x2="{axis}" y1="0" y2="{height}" stroke="#888"/>')
    for k, (name, x, width, colour, number, about) in enumerate(marks):
        y = GAP + k * (BAR + GAP)
        label = escape(name if len(name) < 62 else name[:60] + "…")
        text_y = y + BAR - 3
        lines.append(
            f'<text x="{LABEL - 70}" y="{text_y}" text-anchor="end">{label}</text>'
            f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1):.1f}" height="{BAR}" fill="{colour}">'
            f"<title>{escape(name)}: {escape(about)}</title></rect>"
            f'<text x="{LABEL - 62}" y="{text_y}">{number:.2f}</text>'
        )
    return "\n".join([*lines, "</svg>"])


def _history(earlier: Sequence[Results]) -> str:
    """The geometric mean of each suite and quantity, run by run."""
    groups = dict.fromkeys([key for results in earlier for key in results.groups()])
    series: dict[str, list[tuple[int, float]]] = {}
    for suite, quantity in groups:
        points = []
        for k, results in enumerate(earlier):
            mean = mean_ratio(results.groups().get((suite, quantity), []))
            if mean is not None:
                points.append((k, mean))
        if points:
            series[f"{suite}: {quantity}"] = points
    reach = max([math.log(2)] + [abs(math.log(m)) for ps in series.values() for _, m in ps])
    step = (WIDTH - 320) / max(1, len(earlier) - 1)
    middle = HISTORY_HEIGHT / 2
    lines = [f'<svg viewBox="0 0 {WIDTH} {HISTORY_HEIGHT + 30}" width="{WIDTH}" role="img">']
    lines.append(f'<line x1="40" x2="{WIDTH - 280}" y1="{middle}" y2="{middle}" stroke="#888"/>')
    lines.append(f'<text x="34" y="{middle + 4}" text-anchor="end">1</text>')
    for k, (name, points) in enumerate(series.items()):
        places = [(40 + i * step, middle - math.log(m) / reach * (middle - 8)) for i, m in points]
        colour = COLOURS[k % len(COLOURS)]
        path = " ".join([f"{x:.1f},{y:.1f}" for x, y in places])
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), (i, mean) in zip(places, points):
            about = f"{name}, {earlier[i].machine.get('time', '')}: {mean:.3f}"
            lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">')
            lines.append(f"<title>{escape(about)}</title></circle>")
        label = f"{name} {points[-1][1]:.2f}"
        lines.append(f'<text x="{WIDTH - 270}" y="{16 + 15 * k}" style="fill:{colour}">')
        lines.append(f"{escape(label)}</text>")
    return "\n".join([*lines, "</svg>"])
