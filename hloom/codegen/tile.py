"""What a kernel computes, and how its parameters are the memory of instructions.

`Body` is what one kernel computes: roots, and the leaves whose values are in memory.
`KernelEmitter` begins and ends the kernel; the families (`loops.py`, `scatter.py`, ...) fill it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from hloom.codegen.elements import Elements, Source, strides_of
from hloom.codegen.kernel_cost import step_ns
from hloom.device.device import Device
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Kernel, Param, Value
from hloom.types.dtype import DType
from hloom.types.shape import Shape

ShapeIndex = tuple[int, ...]


@dataclass
class Body:
    """What one kernel computes.

    `leaves` are instructions whose values stand in memory, each with the number of the operand
    that it is. `several` says whether the result is a tuple. `roots` are the results in the order
    of the outputs: an instruction and, for one with several results, which of them.
    """

    name: str
    several: bool
    leaves: list[tuple[Instruction, int]]
    roots: list[tuple[Instruction, ShapeIndex]]
    instructions: list[Instruction] = field(default_factory=list)

    @staticmethod
    def of(i: Instruction) -> Body:
        """The body of a fusion, or of one instruction whose operands are all in memory."""
        if i.opcode == "fusion":
            c = i.called[0]
            leaves = [(p, p.attrs.number) for p in c.instructions if p.opcode == "parameter"]
            leaves.sort(key=lambda leaf: leaf[1])
            inside = [x for x in c.in_order() if x.opcode != "parameter"]
            root = c.root
        else:
            leaves = [(x, i.operands.index(x)) for x in dict.fromkeys(i.operands)]
            inside, root = [i], i
        leaves = [(x, y) for x, y in leaves if x.shape.is_array]
        if root.opcode == "tuple":
            roots = [(x, ()) for x in root.operands]
        elif root.shape.is_tuple:
            roots = [(root, (k,)) for k in range(len(root.shape.elements))]
        else:
            roots = [(root, ())]
        return Body(i.name, i.shape.is_tuple, leaves, roots, inside)

    @property
    def stored(self) -> frozenset[Instruction]:
        """Results of 16-bit floats of which others of the body are computed."""
        inside = set(self.instructions)
        half = [x for x, index in self.roots if not index and x.shape.dtype.is_half]
        return frozenset(x for x in half if not inside.isdisjoint(x.users))

    @staticmethod
    def of_computation(c: Computation) -> Body:
        """The body of a computation whose parameters are all in memory, and whose root is not."""
        leaves = [(p, p.attrs.number) for p in c.instructions if p.opcode == "parameter"]
        leaves.sort(key=lambda leaf: leaf[1])
        inside = [x for x in c.in_order() if x.opcode != "parameter"]
        return Body(c.name, False, leaves, [(c.root, ())], inside)


@dataclass
class Emitted:
    """A kernel, and what its parameters are: operands of its owner, or parts of the result.

    An int is the number of an operand, a tuple the shape index of a result.
    """

    kernel: Kernel
    arguments: list[int | ShapeIndex]
    step_elements: int = 0
    """Of each root a step writes so many elements, the next ones in order; 0: not so simple."""


class BodyEmitter:
    """What writing a body needs: a builder, the elements of its leaves, the memory of its roots."""

    def __init__(self, body: Body, elements: Elements, outputs: list[Source]) -> None:
        self.body = body
        self.builder = elements.builder
        self.elements = elements
        elements.stored = body.stored
        self.outputs = outputs
        # What to add to the index at which a root is stored, where a root is a part of a result.
        self.offsets: list[tuple[int, ...]] = []
        # Whether the roots are elements of one row, in turn, which are stored together.
        self.takes_turns = False


class KernelEmitter(BodyEmitter):
    """A kernel for a body from its parameters on; `finish` ends it."""

    def __init__(
        self,
        body: Body,
        grid: tuple[int, ...],
        device: Device,
        in_place: bool = False,
        part: bool = False,
        elements: type[Elements] = Elements,
    ) -> None:
        """`in_place`: every root's memory holds its first operand already. `part`: other kernels
        write the rest of it."""
        super().__init__(body, elements(KernelBuilder(body.name, grid), device), [])
        self.arguments: dict[Value, int | ShapeIndex] = {}
        for leaf, number in body.leaves:
            value = self._param(f"in{number}", leaf.shape, "in")
            self.arguments[value] = number
            self.elements.sources[leaf] = Source(value, strides_of(leaf.shape))
        for number, (root, index) in enumerate(body.roots):
            shape = root.shape.subshape(index)
            role = "inout" if in_place or is_update(root) else "part" if part else "out"
            value = self._param(f"out{number}", shape, role)
            self.arguments[value] = (number,) if body.several else ()
            self.outputs.append(Source(value, strides_of(shape)))

    def _param(self, name: str, shape: Shape, role: str) -> Value:
        return self.builder.param(name, shape.dtype, prod(shape.dims), role)

    def finish(self) -> Emitted:
        """The kernel, without parameters that nothing reads; what a step takes is counted."""
        kernel = self.builder.finish()
        used = {x for op in kernel.ops() for x in op.operands}
        params: list[Param] = [p for p in kernel.params if p.value in used or p.role != "in"]
        kernel.params = params
        kernel.cost_ns = step_ns(kernel, self.elements.device)
        return Emitted(kernel, [self.arguments[p.value] for p in params])


def is_update(root: Instruction) -> bool:
    """Whether a root writes a part of its first operand's memory."""
    return root.opcode == "dynamic-update-slice"


def compute_bytes(of: DType) -> int:
    """The width of an element in a register."""
    if of.is_floating and of.bits < 32:
        return 4
    return max(of.size_bytes, 1)
