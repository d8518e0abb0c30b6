"""Whether a kernel keeps the rules of the language: one clear error for the first it breaks.

One walk in program order. It keeps the set of values that are defined at the place where it is,
which is all that dominance means here: blocks nest, and what a block defines ends with it.
"""

from __future__ import annotations

from typing import Any, NoReturn

from hloom.base.diagnostics import SourceLocation, VerifyError
from hloom.kernel.attributes import ATTRIBUTES
from hloom.kernel.kernel import (
    PRED,
    S64,
    Block,
    BufferType,
    Kernel,
    Op,
    Param,
    TileType,
    Value,
    op_rules,
)
from hloom.kernel.text import op_line
from hloom.kernel.verify_ops import RULES, SCALAR_INDEX, BrokenRule

ROLES = frozenset(["in", "out", "part", "inout"])
BUFFER_OPS = frozenset(["load", "store", "gather", "scatter", "prefetch"])
_CONDITION = TileType(PRED)
_TYPE_OF_KIND = {"int": int, "word": str, "flag": bool, "ints": tuple}


def verify_kernel(kernel: Kernel) -> None:
    """Raise `VerifyError` for the first rule that a kernel breaks, with the text of the op.

    The line in the error is one of `show_kernel(kernel)`.
    """
    _Verifier(kernel).run()


