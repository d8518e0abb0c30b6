"""What each instruction can be in a fusion: a value evaluated at an index, a fold, an anchor, or
nothing, and then why.

A question about one instruction at a time; whether several go together is `fusion_form.py`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod

from hloom.analysis.kernel_options import kernel_options
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes, opcodes_where
from hloom.ir.traits import CHOOSES, ELEMENTWISE, RESHAPES, STRIDED
from hloom.types.shape import Shape
from hloom.types.sizes import packed_bits

POINT = "point"
"""Its value at an index follows from values of its operands at one index each."""
FOLD = "fold"
"""A reduce."""
ANCHOR = "anchor"
"""A dot or a convolution."""
UPDATE = "update"
"""A dynamic-update-slice, in place."""
ALONE = "alone"
"""A kernel, library call or piece of control of its own."""

INDEX_MAPS = opcodes(STRIDED, RESHAPES, CHOOSES)
"""A kernel computes where to read, not what."""
RENAMES = opcodes(RESHAPES)
"""No-ops on memory where all layouts are row-major."""
MOST_CONSTANT_ELEMENTS = 1 << 20
"""A larger constant is not looked at, though it may be one value everywhere."""
POINTWISE = opcodes_where(
    # stochastic-convert has no code in a kernel.
    lambda op: (
        (ELEMENTWISE in op.traits and op.name != "stochastic-convert")
        or op.name in INDEX_MAPS
        or op.name in ("copy", "constant")
    )
)
"""Elementwise operations, the index maps and what is like them."""


def role(i: Instruction) -> tuple[str, str]:
    """What it can be, and for `ALONE` why."""
    opcode = i.opcode
    if opcode in POINTWISE:
        kind = POINT
    elif opcode == "reduce":
        kind = FOLD
    elif opcode in ("dot", "convolution"):
        kind = ANCHOR
    elif opcode == "dynamic-update-slice":
        kind = UPDATE
    else:
        return ALONE, f"{opcode} is a kernel of its own" if i.operands else f"{opcode} is no kernel"
    why = _why_alone(i, kind)
    return (ALONE, why) if why else (kind, "")


def joins_indices(i: Instruction) -> bool:
    """Whether it only puts indices together, of which gathers ask for one after the other."""
    return (
        i.opcode == "concatenate"
        and len(i.users) > 0
        and all(
            u.opcode == "gather"
            and u.operands[0] is not i
            and i.attrs.dimensions == (u.attrs.index_vector_dim,)
            for u in i.users
        )
    )


def _why_alone(i: Instruction, kind: str) -> str:
    """Why an instruction of a fusible opcode cannot be in a fusion; empty when it can."""
    if i.control_predecessors or i.control_successors:
        return "control edges"
    if kernel_options(i) is not None:
        return "kernel options of its own"
    for s in i.shape.elements or (i.shape,):
        if why := _wrong_shape(s):
            return why
    for x in i.operands:
        if not x.shape.is_array:
            return "an operand that is no array"
        if not x.shape.is_static:
            return "dynamic sizes"
        if not is_row_major(x.shape):
            return "an operand is not row-major"
    if i.opcode == "constant" and not is_small_constant(i):
        return "a constant in memory"
    if i.opcode == "bitcast" and i.shape.dtype is not i.operands[0].shape.dtype:
        return "a bitcast to another type"
    if kind == FOLD and _reduced_size(i) <= 1:
        return "it reduces nothing"
    return ""


def _wrong_shape(s: Shape) -> str:
    if not s.is_array:
        return "its value is no array"
    if not s.is_static:
        return "dynamic sizes"
    if 0 in s.dims:
        return "no elements"
    return "" if is_row_major(s) else "it is not row-major"


def is_row_major(s: Shape) -> bool:
    """Whether elements follow one another with the last dimension fastest."""
    layout = s.layout
    if layout is None or layout.is_default:
        return True
    if layout.tiles or layout.memory_space or layout.split_configs or packed_bits(s):
        return False
    order = [d for d in layout.minor_to_major if s.dims[d] > 1]
    return order == sorted(order, reverse=True)


def is_small_constant(i: Instruction) -> bool:
    """A constant that stands in the code and not in memory: a scalar, or one value everywhere."""
    if not i.shape.dims:
        return not i.attrs.literal.is_elided
    if i.attrs.literal.is_elided or i.shape.size > MOST_CONSTANT_ELEMENTS:
        return False
    return i.attrs.literal.is_all_equal


def _reduced_size(i: Instruction) -> int:
    dims = i.operands[0].shape.dims
    return prod([dims[d] for d in i.attrs.dimensions])


def dot_flops(i: Instruction) -> int:
    """Multiply-adds of a dot, times two."""
    dims = i.operands[0].shape.dims
    return 2 * i.shape.size * prod([dims[d] for d in i.attrs.lhs_contracting_dims])


def reduces_minor(i: Instruction) -> bool:
    """Whether the dimensions a reduce removes are the innermost ones (sizes of 1 apart)."""
    dims, gone = i.operands[0].shape.dims, set(i.attrs.dimensions)
    kept_dims = [d for d in range(len(dims)) if d not in gone and dims[d] > 1]
    first = min([d for d in gone if dims[d] > 1], default=len(dims))
    return all(d < first for d in kept_dims)


def squeezed(dims: Sequence[int]) -> tuple[int, ...]:
    """The sizes that are not 1."""
    return tuple([n for n in dims if n != 1])


def fold_pattern(p: Instruction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and the reduced dimensions of a reduce, dimensions of size 1 left out."""
    dims = p.operands[0].shape.dims
    kept_dims = [d for d, n in enumerate(dims) if n != 1]
    gone = [k for k, d in enumerate(kept_dims) if d in p.attrs.dimensions]
    return squeezed(dims), tuple(gone)


def feeds_reduce(p: Instruction, members: Container[Instruction]) -> bool:
    """Whether a reduce among these members is computed from `p`."""
    seen = {p}
    work = [p]
    while work:
        for user in work.pop().users:
            if user in members and user not in seen:
                if user.opcode == "reduce":
                    return True
                seen.add(user)
                work.append(user)
    return False
