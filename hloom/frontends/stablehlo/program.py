# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""A module of MLIR becoming a module of HLO: functions, the entry, what is said of the whole.

A function becomes a computation when it is first called, and every call of it calls that one.
What jaxlib's bindings give out (operations, values, types, attributes) are small new objects at
each question, so they are asked for once and used as keys of the tables that are kept here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, cached_property
from sys import getrecursionlimit
from typing import Any

from hloom.base.collection import paused_collection
from hloom.base.diagnostics import HloError, ParseError, SourceLocation
from hloom.base.registry import load_room
from hloom.frontends.stablehlo.attributes import word
from hloom.frontends.stablehlo.bindings import ir, is_name
from hloom.frontends.stablehlo.constants import blobs_of
from hloom.frontends.stablehlo.layout_modes import layout_modes
from hloom.frontends.stablehlo.metadata import Locations, place_in
from hloom.frontends.stablehlo.module_attributes import argument_attributes, module_attributes
from hloom.frontends.stablehlo.quantised import reader
from hloom.frontends.stablehlo.quantised_type import QuantisedType
from hloom.frontends.stablehlo.registry import IMPORT, REFUSED, Importer
from hloom.frontends.stablehlo.scope import Scope
from hloom.frontends.stablehlo.shardings import Shardings, keep_priorities
from hloom.frontends.stablehlo.types import Types, UnknownType
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.backend_config import BackendConfig
from hloom.ir.values.frontend import FrontendAttributes
from hloom.ir.values.sharding import REPLICATED, Sharding
from hloom.types.shape import ProgramShape, Shape
from hloom.types.text import shape_from_text

_PLAIN = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
ROOM = "hloom.frontends.stablehlo"
EXTENDED = frozenset("while reduce reduce-window sort scatter".split())
"""What may return more than the operation of StableHLO does."""
LARGEST_SHARED = 12
"""Computations of more instructions are not compared with others."""


def graph_of(
    mlir_module: Any, file: str | None = None, text: str = "", *, keep_dynamic: bool = False
) -> Module:
    """Our graph of a module of MLIR, which is not changed; `text` is what it was read from."""
    load_imports()
    with paused_collection():
        try:
            return ImportedProgram(mlir_module, file, text, keep_dynamic).read()
        except QuantisedType:
            return ImportedProgram(mlir_module, file, text, keep_dynamic, is_quantised=True).read()
        except RecursionError:
            raise ParseError(
                "regions, calls or types nested too deeply: reading them takes a few functions "
                "of Python for each",
                location=SourceLocation(file),
                rule="depth",
                hint=f"sys.setrecursionlimit(n) above {getrecursionlimit()} allows for more",
            ) from None


@cache
def load_imports() -> None:
    """Let every file register what it reads."""
    load_room(ROOM)