class _Verifier:
    """The walk over one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.visible: set[Value] = set()
        self.read_only: set[Value] = set()
        self.rules = op_rules()
        self.op: Op | None = None

    def run(self) -> None:
        try:
            self.head()
            self.block(self.kernel.body, ())
        except BrokenRule as broken:
            self.fail(broken)

    def fail(self, broken: BrokenRule) -> NoReturn:
        name = f"@{self.kernel.name}"
        if self.op is None:
            raise VerifyError(broken.message, instruction=name, rule=broken.rule) from None
        line, source = op_line(self.kernel, self.op)
        place = SourceLocation(name, line, 1, source, len(source))
        message = f"{self.op.opcode}: {broken.message}"
        raise VerifyError(message, location=place, rule=broken.rule) from None

    def head(self) -> None:
        """Parameters and grid."""
        kernel = self.kernel
        if not kernel.name:
            raise BrokenRule("the kernel has no name", "kernel-name")
        names: set[str] = set()
        for param in kernel.params:
            self.param(param, names)
        for extent in kernel.grid:
            if type(extent) is not int or extent < 0:
                raise BrokenRule(f"{extent!r} is no extent of a grid", "kernel-grid")
        arguments = kernel.body.arguments
        if [x.type for x in arguments] != [TileType(S64)] * len(kernel.grid):
            raise BrokenRule("the body needs an s64[] for each axis of the grid", "kernel-grid")
        self.visible.update(arguments)

    def param(self, param: Param, names: set[str]) -> None:
        if not param.name or param.name in names:
            raise BrokenRule(f"two parameters are called {param.name!r}", "kernel-parameter")
        names.add(param.name)
        if not isinstance(param.value.type, BufferType):
            raise BrokenRule(f"parameter {param.name} is no buffer", "kernel-parameter")
        if param.role not in ROLES:
            raise BrokenRule(
                f"parameter {param.name} has role {param.role!r}, not in, out, part or inout",
                "kernel-parameter",
            )
        if type(param.size) is not int or param.size < 0:
            raise BrokenRule(f"parameter {param.name} has size {param.size}", "kernel-parameter")
        if param.value in self.visible:
            raise BrokenRule(f"parameter {param.name} is given twice", "kernel-parameter")
        self.visible.add(param.value)
        if param.role == "in":
            self.read_only.add(param.value)

    def block(self, block: Block, yields: tuple[Any, ...]) -> None:
        """Every op of a block, and what it yields; what it defines ends with it."""
        defined: list[Value] = []
        visible = self.visible
        last = len(block.ops) - 1
        if last < 0 or block.ops[last].opcode != "yield":
            raise BrokenRule("a block does not end in a yield", "kernel-yield")
        for k, op in enumerate(block.ops):
            self.op = op
            self.operands(op)
            if op.opcode == "yield":
                self.yield_(op, k == last, yields)
            elif op.blocks or op.opcode in _CONTROL:
                _CONTROL[op.opcode](self, op)
                self.op = op
            else:
                self.plain(op)
            for result in op.results:
                if result in visible or result.op is not op:
                    raise BrokenRule("a result is defined twice", "kernel-dominance")
                visible.add(result)
                defined.append(result)
        visible.difference_update(defined)

    def yield_(self, op: Op, is_last: bool, yields: tuple[Any, ...]) -> None:
        if not is_last:
            raise BrokenRule("a yield ends its block, but more ops follow", "kernel-yield")
        types = tuple([x.type for x in op.operands])
        if types != yields:
            raise BrokenRule(f"yields {_listed(types)}, not {_listed(yields)}", "kernel-yield")

    def operands(self, op: Op) -> None:
        """Opcode, counts, attributes, and where operands come from."""
        rule = self.rules.get(op.opcode)
        if rule is None:
            raise BrokenRule("there is no such opcode", "kernel-opcode")
        count = len(op.operands)
        if count < rule.least or (rule.most is not None and count > rule.most):
            most = "more" if rule.most is None else rule.most
            few = f"{rule.least}" if rule.most == rule.least else f"{rule.least} to {most}"
            raise BrokenRule(f"{few} operands, not {count}", "kernel-operands")
        if len(op.blocks) != rule.blocks:
            raise BrokenRule(f"{rule.blocks} blocks, not {len(op.blocks)}", "kernel-operands")
        takes_buffer = op.opcode in BUFFER_OPS
        for k, x in enumerate(op.operands):
            if x not in self.visible:
                raise BrokenRule(f"operand {k} is not defined here", "kernel-dominance")
            if (type(x.type) is BufferType) != (takes_buffer and k == 0):
                want = "a buffer" if takes_buffer and k == 0 else "a tile"
                raise BrokenRule(f"operand {k} is a {x.type}, not {want}", "kernel-operands")
        self.attributes(op)

    def attributes(self, op: Op) -> None:
        """Exactly those of the table, with values of their kinds."""
        table = ATTRIBUTES.get(op.opcode)
        attrs = op.attrs
        if table is None:
            declared = _OWN.get(op.opcode, _NONE)
            if attrs.keys() != declared:
                raise BrokenRule(f"attributes {sorted(attrs)}, not {sorted(declared)}", _ATTRIBUTE)
            return
        for a in table:
            value = attrs.get(a.name)
            if type(value) is not _TYPE_OF_KIND[a.kind]:
                raise BrokenRule(f"{a.name} is {value!r}, not {a.kind}", _ATTRIBUTE)
            if a.kind == "word" and value not in a.words:
                raise BrokenRule(f"{a.name} cannot be {value!r}", _ATTRIBUTE)
            if isinstance(value, tuple) and not all(type(n) is int for n in value):
                raise BrokenRule(f"{a.name} is {value!r}, not integers", _ATTRIBUTE)
        if len(attrs) != len(table):
            extra = sorted(set(attrs) - {a.name for a in table})
            raise BrokenRule(f"unknown attributes {extra}", _ATTRIBUTE)

    def plain(self, op: Op) -> None:
        """An op without blocks: its rule gives the type of its result."""
        rule = RULES[op.opcode]
        has_result = op.opcode not in _NO_RESULT
        if len(op.results) != has_result:
            raise BrokenRule(f"{int(has_result)} results, not {len(op.results)}", "kernel-results")
        if has_result:
            shape = getattr(op.results[0].type, "shape", ())
            if not all(type(n) is int and n > 0 for n in shape):
                raise BrokenRule(f"{op.results[0].type} has an empty axis", "kernel-shape")
        elif op.operands[0] in self.read_only:
            raise BrokenRule("an 'in' parameter cannot be written", "kernel-role")
        expected = rule(op)
        if has_result and op.results[0].type != expected:
            raise BrokenRule(
                f"the result is {op.results[0].type}, not {expected}", "kernel-result-type"
            )

    # -- ops with blocks

    def inner(self, op: Op, k: int, arguments: tuple[Any, ...], yields: tuple[Any, ...]) -> None:
        """Block k of an op, whose arguments must have these types."""
        block = op.blocks[k]
        own_types = tuple([x.type for x in block.arguments])
        if own_types != arguments:
            raise BrokenRule(
                f"block {k} takes {_listed(own_types)}, not {_listed(arguments)}", "kernel-carried"
            )
        self.visible.update(block.arguments)
        self.block(block, yields)
        self.visible.difference_update(block.arguments)

    def results(self, op: Op, types: tuple[Any, ...]) -> None:
        result_types = tuple([x.type for x in op.results])
        if result_types != types:
            raise BrokenRule(
                f"the results are {_listed(result_types)}, not {_listed(types)}", "kernel-carried"
            )

    def for_(self, op: Op) -> None:
        for x, what in zip(op.operands, ("lower", "upper")):
            if x.type != SCALAR_INDEX:
                raise BrokenRule(f"the {what} bound is {x.type}, not s64[]", "kernel-loop")
        step = op.attrs["step"]
        if type(step) is not int or step < 1:
            raise BrokenRule(f"the step is {step!r}, not a positive integer", "kernel-loop")
        carried = tuple([x.type for x in op.operands[2:]])
        self.results(op, carried)
        self.inner(op, 0, (SCALAR_INDEX, *carried), carried)

    def while_(self, op: Op) -> None:
        carried = tuple([x.type for x in op.operands])
        self.results(op, carried)
        self.inner(op, 0, carried, (_CONDITION,))
        self.inner(op, 1, carried, carried)

    def if_(self, op: Op) -> None:
        if op.operands[0].type != _CONDITION:
            raise BrokenRule(f"the condition is {op.operands[0].type}, not pred[]", "kernel-if")
        types = tuple([x.type for x in op.results])
        if any(type(t) is BufferType for t in types):
            raise BrokenRule("a buffer cannot be the result of an if", "kernel-if")
        self.inner(op, 0, (), types)
        self.inner(op, 1, (), types)


_ATTRIBUTE = "kernel-attribute"
_NONE: frozenset[str] = frozenset()
_OWN = {"constant": frozenset(["value"]), "for": frozenset(["step"])}
_NO_RESULT = frozenset(["store", "scatter", "prefetch"])
_CONTROL = {"for": _Verifier.for_, "while": _Verifier.while_, "if": _Verifier.if_}


def _listed(types: tuple[Any, ...]) -> str:
    return f"({', '.join(map(str, types))})"
