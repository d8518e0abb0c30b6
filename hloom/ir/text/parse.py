"""Reads HLO text: a whole module, a single computation, or a bare list of instructions.

The grammar is on one page in `text/README.md`. Speed comes from two tricks. One regular
expression takes the head of an instruction (root mark, name, shape, opcode) and one its operand
list, so an instruction costs a handful of matches and no tokens. And the raw text of an
attribute is the key of a cache: `dimensions={0,1}` is read by its kind once per module, later
ones are a dictionary look-up that also makes equal attribute records one object.
"""

import re
from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, OpDef, ShapeError
from hloom.ir.text.annotations import ANNOTATIONS, read_header_attributes
from hloom.ir.text.cursor import Cursor, blank_comments
from hloom.ir.text.operands import OperandReader
from hloom.ir.values.stack_frames import at_stack_frames, parse_stack_frames
from hloom.types.literal_text import parse_literal
from hloom.types.shape import ProgramShape, Shape
from hloom.types.syntax import OffsetError
from hloom.types.text import parse_program_shape, parse_shape

HEAD = re.compile(
    r"\s*(?:(ROOT)\s+)?(%?)([A-Za-z_][\w.\-]*)\s+=\s*"
    r"([a-z]\w*\[[^\]\s]*\](?:\{[^{}\s]*\})?)?\s*((?!b\()[a-z][\w\-]*)\s*\("
)
TUPLE_HEAD = re.compile(r"\s*(?:(ROOT)\s+)?(%?)([A-Za-z_][\w.\-]*)\s+=\s*")
OPCODE = re.compile(r"\s*((?!b\()[a-z][\w\-]*)\s*\(")  # b(f32[4]) is the shape of a buffer
TUPLE_SHAPE = re.compile(r"\((?:[^()\n]++|\([^()\n]*+\))*+\)")
COMPUTATION_HEAD = re.compile(r"\s*(?:(ENTRY)\b\s*)?(%?)([A-Za-z_][\w.\-]*)?\s*(?=[({])")
INSTRUCTION_START = re.compile(r"\s*(?:ROOT\s+)?%?[A-Za-z_][\w.\-]*\s+=")
_RAW = (
    r'\{(?:[^{}"]++|"(?:[^"\\]++|\\.)*+"|\{(?:[^{}"]++|"(?:[^"\\]++|\\.)*+")*+\})*+\}'
    r'|"(?:[^"\\]++|\\.)*+"|[^,\s{}()"\[\]]++(?=[,\s})])'
)
"""The text of most attribute values: braces two deep, a string, or a word."""
ATTRIBUTE = re.compile(rf"\s*,\s*([A-Za-z_][\w.\-]*)=({_RAW})?", re.S)
CALLEE = re.compile(r"\s*%?([A-Za-z_][\w.\-]*)")
_INT = re.compile(r"\s*(-?\d+)\s*\)")
_CLOSE = re.compile(r"\s*\)")
KEYWORDS = frozenset(
    "true false HloModule ENTRY ROOT maximal replicated manual unknown unreduced inf nan "
    "last_tile_dim_replicate shard_as shard_like".split()
)
ASYNC = {"-start": "async-start", "-update": "async-update", "-done": "async-done"}


