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
from hloom.ir.text.cursor import RESERVED, Cursor, blank_comments
from hloom.ir.text.instructions import InstructionReader
from hloom.ir.text.places import keep_text
from hloom.ir.values.backend_config import parse_backend_config
from hloom.ir.values.stack_frames import at_stack_frames, parse_stack_frames
from hloom.types.shape import ProgramShape, Shape
from hloom.types.syntax import OffsetError
from hloom.types.text import parse_shape

ENTRY = re.compile(r"\s*ENTRY(?![\w.\-:=])", re.A)
COMPUTATION_NAME = re.compile(r"\s*(?:%([A-Za-z_][\w.\-]*)|([A-Za-z_][\w.\-]*)(:?))", re.A)
HEADER = re.compile(r"\s*HloModule(?![\w.\-:=])", re.A)
WITHOUT_HEADER = re.compile(r"\s*(?:ENTRY\b|%?[A-Za-z_][\w.\-]*:?\s*\{)", re.A)
PARAMETER = re.compile(r"\s*(?:%([A-Za-z_][\w.\-]*)|([A-Za-z_][\w.\-]*)(:?))\s*", re.A)
SHAPE_FIRST = re.compile(r"\s*(?:[a-z]\w*\s*\[|\()", re.A)
DEEPEST_NESTING = 40
UNNAMED = "_"
"""The name of what a text without a header leaves nameless."""


