"""Reads the `, name=value` list behind the operands of an instruction.

The raw text of a value is the key of a cache: `dimensions={0,1}` is read by its kind once per
module, later ones are a dictionary look-up that also makes equal attribute records one object.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hloom.ir.async_chain import async_start_of
from hloom.ir.computation import Computation
from hloom.ir.op import OPS
from hloom.ir.text.annotations import ANNOTATIONS
from hloom.ir.text.draft import Draft
from hloom.types.literal import Literal
from hloom.types.literal_text import parse_literal
from hloom.types.syntax import ShapeSyntaxError
from hloom.types.text import parse_shape

if TYPE_CHECKING:
    from hloom.ir.text.parse import ModuleReader

_RAW = (
    r'\{(?:[^{}"]++|"(?:[^"\\]++|\\.)*+"|\{(?:[^{}"]++|"(?:[^"\\]++|\\.)*+")*+\})*+\}'
    r'|"(?:[^"\\]++|\\.)*+"|[^,\s{}()"\[\]]++(?=[,\s})])'
)
"""The text of most attribute values: braces two deep, a string, or a word."""
ATTRIBUTE = re.compile(rf"\s*,\s*([A-Za-z_][\w.\-]*)=({_RAW})?", re.S | re.A)
DEEPEST_TUPLE = 60
CALLEE = re.compile(r"\s*%?([A-Za-z_][\w.\-]*)", re.A)


class AttributeReader:
    """Reads the attributes of one instruction after another; remembers values it has read."""

    def __init__(self, reader: ModuleReader) -> None:
        self.reader = reader
        self.cursor = reader.cursor
        self.known: dict[Any, dict[str | None, Any]] = {}

    def read(self, draft: Draft) -> None:
        """Fill the draft's values, annotations, called computations and key."""
        cursor, text = self.cursor, self.cursor.text
        values, annotations = draft.values, draft.annotations
        target = draft.target
        key: list[Any] | None = [target.name, *values.values()]
        fields = target.field_by_name
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
                    self.read_other(draft, name, match.start(1))
                    position = cursor.position
                    continue
            if name in into_values:
                cursor.fail(f"attribute {name} is given twice", match.start(1))
            known = self.known.get(kind)
            if known is None:
                known = self.known[kind] = {}
            value = known.get(raw, known)
            if value is known:
                cursor.position = match.end(1) + 1
                value = self.read_value(kind)
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
            cursor.fail(f"expected an attribute after ',', found {cursor.next_text()}")
        draft.key = tuple(key) if key is not None and "literal" not in values else None

    def read_value(self, kind: Any) -> Any:
        cursor = self.cursor
        return self.read_literal() if kind.name == "literal" else kind.parse(cursor)

    def read_literal(self, depth: int = 0) -> Literal:
        """A shape and a literal, or literals of this kind between parentheses: a tuple."""
        cursor = self.cursor
        if depth > DEEPEST_TUPLE:
            cursor.fail(f"tuples nested deeper than {DEEPEST_TUPLE}")
        start = cursor.skip()
        if cursor.at("(") and not self.is_tuple_shape():
            cursor.expect("(")
            parts: list[Literal] = []
            while not cursor.eat(")"):
                if parts:
                    cursor.expect(",", "or ')' in a tuple literal")
                parts.append(self.read_literal(depth + 1))
            return Literal.tuple(parts)
        shape, cursor.position = parse_shape(cursor.text, start, default_layouts=True)
        literal, cursor.position = parse_literal(cursor.text, cursor.skip(), shape)
        return literal

    def is_tuple_shape(self) -> bool:
        """Whether a tuple shape stands here, and not literals: its `)` is followed by a literal."""
        try:
            _, end = parse_shape(self.cursor.text, self.cursor.position)
        except ShapeSyntaxError:
            return False
        return self.cursor.text[end:].lstrip()[:1] == "("

    def read_other(self, draft: Draft, name: str, at: int) -> None:
        """Control predecessors and called computations: what depends on more than its text."""
        annotation = ANNOTATIONS.get(name)
        if annotation is None:
            self.read_callee_attribute(draft, name, at)
        elif name in draft.annotations:
            self.cursor.fail(f"attribute {name} is given twice", at)
        else:
            draft.annotations[name] = annotation.parse(self.cursor, draft.into)

    def read_callee_attribute(self, draft: Draft, name: str, at: int) -> None:
        """`to_apply=%f`, `branch_computations={%f, %g}`, and what else is no plain field."""
        cursor, op, called = self.cursor, draft.target, draft.called
        if name in called or name in draft.values:
            cursor.fail(f"attribute {name} is given twice", at)
        if draft.wrapped is not None and name in OPS["async-start"].field_by_name:
            draft.values[name] = OPS["async-start"].field_by_name[name].kind.parse(cursor)
        elif name in op.called and not op.called_variadic:
            called[name] = (self.read_callee(),)
        elif op.called_variadic and name == op.called[0]:
            called[name] = self.read_callees()
        elif op.name == "conditional" and name in ("true_computation", "false_computation"):
            called[name] = (self.read_callee(),)
        elif op.name == "custom-call" and name == "to_apply":
            called["called_computations"] = (self.read_callee(),)
        elif op.name == "compare" and name == "order":
            self.read_order(draft, at)
        elif draft.op.name in ("async-update", "async-done") and name == "calls":
            self.read_again(draft, self.read_callee(), at)
        elif draft.op.name in ("async-update", "async-done") and name == "async_execution_thread":
            self.read_thread_again(draft, at)
        else:
            known = sorted({*op.field_by_name, *op.called, *ANNOTATIONS})
            cursor.fail(
                f"unexpected attribute {name!r} of {op.name}",
                at,
                length=len(name),
                rule="attribute",
                hint=f"allowed: {', '.join(known)}",
            )

    def read_order(self, draft: Draft, at: int) -> None:
        """`order=TOTAL`, which newer XLA writes for the total order of floats, and `PARTIAL`.

        Integers have one order, whatever is said.
        """
        cursor = self.cursor
        start = cursor.skip()
        order = cursor.name("TOTAL or PARTIAL")
        if order not in ("TOTAL", "PARTIAL"):
            cursor.fail(f"unknown order {order!r} of a comparison", start, hint="TOTAL or PARTIAL")
        if "type" in draft.values:
            cursor.fail("a comparison has a type or an order, not both", at, rule="attribute")
        dtype = draft.operands[0].shape.dtype if draft.operands else None
        if order == "TOTAL" and dtype is not None and dtype.is_floating:
            draft.values["type"] = "TOTALORDER"
        else:
            draft.values["type"] = None

    def read_again(self, draft: Draft, callee: Computation, at: int) -> None:
        """An update or done may name the computation that its start calls."""
        before = draft.operands[0] if draft.operands else None
        start = async_start_of(before) if before is not None else None
        if start is not None and start.called and start.called[0] is not callee:
            self.cursor.fail(
                f"%{start.name} calls %{start.called[0].name}, not %{callee.name}",
                at,
                rule="async-chain",
            )

    def read_thread_again(self, draft: Draft, at: int) -> None:
        """An update or done may name the thread of its start."""
        thread = self.cursor.string()
        before = draft.operands[0] if draft.operands else None
        start = async_start_of(before) if before is not None else None
        if start is not None and start.attrs.async_execution_thread != thread:
            self.cursor.fail(
                f"%{start.name} runs on thread {start.attrs.async_execution_thread}, not {thread}",
                at,
                rule="async-chain",
            )

    def read_callees(self) -> tuple[Computation, ...]:
        """`{%f, %g}`"""
        self.cursor.expect("{")
        callees: list[Computation] = []
        while not self.cursor.eat("}"):
            if callees:
                self.cursor.expect(",", "between computations")
            callees.append(self.read_callee())
        return tuple(callees)

    def read_callee(self) -> Computation:
        """The name of a computation read before, or a nested `{...}` one."""
        cursor = self.cursor
        if cursor.at("{"):
            return self.reader.read_nested_computation()
        match = cursor.match(CALLEE)
        if match is None:
            cursor.fail(f"expected the name of a computation, found {cursor.next_text()}")
        callee = self.reader.computations.get(match[1])
        if callee is None or callee._root is None:
            cursor.fail(
                f"computation {match[1]!r} does not exist",
                match.start(1),
                length=len(match[1]),
                rule="callee-defined",
                hint="a computation must stand before the first instruction that calls it",
            )
        return callee
