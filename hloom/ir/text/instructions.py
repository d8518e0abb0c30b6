"""Reads instructions: `[ROOT] %name = shape opcode(operands), attributes`.

One regular expression takes the head of an instruction (root mark, name, shape, opcode) and one
its operand list, so an instruction costs a handful of matches and no tokens.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

from hloom.ir.computation import Computation
from hloom.ir.infer.compare import compatible
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS, ShapeError
from hloom.ir.text.annotations import ANNOTATIONS
from hloom.ir.text.async_form import add_async_start, async_form, check_follower
from hloom.ir.text.attributes import AttributeReader
from hloom.ir.text.cursor import RESERVED, TYPE_WORDS
from hloom.ir.text.demands import (
    CHECKED,
    SHAPES_NOT_READ,
    SHAPES_WRITTEN,
    check_values,
    check_whole,
)
from hloom.ir.text.draft import Draft
from hloom.ir.text.implied_layout import with_implied_layouts
from hloom.ir.text.operands import OperandReader
from hloom.types.literal_text import parse_literal
from hloom.types.shape import Shape
from hloom.types.text import parse_shape

if TYPE_CHECKING:
    from hloom.ir.text.parse import ModuleReader

HEAD = re.compile(
    r"\s*(?:(ROOT)\s+)?(%?)([A-Za-z_][\w.\-]*)\s+=\s*+"  # possessive: comments are blanks
    r"([a-z]\w*\[[^\]\s]*\](?:\{[^{}\s]*\})?)?\s*([a-z][\w\-]*)\s*\(",
    re.A,
)
OTHER_HEAD = re.compile(
    r"\s*(?:(ROOT)(?:\s+|(?=%)))?"
    r"(?:(%)([A-Za-z_][\w.\-]*)\s*|([A-Za-z_][\w.\-]*)(?:(:)\s*|\s+))=\s*",
    re.A,
)
OPCODE = re.compile(r"\s*([a-z][\w\-]*)\s*\(", re.A)
BUFFER = re.compile(r"\s*b\(")
TUPLE_SHAPE = re.compile(r"\((?:[^()\n]++|\([^()\n]*+\))*+\)")
GLUED = re.compile(r"\s*(?:ROOT\s+)?([A-Za-z_][\w.\-]*)=", re.A)
NUMBER = re.compile(r"\s*(-?\d+)\s*\)")
LARGEST_NUMBER = 2**31

ELSEWHERE = {
    "exp": ["exponential"],
    "expm1": ["exponential-minus-one"],
    "log1p": ["log-plus-one"],
}
"""Opcodes under the names that numpy and JAX have for them."""


class InstructionReader:
    """Reads one instruction after another into computations."""

    def __init__(self, reader: ModuleReader) -> None:
        self.reader = reader
        self.cursor = reader.cursor
        self.text = reader.cursor.text
        self.operands = OperandReader(self)
        self.attributes = AttributeReader(reader)
        self.records: dict[tuple, Any] = {}
        self.shapes: dict[str, Shape] = {}

    def read(self, into: Computation) -> Instruction:
        """The next instruction, added to a computation."""
        cursor, text = self.cursor, self.text
        match = HEAD.match(text, cursor.position)
        if match and match[5] != "b":
            root, percent, name, shape_text, opcode = match.groups()
            cursor.position = match.end()
            shape = self.shape_of(shape_text, match.start(4)) if shape_text else None
            opcode_at = match.start(5)
        else:
            root, percent, name, shape, opcode, opcode_at = self.read_other_head()
        if name in RESERVED or name in into.names:
            self.check_name(into, name, percent, opcode_at)
        instruction = self.read_right_side(into, name, shape, opcode, opcode_at)
        if root:
            if into._root is not None:
                cursor.fail(f"computation %{into.name} has more than one ROOT", opcode_at)
            into._root = instruction
        return instruction

    def check_name(self, into: Computation, name: str, percent: str, before: int) -> None:
        """Refuse a name that is a word of the language, or that is taken."""
        at = self.text.rfind(name, 0, before)
        if name in TYPE_WORDS or (name in RESERVED and not percent):
            self.cursor.fail(
                f"{name!r} is a word of the language and cannot name an instruction",
                at,
                length=len(name),
                rule="name",
                hint=f"{name}_ can" if name in TYPE_WORDS else f"%{name} can",
            )
        if name in into.names:
            self.cursor.fail(
                f"instruction %{name} already exists in %{into.name}",
                at,
                length=len(name),
                rule="unique-name",
            )

    def read_nameless(self, into: Computation) -> Instruction:
        """`shape opcode(operands)` alone."""
        cursor = self.cursor
        shape, cursor.position = parse_shape(self.text, cursor.position, default_layouts=True)
        opcode = cursor.match(OPCODE)
        if opcode is None:
            cursor.fail(f"expected an opcode and '(', found {cursor.next_text()}")
        return self.read_right_side(into, "_", shape, opcode[1], opcode.start(1))

    # -- head ------------------------------------------------------------------------------

    def read_other_head(self) -> tuple[str, str, str, Shape | None, str, int]:
        """A head with a tuple or buffer shape or unusual spacing; errors are told apart here."""
        cursor, text = self.cursor, self.text
        start = cursor.skip()
        match = OTHER_HEAD.match(text, start)
        if match is None:
            self.fail_at_head(start)
        root, percent, name, plain, colon = match.groups()
        name, percent = name or plain, percent or colon
        cursor.position = match.end()
        tuple_match = TUPLE_SHAPE.match(text, cursor.position)
        shape = self.shapes.get(tuple_match[0]) if tuple_match else None
        if tuple_match and shape is not None:
            cursor.position = tuple_match.end()
        elif BUFFER.match(text, cursor.position) or not OPCODE.match(text, cursor.position):
            at = cursor.position
            shape, cursor.position = parse_shape(text, at, default_layouts=True)
            if tuple_match and tuple_match.end() == cursor.position:
                self.shapes[tuple_match[0]] = shape
        opcode = cursor.match(OPCODE)
        if opcode is None:
            cursor.fail(f"expected an opcode and '(', found {cursor.next_text()}")
        return root, percent, name, shape, opcode[1], opcode.start(1)

    def fail_at_head(self, start: int) -> NoReturn:
        cursor, text = self.cursor, self.text
        if glued := GLUED.match(text, start):
            cursor.fail(
                f"expected a space between {glued[1]!r} and '='",
                glued.end() - 1,
                hint=f"write `{glued[1]} = ...`: `{glued[1]}=` is read as an attribute",
            )
        if start >= len(text):
            cursor.fail("expected an instruction or '}', found the end of the text")
        cursor.fail(
            f"expected an instruction (`%name = shape opcode(...)`), found {cursor.next_text()}"
        )

    def shape_of(self, raw: str, at: int) -> Shape:
        shape = self.shapes.get(raw)
        if shape is None:
            shape, end = parse_shape(self.text, at, default_layouts=True)
            if end != at + len(raw):
                self.cursor.fail("expected an opcode after the shape", end)
            self.shapes[raw] = shape
        return shape

    # -- right side ------------------------------------------------------------------------

    def read_right_side(
        self,
        into: Computation,
        name: str | None,
        shape: Shape | None,
        opcode: str,
        at: int,
        *,
        attributes: bool = True,
    ) -> Instruction:
        """What follows `opcode(`: operands, attributes; the instruction is added to `into`."""
        op = OPS.get(opcode)
        if op is None:
            draft = self.async_draft(into, name, shape, opcode, at)
        else:
            draft = Draft(into, name, shape, op, at)
        if opcode == "constant":
            draft.values["literal"] = self.read_constant(shape)
        elif opcode == "parameter":
            draft.values["number"] = self.read_number(draft)
        else:
            draft.operands = self.operands.read(into)
        if attributes:
            self.attributes.read(draft)
        if draft.wrapped is None:
            instruction = self.add(draft)
        elif draft.op.name == "async-start":
            instruction = add_async_start(self, draft)
        else:
            check_follower(self, draft)
            draft.values.clear()
            draft.key = None
            instruction = self.add(draft)
        if draft.annotations:
            self.annotate(instruction, draft)
        return instruction

    def annotate(self, instruction: Instruction, draft: Draft) -> None:
        try:
            for annotation, value in draft.annotations.items():
                ANNOTATIONS[annotation].attach(instruction, value)
        except ShapeError as error:
            self.fail_at(draft, error, "annotation")

    def async_draft(
        self, into: Computation, name: str | None, shape: Shape | None, opcode: str, at: int
    ) -> Draft:
        """For an opcode that is none: the short form of an asynchronous one, or an error."""
        form = async_form(opcode)
        if form is None:
            close = ELSEWHERE.get(opcode) or get_close_matches(opcode, list(OPS), 1)
            guess = f"; did you mean {close[0]!r}?" if close else ""
            self.cursor.fail(
                f"unknown opcode {opcode!r}{guess}", at, length=len(opcode), rule="opcode"
            )
        draft = Draft(into, name, shape, form[0], at)
        draft.wrapped = form[1]
        return draft

    def read_number(self, draft: Draft) -> int:
        """The number of a parameter, and the closing parenthesis."""
        match = self.cursor.match(NUMBER)
        if match is None:
            self.cursor.fail(
                f"expected a parameter number and ')', found {self.cursor.next_text()}"
            )
        number = int(match[1]) if len(match[1]) < 12 else LARGEST_NUMBER
        if not 0 <= number < LARGEST_NUMBER:
            self.cursor.fail(
                f"{match[1][:20]} is no parameter number",
                match.start(1),
                instruction=f"%{draft.name}",
                rule="parameter-numbers",
            )
        return number

    def read_constant(self, shape: Shape | None) -> Any:
        cursor = self.cursor
        if shape is None:
            cursor.fail("a constant needs its shape written before `constant`")
        literal, cursor.position = parse_literal(self.text, cursor.skip(), shape)
        cursor.expect(")", "after the value of a constant")
        return literal

    # -- adding ----------------------------------------------------------------------------

    def add(self, draft: Draft) -> Instruction:
        """Make attribute record and instruction; checks required attributes and counts."""
        op, key = draft.op, draft.key
        attrs = self.records.get(key) if key is not None else None
        if attrs is None:
            attrs = self.record(draft)
            if key is not None:
                self.records[key] = attrs
        callees = self.callees(draft) if op.called else ()
        if op.name in CHECKED:
            try:
                check_whole(draft)
            except ShapeError as error:
                self.fail_at(draft, error, "operands")
        shape, operands = draft.shape, draft.operands
        if (
            shape is None
            or (op.variadic is None and len(operands) != len(op.operands))
            or op.name in SHAPES_NOT_READ
        ):
            shape = self.inferred(draft, attrs, callees)
        return draft.into.append(op.name, attrs, operands, shape, draft.name, callees)

    def record(self, draft: Draft) -> Any:
        op, values = draft.op, draft.values
        try:
            check_values(draft)
        except ShapeError as error:
            self.fail_at(draft, error, "attribute")
        return op.attrs(**values) if values else op.empty

    def fail_at(self, draft: Draft, error: ShapeError, rule: str) -> NoReturn:
        """Fail at the opcode of an instruction."""
        self.cursor.fail(
            str(error),
            draft.at,
            length=len(draft.target.name),
            instruction=f"%{draft.name or draft.op.name}",
            rule=rule,
        )

    def callees(self, draft: Draft) -> tuple[Computation, ...]:
        """The called computations in the order of the declaration."""
        op, called = draft.op, draft.called
        if op.name == "conditional" and "true_computation" in called:
            if "false_computation" not in called:
                error = ShapeError("true_computation needs a false_computation")
                self.fail_at(draft, error, "attribute")
            return called["true_computation"] + called["false_computation"]
        callees_: tuple[Computation, ...] = ()
        for role in op.called:
            if role in called:
                callees_ += called[role]
            elif role != "called_computations":
                error = ShapeError(f"{op.name} needs the attribute {role}=%computation")
                self.fail_at(draft, error, "attribute")
        return callees_

    def inferred(self, draft: Draft, attrs: Any, callees: tuple[Computation, ...]) -> Shape:
        """The shape where none was written; also reports a wrong number of operands."""
        op = draft.op
        try:
            op.check_operand_count(len(draft.operands))
            if draft.shape is not None and op.name not in SHAPES_NOT_READ:
                return draft.shape
            if draft.shape is None and (not op.infers or op.name in SHAPES_WRITTEN):
                raise ShapeError(f"the shape of {op.name} must be written before the opcode")
            shapes = tuple(x.shape for x in draft.operands)
            signatures = tuple(c.program_shape for c in callees)
            shape_ = op.infer(attrs, shapes, signatures)
            if draft.shape is not None and draft.shape.bare is not shape_.bare:
                if compatible(draft.shape, shape_):  # another shape only in what is dynamic
                    return draft.shape
            return with_implied_layouts(op.name, attrs, shape_, draft.operands, callees)
        except ShapeError as error:
            if draft.shape is not None and len(draft.operands) == len(op.operands):
                return draft.shape
            self.fail_at(draft, error, "shape")
