"""Narrow floats and c64 that a kernel only moves are moved as the integers they are in memory.

A narrow float is computed with as an f32: it is widened when it is loaded, and rounded when it is
stored, with a case for NaN. Where it is only transposed, sliced or copied, all that is for nothing:
twice the registers, ten instructions a vector, and most of the time that LLVM takes for the kernel.
Complex numbers are computed with as two rows, their parts, into which shuffles take them apart.
What is moved with what is found by joining: buffers, tiles and constants that meet in a move are
one class, and a class in which nothing is computed changes its type, everywhere at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.kernel.kernel import Block, BufferType, Kernel, Op, Param, TileType, Value, ops_of
from hloom.types.convert import converted
from hloom.types.dtype import C64, F64, U8, U16, U64, DType

MOVES = frozenset(
    "alloc broadcast concatenate constant gather load reshape scatter select slice store"
    " transpose".split()
)
"""Ops that give each element as it is; the first operand of a select, the offsets and the masks
are of other types."""


def moved_as_bits(kernel: Kernel) -> Kernel:
    """The kernel, or one that does the same with integers in place of narrow floats."""
    if not any(_is_costly(p.value) for p in kernel.params):
        return kernel
    classes = _Classes()
    for p in kernel.params:
        if _is_costly(p.value):
            classes.add(p.value)
    for op in ops_of(kernel.body):
        if op.opcode == "dot" and not op.result.dtype.is_complex:
            # It takes the integers as what they are the bits of; sums are computed with.
            for x in (*op.results, op.operands[0]):
                if _is_costly(x):
                    classes.compute(x)
            for x in op.operands[1:]:
                if _is_costly(x):
                    classes.add(x)
            continue
        narrow = [x for x in (*op.operands, *op.results) if _is_costly(x)]
        if not narrow:
            continue
        for x in narrow:
            classes.join(narrow[0], x)
        if op.opcode not in MOVES:
            classes.compute(narrow[0])
    for block in _inner_blocks(kernel.body):
        for x in block.arguments:
            if _is_costly(x):
                classes.compute(x)
    moved = classes.moved()
    return _Copy(moved).kernel(kernel) if moved else kernel


def _is_costly(x: Value) -> bool:
    dtype = x.dtype
    return dtype is C64 or (dtype.is_floating and dtype.bits < 32)


def _inner_blocks(block: Block) -> list[Block]:
    return [inner for op in ops_of(block) for inner in op.blocks]


class _Classes:
    """Sets of values that are moved into one another, and those of them that are computed with."""

    def __init__(self) -> None:
        self.above: dict[Value, Value] = {}
        self.computed: set[Value] = set()

    def add(self, x: Value) -> None:
        """A value in a class of its own, unless it is known."""
        self.above.setdefault(x, x)

    def head(self, x: Value) -> Value:
        """What stands for the class."""
        above = self.above
        while above[x] is not x:
            above[x] = x = above[above[x]]
        return x

    def join(self, x: Value, y: Value) -> None:
        """Two values, known or not, are of one class."""
        self.add(x)
        self.add(y)
        self.above[self.head(y)] = self.head(x)

    def compute(self, x: Value) -> None:
        """Something is computed with a value, so with its class."""
        self.add(x)
        self.computed.add(x)

    def moved(self) -> set[Value]:
        """All values of classes in which nothing is computed."""
        computed = {self.head(x) for x in self.computed}
        return {x for x in self.above if self.head(x) not in computed}


class _Copy:
    """A copy of a kernel in which some values have the type of their bits."""

    def __init__(self, moved: set[Value]) -> None:
        self.moved = moved
        self.new: dict[Value, Value] = {}

    def kernel(self, old: Kernel) -> Kernel:
        """The whole of it."""
        new = Kernel(old.name, old.grid)
        new.cost_ns, new.excess_precision = old.cost_ns, old.excess_precision
        for p in old.params:
            self.new[p.value] = Value(self.type(p.value))
            new.params.append(Param(p.name, self.new[p.value], p.size, p.role))
        self.new.update(zip(old.body.arguments, new.body.arguments))
        self.fill(old.body, new.body)
        return new

    def type(self, x: Value) -> Any:
        """The type that a value has in the copy."""
        if x not in self.moved:
            return x.type
        bits = _bits(x.dtype)
        return BufferType(bits) if isinstance(x.type, BufferType) else TileType(bits, x.shape)

    def fill(self, old: Block, new: Block) -> None:
        """Copy the ops of a block."""
        for op in old.ops:
            blocks = tuple([self.block(b) for b in op.blocks])
            operands = tuple([self.new[x] for x in op.operands])
            if op.opcode == "dot":
                operands = tuple([self.as_floats(x, new) for x in op.operands])
            types = tuple([self.type(x) for x in op.results])
            copied = Op(op.opcode, operands, types, self.attributes(op), blocks)
            self.new.update(zip(op.results, copied.results))
            new.ops.append(copied)

    def as_floats(self, x: Value, block: Block) -> Value:
        """An operand of a dot, as the type that it has."""
        new = self.new[x]
        if x not in self.moved:
            return new
        cast = Op("bitcast-convert", (new,), (x.type,), {}, ())
        block.ops.append(cast)
        return cast.result

    def block(self, old: Block) -> Block:
        """A copy of a block and of its arguments."""
        new = Block(tuple([x.type for x in old.arguments]))
        self.new.update(zip(old.arguments, new.arguments))
        self.fill(old, new)
        return new

    def attributes(self, op: Op) -> dict[str, Any]:
        """Those of the op; a constant becomes the integer of its bits."""
        if op.opcode != "constant" or op.result not in self.moved:
            return op.attrs
        dtype = op.result.dtype
        if dtype is C64:
            number = np.array(complex(op.attrs["value"])).astype(dtype.numpy)
        else:
            number = converted(np.array(float(op.attrs["value"])), F64, dtype)
        return {**op.attrs, "value": int(np.asarray(number).view(_bits(dtype).numpy))}


def _bits(dtype: DType) -> DType:
    """The unsigned integers that have as many bytes."""
    return {1: U8, 2: U16, 8: U64}[dtype.size_bytes]
