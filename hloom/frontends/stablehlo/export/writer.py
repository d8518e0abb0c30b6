"""A module of HLO as generic MLIR text, which jaxlib reads, checks and prints as people write it.

A value of HLO that is a tuple is several values of MLIR where an operation has several results,
and a `tuple` where somebody reads it as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hloom.base.diagnostics import UsageError
from hloom.frontends.stablehlo.export.registry import EXPORT, HANDLED, Declined
from hloom.frontends.stablehlo.export.text import (
    attributes,
    dictionary,
    location,
    quoted,
    type_text,
)
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.kinds import LiteralKind
from hloom.ir.module import Module
from hloom.types.shape import Shape


class Writer:
    """Writes functions; regions are written by writers of their own, into the same numbers."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.names: dict[Instruction, str] = {}
        """The one value that an instruction is."""
        self.parts: dict[Instruction, list[str]] = {}
        """The results of an instruction that has several."""
        self.functions: dict[Computation, str] = {}
        """Computations that are called by name, in the order in which they were asked for."""
        self._numbers = 0
        self._indent = "    "

    # -- naming

    def fresh(self) -> str:
        self._numbers += 1
        return f"%{self._numbers}"

    def function(self, computation: Computation) -> str:
        """The symbol of a computation, which becomes a function."""
        name_ = self.functions.get(computation)
        if name_ is None:
            is_entry = computation is self.module.entry
            name = "main" if is_entry else computation.name
            if not is_entry and name == "main":
                name = "main.inner"
            name_ = self.functions[computation] = name
        return "@" + quoted(name_)

    def value(self, i: Instruction) -> str:
        """The value of an instruction as one, made a tuple where it is several."""
        name = self.names.get(i)
        if name is not None:
            return name
        parts = self.parts[i]
        name = self.names[i] = self.fresh()
        types = ", ".join(type_text(s) for s in i.shape.elements)
        whole = type_text(i.shape)
        self.line(f'{name} = "stablehlo.tuple"({", ".join(parts)}) : ({types}) -> {whole}')
        return name

    def elements(self, i: Instruction) -> list[str]:
        """The elements of a tuple as values."""
        known = self.parts.get(i)
        if known is not None:
            return known
        whole, names = self.value(i), []
        for k, s in enumerate(i.shape.elements):
            names.append(self.fresh())
            self.line(
                f'{names[-1]} = "stablehlo.get_tuple_element"({whole}) {{index = {k} : i32}} : '
                f"({type_text(i.shape)}) -> {type_text(s)}"
            )
        self.parts[i] = names
        return names

    # -- operations

    def line(self, text: str) -> None:
        self.lines.append(self._indent + text)

    def op(
        self,
        i: Instruction,
        name: str,
        operands: Sequence[str],
        operand_shapes: Sequence[Shape],
        fields: Mapping[str, str] | None = None,
        regions: Sequence[str] = (),
        results: Sequence[Shape] | None = None,
    ) -> None:
        """Write an operation whose results are those of an instruction."""
        shapes = results if results is not None else result_shapes(i.shape)
        fields_ = {**(fields or {}), **self.annotations(i)}
        head = self._results(i, shapes)
        body = f" ({', '.join(regions)})" if regions else ""
        words = f" {attributes(fields_)}" if fields_ else ""
        types = ", ".join(map(type_text, operand_shapes))
        result_types = ", ".join(map(type_text, shapes))
        self.line(
            f'{head}"{name}"({", ".join(operands)}){body}{words} : ({types}) -> ({result_types})'
            + location(i.metadata, self.module.stack_frames)
        )

    def _results(self, i: Instruction, shapes: Sequence[Shape]) -> str:
        if len(shapes) == 1 and shapes[0] is i.shape:
            self.names[i] = self.fresh()
            return f"{self.names[i]} = "
        if not shapes:
            self.parts[i] = []
            return ""
        name = self.fresh()
        self.parts[i] = [f"{name}#{k}" for k in range(len(shapes))]
        return f"{name}:{len(shapes)} = "

    def simple(
        self, i: Instruction, name: str, fields: Mapping[str, str] | None = None, *regions: str
    ) -> None:
        """An operation on all operands of an instruction."""
        operands = [self.value(x) for x in i.operands]
        self.op(i, name, operands, [x.shape for x in i.operands], fields, regions)

    def annotations(self, i: Instruction) -> dict[str, str]:
        """What is attached to an instruction and is no attribute of its operation."""
        fields_: dict[str, str] = {}
        if i.sharding is not None:
            fields_["mhlo.sharding"] = quoted(i.sharding.text)
        if i.frontend_attributes:
            fields_["mhlo.frontend_attributes"] = dictionary(i.frontend_attributes)
        if i.backend_config and i.opcode != "custom-call":
            fields_["mhlo.backend_config"] = quoted(i.backend_config.raw)
        if is_placed(i.shape) and i.opcode != "custom-call":
            fields_["xla_shape"] = quoted(i.shape.text)
        if i.has_control_edges:
            raise UsageError(
                f"%{i.name} waits for another instruction, which StableHLO cannot say",
                rule="mlir-control",
                hint="write the program before it was scheduled",
            )
        return fields_

    # -- bodies

    def region(self, computation: Computation) -> str:
        """A computation as a region with an argument for each parameter."""
        names = [self.fresh() for _ in computation.parameters]
        for p, name in zip(computation.parameters, names, strict=True):
            self.names[p] = name
        arguments = list(zip(names, [p.shape for p in computation.parameters], strict=True))
        return self.block(computation, arguments)

    def state_region(self, computation: Computation) -> str:
        """A computation of one parameter, whose elements are the arguments."""
        (p,) = computation.parameters
        shapes = result_shapes(p.shape)
        names = [self.fresh() for _ in shapes]
        if p.shape.is_tuple and shapes != [p.shape]:
            self.parts[p] = names
        else:
            self.names[p] = names[0]
        return self.block(computation, list(zip(names, shapes, strict=True)))

    def branch(self, computation: Computation, value: str) -> str:
        """A computation of one parameter, which is a value from around it."""
        (p,) = computation.parameters
        self.names[p] = value
        return self.block(computation, [])

    def block(self, computation: Computation, arguments: list[tuple[str, Shape]]) -> str:
        """The text of a region."""
        outer, indent = self.lines, self._indent
        self.lines, self._indent = [], indent + "  "
        self.body(computation)
        self.terminator(computation, "stablehlo.return")
        text = "\n".join(self.lines)
        self.lines, self._indent = outer, indent
        head = ", ".join(f"{name}: {type_text(s)}" for name, s in arguments)
        return f"{{\n{indent}^bb0({head}):\n{text}\n{indent}}}"

    def body(self, computation: Computation) -> None:
        """Every instruction but the parameters."""
        for i in computation.in_order():
            if i.opcode != "parameter":
                self.instruction(i)

    def terminator(self, computation: Computation, name: str) -> None:
        root = computation.root
        shapes = result_shapes(root.shape)
        values = [self.value(root)] if shapes == [root.shape] else self.elements(root)
        types = ", ".join(map(type_text, shapes))
        self.line(f'"{name}"({", ".join(values)}) : ({types}) -> ()')

    def instruction(self, i: Instruction) -> None:
        """Write one instruction, as an operation of StableHLO or as a custom call."""
        write = EXPORT.get(i.opcode)
        if write is None or not says_all(i):
            self.opaque(i)
            return
        try:
            write(self, i)
        except Declined:
            self.opaque(i)

    def _words(self, i: Instruction) -> dict[str, str]:
        """The attributes that are not the usual, as HLO writes them."""
        values = {f: getattr(i.attrs, f.name) for f in i.op.fields}
        set_values = {f: v for f, v in values.items() if v != f.default}
        if any(f.kind is LiteralKind for f in set_values):
            raise UsageError(
                f"%{i.name} has a literal among its attributes, which StableHLO cannot say",
                rule="mlir-attribute",
            )
        return {f.name: f.kind.show(v) for f, v in set_values.items()}

    def opaque(self, i: Instruction) -> None:
        """An instruction that StableHLO has no operation for, its attributes in HLO text."""
        operands = [self.value(x) for x in i.operands]
        fields = {
            "call_target_name": quoted(f"hlo.{i.opcode}"),
        }
        if words := self._words(i):
            fields["mhlo.attributes"] = dictionary(words)
        if i.has_side_effect:
            fields["has_side_effect"] = "true"
        if i.called:
            names = ", ".join(self.function(c) for c in i.called)
            fields["called_computations"] = f"[{names}]"
        shapes = [x.shape for x in i.operands]
        self.op(i, "stablehlo.custom_call", operands, shapes, fields, results=[i.shape])


def is_placed(shape: Shape) -> bool:
    """Whether a shape has a layout that is not the usual one."""
    return any(s.is_array and s.layout and not s.layout.is_default for s in shape.leaves())


def result_shapes(shape: Shape) -> list[Shape]:
    """The results that stand for a value: the elements of a tuple, but of one that has just one,
    which must stay a tuple."""
    if shape.is_tuple and len(shape.elements) != 1:
        return list(shape.elements)
    return [shape]


def says_all(i: Instruction) -> bool:
    """Whether what writes its opcode takes care of every attribute that is not the usual."""
    handled = HANDLED[i.opcode]
    return all(f.name in handled or getattr(i.attrs, f.name) == f.default for f in i.op.fields)
