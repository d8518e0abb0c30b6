"""What combines two elements, or compares them: a computation of scalars, applied to tiles."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.base.diagnostics import UnsupportedError
from hloom.codegen.elements import SIMPLE, Elements
from hloom.codegen.tile_shape import common_shape
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value


def apply(e: Elements, computation: Computation, arguments: Sequence[Value]) -> list[Value]:
    """What a computation of scalars gives for tiles: its results, a tuple's elements in order, of
    the shape of the tiles also where they are the same for all elements."""
    known: dict[Instruction, Value] = {}
    for i in computation.in_order():
        opcode = i.opcode
        if opcode == "parameter":
            known[i] = arguments[i.attrs.number]
        elif opcode == "constant":
            known[i] = e.builder.constant(i.shape.dtype, i.attrs.literal.array.flat[0])
        elif opcode in SIMPLE:
            known[i] = e.elementwise(i, [known[x] for x in i.operands])
        elif opcode in ("copy", "reshape", "broadcast", "bitcast", "transpose"):
            known[i] = known[i.operands[0]]
        elif opcode == "bitcast-convert":
            known[i] = e.builder.unary("bitcast-convert", known[i.operands[0]], i.shape.dtype)
        elif opcode == "call":
            [known[i]] = apply(e, i.called[0], [known[x] for x in i.operands])
        elif opcode != "tuple":
            raise UnsupportedError(
                f"%{computation.name}/%{i.name}: {opcode} in what combines or compares elements "
                "has no code",
                rule="cpu-unsupported",
                hint="write it with operations on single elements, or what calls it as a while",
            )
    root = computation.root
    results = [known[x] for x in root.operands] if root.opcode == "tuple" else [known[root]]
    shape = common_shape([x.shape for x in (*arguments, *results)])
    return [e.builder.broadcast(x, shape) for x in results]


def is_applicable(computation: Computation) -> bool:
    """Whether `apply` can write the computation."""
    plain = {"parameter", "constant", "tuple", "copy", "reshape", "broadcast", "bitcast"}
    plain |= {"transpose", "bitcast-convert"}
    for i in computation.instructions:
        if i.opcode == "call":
            if i.called[0].root.opcode == "tuple" or not is_applicable(i.called[0]):
                return False
        elif i.opcode not in SIMPLE | plain or (i.opcode != "tuple" and i.shape.size != 1):
            return False
    return True


def combined(
    e: Elements, c: Computation, kinds: list[str] | None, x: Sequence[Value], y: Sequence[Value]
) -> list[Value]:
    if kinds is not None:
        pairs = [e.matched(pair) for pair in zip(x, y)]
        return [e.builder.binary(kind, a, b) for kind, (a, b) in zip(kinds, pairs)]
    return apply(e, c, e.matched([*x, *y]))
