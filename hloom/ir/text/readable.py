"""A module for people: one line a value, with the place in the source that it came from.

What is not needed to follow the program is folded (see `expression.py`). Fusions and reducers
become expressions, the bodies of loops and branches stand indented under them, and what is called
from several places is written once, as a function. The lines are data, so that the terminal and
the notebook (`html.py`) show the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.text.async_form import is_async_wrapper
from hloom.ir.text.expression import ATOM, Expressions, Text, shape_short

INLINED_LENGTH = 72
"""Longer expressions get a line of their own."""
LAMBDA_SIZE = 12
"""Instructions of a computation that is written where it is applied."""
DEEPEST = 24
"""Levels of bodies within bodies; what lies deeper is written as a function."""
FEW_PARAMETERS = 8
TEXT_WIDTH = 112
"""Characters of an expression on one line."""
NAME_WIDTH, SHAPE_WIDTH, PLACE_COLUMN = 26, 24, 96
FREE = frozenset(("constant", "broadcast", "get-tuple-element", "after-all"))
FUSION_KINDS = {"kLoop": "loop", "kInput": "input", "kOutput": "output", "kCustom": "custom"}


class Line(NamedTuple):
    """One line. `kind` is `title`, `head`, `value`, `note` or `blank`."""

    kind: str
    indent: int = 0
    name: str = ""
    shape: str = ""
    text: str = ""
    place: str = ""
    sharding: str = ""


class Readable:
    """Walks a module and makes lines of it."""

    def __init__(self, module: Module, only: Iterable[Instruction] | None = None) -> None:
        self.module = module
        self.only = None if only is None else set(only)
        self.expressions = Expressions(self.applied)
        self.functions: dict[Computation, None] = {}
        """What is to be written as a function, in the order of first use."""
        self.lambdas: dict[Computation, str] = {}
        self.places: dict[int, str] = {}
        self.alive: list[object] = []

    # -- module ----------------------------------------------------------------------------

    def lines(self, roots: Iterable[Computation] | None = None) -> Iterator[Line]:
        """The whole module, or some computations and what they call."""
        module = self.module
        if roots is None:
            yield Line("title", text=self.title())
        self.functions.update(dict.fromkeys(roots or (module.entry,)))
        done = 0
        while done < len(self.functions):
            c = list(self.functions)[done]
            done += 1
            yield Line("blank")
            yield from self.function(c)

    def title(self) -> str:
        m = self.module
        parts = [f"{m.instruction_count:,} instructions", f"{len(m.computations):,} computations"]
        for count, what in ((m.replica_count, "replicas"), (m.num_partitions, "partitions")):
            if count != 1:
                parts.append(f"{count} {what}")
        if m.is_scheduled:
            parts.append("scheduled")
        return f"module {m.name}: {', '.join(parts)}"

    def function(self, c: Computation) -> Iterator[Line]:
        """A computation with a head of its own."""
        word = "entry " if c.is_entry else ""
        thread = f" on thread {c.execution_thread}" if c.execution_thread != "main" else ""
        yield Line("head", text=f"{word}{c.name} -> {shape_short(c.root.shape)}{thread}")
        if self.only is None:
            yield from self.parameters(c)
        yield from self.block(c, 1, "return")

    def parameters(self, c: Computation) -> Iterator[Line]:
        """The parameters: one line each where they are few or sharded, else many on a line."""
        if len(c.parameters) <= FEW_PARAMETERS or any(p.sharding for p in c.parameters):
            for p in c.parameters:
                yield self.line(p, 1, p.name, "parameter")
            return
        row = ""
        for p in c.parameters:
            text = f"{p.name}: {shape_short(p.shape)}"
            if row and len(row) + len(text) > PLACE_COLUMN:
                yield Line("note", 1, text=row + ",")
                row = ""
            row = f"{row}, {text}" if row else text
        yield Line("note", 1, text=row)

    # -- blocks ----------------------------------------------------------------------------

    def block(self, c: Computation, indent: int, last: str, fused: bool = False) -> Iterator[Line]:
        """The values of a computation; `last` names what becomes of its root."""
        schedule = self.module.schedule or {}
        e = self.expressions
        for i in schedule.get(c) or c.in_order():
            if i.opcode == "parameter":
                if i is c.root:
                    yield Line("value", indent, last, shape_short(i.shape), e.reference(i))
                continue
            if self.only is not None and i not in self.only:
                if i.opcode in FREE:
                    e.values[i] = self.shortened(i, e.expression(i))
                continue
            inner: list[Line] = []
            text = self.opened(i, indent, inner)
            if not inner and self.is_inlined(i, text, fused):
                e.values[i] = text
                continue
            name = i.name
            if i is c.root:
                name = last if i.opcode == "tuple" or fused else f"{last} {i.name}"
            yield self.line(i, indent, name, text[0])
            yield from inner

    def shortened(self, i: Instruction, text: Text) -> Text:
        return text if len(text[0]) <= INLINED_LENGTH else (i.name, ATOM)

    def is_inlined(self, i: Instruction, text: Text, fused: bool) -> bool:
        """Whether a value stands where it is used and not on a line of its own."""
        if i.is_root or i.sharding is not None or len(text[0]) > INLINED_LENGTH:
            return False
        if i.opcode == "constant":
            return "..." not in text[0] or fused
        if i.opcode in FREE:
            return True
        if fused or (i.opcode == "tuple" and next(iter(i.users), i).opcode == "while"):
            return len(i.users) == 1
        return False

    def opened(self, i: Instruction, indent: int, inner: list[Line]) -> Text:
        """The expression of `i`; the lines of what it runs go to `inner`."""
        e = self.expressions
        if i.opcode == "fusion" and self.is_own(i, indent):
            return self.fusion(i, indent, inner)
        if i.opcode == "while" and self.is_own(i, indent):
            return self.loop(i, indent, inner)
        if i.opcode == "conditional" and self.is_own(i, indent):
            return self.branches(i, indent, inner)
        if i.opcode == "call":
            return f"{self.named(i.called[0])}({e.listed(i.operands)})", ATOM
        if i.opcode == "async-start":
            return self.start(i), ATOM
        return e.expression(i)

    def is_own(self, i: Instruction, indent: int) -> bool:
        """Whether what `i` runs is run by nothing else, so that it can stand under it."""
        return indent < DEEPEST and all(sum(c.callers.values()) == 1 for c in i.called)

    def fusion(self, i: Instruction, indent: int, inner: list[Line]) -> Text:
        body, e = i.called[0], self.expressions
        for p, x in zip(body.parameters, i.operands):
            e.values[p] = e.values.get(x) or (x.name, ATOM)
        kind = FUSION_KINDS.get(i.attrs.kind, i.attrs.kind)
        lines = list(self.block(body, indent + 1, "return", fused=True))
        if len(lines) == 1:
            return f"fused[{kind}] {lines[0].text}", ATOM
        inner += lines
        return f"fused[{kind}]:", ATOM

    def loop(self, i: Instruction, indent: int, inner: list[Line]) -> Text:
        condition, body = i.called
        e = self.expressions
        start = e.listed(i.operands)
        state = body.parameters[0]
        e.values[condition.parameters[0]] = e.values[state] = (state.name, ATOM)
        test = list(self.block(condition, indent + 1, "test", fused=True))
        if len(test) == 1:
            text = f"while {test[0].text} with {state.name} = {start}:"
        else:
            text = f"while with {state.name} = {start}, as long as:"
            inner += [*test, Line("note", indent, text="do:")]
        inner += self.block(body, indent + 1, "next")
        return text, ATOM

    def branches(self, i: Instruction, indent: int, inner: list[Line]) -> Text:
        e = self.expressions
        selector, *arguments = i.operands
        names = range(len(i.called))
        if selector.shape.is_array and selector.shape.dtype.is_pred and len(i.called) == 2:
            names = ("true", "false")
        for name, c, x in zip(names, i.called, arguments):
            e.values[c.parameters[0]] = e.values.get(x) or (x.name, ATOM)
            inner.append(Line("note", indent, text=f"case {name}: {c.name}"))
            inner += self.block(c, indent + 1, "gives")
        return f"conditional {e.reference(selector)}:", ATOM

    def start(self, i: Instruction) -> str:
        """An asynchronous operation, written as what it starts."""
        body, e = i.called[0], self.expressions
        if not is_async_wrapper(body):
            return f"start {self.named(body)}({e.listed(i.operands)})"
        for p, x in zip(body.parameters, i.operands):
            e.values[p] = e.values.get(x) or (x.name, ATOM)
        return f"start {e.expression(body.root)[0]}"

    # -- called computations ---------------------------------------------------------------

    def named(self, c: Computation) -> str:
        """Refer to a computation by name; it is written as a function later."""
        self.functions.setdefault(c)
        return c.name

    def applied(self, c: Computation) -> str:
        """A reducer or comparator as what it computes; a large one by name."""
        text = self.lambdas.get(c)
        if text is None:
            text = self.lambdas[c] = self.lambda_text(c) or c.name
        if text is c.name:
            self.functions.setdefault(c)
        return text

    def lambda_text(self, c: Computation) -> str | None:
        root, parameters = c.root, tuple(c.parameters)
        if root.operands == parameters and not root.called and len(c.instructions) < 4:
            plain = root.opcode == "compare"
            if not plain:
                return root.opcode
        if len(c.instructions) > LAMBDA_SIZE or any(i.called for i in c.instructions):
            return None
        e = self.expressions
        for i in c.in_order():
            if i.opcode != "parameter":
                e.values[i] = e.expression(i)
        text = e.reference(root)
        if len(text) > INLINED_LENGTH:
            return None
        return f"({', '.join(p.name for p in parameters)}) -> {text}"

    # -- lines -----------------------------------------------------------------------------

    def line(self, i: Instruction, indent: int, name: str, text: str) -> Line:
        sharding = i.sharding.text if i.sharding is not None else ""
        return Line("value", indent, name, shape_short(i.shape), text, self.place(i), sharding)

    def place(self, i: Instruction) -> str:
        """`file.py:12`, from the metadata or the innermost stack frame."""
        metadata = i.metadata
        if metadata is None:
            return ""
        place_ = self.places.get(id(metadata))
        if place_ is None:
            frames = self.module.stack_frames
            shown = metadata.with_inlined_frames(frames) if frames else metadata
            place_ = ""
            if shown.source_file:
                parts = shown.source_file.replace("\\", "/").split("/")
                file = "/".join(parts[-2:]) if parts[-1] == "__init__.py" else parts[-1]
                place_ = f"{file}:{shown.source_line}" if shown.source_line else file
            self.places[id(metadata)] = place_
            self.alive.append(metadata)
        return place_


def show_readable(
    module: Module,
    roots: Iterable[Computation] | None = None,
    *,
    only: Iterable[Instruction] | None = None,
    colour: bool = False,
) -> str:
    """The module for people: whole, or some computations, or only some instructions."""
    if only is not None:
        only = list(only)
        roots = dict.fromkeys(i.parent for i in only)
    return "\n".join(aligned(Readable(module, only).lines(roots), colour)).strip("\n") + "\n"


def aligned(lines: Iterable[Line], colour: bool) -> Iterator[str]:
    """Lines as text, names and shapes in columns within each function."""
    group: list[Line] = []
    for line in lines:
        if line.kind == "head":
            yield from _columns(group, colour)
            group = []
        group.append(line)
    yield from _columns(group, colour)


def _columns(group: list[Line], colour: bool) -> Iterator[str]:
    values = [x for x in group if x.kind == "value"]
    width = max((2 * x.indent + len(x.name) for x in values), default=0)
    width = min(width, NAME_WIDTH)
    shapes = min(max((len(x.shape) for x in values), default=0), SHAPE_WIDTH)
    bold, blue, dim, off = ("\033[1m", "\033[36m", "\033[2m", "\033[0m") if colour else ("",) * 4
    for x in group:
        tab = "  " * x.indent
        if x.kind != "value":
            yield f"{bold}{tab}{x.text}{off}" if x.kind in ("title", "head") else f"{tab}{x.text}"
            continue
        left = f"{tab}{x.name}"
        start = max(len(left), width) + max(len(x.shape), shapes) + 4
        first, *rest = wrapped(x.text)
        row = f"{left:<{width}}  {blue}{x.shape:<{shapes}}{off}  {first}"
        if x.sharding:
            row += f"  {dim}sharding={x.sharding}{off}"
        if x.place:
            row += " " * max(2, PLACE_COLUMN - start - len(first)) + f"{dim}{x.place}{off}"
        yield row.rstrip()
        for part in rest:
            yield " " * min(start + 4, PLACE_COLUMN // 2) + part


def wrapped(text: str) -> list[str]:
    """A long expression in several lines, broken behind commas."""
    if len(text) <= TEXT_WIDTH:
        return [text]
    lines = [""]
    for part in text.split(", "):
        if lines[-1] and len(lines[-1]) + len(part) > TEXT_WIDTH:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        lines[-1] += f"{part}, "
    lines[-1] = lines[-1].removesuffix(", ")
    return lines
