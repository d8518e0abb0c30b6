"""One computation being filled from a region: its values, and those it takes from outside.

A region of StableHLO may read values of the regions around it; a computation of HLO may not. What
is constant outside is made again inside. Bodies of loops and branches, which have a parameter of
their own to extend, take everything else as further elements of that parameter (`Captures`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import HloError
from hloom.frontends.stablehlo.types import UnknownType
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.types.dtype import DType
from hloom.types.literal import Literal
from hloom.types.shape import Shape, tuple_shape
from hloom.types.shape import shape as shape_of

if TYPE_CHECKING:
    from hloom.frontends.stablehlo.program import ImportedProgram

_REMADE = frozenset(
    f"stablehlo.{name}"
    for name in "constant iota broadcast_in_dim reshape convert bitcast_convert create_token "
    "add subtract multiply divide negate minimum maximum compare select and or not xor".split()
) | {"sdy.constant"}
"""What is made again inside a region when it is made of constants alone."""
MOST_REMADE = 40
"""No more than so many operations are repeated for one value."""


class Captures:
    """The values that some regions take from around them, in one order for all of them."""

    def __init__(self, around: Scope, first: int) -> None:
        self.around = around
        self.first = first
        """The element of the parameter at which they start."""
        self.places: dict[Any, int] = {}
        self.instructions: list[Instruction] = []

    def place(self, value: Any) -> tuple[int, Instruction]:
        """The element of the parameter that holds a value, and the value outside."""
        k = self.places.get(value)
        if k is None:
            k = self.places[value] = len(self.instructions)
            self.instructions.append(self.around.value(value))
        return self.first + k, self.instructions[k]


class Scope:
    """A computation, and which instruction each value of MLIR is in it."""

    def __init__(
        self,
        program: ImportedProgram,
        computation: Computation,
        around: Scope | None = None,
        captures: Captures | None = None,
    ) -> None:
        self.program = program
        self.computation = computation
        self.around = around
        self.captures = captures
        self.values: dict[Any, Instruction] = {}
        self.returned: list[Instruction] = []
        self.op: Any = None
        self.parameter: Instruction | None = None
        """The one parameter whose elements the captured values are."""
        self.tuple_elements: list[Instruction] = []
        """The elements of tuples that were taken in case something reads them."""
        self._metadata: Any = None
        self._metadata_of: Any = None

    # -- reading operations

    def run(self, block: Any) -> None:
        """Read the operations of a block, in order."""
        self.read(block.operations)

    def read(self, operations: Iterable[Any]) -> None:
        """Read operations, in order."""
        program, values = self.program, self.values
        handlers, annotate = program.handlers, program.annotate
        quantised = program.types.allow_quantised
        for op in operations:
            self.op = op
            handler = program.read_operation if quantised else handlers.get(type(op))
            handler = handler or program.handler(op)
            try:
                results = handler(self, op)
            except UnknownType as error:
                raise self.error(str(error), rule="mlir-type") from None
            if results is None:
                continue
            if isinstance(results, Instruction):
                values[op.results[0]] = results
            else:
                values.update(zip(op.results, results, strict=True))
            for name in op.attributes:
                if "." in name or name == "xla_shape":
                    annotate(self, op, name, results)

    def inside(self, op: Any, block: Any) -> None:
        """Read a block as part of this computation, then come back to `op`."""
        self.run(block)
        self.op = op

    def value(self, value: Any) -> Instruction:
        """The instruction that a value of MLIR is."""
        instruction = self.values.get(value)
        if instruction is None:
            instruction = self.values[value] = self._from_outside(value)
        return instruction

    def operands(self, op: Any) -> tuple[Instruction, ...]:
        """What an operation reads."""
        values = self.values
        try:
            return tuple([values[x] for x in op.operands])
        except KeyError:
            return tuple([self.value(x) for x in op.operands])

    def shape(self, value: Any) -> Shape:
        """The shape of a value of MLIR."""
        return self.program.types.shape(value.type)

    def result_shape(self, op: Any) -> Shape:
        """The shape of an operation's only result."""
        return self.program.types.shape(op.results[0].type)

    def tuple_or_one(self, op: Any) -> Shape:
        """The shape of all results: that of the only one, or a tuple."""
        shapes = [self.program.types.shape(r.type) for r in op.results]
        return shapes[0] if len(shapes) == 1 else tuple_shape(shapes)

    def _from_outside(self, value: Any) -> Instruction:
        if self.around is None:
            raise self.error("a value is read before it is made", rule="mlir")
        if is_remade(value):
            owner = value.owner
            before, self.op = self.op, owner
            result = self.program.read_operation(self, owner)
            self.op = before
            assert isinstance(result, Instruction)
            return result
        if self.captures is None or self.parameter is None:
            raise self.error(
                "the region reads a value from outside, which HLO has no way to say here",
                rule="captured",
                hint="pass it in as an operand, or make it inside of the region",
            )
        place, outside = self.captures.place(value)
        return self.emit("get-tuple-element", (self.parameter,), outside.shape, index=place)

    # -- making instructions

    def emit(
        self,
        opcode: str,
        operands: tuple[Instruction, ...],
        shape: Shape,
        called: tuple[Computation, ...] = (),
        **attributes: Any,
    ) -> Instruction:
        """An instruction of a known shape, with the metadata of the operation being read."""
        op = OPS[opcode]
        attrs = op.attrs(**attributes) if attributes or op.empty is None else op.empty
        instruction = self.computation.append(opcode, attrs, operands, shape, None, called)
        instruction.metadata = self.metadata()
        return instruction

    def add(self, opcode: str, *operands: Instruction, **fields: Any) -> Instruction:
        """An instruction whose shape follows from its operands."""
        instruction = self.computation.add(opcode, *operands, **fields)
        instruction.metadata = self.metadata()
        return instruction

    def metadata(self) -> Any:
        """The metadata of the operation being read, worked out when first asked for."""
        op = self.op
        if self._metadata_of is not op:
            self._metadata_of = op
            self._metadata = self.program.locations.metadata(op.location) if op else None
        return self._metadata

    def tuple_of(self, parts: Sequence[Instruction]) -> Instruction:
        """The only one of the parts, or a tuple of them: that of which they are all elements."""
        if len(parts) == 1:
            return parts[0]
        if (whole := taken_apart(parts)) is not None:
            return whole
        return self.emit("tuple", tuple(parts), tuple_shape([p.shape for p in parts]))

    def elements(self, instruction: Instruction, count: int) -> Instruction | list[Instruction]:
        """The results of an operation whose instruction is a tuple where there are several."""
        if count == 1:
            return instruction
        return [self.element(instruction, k) for k in range(count)]

    def element(self, whole: Instruction, k: int) -> Instruction:
        """The k-th element of a tuple, which goes again when nothing comes to read it."""
        element_ = self.emit("get-tuple-element", (whole,), whole.shape.elements[k], index=k)
        self.tuple_elements.append(element_)
        return element_

    def scalar(self, value: complex, dtype: DType) -> Instruction:
        """A constant."""
        scalar_shape = shape_of(dtype)
        return self.emit("constant", (), scalar_shape, literal=Literal.of(value, scalar_shape))

    def full(self, value: complex, shape: Shape) -> Instruction:
        """A constant in every element of a shape."""
        scalar = self.scalar(value, shape.dtype)
        return self.emit("broadcast", (scalar,), shape) if shape.dims else scalar

    def combiner(self, opcode: str, dtype: DType) -> Computation:
        """The computation of one operation on two scalars; one for each program."""
        known = self.program.combiners
        combiner_ = known.get((opcode, dtype))
        if combiner_ is None:
            inner = Scope(self.program, self.program.new_computation(opcode), self)
            a, b = (inner.emit("parameter", (), shape_of(dtype), number=k) for k in (0, 1))
            inner.computation.root = inner.add(opcode, a, b)
            combiner_ = known[opcode, dtype] = inner.computation
        return combiner_

    def computation_of(self, region: Any, name: str = "region") -> Computation:
        """The computation of a region that reads only its own arguments and constants."""
        inner = Scope(self.program, self.program.new_computation(name), self)
        block = region.blocks[0]
        for k, argument in enumerate(block.arguments):
            inner.parameter_of(argument, k)
        inner.run(block)
        inner.finish()
        return self.program.shared(inner.computation)

    def parameter_of(self, argument: Any, number: int) -> Instruction:
        """The parameter that is an argument of a block."""
        shape = self.shape(argument)
        name = self.program.argument_name(argument, number)
        attrs = OPS["parameter"].attrs(number=number)
        parameter = self.computation.append("parameter", attrs, (), shape, name)
        self.values[argument] = parameter
        return parameter

    def finish(self) -> None:
        """Make what the block returned the root."""
        self.op = None
        self.end(self.tuple_of(self.returned))

    def end(self, root: Instruction) -> None:
        """Make an instruction the root, and remove the elements of tuples that nothing reads."""
        self.computation.root = root
        for element in reversed(self.tuple_elements):
            if not element.users and element is not root:
                self.computation.erase(element)

    # -- saying what is wrong

    def error(self, message: str, *, rule: str, hint: str | None = None) -> HloError:
        """What is wrong with the operation being read, and where it stands."""
        return self.program.error(self.op, message, rule=rule, hint=hint)


def taken_apart(parts: Sequence[Instruction]) -> Instruction | None:
    """The tuple of which these are all the elements, in order; None when there is none."""
    if not parts or parts[0].opcode != "get-tuple-element":
        return None
    whole = parts[0].operands[0]
    if len(whole.shape.elements) != len(parts):
        return None
    for k, x in enumerate(parts):
        if x.opcode != "get-tuple-element" or x.operands[0] is not whole or x.attrs.index != k:
            return None
    return whole


def is_remade(value: Any) -> bool:
    """Whether a value is made of constants alone, by a few operations that are cheap to repeat."""
    stack, seen = [value], {value}
    while stack:
        owner = stack.pop().owner
        if not hasattr(owner, "operation") or owner.operation.name not in _REMADE:
            return False
        for x in owner.operands:
            if x not in seen:
                seen.add(x)
                stack.append(x)
        if len(seen) > MOST_REMADE:
            return False
    return True
