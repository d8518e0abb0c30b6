"""What expanders share: a pass that replaces instructions of some opcodes, and its builder.

An expander is a function of one instruction that builds what means the same. Every instruction
is looked at once and nothing that was made is looked at again, so the cost is linear in the
module. Control dependencies move from the old instruction to what was made of it: what reads
nothing made waits for the predecessors, and the successors wait for the result. Elements of a
tuple that was made are read directly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

from hloom.base.diagnostics import UnsupportedError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.slices import Slices
from hloom.ir.verify.pairs import is_async_body
from hloom.passes.computation_pass import settle
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult
from hloom.rewrite.build import RuleBuilder
from hloom.rewrite.driver import Trace, is_removable
from hloom.types.dtype import DType
from hloom.types.literal import Literal
from hloom.types.shape import Shape, shape


class ExpandError(UnsupportedError):
    """An operation in a form that cannot be written with simpler ones."""


def refuse(i: Instruction, message: str, rule: str, hint: str | None = None) -> ExpandError:
    """The error that says which instruction cannot be expanded, and why."""
    where = f"{i.parent.name}/%{i.name}"
    return ExpandError(message, instruction=where, rule=rule, hint=hint)


Combiners = dict[tuple[str, DType], Computation]


class Expansion(RuleBuilder):
    """Builds what takes the place of one instruction; operations that would do nothing are left
    out, and shapes get row-major layouts."""

    def __init__(self, computation: Computation, combiners: Combiners) -> None:
        super().__init__(computation)
        self.combiners = combiners

    @property
    def module(self) -> Module:
        module = self.computation.module
        assert module is not None, "a computation that passes run on is in a module"
        return module

    def emit(self, opcode: str, *operands: Instruction, **attributes: Any) -> Instruction:
        of = attributes.get("shape")
        if of is not None:
            attributes["shape"] = of.with_default_layouts()
        return super().emit(opcode, *operands, **attributes)

    def scalar(self, value: int | float | complex, dtype: DType) -> Instruction:
        """A constant without dimensions."""
        return self.emit("constant", literal=Literal.of(value, dtype), shape=shape(dtype))

    def full(self, value: int | float | complex, dtype: DType, dims: Sequence[int]) -> Instruction:
        """An array of these sizes, all of whose elements are `value`."""
        return self.spread(self.scalar(value, dtype), dims)

    def spread(
        self, x: Instruction, dims: Sequence[int], dimensions: Sequence[int] = ()
    ) -> Instruction:
        """`x` broadcast to these sizes, its dimension k being dimension `dimensions[k]`."""
        dims, at = tuple(dims), tuple(dimensions)
        if x.shape.dims == dims and at == tuple(range(len(dims))):
            return x
        return self.emit("broadcast", x, dimensions=at, shape=shape(x.shape.dtype, dims))

    def reshaped(self, x: Instruction, dims: Sequence[int]) -> Instruction:
        dims = tuple(dims)
        if x.shape.dims == dims:
            return x
        return self.emit("reshape", x, shape=shape(x.shape.dtype, dims))

    def transposed(self, x: Instruction, order: Sequence[int]) -> Instruction:
        order = tuple(order)
        if order == tuple(range(len(order))):
            return x
        return self.emit("transpose", x, dimensions=order)

    def converted(self, x: Instruction, dtype: DType) -> Instruction:
        if x.shape.dtype is dtype:
            return x
        return self.emit("convert", x, shape=shape(dtype, x.shape.dims))

    def sliced(self, x: Instruction, axis: int, start: int, limit: int, stride: int = 1):
        """`x` cut to start, start + stride, ... below `limit` along one dimension."""
        ranges = [(0, size, 1) for size in x.shape.dims]
        ranges[axis] = (start, limit, stride)
        return self.cut(x, ranges)

    def cut(self, x: Instruction, ranges: Sequence[tuple[int, int, int]]) -> Instruction:
        """The slice of `x` by (start, limit, stride) of every dimension.

        A dimension of at most 1 that stays whole keeps its run-time size: a slice would make it 1.
        """
        if list(ranges) == [(0, size, 1) for size in x.shape.dims]:
            return x
        part = self.emit("slice", x, slice=Slices.of(*ranges))
        for d, is_dynamic in enumerate(x.shape.dynamic):
            if is_dynamic and x.shape.dims[d] == 1 and tuple(ranges[d]) == (0, 1, 1):
                size = self.emit("get-dimension-size", x, dimensions=(d,))
                part = self.emit("set-dimension-size", part, size, dimensions=(d,))
        return part

    def joined(self, parts: Sequence[Instruction], axis: int) -> Instruction:
        """The parts one behind the other along a dimension."""
        if len(parts) == 1:
            return parts[0]
        return self.emit("concatenate", *parts, dimensions=(axis,))

    def iota(self, dtype: DType, dims: Sequence[int], axis: int = 0) -> Instruction:
        return self.emit("iota", iota_dimension=axis, shape=shape(dtype, dims))

    def compared(self, x: Instruction, y: Instruction, direction: str) -> Instruction:
        return self.emit("compare", x, y, direction=direction)

    def element(self, x: Instruction, index: int) -> Instruction:
        """An element of a tuple; of a `tuple` instruction directly."""
        if x.opcode == "tuple":
            return x.operands[index]
        return self.emit("get-tuple-element", x, index=index)

    def combiner(self, opcode: str, dtype: DType) -> Computation:
        """The computation `opcode(a, b)` of two scalars; one for each module and run."""
        computation = self.combiners.get((opcode, dtype))
        if computation is None:
            computation = self.module.add_computation(f"{opcode}_{dtype.name}")
            scalar = shape(dtype)
            a = computation.add("parameter", shape=scalar, number=0, name="a")
            b = computation.add("parameter", shape=scalar, number=1, name="b")
            computation.root = computation.add(opcode, a, b, name=opcode)
            self.combiners[opcode, dtype] = computation
        return computation

    def total(self, x: Instruction, dimensions: Sequence[int]) -> Instruction:
        """The sum over some dimensions."""
        zero = self.scalar(0, x.shape.dtype)
        called = (self.combiner("add", x.shape.dtype),)
        return self.emit("reduce", x, zero, dimensions=tuple(dimensions), called=called)


class Expander(Pass):
    """A pass that replaces every instruction of some opcodes for which `expand` has an answer."""

    breaks = (no_dead_code,)
    opcodes: ClassVar[AbstractSet[str]] = frozenset()

    def wants(self, i: Instruction) -> bool:
        """A quick answer whether `expand` is worth asking, for opcodes of which many stay."""
        return True

    @abstractmethod
    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        """What takes the place of `i`, None to leave it. Builds nothing when it leaves it."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        combiners: Combiners = {}
        changed: dict[Computation, None] = {}
        opcodes, wants = self.opcodes, self.wants
        for c in list(module.computations):
            if threads and c.execution_thread not in threads:
                continue
            asked = [i for i in c.instructions if i.opcode in opcodes and wants(i)]
            if asked and is_async_body(c):  # which holds one operation on its parameters
                continue
            for i in asked:
                b = Expansion(c, combiners)
                new = self.expand(b, i)
                if new is not None:
                    put_in_place(b, i, new)
                    fired[i.opcode] += 1
                    changed[c] = None
        settle(module, changed)
        return PassResult.of(fired)


