"""Kernels as text: `show_kernel` here, `parse_kernel` in `parse.py`. The grammar is in README.md.

Values get numbers in the order of the text, parameters keep their names, so the text of a kernel
does not depend on how it was built: two kernels that do the same in the same order print alike,
and what was printed prints as itself after reading.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Final

from hloom.kernel.attributes import ATTRIBUTES
from hloom.kernel.kernel import Block, Kernel, Op, Value
from hloom.kernel.parse import parse_kernel, parse_kernels

__all__ = ["op_line", "parse_kernel", "parse_kernels", "show_kernel", "show_kernels"]

PLAIN_NAME: Final = re.compile(r"[A-Za-z_][\w.$-]*\Z")
"""Names that are written without quotes; those of values may not start with a digit, which is
how the printer's own numbers look."""


def show_kernel(kernel: Kernel) -> str:
    """The text of a kernel; also of one that breaks the rules (unknown values print as `%?`)."""
    return _Printer().kernel(kernel)


def show_kernels(kernels: Iterable[Kernel]) -> str:
    """The texts of kernels, one after the other."""
    return "\n".join(map(show_kernel, kernels))


def op_line(kernel: Kernel, op: Op) -> tuple[int, str]:
    """Number (from 1) and text of the line where an op of the kernel begins in its text."""
    printer = _Printer()
    lines = printer.kernel(kernel, op).split("\n")
    at = printer.sought_line
    return at + 1, lines[at].strip()


def quoted(name: str) -> str:
    """A name as it stands in text, in quotes where it has odd characters."""
    return name if PLAIN_NAME.match(name) else json.dumps(name)


def number_text(value: Any) -> str:
    """A number that reads back as itself: integers as integers, floats as floats."""
    if hasattr(value, "item"):  # of numpy
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value != value:
            return "-nan" if math.copysign(1.0, value) < 0 else "nan"
        return repr(value)
    if isinstance(value, complex):
        return f"({number_text(value.real)}, {number_text(value.imag)})"
    return str(value)