class ModuleReader:
    """Reads one text into one module."""

    def __init__(self, text: str, file: str | None) -> None:
        self.cursor = Cursor(blank_comments(text), 0, file, text)
        self.text = self.cursor.text
        self.module = Module()
        self.computations: dict[str, Computation] = {}
        self.values: dict[Any, dict[str | None, Any]] = {}
        self.records: dict[tuple, Any] = {}
        self.shapes: dict[str, Shape] = {}
        self.operands = OperandReader(self)

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
        self.operands.makes_parameters = True
        while self.cursor.skip() < len(self.text):
            self.read_instruction(made)
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
            self.read_instruction(made)
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

    # -- instruction -----------------------------------------------------------------------

    def read_instruction(self, into: Computation) -> Instruction:
        """`[ROOT] %name = shape opcode(operands), attributes`."""
        cursor, text = self.cursor, self.text
        match = HEAD.match(text, cursor.position)
        if match:
            root, percent, name, shape_text, opcode = match.groups()
            cursor.position = match.end()
            shape = self.shape_of(shape_text, match.start(4)) if shape_text else None
            opcode_at = match.start(5)
        else:
            root, percent, name, shape, opcode, opcode_at = self.read_other_head()
            match = None
        if not percent and name in KEYWORDS:
            cursor.fail(f"{name!r} is a keyword and cannot name an instruction", opcode_at)
        if name in into.names:
            at = text.rfind(name, 0, opcode_at)
            cursor.fail(
                f"instruction %{name} already exists in %{into.name}", at, rule="unique-name"
            )
        made = self.read_right_side(into, name, shape, opcode, opcode_at)
        if root:
            if into._root is not None:
                cursor.fail(f"computation %{into.name} has more than one ROOT", opcode_at)
            into._root = made
        return made

    def read_other_head(self) -> tuple[str, str, str, Shape | None, str, int]:
        """A head with a tuple shape or unusual spacing; errors are told apart here."""
        cursor, text = self.cursor, self.text
        start = cursor.skip()
        match = TUPLE_HEAD.match(text, start)
        if match is None:
            self.fail_at_head(start)
        root, percent, name = match.groups()
        cursor.position = match.end()
        found = TUPLE_SHAPE.match(text, cursor.position)
        shape = self.shapes.get(found[0]) if found else None
        if found and shape is not None:
            cursor.position = found.end()
        elif not OPCODE.match(text, cursor.position):
            at = cursor.position
            shape, cursor.position = parse_shape(text, at, default_layouts=True)
            if found and found.end() == cursor.position:
                self.shapes[found[0]] = shape
        opcode = cursor.match(OPCODE)
        if opcode is None:
            cursor.fail(f"expected an opcode and '(', found {cursor.found()}")
        return root, percent, name, shape, opcode[1], opcode.start(1)

    def fail_at_head(self, start: int) -> None:
        cursor, text = self.cursor, self.text
        if glued := re.compile(r"\s*(?:ROOT\s+)?%?([A-Za-z_][\w.\-]*)=").match(text, start):
            cursor.fail(
                f"expected a space between {glued[1]!r} and '='",
                glued.end() - 1,
                hint=f"write `{glued[1]} = ...`: `{glued[1]}=` is read as an attribute",
            )
        if start >= len(text):
            cursor.fail("expected an instruction or '}', found the end of the text")
        cursor.fail(
            f"expected an instruction (`%name = shape opcode(...)`), found {cursor.found()}"
        )

    def shape_of(self, raw: str, at: int) -> Shape:
        shape = self.shapes.get(raw)
        if shape is None:
            shape, end = parse_shape(self.text, at, default_layouts=True)
            if end != at + len(raw):
                self.cursor.fail("expected an opcode after the shape", end)
            self.shapes[raw] = shape
        return shape

    def read_right_side(
        self, into: Computation, name: str | None, shape: Shape | None, opcode: str, at: int
    ) -> Instruction:
        """What follows `opcode(`: operands, attributes; the instruction is added to `into`."""
        cursor = self.cursor
        op = OPS.get(opcode)
        wrapped = None
        if op is None:
            op, wrapped = self.async_form(opcode, at)
        values: dict[str, Any] = {}
        operands: tuple[Instruction, ...] = ()
        if opcode == "constant":
            values["literal"] = self.read_constant(shape)
        elif opcode == "parameter":
            number = cursor.match(_INT)
            if number is None:
                cursor.fail(f"expected a parameter number and ')', found {cursor.found()}")
            values["number"] = int(number[1])
            if int(number[1]) > 2**31 or any(
                p.attrs.number == values["number"] for p in into.parameters[-1:]
            ):
                cursor.fail(
                    f"parameter({number[1]}) is given twice or too large",
                    number.start(1),
                    instruction=f"%{name}",
                    rule="parameter-numbers",
                )
        else:
            operands = self.operands.read(into)
        if wrapped is not None and op.name != "async-start":
            return self.add_async_follower(into, name, shape, op, operands, wrapped, at)
        annotations: dict[str, Any] = {}
        called: dict[str, tuple[Computation, ...]] = {}
        target = wrapped or op
        key = self.read_attributes(target, values, annotations, called, into, wrapped is not None)
        if wrapped is not None:
            made = self.add_async_start(
                into, name, shape, wrapped, operands, values, called, annotations, at
            )
        else:
            made = self.add(into, name, shape, op, operands, values, called, key, at)
        for annotation, value in annotations.items():
            ANNOTATIONS[annotation].attach(made, value)
        return made

    def async_form(self, opcode: str, at: int) -> tuple[OpDef, OpDef]:
        """`negate-start` and the like: async-start around one operation (IR-13)."""
        for suffix, full in ASYNC.items():
            wrapped = OPS.get(opcode.removesuffix(suffix)) if opcode.endswith(suffix) else None
            if wrapped is not None:
                return OPS[full], wrapped
        return self.cursor.fail(
            f"unknown opcode {opcode!r}{self.guess(opcode)}", at, length=len(opcode), rule="opcode"
        )

    def guess(self, opcode: str) -> str:
        import difflib

        close = difflib.get_close_matches(opcode, list(OPS), 1)
        return f"; did you mean {close[0]!r}?" if close else ""

    def read_constant(self, shape: Shape | None) -> Any:
        cursor = self.cursor
        if shape is None:
            cursor.fail("a constant needs its shape written before `constant`")
        literal, cursor.position = parse_literal(self.text, cursor.skip(), shape)
        cursor.expect(")", "after the value of a constant")
        return literal

    # -- attributes ------------------------------------------------------------------------

    def read_attributes(
        self,
        op: OpDef,
        values: dict[str, Any],
        annotations: dict[str, Any],
        called: dict[str, tuple[Computation, ...]],
        into: Computation,
        is_async: bool,
    ) -> tuple | None:
        """Fill `values`, `annotations` and `called`; return a key under which equal attribute
        records are one object (None: not worth keeping)."""
        cursor, text = self.cursor, self.text
        key: list[Any] | None = [op.name, *values.values()]
        fields, values_of = op.field_by_name, self.values
        position = cursor.position
        while match := ATTRIBUTE.match(text, position):
            name, raw = match.groups()
            field = fields.get(name)
            if field is not None:
                kind, into_values = field.kind, values
            else:
                kind, into_values = ANNOTATIONS.get(name), annotations
                if kind is None or not kind.cached:
                    cursor.position = match.end(1) + 1
                    self.read_other_attribute(
                        op, match, annotations, called, values, into, is_async
                    )
                    position = cursor.position
                    continue
            if name in into_values:
                cursor.fail(f"attribute {name} is given twice", match.start(1))
            known = values_of.get(kind)
            if known is None:
                known = values_of[kind] = {}
            value = known.get(raw, known)
            if value is known:
                cursor.position = match.end(1) + 1
                value = self.read_value(kind, name)
                position = cursor.position
                if raw is not None and position == match.end():
                    known[raw] = value
                elif field is not None:
                    key = None
            else:
                position = match.end()
            into_values[name] = value
            if field is not None and key is not None:
                key.append(name)
                key.append(raw)
        cursor.position = position
        if text.startswith(",", cursor.skip()):
            cursor.position += 1
            cursor.fail(f"expected an attribute after ',', found {cursor.found()}")
        return tuple(key) if key is not None and "literal" not in values else None

    def read_other_attribute(
        self,
        op: OpDef,
        match: re.Match[str],
        annotations: dict[str, Any],
        called: dict[str, tuple[Computation, ...]],
        values: dict[str, Any],
        into: Computation,
        is_async: bool,
    ) -> None:
        """Control predecessors and called computations: what depends on more than its text."""
        name = match[1]
        annotation = ANNOTATIONS.get(name)
        if annotation is None:
            self.read_callee_attribute(op, name, match.start(1), called, values, is_async)
        elif name in annotations:
            self.cursor.fail(f"attribute {name} is given twice", match.start(1))
        else:
            annotations[name] = annotation.parse(self.cursor, into)

    def read_value(self, kind: Any, name: str) -> Any:
        if kind.name == "literal":
            shape, self.cursor.position = parse_shape(
                self.text, self.cursor.skip(), default_layouts=True
            )
            literal, self.cursor.position = parse_literal(self.text, self.cursor.skip(), shape)
            return literal
        return kind.parse(self.cursor)

    def read_callee_attribute(
        self,
        op: OpDef,
        name: str,
        at: int,
        called: dict[str, tuple[Computation, ...]],
        values: dict[str, Any],
        is_async: bool,
    ) -> None:
        """`to_apply=%f`, `branch_computations={%f, %g}`, and what else is no plain field."""
        cursor = self.cursor
        if name in called:
            cursor.fail(f"attribute {name} is given twice", at)
        if is_async and name == "async_execution_thread":
            values[name] = cursor.string()
        elif is_async and name in ("output_to_operand_aliasing",):
            values[name] = OPS["async-start"].field_by_name[name].kind.parse(cursor)
        elif name in op.called and not op.called_variadic:
            called[name] = (self.read_callee(),)
        elif op.called_variadic and name == op.called[0]:
            cursor.expect("{")
            found = []
            while not cursor.eat("}"):
                if found:
                    cursor.expect(",", "between computations")
                found.append(self.read_callee())
            called[name] = tuple(found)
        elif op.name == "conditional" and name in ("true_computation", "false_computation"):
            called[name] = (self.read_callee(),)
        elif op.name == "custom-call" and name == "to_apply":
            called["called_computations"] = (self.read_callee(),)
        elif op.name in ("async-update", "async-done") and name == "calls":
            self.read_callee()
        else:
            known = sorted({*op.field_by_name, *op.called, *ANNOTATIONS})
            cursor.fail(
                f"unexpected attribute {name!r} of {op.name}",
                at,
                length=len(name),
                rule="attribute",
                hint=f"allowed: {', '.join(known)}",
            )

    def read_callee(self) -> Computation:
        """The name of a computation read before, or a nested `{...}` one."""
        cursor = self.cursor
        if cursor.at("{"):
            made = self.module.add_computation("_")
            return self.read_body(made, None)
        match = cursor.match(CALLEE)
        if match is None:
            cursor.fail(f"expected the name of a computation, found {cursor.found()}")
        found = self.computations.get(match[1])
        if found is None or found._root is None:
            cursor.fail(
                f"computation {match[1]!r} does not exist",
                match.start(1),
                length=len(match[1]),
                rule="callee-defined",
                hint="a computation must stand before the first instruction that calls it",
            )
        return found

    # -- adding ----------------------------------------------------------------------------

    def add(
        self,
        into: Computation,
        name: str | None,
        shape: Shape | None,
        op: OpDef,
        operands: tuple[Instruction, ...],
        values: dict[str, Any],
        called: dict[str, tuple[Computation, ...]],
        key: tuple | None,
        at: int,
    ) -> Instruction:
        """Make attribute record and instruction; checks required attributes and counts."""
        attrs = self.records.get(key) if key is not None else None
        if attrs is None:
            for field in op.fields:
                if field.required and field.name not in values:
                    self.cursor.fail(
                        f"{op.name} needs the attribute {field.name}={field.kind.hint}",
                        instruction=f"%{name}",
                        rule="attribute",
                    )
            attrs = op.attrs(**values) if values else op.empty
            if key is not None:
                self.records[key] = attrs
        callees: tuple[Computation, ...] = ()
        if op.called:
            callees = self.callees(op, name, called)
        if shape is None or (op.variadic is None and len(operands) != len(op.operands)):
            shape = self.inferred(op, attrs, name, shape, operands, callees, at)
        return into.append(op.name, attrs, operands, shape, name, callees)

    def callees(
        self, op: OpDef, name: str | None, called: dict[str, tuple[Computation, ...]]
    ) -> tuple[Computation, ...]:
        if op.name == "conditional" and "true_computation" in called:
            if "false_computation" not in called:
                self.cursor.fail("true_computation needs a false_computation", instruction=name)
            return called["true_computation"] + called["false_computation"]
        found: tuple[Computation, ...] = ()
        for wanted in op.called:
            if wanted in called:
                found += called[wanted]
            elif wanted != "called_computations":
                self.cursor.fail(
                    f"{op.name} needs the attribute {wanted}=%computation",
                    instruction=f"%{name}",
                    rule="attribute",
                )
        return found

    def inferred(
        self,
        op: OpDef,
        attrs: Any,
        name: str | None,
        shape: Shape | None,
        operands: tuple[Instruction, ...],
        callees: tuple[Computation, ...],
        at: int,
    ) -> Shape:
        """The shape where none was written; also reports a wrong number of operands."""
        try:
            op.check_operand_count(len(operands))
            if shape is not None:
                return shape
            if not op.infers:
                raise ShapeError(f"the shape of {op.name} must be written before the opcode")
            shapes = tuple(x.shape for x in operands)
            signatures = tuple(c.program_shape for c in callees)
            return op.infer(attrs, shapes, signatures).with_default_layouts()
        except ShapeError as error:
            return self.cursor.fail(
                str(error), at, length=len(op.name), instruction=f"%{name}", rule="shape"
            )

    def add_async_start(
        self,
        into: Computation,
        name: str | None,
        shape: Shape | None,
        wrapped: OpDef,
        operands: tuple[Instruction, ...],
        values: dict[str, Any],
        called: dict[str, tuple[Computation, ...]],
        annotations: dict[str, Any],
        at: int,
    ) -> Instruction:
        """An async-start whose called computation holds one operation on its parameters."""
        if shape is None or not shape.is_tuple or len(shape.elements) < 2:
            self.cursor.fail(
                f"{wrapped.name}-start needs a shape ((operands), result, contexts...)",
                at,
                instruction=f"%{name}",
                rule="async-shape",
            )
        thread = values.pop("async_execution_thread", "main")
        aliasing = values.pop("output_to_operand_aliasing", None)
        body = self.module.add_computation(f"async_{wrapped.name.replace('-', '_')}", thread=thread)
        parameters = tuple(
            body.append("parameter", OPS["parameter"].attrs(number=k), (), x.shape, f"param_{k}")
            for k, x in enumerate(operands)
        )
        body.root = self.add(
            body, None, shape.elements[1], wrapped, parameters, values, called, None, at
        )
        attrs = OPS["async-start"].attrs(
            async_execution_thread=thread, output_to_operand_aliasing=aliasing
        )
        return into.append("async-start", attrs, operands, shape, name, (body,))

    def add_async_follower(
        self,
        into: Computation,
        name: str | None,
        shape: Shape | None,
        op: OpDef,
        operands: tuple[Instruction, ...],
        wrapped: OpDef,
        at: int,
    ) -> Instruction:
        """`negate-done(%start)`: must follow a start of the same operation."""
        annotations: dict[str, Any] = {}
        values: dict[str, Any] = {}
        self.read_attributes(op, values, annotations, {}, into, True)
        start = operands[0] if len(operands) == 1 else None
        while start is not None and start.opcode == "async-update" and start.operands:
            start = start.operands[0]
        if start is None or start.opcode != "async-start":
            self.cursor.fail(f"{op.name} takes one async operation", at, instruction=f"%{name}")
        if start.called[0].root.opcode != wrapped.name:
            self.cursor.fail(
                f"%{start.name} starts {start.called[0].root.opcode}, not {wrapped.name}",
                at,
                instruction=f"%{name}",
                rule="async-chain",
            )
        made = self.add(into, name, shape, op, operands, {}, {}, (op.name,), at)
        for annotation, value in annotations.items():
            ANNOTATIONS[annotation].attach(made, value)
        return made


def parse_module(text: str, file: str | None = None) -> Module:
    """The module that HLO text describes.

    Raises `ParseError` with file, line, column and the line itself (IR-01).
    """
    reader = ModuleReader(text, file)
    try:
        return reader.read()
    except OffsetError as error:
        raise error.at(reader.cursor.original, file) from None