def put_in_place(b: Expansion, old: Instruction, new: Instruction) -> Instruction:
    """Let `new` take over readers, annotations and control edges of `old`, which goes.

    What stands there afterwards is returned: `new`, or a copy where layouts differ.
    """
    new_instructions = dict.fromkeys(b.added)
    new = _with_shape(b, old, new, new_instructions)
    for x in b.added:
        if x.metadata is None:
            x.metadata = old.metadata
        if x.frontend_attributes is None:
            x.frontend_attributes = old.frontend_attributes
    if new.sharding is None and new in new_instructions:
        new.sharding = old.sharding
    if new in new_instructions and old.extra:
        new.extra = {**old.extra, **(new.extra or {})}
    if old.control_predecessors or old.control_successors:
        move_control_edges(old, [new], b.added)
    computation = b.computation
    computation.replace(old, new)
    computation.erase(old)
    if new.opcode == "tuple":
        read_elements_directly(new)
    for x in reversed(b.added):
        if x is not new and not x.users and not x.is_root and is_removable(x):
            computation.erase(x)
    return new


def _with_shape(
    b: Expansion, old: Instruction, new: Instruction, new_instructions: dict
) -> Instruction:
    """`new` with the very shape (layouts included) that its readers know."""
    if new.shape is old.shape:
        return new
    if not new.shape.compatible(old.shape):
        raise refuse(
            old,
            f"{old.opcode} of {old.shape.text} is {new.shape.text} on these devices",
            "expanded-shape",
            "make its groups and sizes fit replica_count and num_partitions",
        )
    if new not in new_instructions:
        copied = b.emit("copy", new)
        new_instructions[copied] = None
        new = copied
    elif new.opcode == "tuple":
        parts = zip(new.operands, old.shape.elements, strict=True)
        new.set_operands(tuple(_laid_out(b, x, of, new_instructions) for x, of in parts))
    new.shape = old.shape
    return new


def _laid_out(b: Expansion, x: Instruction, of: Shape, new_instructions: dict) -> Instruction:
    if x.shape is of:
        return x
    if x in new_instructions and x.opcode != "tuple" and len(x.users) <= 1:
        x.shape = of
        return x
    copied = b.emit("copy", x)
    copied.shape = of
    new_instructions[copied] = None
    return copied


def move_control_edges(
    old: Instruction, ends: Sequence[Instruction], new_instructions: list[Instruction]
) -> None:
    """Let what begins what was made wait for the predecessors, and successors for its ends."""
    before, after = old.control_predecessors, old.control_successors
    old.drop_control_edges()
    inside = set(new_instructions)
    for x in new_instructions:
        if x.opcode != "constant" and inside.isdisjoint(x.operands):
            for p in before:
                x.add_control_predecessor(p)
    for s in after:
        for end in ends:
            s.add_control_predecessor(end)


def read_elements_directly(t: Instruction) -> None:
    """Let readers of elements of a `tuple` read what it was made of."""
    computation = t.parent
    for g in list(t.users):
        if g.opcode != "get-tuple-element" or g.has_control_edges:
            continue
        x = t.operands[g.attrs.index]
        if x.shape is g.shape:
            computation.replace(g, x)
            computation.erase(g)
    if not t.users and not t.is_root and not t.has_control_edges:
        computation.erase(t)
