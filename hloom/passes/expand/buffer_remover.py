"""Buffers `b(f32[4])` as the arrays they hold: `Pin` and `Unpin` then say nothing.

A buffer has one writer at a time, so nothing sees whether it is written in place or copied;
buffer assignment, which knows `output_to_operand_aliasing` of arrays, decides that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import ALL_THREADS, Contents, PassResult, register
from hloom.rewrite.driver import Trace
from hloom.types.shape import Shape, tuple_shape

BETWEEN = ("Pin", "Unpin")
CREATE = "CreateBuffer"


def without_buffers(shape: Shape, known: dict[Shape, Shape]) -> Shape:
    """The shape with arrays in place of buffers; `known` holds the tuples that were looked at."""
    stack = [shape] if shape.elements and shape not in known else []
    while stack:
        part = stack[-1]
        missing = [x for x in part.elements if x.elements and x not in known]
        if missing and not part.is_buffer:
            stack.extend(missing)
            continue
        stack.pop()
        if part.is_buffer:
            known[part] = part.elements[0]
        else:
            known[part] = tuple_shape(tuple(known.get(x, x) for x in part.elements))
    return known.get(shape, shape)


@register
class BufferRemover(Expander):
    """Take buffers for the arrays that they hold, zeros at first."""

    name = "buffer-remover"
    opcodes = frozenset(["custom-call"])

    def is_for(self, contents: Contents) -> bool:
        return True  # types and the layout of the entry may name buffers, too

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        # One computation may not keep buffers that another no longer has: `threads` do not count.
        known: dict[Shape, Shape] = {}
        fired: Counter[str] = Counter()
        for c in module.computations:
            fired["buffers"] += sum(_remove(i, known) for i in c.instructions)
        layout = module.entry_layout
        if fired["buffers"] and layout is not None:
            module.entry_layout = replace(layout, result=without_buffers(layout.result, known))
        return PassResult.of(+(fired + super().run(module, trace=trace).fired))

    def wants(self, i: Instruction) -> bool:
        return i.attrs.custom_call_target in (*BETWEEN, CREATE)

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.attrs.custom_call_target in BETWEEN:
            return i.operands[0] if len(i.operands) == 1 else None
        return b.full(0, i.shape.dtype, i.shape.dims) if i.shape.is_array else None


def _remove(i: Instruction, known: dict[Shape, Shape]) -> bool:
    """Take the buffers out of an instruction's shapes; whether its result had any."""
    if i.opcode == "custom-call" and i.attrs.operand_layout_constraints is not None:
        layouts = tuple(without_buffers(s, known) for s in i.attrs.operand_layout_constraints)
        if layouts != i.attrs.operand_layout_constraints:
            i.attrs = replace(i.attrs, operand_layout_constraints=layouts)
    shape = without_buffers(i.shape, known)
    if shape is i.shape:
        return False
    i.shape = shape
    return True
