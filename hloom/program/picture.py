"""Pictures of execution graphs: steps as renderers see them, and DOT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hloom.program.graph import execution_graph
from hloom.program.renderer import GraphRenderer
from hloom.program.thunks.thunk import Thunk

COLOURS = {
    "Kernel": "#cfe2f3",
    "Copy": "#eeeeee",
    "While": "#fff2cc",
    "Conditional": "#fff2cc",
    "Call": "#fff2cc",
}
OTHER_COLOUR = "#d9ead3"
"""Of routines."""


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A step of a sequence."""

    kind: str
    name: str
    waits: tuple[int, ...]
    """The positions, in the same sequence, of the steps that it waits for directly."""
    parts: tuple[tuple[str, tuple[DrawnStep, ...]], ...] = ()
    """The sequences inside it, each with a name."""


def operations(thunks: Sequence[Thunk]) -> tuple[DrawnStep, ...]:
    """The steps of a sequence, with those inside them."""
    waits: list[list[int]] = [[] for _ in thunks]
    for before, after in execution_graph(thunks).edges:
        waits[after].append(before)
    return tuple(
        DrawnStep(
            t.kind,
            t.name,
            tuple(before),
            tuple((part.name, operations(part.thunks)) for part in t.nested()),
        )
        for t, before in zip(thunks, waits, strict=True)
    )


class DotRenderer(GraphRenderer):
    """Writes a file of DOT text for each program into a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def render(self, name: str, steps: Sequence[DrawnStep]) -> str:
        return dot(name, steps)

    def publish(self, name: str, picture: str) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        number = 0
        while True:
            path = self.folder / f"{_word(name)}{f'.{number}' if number else ''}.dot"
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(picture)
            except FileExistsError:
                number += 1
            else:
                return str(path)


# -- DOT


def show_graph(name: str, thunks: Sequence[Thunk]) -> str:
    """The execution graph of a sequence as DOT text."""
    return dot(name, operations(thunks))


def dot(name: str, steps: Sequence[DrawnStep]) -> str:
    """DOT text: a node a step, coloured by kind, an edge a wait; sequences inside are clusters."""
    lines = [f"digraph {_quoted(name)} {{", '  node [shape=box, style=filled, fontname="sans"];']
    _draw(steps, "", 1, lines)
    return "\n".join([*lines, "}", ""])


def _draw(steps: Sequence[DrawnStep], prefix: str, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    for number, step in enumerate(steps):
        colour = COLOURS.get(step.kind, OTHER_COLOUR)
        label = _quoted(f"{step.kind}\\n{step.name}")
        lines.append(f'{indent}n{prefix}{number} [label={label}, fillcolor="{colour}"];')
        for k, (part, inside) in enumerate(step.parts):
            inner = f"{prefix}{number}_{k}_"
            lines.append(f"{indent}subgraph cluster_{inner}{_word(part)} {{")
            lines.append(f"{indent}  label={_quoted(f'{step.name}: {part}')};")
            _draw(inside, inner, depth + 1, lines)
            lines.append(f"{indent}}}")
    edges = sorted((before, after) for after, step in enumerate(steps) for before in step.waits)
    for before, after in edges:
        lines.append(f"{indent}n{prefix}{before} -> n{prefix}{after};")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def _word(name: str) -> str:
    return "".join([c if c.isascii() and c.isalnum() else "_" for c in name])