class ImportedProgram:
    """What all computations of one program share while they are being made."""

    def __init__(
        self,
        mlir_module: Any,
        file: str | None,
        text: str,
        keep_dynamic: bool,
        *,
        is_quantised: bool = False,
    ) -> None:
        self.mlir = mlir_module
        self.file = file
        self.lines = text
        self.types = Types(keep_dynamic, is_quantised)
        self.locations = Locations(file)
        self.handlers: dict[type, Importer] = {}
        """By the class of an operation's view; those without one of their own go by name."""
        self.literals: dict[Any, Any] = {}
        self.combiners: dict[Any, Computation] = {}
        self.functions: dict[str, Any] = {}
        self.computations: dict[str, Computation] = {}
        self.opened: set[str] = set()
        """The functions that are being read: one of them called is a recursion."""
        self.shardings = Shardings(self)
        self.module = Module(_name_of(mlir_module))

    @cached_property
    def blobs(self) -> dict[str, str]:
        """The resources of the module, which the bindings hand out as text only."""
        return blobs_of(self.mlir.operation.get_asm())

    # -- the whole

    def read(self) -> Module:
        """The module with all that the entry calls."""
        body = self.mlir.operation.regions[0].blocks[0]
        for op in body.operations:
            name = op.operation.name
            if name == "func.func":
                self.functions[word(op.attributes["sym_name"])] = op
            elif name == "sdy.mesh":
                self.shardings.add_mesh(op)
            elif name not in ("ml_program.global",):
                raise self.error(op, f"{name} has no meaning beside functions", rule="mlir-op")
        entry = self._entry()
        self.module.entry = self._computation(entry, is_entry=True)
        module = self.module
        shape = module.entry.program_shape
        module.entry_layout = ProgramShape(shape.parameters, (), shape.result)
        module_attributes(self, self.mlir.operation)
        argument_attributes(self, self.functions[entry])
        layout_modes(module, self.functions[entry])
        module.stack_frames = self.locations.index
        self._order()
        return module

    def _entry(self) -> str:
        """The name of the function that runs: main, or the only public one."""
        if "main" in self.functions:
            return "main"
        public = [name for name, op in self.functions.items() if not is_private(op)]
        if len(public) == 1:
            return public[0]
        raise ParseError(
            "there is no function main" + (f" among {', '.join(public)}" if public else ""),
            location=SourceLocation(self.file),
            rule="entry",
            hint="name the function that runs @main, or make the others private",
        )

    def _order(self) -> None:
        """Callees before callers, as HLO has them."""
        ordered = self.module.computations_in_order()
        self.module.computations = dict.fromkeys(ordered)

    # -- functions

    def function(self, name: str, caller: Scope) -> Computation:
        """The computation of a function; the same one for every call."""
        known_computation = self.computations.get(name)
        if known_computation is not None:
            return known_computation
        if name not in self.functions:
            raise caller.error(f"there is no function @{name}", rule="mlir")
        if name in self.opened:
            raise caller.error(
                f"@{name} calls itself, and HLO has no recursion",
                rule="recursion",
                hint="write it as a while loop",
            )
        return self._computation(name)

    def _computation(self, name: str, *, is_entry: bool = False) -> Computation:
        op = self.functions[name]
        if not len(op.regions[0].blocks):
            raise self.error(op, f"@{name} is declared and not defined", rule="mlir")
        if len(op.regions[0].blocks) > 1:
            raise self.error(op, f"@{name} has several blocks", rule="mlir-blocks")
        self.opened.add(name)
        scope = Scope(self, self.new_computation(name))
        scope.op = op
        block = op.regions[0].blocks[0]
        shardings = self.shardings.of_arguments(op)
        shapes = self._argument_shapes(op)
        try:
            for k, argument in enumerate(block.arguments):
                parameter = scope.parameter_of(argument, k)
                parameter.shape = shapes.get(k, parameter.shape)
                parameter.sharding = shardings.get(k)
                if is_entry:
                    parameter.metadata = self.locations.metadata(argument.location)
        except UnknownType as error:
            raise self.error(op, str(error), rule="mlir-type") from None
        scope.run(block)
        scope.op = None
        scope.finish()
        if is_entry:
            self.shardings.of_results(op, scope.computation)
        self.opened.discard(name)
        self.computations[name] = scope.computation
        return scope.computation

    def _argument_shapes(self, op: Any) -> dict[int, Shape]:
        """The shapes of the arguments whose layout is not the usual one."""
        attributes_of = op.attributes.get("arg_attrs", ())
        texts = {
            k: word(x["mhlo.xla_shape"])
            for k, x in enumerate(attributes_of)
            if "mhlo.xla_shape" in x
        }
        return {k: self.shape_of_text(text) for k, text in texts.items()}

    def new_computation(self, name: str) -> Computation:
        return self.module.add_computation(plain_name(name))

    def shared(self, computation: Computation) -> Computation:
        """The computation of a region, or an equal one that was there before.

        Programs have hundreds of reductions with the same few combiners.
        """
        if len(computation.instructions) > LARGEST_SHARED or any(
            i.called for i in computation.instructions
        ):
            return computation
        places = {i: k for k, i in enumerate(computation.instructions)}
        key = tuple(
            (i.opcode, i.attrs, i.shape, i.sharding, tuple(places[x] for x in i.operands))
            for i in computation.instructions
        )
        same = self.combiners.setdefault((key, places[computation.root]), computation)
        if same is not computation:
            del self.module.computations[computation]
        return same

    def argument_name(self, argument: Any, number: int) -> str:
        """The name in its location where that is one, else `Arg_0`."""
        location = argument.location
        if is_name(location) and _PLAIN.fullmatch(location.name_str):
            return location.name_str
        return f"Arg_{number}"

    # -- operations

    def handler(self, op: Any) -> Importer:
        """The function that reads an operation; an error when there is none."""
        name = op.operation.name
        importer = IMPORT.get(name)
        if importer is None and name.startswith("mhlo.") and name not in REFUSED:
            # What StableHLO was made of: the same operations, attributes under the same names.
            importer = IMPORT.get(f"stablehlo.{name.removeprefix('mhlo.')}")
        if importer is None:
            reason = REFUSED.get(name)
            if reason is None:
                raise self.error(op, f"{name} is not an operation of StableHLO", rule="mlir-op")
            raise self.error(op, f"{name} cannot be read: {reason}", rule="mlir-op")
        if type(op).__name__ != "OpView" and hasattr(type(op), "OPERATION_NAME"):
            self.handlers[type(op)] = importer
        return importer

    def read_operation(self, scope: Scope, op: Any) -> Any:
        """The instructions of an operation, some of whose values may be quantised."""
        return reader(self.handler(op), scope, op)(scope, op)

    def annotate(self, scope: Scope, op: Any, name: str, results_read: Any) -> None:
        """Take over what a front end attached to an operation: sharding, attributes."""
        results: Sequence[Instruction] = (
            (results_read,) if isinstance(results_read, Instruction) else results_read
        )
        if not results:
            return
        producer = results[0]
        if producer.opcode == "copy" and "result_layouts" in op.attributes:
            producer = producer.operands[0]  # what is copied out of the layout of a custom call
        if len(results) > 1 and producer.opcode == "get-tuple-element":
            producer = producer.operands[0]
        if name == "mhlo.sharding":
            sharding = self.shardings.of_text(word(op.attributes[name]), scope)
            producer.sharding = for_all(sharding, producer, len(results))
        elif name == "sdy.sharding":
            sharding = self.shardings.of_values(op.attributes[name], len(results))
            producer.sharding = for_all(sharding, producer, len(results))
            keep_priorities(producer, op.attributes[name])
        elif name == "xla_shape":
            producer.shape = self.shape_of_text(word(op.attributes[name]))
        elif name == "mhlo.backend_config" and producer.opcode != "custom-call":
            if isinstance(op.attributes[name], ir.StringAttr):
                producer.backend_config = BackendConfig(word(op.attributes[name]))
        elif name == "mhlo.frontend_attributes":
            pairs = {x.name: word(x.attr) for x in op.attributes[name]}
            old = producer.frontend_attributes or FrontendAttributes()
            producer.frontend_attributes = old.updated(pairs)

    def shape_of_text(self, text: str) -> Shape:
        """A shape with layouts that are not the usual ones."""
        return shape_from_text(text, default_layouts=True)

    # -- errors

    def error(self, op: Any, message: str, *, rule: str, hint: str | None = None) -> HloError:
        """What is wrong with an operation: its name, and file, line and column of it."""
        place = SourceLocation(self.file)
        name = None
        if op is not None:
            name = op.operation.name
            place_ = place_in(str(op.location))
            if place_:
                place = self._place(*place_)
        return ParseError(message, location=place, instruction=name, rule=rule, hint=hint)

    def _place(self, file: str, line: int, column: int) -> SourceLocation:
        source = None
        if file == "-":
            lines = self.lines.splitlines()
            source = lines[line - 1] if 0 < line <= len(lines) else None
            file = self.file or "<text>"
        return SourceLocation(file, line, column, source)


