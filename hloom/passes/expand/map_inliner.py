"""Map as the elementwise operations of its body, on whole arrays.

The body works on scalars, and every operation that scalars have means the same on each element
of an array, so the body is written once more with the map's sizes in all shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.mixed_precision import unify
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE, RESHAPES, STRIDED
from hloom.passes.expand.expansion import Expander, Expansion, refuse
from hloom.passes.facts import without
from hloom.passes.pass_ import ALL_THREADS, PassResult, register
from hloom.rewrite.driver import Trace
from hloom.types.shape import shape

BY_ELEMENT = opcodes(ELEMENTWISE, also=("copy",))
SAME_SCALAR = opcodes(STRIDED, RESHAPES, also=("copy",), without=("iota",))
"""Operations that give a scalar back when both sides are scalars of one type."""


def is_by_element(body: Computation) -> bool:
    """Whether `inlined` can write a body of scalars that calls nothing."""
    return all(
        j.shape.is_scalar and (j.opcode in BY_ELEMENT or j.opcode in ("parameter", "constant"))
        for j in body.instructions
    )


def inlined(
    b: Expansion, caller: Instruction, body: Computation, arguments: Sequence[Instruction]
) -> Instruction:
    """The result of a body of scalars for each element of `arguments`, which have equal sizes.

    Raises `ExpandError` for a body with operations that are not elementwise.
    """
    dims = arguments[0].shape.dims if arguments else caller.shape.dims
    frames = [_BodyCopy(body, arguments)]
    while True:
        frame = frames[-1]
        if not frame.waiting:
            result = frame.new_for_old[frame.body.root]
            frames.pop()
            if not frames:
                return result
            frames[-1].new_for_old[frames[-1].waiting.pop()] = result
            continue
        j = frame.waiting[-1]
        operands = [frame.new_for_old[o] for o in j.operands]
        if j.opcode in ("call", "map"):
            frames.append(_BodyCopy(j.called[0], operands))
            continue
        frame.new_for_old[j] = _on_arrays(b, caller, j, operands, frame.arguments, dims)
        frame.waiting.pop()


class _BodyCopy:
    """One body that is being written: what is still to be written of it, last first."""

    __slots__ = ("arguments", "body", "new_for_old", "waiting")

    def __init__(self, body: Computation, arguments: Sequence[Instruction]) -> None:
        self.body = body
        self.arguments = arguments
        self.new_for_old: dict[Instruction, Instruction] = {}
        self.waiting = body.in_order()[::-1]


def _on_arrays(
    b: Expansion,
    caller: Instruction,
    j: Instruction,
    operands: list[Instruction],
    arguments: Sequence[Instruction],
    dims: tuple[int, ...],
) -> Instruction:
    if j.opcode == "parameter":
        return arguments[j.attrs.number]
    if j.opcode == "constant" and j.shape.is_scalar:
        return b.spread(b.emit("constant", literal=j.attrs.literal, shape=j.shape), dims)
    if j.opcode == "tuple":
        return b.tuple(*operands)
    if j.opcode == "get-tuple-element":
        return b.element(operands[0], j.attrs.index)
    scalars = j.shape.is_scalar and all(o.shape.is_scalar for o in j.operands)
    if scalars and j.opcode in SAME_SCALAR and j.shape.dtype is j.operands[0].shape.dtype:
        return operands[0]
    if scalars and j.opcode in BY_ELEMENT:
        return b.like(j, *operands, shape=shape(j.shape.dtype, dims).with_default_layouts())
    raise refuse(
        caller,
        f"the body %{j.parent.name} of a map holds %{j.name}, a {j.opcode} that is no operation "
        "on single elements",
        "map-body",
        "write the map as a loop, or with operations on whole arrays",
    )


@register
class MapInliner(Expander):
    """Write every map as the operations of its body on whole arrays."""

    name = "map-inliner"
    gives = (without("map"),)
    opcodes = frozenset(["map"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        arguments = [
            b.spread(x, i.shape.dims) if x.shape.is_scalar and i.shape.dims else x
            for x in i.operands
        ]
        return inlined(b, i, i.called[0], arguments)

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        unified = 0
        if any(i.opcode == "map" for i in module.instructions()):
            unified = unify(module, threads)  # a body may take and give other types than the arrays
        result = super().run(module, trace=trace, threads=threads)
        return PassResult.of(result.fired + Counter(unified=unified))
