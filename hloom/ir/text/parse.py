"""Reads HLO text: a whole module, a single computation, or a bare list of instructions.

The grammar is on one page in `text/README.md`. This file reads what stands around instructions;
`instructions.py`, `operands.py` and `attributes.py` read them.
"""

import re
from typing import Any

from hloom.base.collection import paused_collection
from hloom.ir.computation import Computation
from hloom.ir.module import Module
from hloom.ir.text.annotations import read_header_attributes
from hloom.ir.text.attributes import CALLEE
from hloom.ir.text.cursor import Cursor, blank_comments
from hloom.ir.text.instructions import KEYWORDS, InstructionReader
from hloom.ir.values.stack_frames import at_stack_frames, parse_stack_frames
from hloom.types.shape import ProgramShape, Shape
from hloom.types.syntax import OffsetError
from hloom.types.text import parse_program_shape

COMPUTATION_HEAD = re.compile(r"\s*(?:(ENTRY)\b\s*)?(%?)([A-Za-z_][\w.\-]*)?\s*(?=[({])")
INSTRUCTION_START = re.compile(r"\s*(?:ROOT\s+)?%?[A-Za-z_][\w.\-]*\s+=")
DEEPEST_NESTING = 100


class ModuleReader:
    """Reads one text into one module."""

    def __init__(self, text: str, file: str | None) -> None:
        self.cursor = Cursor(blank_comments(text), 0, file, text)
        self.text = self.cursor.text
        self.module = Module()
        self.computations: dict[str, Computation] = {}
        self.depth = 0
        self.instructions = InstructionReader(self)

    # -- module ----------------------------------------------------------------------------

    def read(self) -> Module:
        """The whole text as a module."""
        cursor, module = self.cursor, self.module
        header: dict[str, Any] = {}
        headed = cursor.at("HloModule") and not INSTRUCTION_START.match(self.text, cursor.position)
        if headed:
            cursor.expect("HloModule")
            module.name = cursor.match(CALLEE)[1] if CALLEE.match(self.text, cursor.skip()) else ""
            if not module.name:
                cursor.fail(f"expected the module's name, found {cursor.found()}")
            header = read_header_attributes(cursor)
        last = self.read_computations()
        if module.entry_or_none is None:
            if last is None:
                cursor.fail("expected a computation, found the end of the text")
            module.entry = last
            if not headed:
                module.name = f"module_{last.name}"
        scheduled = header.pop("is_scheduled", False)
        for name, value in header.items():
            setattr(module, name, value)
        if module.entry_layout is None:
            shape = module.entry.program_shape
            module.entry_layout = ProgramShape(shape.parameters, (), shape.result)
        if scheduled:
            module.schedule = {
                c: list(c.instructions) for c in module.computations if not c.is_fusion
            }
        return module

    def read_computations(self) -> Computation | None:
        cursor, last = self.cursor, None
        while cursor.skip() < len(self.text):
            if last is None and at_stack_frames(cursor):
                self.module.stack_frames = parse_stack_frames(cursor)
                continue
            if last is None and INSTRUCTION_START.match(self.text, cursor.position):
                return self.read_bare_instructions()
            last = self.read_computation()
        return last

    def read_bare_instructions(self) -> Computation:
        """The short form: instructions with no computation around them."""
        made = self.module.add_computation("main", entry=True)
        self.instructions.operands.makes_parameters = True
        while self.cursor.skip() < len(self.text):
            self.instructions.read(made)
        return self.finished(made, None)

    def read_computation(self) -> Computation:
        """`[ENTRY] %name (signature) -> shape { instructions }`."""
        cursor = self.cursor
        start = cursor.skip()
        head = cursor.match(COMPUTATION_HEAD)
        if head is None:
            cursor.fail(f"expected a computation, found {cursor.found()}")
        entry, percent, name = head.groups()
        if name is None:
            name = "entry" if entry else "computation"
        elif not percent and name in KEYWORDS:
            cursor.fail(f"{name!r} is a keyword and cannot name a computation", head.start(3))
        if name in self.computations:
            cursor.fail(f"computation {name!r} already exists", start, rule="unique-name")
        if entry and self.module.entry_or_none is not None:
            cursor.fail("there is more than one ENTRY computation", start, rule="one-entry")
        result = None
        result_at = cursor.position
        if cursor.at("("):
            signature, cursor.position = parse_program_shape(self.text, cursor.position)
            result = signature.result
        made = self.module.add_computation(name, entry=bool(entry))
        self.computations[name] = made
        self.read_body(made, result, result_at)
        if cursor.at(","):
            cursor.expect(",")
            cursor.expect("execution_thread=", "after a computation")
            made.execution_thread = cursor.string()
        return made

    def read_body(self, made: Computation, result: Shape | None, result_at: int = 0) -> Computation:
        """`{ instructions }` into a computation."""
        cursor = self.cursor
        cursor.expect("{", "to open a computation")
        if cursor.at("}"):
            cursor.fail(f"computation {made.name!r} has no instructions")
        while not cursor.eat("}"):
            self.instructions.read(made)
        self.finished(made, cursor.position)
        if result is not None and not result.compatible(made.root.shape):
            cursor.fail(
                f"computation %{made.name} is declared to return {result} "
                f"but its root %{made.root.name} is {made.root.shape}",
                result_at,
                rule="root-shape",
            )
        return made

    def finished(self, made: Computation, at: int | None) -> Computation:
        if made._root is None:
            made._root = next(reversed(made.instructions))
        for number, p in enumerate(made.parameters):
            if p.attrs.number != number:
                self.cursor.fail(
                    f"computation %{made.name} has no parameter({number}): parameters must be "
                    f"numbered 0 to {len(made.parameters) - 1}, each once",
                    at,
                    instruction=f"%{p.name}",
                    rule="parameter-numbers",
                )
        return made

    def read_nested_computation(self) -> Computation:
        """A computation that stands where its name could stand: `to_apply={ ... }`."""
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            self.cursor.fail(f"computations nested deeper than {DEEPEST_NESTING}")
        made = self.read_body(self.module.add_computation("_"), None)
        self.depth -= 1
        return made


def parse_module(text: str, file: str | None = None) -> Module:
    """The module that HLO text describes.

    Raises `ParseError` with file, line, column and the line itself (IR-01).
    """
    reader = ModuleReader(text, file)
    try:
        with paused_collection():
            return reader.read()
    except OffsetError as error:
        raise error.at(reader.cursor.original, file) from None
