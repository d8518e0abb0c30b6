"""A module as a page part for notebooks: what `readable.py` shows, in functions that fold.

Everything that comes from the program is escaped. No script, and no style that reaches outside of
the element. A large module shows its first functions; the rest is said to be left out, since a
notebook with megabytes in a cell is of no use.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from hloom.ir.module import Module
from hloom.ir.text.readable import Line, Readable

MOST_LINES = 4000
"""Lines of a program that a cell holds."""
OPEN_LINES = 200
"""A function of more lines is folded at first."""

_TABLE = "border-collapse:collapse;font:12px/1.5 ui-monospace,monospace;white-space:pre"
_CELL = "text-align:left;padding:0 1.5em 0 0;border:0;background:none"
_DIM = "opacity:.55"


def module_html(module: Module) -> str:
    """The module as HTML: a title, then one `<details>` per function."""
    title, functions, shown, left = "", [], 0, 0
    for line in Readable(module).lines():
        if line.kind == "title":
            title = line.text
        elif shown >= MOST_LINES:
            left += line.kind != "blank"
        elif line.kind == "head":
            functions.append((line, []))
            shown += 1
        elif functions and line.kind != "blank":
            functions[-1][1].append(line)
            shown += 1
    parts = [f"<div><div style='font-weight:600'>{_text(title)}</div>"]
    parts += [_function(head, lines) for head, lines in functions]
    if left:
        parts.append(f"<div style='{_DIM}'>{left:,} more lines: hloom print shows them</div>")
    return "".join([*parts, "</div>"])


def _function(head: Line, lines: list[Line]) -> str:
    opened = " open" if head.text.startswith("entry ") and len(lines) <= OPEN_LINES else ""
    return (
        f"<details{opened}><summary style='cursor:pointer'>{_text(head.text)} "
        f"<span style='{_DIM}'>{len(lines):,} lines</span></summary>"
        f"<table style='{_TABLE}'>{''.join(_rows(lines))}</table></details>"
    )


def _rows(lines: Iterable[Line]) -> Iterable[str]:
    for line in lines:
        tab = "  " * line.indent
        if line.kind != "value":
            yield f"<tr><td colspan='4' style='{_CELL}'>{tab}{_text(line.text)}</td></tr>"
            continue
        sharding = f"  sharding={line.sharding}" if line.sharding else ""
        yield (
            f"<tr><td style='{_CELL}'>{tab}{_text(line.name)}</td>"
            f"<td style='{_CELL};{_DIM}'>{_text(line.shape)}</td>"
            f"<td style='{_CELL}'>{_text(line.text)}"
            f"<span style='{_DIM}'>{_text(sharding)}</span></td>"
            f"<td style='{_CELL};{_DIM}'>{_text(line.place)}</td></tr>"
        )


def _text(text: str) -> str:
    """Escaped for HTML, and without what UTF-8 cannot hold."""
    return escape(text.encode("utf-8", "backslashreplace").decode("utf-8"))