def _name_of(mlir_module: Any) -> str:
    if "sym_name" in mlir_module.operation.attributes:
        return plain_name(word(mlir_module.operation.attributes["sym_name"]))
    return "module"


def for_all(sharding: Sharding, producer: Instruction, own: int) -> Sharding:
    """The sharding of an operation's own results with one for each further element of its
    instruction: values that its regions capture, or what they hand on."""
    count = producer.shape.leaf_count
    if not producer.shape.is_tuple or producer.opcode not in EXTENDED or count <= own:
        return sharding
    parts = list(sharding.elements) if sharding.is_tuple else [sharding] * own
    init_operands = producer.operands[0].operands if producer.opcode == "while" else ()
    for k in range(len(parts), count):
        stated = init_operands[k].sharding if len(init_operands) == count else None
        parts.append(stated if stated is not None and not stated.is_tuple else REPLICATED)
    return Sharding.tuple_of(*parts)


def plain_name(name: str) -> str:
    """A symbol as a name of HLO."""
    if _PLAIN.fullmatch(name):
        return name
    plain = re.sub(r"[^\w.\-]", "_", name, flags=re.ASCII)
    return plain if _PLAIN.fullmatch(plain) else f"_{plain}"


def is_private(op: Any) -> bool:
    return "sym_visibility" in op.attributes and word(op.attributes["sym_visibility"]) == "private"
