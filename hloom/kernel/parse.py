"""Reading kernels from text. The grammar is in README.md; `verify.py` knows what they may mean.

The reader holds what the grammar says and that names are defined before they are used; types,
shapes and attributes that are wrong but well-formed are left to the verifier. Values have the
types that the text gives.
"""

from __future__ import annotations

import json
from typing import Any, Final

from hloom.kernel.attributes import ATTRIBUTES, Attribute
from hloom.kernel.cursor import GLOBAL, NAME, NUMBER, WORD, KernelCursor, KernelSyntaxError
from hloom.kernel.kernel import Block, BufferType, Kernel, Op, Param, Value
from hloom.types.syntax import OffsetError

DEEPEST: Final = 64
"""How deep blocks may nest in text; real kernels have about ten loops."""
READS: Final = frozenset(["load", "gather", "prefetch"])
WRITES: Final = frozenset(["store", "scatter"])


def parse_kernel(text: str, file: str | None = None) -> Kernel:
    """The kernel of a text that holds exactly one; `KernelSyntaxError` with line and column."""
    kernels = parse_kernels(text, file)
    if len(kernels) != 1:
        error = KernelSyntaxError(f"expected one kernel, found {len(kernels)}", len(text))
        raise error.at(text, file)
    return kernels[0]


def parse_kernels(text: str, file: str | None = None) -> list[Kernel]:
    """All kernels of a text, in its order."""
    reader = _Reader(text)
    try:
        kernels: list[Kernel] = []
        while not reader.at_end():
            kernels.append(reader.kernel())
        return kernels
    except OffsetError as error:
        raise error.at(text, file)  # noqa: B904 - it is the same error


