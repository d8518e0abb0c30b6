"""Reads operand lists: `(%a, f32[2]{0} %b, %t#1#0, negate(%c))`.

The usual list of plain names is one regular expression and a split; shapes before names, the
compact get-tuple-element notation and nested instructions take the slow way.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.types.shape import Shape
from hloom.types.text import parse_shape

if TYPE_CHECKING:
    from hloom.ir.text.instructions import InstructionReader

PLAIN = re.compile(r"([^()\[\]{}\"#=]*+)\)")
NAME = re.compile(r"\s*(%)?([A-Za-z_][\w.\-]*)(?(1)|:?)", re.A)
ARRAY = re.compile(r"\s*([a-z]\w*\[[^\]\s]*\](?:\{[^{}\s]*\})?)\s*(?=%?[A-Za-z_])", re.A)
TYPED = re.compile(
    r"\s*([a-z]\w*\[[^\]\s]*\](?:\{[^{}\s]*\})?)\s+%?([A-Za-z_][\w.\-]*)\s*([,)])", re.A
)
INDEX = re.compile(r"#(-?[\w.]+)")
_SUGAR = re.compile(r"\s*([a-z][\w\-]*)\s*\(", re.A)
_SHAPE = re.compile(r"[a-z]\w*\s*[\[(]", re.A)
_MAX_NESTING = 60


def fits(written: Shape, shape: Shape) -> bool:
    """Whether a shape before an operand's name may stand there; layouts and whether dimensions
    are dynamic do not count."""
    return written.compatible(shape) or written.same(shape, ignore_layout=True, ignore_dynamic=True)


class OperandReader:
    """Reads the operands of one instruction after another."""

    def __init__(self, reader: InstructionReader) -> None:
        self.reader = reader
        self.depth = 0
        self.elements: dict[Instruction, tuple[int, dict[int, Instruction]]] = {}
        self.makes_parameters: Computation | None = None
        """The short form's computation: an operand with a shape and an unknown name, or none, is
        a new parameter there."""

    def read(self, into: Computation) -> tuple[Instruction, ...]:
        """The operands up to and with the closing parenthesis."""
        reader = self.reader
        cursor = reader.cursor
        match = PLAIN.match(reader.text, cursor.position)
        if match:
            body = match[1]
            names = into.names
            try:
                operands = tuple([names[x.strip().removeprefix("%")] for x in body.split(",")])
            except KeyError:
                if not body.strip():
                    cursor.position = match.end()
                    return ()
            else:
                cursor.position = match.end()
                return operands
        return self.read_typed(into) or self.read_slowly(into)

    def read_typed(self, into: Computation) -> tuple[Instruction, ...] | None:
        """A list of `f32[2]{0} %name`, as long dumps have it; None when something else stands
        among them, and then nothing is read."""
        reader = self.reader
        text, names, shapes = reader.text, into.names, reader.shapes
        position = reader.cursor.position
        operands: list[Instruction] = []
        while match := TYPED.match(text, position):
            raw, name, end = match.groups()
            operand = names.get(name)
            written = shapes.get(raw)
            if operand is None or written is not operand.shape:
                return None
            operands.append(operand)
            position = match.end()
            if end == ")":
                reader.cursor.position = position
                return tuple(operands)
        return None

    def read_slowly(self, into: Computation) -> tuple[Instruction, ...]:
        cursor = self.reader.cursor
        operands: list[Instruction] = []
        while not cursor.eat(")"):
            # XLA reads over operands that are empty; only their number is checked.
            if not cursor.eat(","):
                if operand := self.read_one(into):
                    operands.append(operand)
                if not cursor.at(")"):
                    cursor.expect(",", "or ')' between operands")
        return tuple(operands)

    def read_one(self, into: Computation) -> Instruction | None:
        """One operand; None for a shape with neither name nor operation behind it, which XLA
        reads over (in the short form it is a new parameter)."""
        reader = self.reader
        cursor, text = reader.cursor, reader.text
        start = cursor.skip()
        if _SUGAR.match(text, start):
            return self.read_nested(into, None)
        written: Shape | None = None
        array = ARRAY.match(text, start)
        if array:
            written = reader.shape_of(array[1], array.start(1))
            cursor.position = array.end()
        elif text.startswith("(", start) or _SHAPE.match(text, start):
            written, cursor.position = parse_shape(text, start, default_layouts=True)
        if written is not None and _SUGAR.match(text, cursor.position):
            return self.read_nested(into, written)
        match = cursor.match(NAME)
        if match is None:
            if written is not None and (cursor.at(",") or cursor.at(")")):
                return (
                    self.new_parameter(into, written, None)
                    if into is self.makes_parameters
                    else None
                )
            cursor.fail(f"expected an operand, found {cursor.next_text()}")
        operand = into.names.get(match[2])
        if operand is None:
            operand = self.unknown(into, match, written)
        part = operand
        while text.startswith("#", cursor.position):
            part = self.read_element(into, part)
        # Before `%t#1` newer XLA writes the element's shape, older the tuple's.
        if written is not None and not (
            fits(written, part.shape) or (part is not operand and fits(written, operand.shape))
        ):
            what = text[match.start(2) : cursor.position]
            cursor.fail(
                f"operand %{what} is written {written} but its shape is {part.shape}",
                start,
                rule="operand-shape",
            )
        return part

    def unknown(
        self, into: Computation, match: re.Match[str], written: Shape | None
    ) -> Instruction:
        name = match[2]
        if self.makes_parameters is into and written is not None:
            return self.new_parameter(into, written, name)
        hint = "an operand must be defined before it is used, in the same computation"
        for c in self.reader.reader.module.computations:
            if name in c.names and c is not into:
                hint = f"%{name} is in computation %{c.name}; {hint}"
                break
        return self.reader.cursor.fail(
            f"instruction {name!r} does not exist",
            match.start(2),
            length=len(name),
            rule="operand-defined",
            hint=hint,
        )

    def new_parameter(self, into: Computation, shape: Shape, name: str | None) -> Instruction:
        number = len(into.parameters)
        attrs = OPS["parameter"].attrs(number=number)
        return into.append("parameter", attrs, (), shape, name or f"_{number}")

    def read_nested(self, into: Computation, written: Shape | None) -> Instruction:
        """An instruction in the place of an operand; it gets a name of its own."""
        reader = self.reader
        opcode = reader.cursor.match(_SUGAR)
        assert opcode
        self.depth += 1
        if self.depth > _MAX_NESTING:
            reader.cursor.fail(f"operands nested deeper than {_MAX_NESTING}", opcode.start(1))
        instruction = reader.read_right_side(
            into, f"{opcode[1]}.anon", written, opcode[1], opcode.start(1), attributes=False
        )
        self.depth -= 1
        return instruction

    def known_elements(self, of: Instruction) -> dict[int, Instruction]:
        """The elements that are taken of a tuple so far; looks only at users that are new."""
        seen, known = self.elements.get(of, (0, {}))
        for user in islice(reversed(of.users), len(of.users) - seen):
            if user.opcode == "get-tuple-element":
                known[user.attrs.index] = user
        self.elements[of] = (len(of.users), known)
        return known

    def read_element(self, into: Computation, of: Instruction) -> Instruction:
        """`#1`: element 1 of the tuple before it."""
        cursor = self.reader.cursor
        at = cursor.position
        match = INDEX.match(cursor.text, at)
        if match is None or not re.fullmatch(r"-?\d+", match[1]):
            cursor.fail("GTE index after '#': expects integer", at + 1, rule="compact-gte")
        if not of.shape.is_tuple:
            cursor.fail(
                f"GTE operand must be tuple: %{of.name} is {of.shape}", at, rule="compact-gte"
            )
        index = int(match[1])
        if not 0 <= index < len(of.shape.elements):
            cursor.fail(
                f"GTE index {index} out of bounds: %{of.name} is a tuple of "
                f"{len(of.shape.elements)} elements",
                at + 1,
                rule="compact-gte",
            )
        cursor.position = match.end()
        known = self.known_elements(of)
        if index in known:
            return known[index]
        attrs = OPS["get-tuple-element"].attrs(index=index)
        shape = of.shape.elements[index]
        return into.append("get-tuple-element", attrs, (of,), shape, f"{of.name}_{index}")