class _Printer:
    """The lines of one kernel as they are written."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self.types: dict[Any, str] = {}
        self.count = 0
        self.sought_line = 0
        """The index of the line of the op that was looked for."""

    def kernel(self, kernel: Kernel, sought: Op | None = None) -> str:
        for param in kernel.params:
            self.names[param.value] = f"%{quoted(param.name)}"
        params = ", ".join(
            [f"{self.names[p.value]}: {p.value.type}[{p.size}] {p.role}" for p in kernel.params]
        )
        head = f"kernel @{quoted(kernel.name)}({params})"
        if kernel.grid:
            indices = map(self.new, kernel.body.arguments)
            extents = [f"{name}: {extent}" for name, extent in zip(indices, kernel.grid)]
            head += f" grid({', '.join(extents)})"
        if not kernel.excess_precision:
            head += " excess_precision(false)"
        if kernel.cost_ns:
            head += f" cost_ns({number_text(float(kernel.cost_ns))})"
        self.lines.append(head + " {")
        self.block(kernel.body, "  ", sought)
        self.lines.append("}\n")
        return "\n".join(self.lines)

    def new(self, value: Value) -> str:
        """The name of a value that is defined here."""
        name = f"%{self.count}"
        self.count += 1
        self.names[value] = name
        return name

    def list(self, values: Iterable[Value]) -> str:
        names = self.names
        return ", ".join([names.get(x, "%?") for x in values])

    def type(self, type: Any) -> str:
        text = self.types.get(type)
        if text is None:
            text = self.types[type] = str(type)
        return text

    def block(self, block: Block, indent: str, sought: Op | None) -> None:
        """The ops of a block; a last yield of nothing is left out."""
        last = block.ops[-1] if block.ops else None
        for op in block.ops:
            if op is sought:
                self.sought_line = len(self.lines)
            if op.blocks or op.opcode == "for":
                self.control(op, indent, sought)
            elif op is not last or op.operands or op.opcode != "yield" or op is sought:
                self.lines.append(indent + self.line(op))

    def line(self, op: Op) -> str:
        """The text of an op without blocks."""
        opcode = op.opcode
        special = _SPECIAL.get(opcode)
        if special is not None and len(op.operands) >= special[0]:
            text = special[1](self, op)
        elif op.operands:
            text = f"{opcode} {self.list(op.operands)}"
        else:
            text = opcode
        if op.attrs:
            text += _attributes(op)
        if not op.results:
            return text
        if len(op.results) == 1:
            result = op.results[0]
            return f"{self.new(result)} = {text} : {self.type(result.type)}"
        names = ", ".join(map(self.new, op.results))
        return f"{names} = {text} : {', '.join([self.type(r.type) for r in op.results])}"

    def control(self, op: Op, indent: str, sought: Op | None) -> None:
        """A for, while or if with its blocks."""
        results = ", ".join(map(self.new, op.results))
        types = ", ".join([self.type(r.type) for r in op.results])
        head = f"{indent}{results} = {op.opcode}" if results else indent + op.opcode
        tail = f" : {types} {{" if types else " {"
        if op.opcode == "for" and len(op.operands) >= 2 and op.blocks[0].arguments:
            low, high = (self.names.get(x, "%?") for x in op.operands[:2])
            index = self.new(op.blocks[0].arguments[0])
            head += f" {index} = {low} to {high} step {op.attrs.get('step')}"
            carried = self.carried(op.blocks[0].arguments[1:], op.operands[2:])
            self.lines.append(head + carried + tail)
        elif op.opcode == "while" and op.blocks:
            inits = op.operands
            self.lines.append(head + self.carried(op.blocks[0].arguments, inits) + tail)
        else:
            self.lines.append(f"{head} {self.list(op.operands)}{tail}")
        for k, block in enumerate(op.blocks):
            if k and op.opcode == "while":
                names = ", ".join(map(self.new, block.arguments))
                self.lines.append(f"{indent}}} do ({names}) {{" if names else f"{indent}}} do {{")
            elif k:
                self.lines.append(indent + "} else {")
            self.block(block, indent + "  ", sought)
        self.lines.append(indent + "}")

    def carried(self, arguments: Iterable[Value], inits: Iterable[Value]) -> str:
        """` (%5 = %1, %6 = %2)`, or nothing."""
        init_names = [self.names.get(x, "%?") for x in inits]
        pairs = [f"{self.new(a)} = {x}" for a, x in zip(arguments, init_names)]
        return f" ({', '.join(pairs)})" if pairs else ""


def _attributes(op: Op) -> str:
    """` axis(0) kind(add)`: those of the table in its order, then any others."""
    known = ATTRIBUTES.get(op.opcode, ())
    parts: list[str] = []
    attrs = op.attrs
    for name, kind, _, default in known:
        value = attrs.get(name, default)
        if value is None or value == default:
            continue
        if kind == "ints":
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        elif kind == "flag":
            shown = number_text(value)
        else:
            shown = str(value)
        parts.append(f" {name}({shown})")
    if len(attrs) > len(known) or not known:
        names = {a.name for a in known} | _PART_OF_SYNTAX.get(op.opcode, set())
        parts.extend(f" {k}({v})" for k, v in attrs.items() if k not in names)
    return "".join(parts)


_PART_OF_SYNTAX = {"constant": {"value"}, "for": {"step"}}


def _constant(p: _Printer, op: Op) -> str:
    return f"constant {number_text(op.attrs.get('value'))}"


def _masked(p: _Printer, operands: tuple[Value, ...], other: bool) -> str:
    """` mask(%m) other(%x)` of what comes after the operands that are always there."""
    if not operands:
        return ""
    names = [p.names.get(x, "%?") for x in operands]
    text = f" mask({names[0]})"
    return f"{text} other({names[1]})" if other and len(names) > 1 else text


def _read(p: _Printer, op: Op) -> str:
    buffer, offset = (p.names.get(x, "%?") for x in op.operands[:2])
    return f"{op.opcode} {buffer}[{offset}]{_masked(p, op.operands[2:], True)}"


def _write(p: _Printer, op: Op) -> str:
    buffer, offset, value = (p.names.get(x, "%?") for x in op.operands[:3])
    return f"{op.opcode} {buffer}[{offset}], {value}{_masked(p, op.operands[3:], False)}"


# How many operands the special form needs, and its writer.
_SPECIAL = {
    "constant": (0, _constant),
    "gather": (2, _read),
    "load": (2, _read),
    "prefetch": (2, _read),
    "scatter": (3, _write),
    "store": (3, _write),
}
