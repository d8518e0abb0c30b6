"""Buffers that are shared: outputs with operands, module outputs with parameters, donors.

An index into a nested tuple is a tuple of integers, `()` the whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hloom.ir.text.cursor import Cursor

if TYPE_CHECKING:
    from hloom.types.shape import Shape

Index = tuple[int, ...]
_KIND = re.compile(r"(may|must)-alias")


def show_index(index: Index) -> str:
    return "{" + ",".join(map(str, index)) + "}"


@dataclass(frozen=True, slots=True)
class OutputOperandAlias:
    """One output part that is the buffer of one operand's part."""

    output_shape_index: Index
    operand_index: int
    operand_shape_index: Index

    @property
    def text(self) -> str:
        output, operand = show_index(self.output_shape_index), show_index(self.operand_shape_index)
        return f"{output}: ({self.operand_index}, {operand})"


@dataclass(frozen=True, slots=True)
class OutputOperandAliasing:
    """`output_to_operand_aliasing={{0}: (1, {}), {1}: (0, {2})}` of a fusion or custom call."""

    entries: tuple[OutputOperandAlias, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def text(self) -> str:
        return "{" + ", ".join(e.text for e in self.entries) + "}"

    def check(self, output: Shape, operands: tuple[Shape, ...]) -> str | None:
        """What is wrong with it on an instruction of these shapes, or None."""
        seen: set[Index] = set()
        for e in self.entries:
            if e.output_shape_index in seen:
                return f"output {show_index(e.output_shape_index)} is aliased twice"
            seen.add(e.output_shape_index)
            out = subshape(output, e.output_shape_index)
            if out is None:
                return f"the output has no part {show_index(e.output_shape_index)}"
            if not 0 <= e.operand_index < len(operands):
                return f"there is no operand {e.operand_index} to alias with"
            operand = subshape(operands[e.operand_index], e.operand_shape_index)
            if operand is None:
                part = show_index(e.operand_shape_index)
                return f"operand {e.operand_index} has no part {part}"
            if not out.compatible(operand):
                return (
                    f"output {show_index(e.output_shape_index)} is {out} but operand "
                    f"{e.operand_index} {show_index(e.operand_shape_index)} is {operand}"
                )
        return None


@dataclass(frozen=True, slots=True)
class AliasEntry:
    """One part of the module's result that may or must live in a parameter's buffer."""

    output_shape_index: Index
    parameter_number: int
    parameter_shape_index: Index
    kind: str = "may-alias"

    @property
    def text(self) -> str:
        output, part = show_index(self.output_shape_index), show_index(self.parameter_shape_index)
        return f"{output}: ({self.parameter_number}, {part}, {self.kind})"


@dataclass(frozen=True, slots=True)
class InputOutputAlias:
    """`input_output_alias={ {0}: (0, {}, may-alias) }` of a module; sorted by output index."""

    entries: tuple[AliasEntry, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def text(self) -> str:
        return "{ " + ", ".join(e.text for e in self.entries) + " }"

    def for_output(self, index: Index) -> AliasEntry | None:
        """The entry of one output part."""
        return next((e for e in self.entries if e.output_shape_index == index), None)

    def for_parameter(self, number: int, index: Index = ()) -> AliasEntry | None:
        """The first entry that gives away this parameter part."""
        place = (number, index)
        return next(
            (e for e in self.entries if (e.parameter_number, e.parameter_shape_index) == place),
            None,
        )

    def check(self, parameters: tuple[Shape, ...], result: Shape) -> str | None:
        """What is wrong with it on a program of these shapes, or None."""
        aliased: set[tuple[int, Index]] = set()
        for e in self.entries:
            out = subshape(result, e.output_shape_index)
            if out is None:
                return f"the result has no part {show_index(e.output_shape_index)}"
            wrong = _check_part(parameters, e.parameter_number, e.parameter_shape_index)
            if wrong:
                return wrong
            part = (e.parameter_number, e.parameter_shape_index)
            if part in aliased:
                return f"parameter {part[0]} {show_index(part[1])} is aliased with two outputs"
            aliased.add(part)
        return None


@dataclass(frozen=True, slots=True)
class BufferDonors:
    """`buffer_donor={ (0, {}), (1, {2}) }`: parameter parts whose buffers any output may use."""

    entries: tuple[tuple[int, Index], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def text(self) -> str:
        return "{ " + ", ".join(f"({n}, {show_index(i)})" for n, i in self.entries) + " }"

    def check(
        self, parameters: tuple[Shape, ...], aliases: InputOutputAlias | None = None
    ) -> str | None:
        """What is wrong with it on a program of these parameters, or None."""
        for number, index in self.entries:
            if wrong := _check_part(parameters, number, index):
                return wrong
            if aliases and aliases.for_parameter(number, index):
                return f"parameter {number} {show_index(index)} is both donated and aliased"
        return None


def subshape(shape: Shape, index: Index) -> Shape | None:
    """The part of a nested tuple shape, None when there is no such part."""
    for i in index:
        if not shape.is_tuple or not 0 <= i < len(shape.elements):
            return None
        shape = shape.elements[i]
    return shape


def _check_part(parameters: tuple[Shape, ...], number: int, index: Index) -> str | None:
    if not 0 <= number < len(parameters):
        return f"there is no parameter {number}"
    if subshape(parameters[number], index) is None:
        return f"parameter {number} has no part {show_index(index)}"
    return None


def parse_output_operand_aliasing(cursor: Cursor) -> OutputOperandAliasing:
    """Read `{{0}: (1, {}), ...}`."""
    cursor.expect("{", "to start the aliasing")
    entries: list[OutputOperandAlias] = []
    while not cursor.eat("}"):
        output = cursor.integers()
        cursor.expect(":", "after the output index")
        number, index = _parse_part(cursor)
        cursor.expect(")", "after (operand, {index}")
        entries.append(OutputOperandAlias(output, number, index))
        if not cursor.eat(","):
            cursor.expect("}", "to end the aliasing")
            break
    return OutputOperandAliasing(tuple(entries))


def parse_input_output_alias(cursor: Cursor) -> InputOutputAlias:
    """Read `{ {0}: (0, {}, may-alias) }`; the kind may be left out."""
    cursor.expect("{", "to start the aliasing")
    entries: dict[Index, AliasEntry] = {}
    while not cursor.eat("}"):
        output = cursor.integers()
        cursor.expect(":", "after the output index")
        number, index = _parse_part(cursor)
        kind = "may-alias"
        if cursor.eat(","):
            match = cursor.match(_KIND)
            if not match:
                cursor.fail(f"expected may-alias or must-alias, found {cursor.next_text()}")
            kind = match[0]
        cursor.expect(")", "to end an alias (parameter, {index}, kind)")
        entries.setdefault(output, AliasEntry(output, number, index, kind))
        if not cursor.eat(","):
            cursor.expect("}", "to end the aliasing")
            break
    return InputOutputAlias(tuple(entries[k] for k in sorted(entries)))


def parse_buffer_donors(cursor: Cursor) -> BufferDonors:
    """Read `{ (0, {}), (1, {2}) }`."""
    cursor.expect("{", "to start the buffer donors")
    entries: set[tuple[int, Index]] = set()
    while not cursor.eat("}"):
        entries.add(_parse_part(cursor))
        cursor.expect(")", "to end a donor (parameter, {index})")
        if not cursor.eat(","):
            cursor.expect("}", "to end the buffer donors")
            break
    return BufferDonors(tuple(sorted(entries)))


def _parse_part(cursor: Cursor) -> tuple[int, Index]:
    """Read `(number, {index}` without the closing parenthesis."""
    cursor.expect("(", "to start (number, {index})")
    at = cursor.skip()
    number = cursor.integer()
    if number < 0:
        cursor.fail("an operand or parameter number is not negative", at)
    cursor.expect(",", "after the number")
    return number, cursor.integers()