class ModuleReader:
    """Reads one text into one module."""

    def __init__(self, text: str, file: str | None) -> None:
        self.cursor = Cursor(blank_comments(text), 0, file, text)
        self.text = self.cursor.text
        self.module = Module(UNNAMED)
        self.computations: dict[str, Computation] = {}
        self.depth = 0
        self.instructions = InstructionReader(self)

    # -- module ----------------------------------------------------------------------------

    def read(self) -> Module:
        """The whole text as a module."""
        cursor, module = self.cursor, self.module
        header: dict[str, Any] = {}
        has_header = cursor.match(HEADER) is not None
        if has_header:
            module.name = self.read_name("the module's name")
            header = read_header_attributes(cursor)
            if at_stack_frames(cursor):
                module.stack_frames = parse_stack_frames(cursor)
        elif not WITHOUT_HEADER.match(self.text, cursor.position):
            return self.read_bare_instructions()
        last: Computation | None = None
        while last is None or cursor.skip() < len(self.text):
            if last is not None and cursor.at("HloModule "):
                cursor.fail(
                    "another module begins here, and a text holds one",
                    length=len("HloModule"),
                    hint="put each into a file of its own",
                )
            last = self.read_computation()
        if module.entry_or_none is None:
            module.entry = last
        if not has_header:
            module.name = f"module_{module.entry.name}"
        scheduled = header.pop("is_scheduled", False)
        for name, value in header.items():
            setattr(module, name, value)
        self.finish_module(scheduled)
        return module

    def finish_module(self, scheduled: bool) -> None:
        module = self.module
        if module.entry_layout is None:
            module.entry_layout = self.usual_entry_layout()
        if scheduled:
            module.schedule = {
                c: list(c.instructions) for c in module.computations if not c.is_fusion
            }

    def usual_entry_layout(self) -> ProgramShape:
        """What the header need not say: the layouts of the entry's parameters and root.

        XLA forgets them, and takes row-major ones, where the header says how the program is
        spread over devices; it prints what it took, so programs mean the same only so.
        """
        module, entry = self.module, self.module.entry
        shapes = [x.shape for x in (*entry.parameters, entry.root)]
        if (
            module.replica_count != 1
            or module.num_partitions != 1
            or module.alias_passthrough_parameters
            or module.allow_spmd_sharding_propagation_to_parameters
            or module.allow_spmd_sharding_propagation_to_output
        ):
            shapes = [s.without_layout().with_default_layouts() for s in shapes]
        return ProgramShape(tuple(shapes[:-1]), (), shapes[-1])

    def read_bare_instructions(self) -> Module:
        """The short form: instructions with no module and no computation around them.

        One instruction may also leave out its name, as in `f32[2] add(f32[2] x, f32[2] y)`.
        """
        cursor, module = self.cursor, self.module
        module.name = UNNAMED
        computation = module.add_computation(UNNAMED, entry=True)
        self.instructions.operands.makes_parameters = computation
        if cursor.skip() >= len(self.text):
            cursor.fail("expected HloModule, found the end of the text")
        if SHAPE_FIRST.match(self.text, cursor.position):
            self.instructions.read_nameless(computation)
        while cursor.skip() < len(self.text):
            self.instructions.read(computation)
        self.finished(computation, None)
        self.finish_module(scheduled=True)
        return module

    def read_name(self, what: str) -> str:
        """A name, with or without `%`; words of the language are none unless `%` is there."""
        cursor = self.cursor
        match = cursor.match(COMPUTATION_NAME)
        if match is None:
            cursor.fail(f"expected {what}, found {cursor.next_text()}")
        marked, plain, colon = match.groups()
        if plain in RESERVED and not colon:
            cursor.fail(
                f"{plain!r} is a word of the language and cannot be {what}",
                match.start(2),
                length=len(plain),
                hint=f"write %{plain}" if what != "the module's name" else None,
            )
        return marked or plain

    def read_computation(self) -> Computation:
        """`[ENTRY] %name (signature) -> shape { instructions }`."""
        cursor = self.cursor
        start = cursor.skip()
        if start >= len(self.text):
            cursor.fail("expected a computation, found the end of the text")
        entry = cursor.match(ENTRY) is not None
        name = self.read_name("the name of a computation")
        if name in self.computations:
            cursor.fail(f"computation {name!r} already exists", start, rule="unique-name")
        if entry and self.module.entry_or_none is not None:
            cursor.fail("there is more than one ENTRY computation", start, rule="one-entry")
        result_at = cursor.skip()
        result = self.read_signature() if cursor.at("(") else None
        computation = self.module.add_computation(name, entry=entry)
        self.computations[name] = computation
        self.read_body(computation, result, result_at)
        while cursor.eat(","):
            at = cursor.skip()
            match cursor.key():
                case "execution_thread":
                    computation.execution_thread = cursor.string()
                case "backend_config":
                    computation.backend_config = parse_backend_config(cursor)
                case _:
                    words = "execution_thread= or backend_config="
                    cursor.fail(f"expected {words} after a computation", at)
        return computation

    def read_signature(self) -> Shape:
        """`(name: shape, ...) -> shape`; the result. Parameters are described again inside."""
        cursor = self.cursor
        cursor.expect("(")
        if not cursor.eat(")"):
            while True:
                match = cursor.match(PARAMETER)
                if match is None or (match[2] in RESERVED and not match[3]):
                    cursor.fail(
                        f"expected `name: shape` of a parameter, found {cursor.next_text()}"
                    )
                _, cursor.position = parse_shape(self.text, cursor.position)
                if not cursor.eat(","):
                    break
            cursor.expect(")", "after the parameters")
        cursor.expect("->", "after the parameters")
        result, cursor.position = parse_shape(self.text, cursor.skip())
        return result

    def read_body(
        self, computation: Computation, result: Shape | None, result_at: int = 0
    ) -> Computation:
        """`{ instructions }` into a computation."""
        cursor = self.cursor
        cursor.expect("{", "to open a computation")
        if cursor.at("}"):
            cursor.fail(f"computation {computation.name!r} has no instructions")
        while not cursor.eat("}"):
            self.instructions.read(computation)
        self.finished(computation, cursor.position)
        if result is not None and not result.compatible(computation.root.shape):
            cursor.fail(
                f"computation %{computation.name} is declared to return {result} "
                f"but its root %{computation.root.name} is {computation.root.shape}",
                result_at,
                rule="root-shape",
            )
        return computation

    def finished(self, computation: Computation, at: int | None) -> Computation:
        if computation._root is None:
            computation._root = next(reversed(computation.instructions))
        for number, p in enumerate(computation.parameters):
            if p.attrs.number != number:
                self.cursor.fail(
                    f"computation %{computation.name} has no parameter({number}): parameters must "
                    f"be numbered 0 to {len(computation.parameters) - 1}, each once",
                    at,
                    instruction=f"%{p.name}",
                    rule="parameter-numbers",
                )
        return computation

    def read_nested_computation(self) -> Computation:
        """A computation that stands where its name could stand: `to_apply={ ... }`."""
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            self.cursor.fail(f"computations nested deeper than {DEEPEST_NESTING}")
        computation = self.read_body(self.module.add_computation("_"), None)
        self.depth -= 1
        return computation


def parse_module(text: str, file: str | None = None) -> Module:
    """The module that HLO text describes.

    Raises `ParseError` with file, line, column and the line itself.
    """
    reader = ModuleReader(text, file)
    try:
        with paused_collection():
            module = reader.read()
    except OffsetError as error:
        raise error.at(reader.cursor.original, file) from None
    except RecursionError:
        reader.cursor.fail("nested too deeply here", rule="depth")
    keep_text(module, text, file)
    return module