class _Reader(KernelCursor):
    """A position in a text, and the values whose names are known there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.values: dict[str, Value] = {}
        self.depth = 0

    # -- values

    def use(self) -> Value:
        """The value whose name comes next."""
        start = self.skipped()
        name = self.match(NAME, "the name of a value, such as %0")
        value = self.values.get(name)
        if value is None:
            raise self.error(f"{name} is not defined here", start)
        return value

    def uses(self) -> list[Value]:
        """Names with commas between them; none at all is fine."""
        if self.text[self.skipped() : self.position + 1] != "%":
            return []
        uses_ = [self.use()]
        while self.take(","):
            uses_.append(self.use())
        return uses_

    def new_name(self) -> tuple[str, int]:
        """A name that is defined here, and where it stands."""
        start = self.skipped()
        return self.match(NAME, "the name of a new value, such as %0"), start

    def define(self, name: str, start: int, value: Value, scope: list[str]) -> None:
        if name in self.values:
            raise self.error(f"{name} is already defined", start)
        self.values[name] = value
        scope.append(name)

    # -- kernels and blocks

    def kernel(self) -> Kernel:
        if not self.take_word("kernel"):
            raise self.error("expected 'kernel'")
        self.values = {}
        kernel = Kernel(self.name(GLOBAL, "the name of a kernel, such as @add"))
        scope: list[str] = []
        self.expect("(")
        while not self.take(")"):
            if kernel.params:
                self.expect(",")
            self.param(kernel, scope)
        self.header(kernel, scope)
        self.expect("{")
        self.ops(kernel.body)
        return kernel

    def param(self, kernel: Kernel, scope: list[str]) -> None:
        """`%p0: buffer<f32>[4096] in`"""
        name, start = self.new_name()
        self.expect(":")
        at = self.skipped()
        type = self.type()
        if not isinstance(type, BufferType):
            raise self.error("a parameter of a kernel is a buffer", at)
        self.expect("[")
        size = self.integer()
        self.expect("]")
        role = self.match(WORD, "in, out, part or inout")
        value = Value(type)
        self.define(name, start, value, scope)
        plain = json.loads(name[1:]) if name[1] == '"' else name[1:]
        kernel.params.append(Param(plain, value, size, role))

    def header(self, kernel: Kernel, scope: list[str]) -> None:
        """grid, excess_precision and cost_ns, in any order."""
        seen: set[str] = set()
        while word := self.peek_word():
            if word not in ("grid", "excess_precision", "cost_ns") or word in seen:
                raise self.error(f"unexpected {word!r}: expected grid, excess_precision, cost_ns")
            seen.add(word)
            self.position += len(word)
            self.expect("(")
            if word == "grid":
                self.grid(kernel, scope)
            elif word == "excess_precision":
                kernel.excess_precision = self.flag()
            else:
                kernel.cost_ns = float(self.match(NUMBER, "a number"))
            self.expect(")")

    def grid(self, kernel: Kernel, scope: list[str]) -> None:
        names: list[tuple[str, int]] = []
        extents: list[int] = []
        while not extents or self.take(","):
            names.append(self.new_name())
            self.expect(":")
            extents.append(self.integer())
        header = Kernel("", tuple(extents))
        kernel.grid, kernel.body = header.grid, header.body
        for (name, start), value in zip(names, kernel.body.arguments):
            self.define(name, start, value, scope)

    def block(self, block: Block, names: list[tuple[str, int]]) -> None:
        """`{ ops }` whose arguments have these names; they and what is inside end with it."""
        if self.depth >= DEEPEST:
            raise self.error(f"blocks nest more than {DEEPEST} deep")
        self.depth += 1
        scope: list[str] = []
        for (name, start), value in zip(names, block.arguments):
            self.define(name, start, value, scope)
        self.ops(block, scope)
        for name in scope:
            del self.values[name]
        self.depth -= 1

    def ops(self, block: Block, scope: list[str] | None = None) -> None:
        """Ops up to the closing brace; a missing last yield is one of nothing."""
        scope = [] if scope is None else scope
        while not self.take("}"):
            block.ops.append(self.op(scope))
        if not block.ops or block.ops[-1].opcode != "yield":
            block.ops.append(Op("yield", (), (), {}))

    # -- ops

    def op(self, scope: list[str]) -> Op:
        names: list[tuple[str, int]] = []
        if self.text[self.skipped() : self.position + 1] == "%":
            names.append(self.new_name())
            while self.take(","):
                names.append(self.new_name())
            self.expect("=")
        start = self.skipped()
        opcode = self.match(WORD, "an opcode or '}'")
        if opcode == "for":
            op = self.for_()
        elif opcode == "while":
            op = self.while_()
        elif opcode == "if":
            op = self.if_()
        else:
            op = self.plain(opcode)
        if len(op.results) != len(names):
            raise self.error(f"{opcode} has {len(op.results)} results, {len(names)} names", start)
        for (name, at), value in zip(names, op.results):
            self.define(name, at, value, scope)
        return op

    def plain(self, opcode: str) -> Op:
        """An op without blocks."""
        attrs: dict[str, Any] = {}
        operands: list[Value] = []
        if opcode == "constant":
            attrs["value"] = self.number()
        elif opcode in READS or opcode in WRITES:
            operands.append(self.use())
            self.expect("[")
            operands.append(self.use())
            self.expect("]")
            if opcode in WRITES:
                self.expect(",")
                operands.append(self.use())
            if self.take_word("mask"):
                operands.append(self.wrapped_use())
                if opcode in READS:
                    if not self.take_word("other"):
                        raise self.error("expected other(...): what is read where the mask is off")
                    operands.append(self.wrapped_use())
        else:
            operands = self.uses()
        self.attributes(opcode, attrs)
        return Op(opcode, tuple(operands), self.result_types(), attrs)

    def wrapped_use(self) -> Value:
        self.expect("(")
        value = self.use()
        self.expect(")")
        return value

    def attributes(self, opcode: str, attrs: dict[str, Any]) -> None:
        """`axis(0) kind(add)` in any order; those with a default may be missing."""
        table = ATTRIBUTES.get(opcode, ())
        values: dict[str, Any] = {}
        # What follows is an attribute only if a parenthesis does: the next line begins with a
        # name, or with an opcode, behind which none stands but that of a while.
        while table and (word := self.peek_word()):
            attribute = next((a for a in table if a.name == word), None)
            if attribute is None:
                break
            if word in values:
                raise self.error(f"{word} is given twice")
            self.position += len(word)
            self.expect("(")
            values[word] = self.attribute(attribute)
            self.expect(")")
        for a in table:
            value = values.get(a.name, a.default)
            if value is None:
                raise self.error(f"{opcode} needs {a.name}(...)")
            attrs[a.name] = value

    def attribute(self, a: Attribute) -> Any:
        if a.kind == "flag":
            return self.flag()
        if a.kind == "word":
            word = self.match(WORD, " or ".join(w for w in a.words if w))
            if word not in a.words:
                raise self.error(f"{a.name} cannot be {word}", self.position - len(word))
            return word
        if a.kind == "int":
            return self.integer()
        numbers = [self.integer()]
        while self.take(","):
            numbers.append(self.integer())
        return tuple(numbers)

    # -- ops with blocks

    def carried(self) -> tuple[list[tuple[str, int]], list[Value]]:
        """`(%5 = %1, %6 = %2)`: names of block arguments, and what they are at first."""
        names: list[tuple[str, int]] = []
        inits: list[Value] = []
        if self.take("("):
            while not names or self.take(","):
                names.append(self.new_name())
                self.expect("=")
                inits.append(self.use())
            self.expect(")")
        return names, inits

    def for_(self) -> Op:
        index = self.new_name()
        self.expect("=")
        low = self.use()
        if not self.take_word("to"):
            raise self.error("expected 'to'")
        high = self.use()
        if not self.take_word("step"):
            raise self.error("expected 'step'")
        step = self.integer()
        names, inits = self.carried()
        types = self.result_types()
        block = Block((low.type, *[x.type for x in inits]))
        self.expect("{")
        self.block(block, [index, *names])
        return Op("for", (low, high, *inits), types, {"step": step}, (block,))

    def while_(self) -> Op:
        names, inits = self.carried()
        types = self.result_types()
        condition, body = (Block(tuple([x.type for x in inits])) for _ in range(2))
        self.expect("{")
        self.block(condition, names)
        if not self.take_word("do"):
            raise self.error("expected 'do'")
        again: list[tuple[str, int]] = []
        if names:
            self.expect("(")
            while not again or self.take(","):
                again.append(self.new_name())
            self.expect(")")
            if len(again) != len(names):
                raise self.error(f"{len(names)} values are carried, {len(again)} named")
        self.expect("{")
        self.block(body, again)
        return Op("while", tuple(inits), types, {}, (condition, body))

    def if_(self) -> Op:
        pred = self.use()
        types = self.result_types()
        then, otherwise = Block(), Block()
        self.expect("{")
        self.block(then, [])
        if not self.take_word("else"):
            raise self.error("expected 'else'")
        self.expect("{")
        self.block(otherwise, [])
        return Op("if", (pred,), types, {}, (then, otherwise))
