"""What `conditional-code-motion` moves into branches: what only they read, and what reads them.

An operand that some branches do not read is computed by those that do, where handing on what it
reads keeps no more memory. An operation that reads results of a conditional, and is smaller than
they are, becomes the end of each branch: less is handed on, and it may be fused with what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE, RESHAPES
from hloom.passes.expand.expansion import Expansion
from hloom.passes.simplify.dce import remove_dead_instructions

MOVABLE = opcodes(
    ELEMENTWISE,
    RESHAPES,
    also=("transpose", "reverse", "broadcast", "slice", "dot", "reduce"),
)
"""What is the same work in a branch as outside of it: nothing that devices do together, that has
an effect, or that writes in place of what a branch is handed or returns."""


def unread_operand(i: Instruction) -> Instruction | None:
    """An operand that only some branches of a conditional read, and nobody else."""
    handed = [_handed(x) for x in i.operands[1:]]
    tuples = {x for x in i.operands[1:] if x.opcode == "tuple"}
    if not has_plain_inputs(i) or any(set(t.users) != {i} or t.has_control_edges for t in tuples):
        return None
    for x in dict.fromkeys([x for values in handed for x in values]):
        readers = [c for c, values in zip(i.called, handed, strict=True) if _is_read(c, values, x)]
        is_only_theirs = all(u is i or u in tuples for u in x.users) and x is not i.operands[0]
        if not is_only_theirs or len(readers) == len(i.called) or not _is_movable(x):
            continue
        if sum(o.shape.size_bytes for o in set(x.operands) if _is_kept_for(o, x)) <= (
            x.shape.size_bytes
        ):
            return x
    return None


def _is_kept_for(x: Instruction, reader: Instruction) -> bool:
    """Whether an array would be in memory for longer, were its reader moved."""
    return x.opcode not in ("parameter", "constant") and set(x.users) == {reader}


def has_plain_inputs(i: Instruction) -> bool:
    """Whether branches read the elements of tuples that are made for them one by one."""
    for x, c in zip(i.operands[1:], i.called, strict=True):
        (p,) = c.parameters
        is_apart = not p.is_root and all(u.opcode == "get-tuple-element" for u in p.users)
        if p.sharding is not None or p.has_control_edges or (x.opcode == "tuple" and not is_apart):
            return False
    return True


def _is_read(c: Computation, values: Sequence[Instruction], x: Instruction) -> bool:
    (p,) = c.parameters
    if not p.shape.is_tuple:
        return x in values and bool(p.users or p.is_root)
    return any(u.opcode == "get-tuple-element" and values[u.attrs.index] is x for u in p.users)


def _is_movable(x: Instruction) -> bool:
    is_plain = not x.has_control_edges and x.sharding is None and x.shape.is_array
    return x.opcode in MOVABLE and is_plain and not x.is_root


def smaller_reader(i: Instruction) -> Instruction | None:
    """The only reader of some results of a conditional, smaller than they are."""
    elements = [] if i.shape.is_array else list(i.users)
    if any(x.has_control_edges for x in elements) or not has_plain_inputs(i):
        return None
    if len({x.attrs.index for x in elements}) < len(elements):
        return None  # each is read in one place
    for leaf in elements or [i]:
        if len(leaf.users) != 1 or leaf.is_root:
            continue
        (reader,) = leaf.users
        is_plain = not reader.has_control_edges and reader.sharding is None
        if reader.opcode not in MOVABLE or not is_plain or not reader.shape.is_array:
            continue
        leaves = {x for x in reader.operands if is_leaf(x, i)}
        read = sum(x.shape.size_bytes for x in leaves)
        if reader.shape.size_bytes >= read or any(set(x.users) != {reader} for x in leaves):
            continue
        if not any(x.is_root for x in leaves) and not _is_undone(reader):
            if not _reaches(i, [x for x in reader.operands if x not in leaves]):
                return reader
    return None


def is_leaf(x: Instruction, i: Instruction) -> bool:
    """Whether a value is a conditional's result, or an element of it."""
    return x is i or (x.opcode == "get-tuple-element" and x.operands[0] is i)


def _is_undone(x: Instruction) -> bool:
    """Whether a conversion is read by one back only: the two stay beside each other."""
    before = x.operands[0].shape
    back = [u.opcode == "convert" and u.shape == before for u in x.users]
    return x.opcode == "convert" and bool(back) and all(back)


def _reaches(i: Instruction, values: Sequence[Instruction]) -> bool:
    """Whether one of these values, in some steps, is computed from a conditional."""
    seen: set[Instruction] = set()
    stack = list(values)
    while stack:
        x = stack.pop()
        if x is i:
            return True
        if x not in seen:
            seen.add(x)
            stack += (*x.operands, *x.control_predecessors)
    return False


def with_operand_inside(i: Instruction, x: Instruction) -> Instruction:
    """The conditional whose branches compute this operand where they read it."""
    operands = [i.operands[0]]
    for operand, c in zip(i.operands[1:], i.called, strict=True):
        values = _handed(operand)
        if x in values:
            is_read = _is_read(c, values, x)
            values = [v for v in values if v is not x]
            values += _not_constant(x.operands) if is_read else []
            operand, _ = _rebuilt(i, operand, c, values, x if is_read else None)
        operands.append(operand)
    new = _in_place_of(i, operands)
    i.parent.erase(x)  # so that what it reads has one reader less
    return new


def with_reader_inside(i: Instruction, reader: Instruction) -> Instruction:
    """The conditional whose branches end with an operation that read its results."""
    leaves = [i] if i.shape.is_array else list(i.users)
    kept = [x for x in leaves if reader not in x.users]
    outside = _not_constant([x for x in reader.operands if not is_leaf(x, i)])
    operands = [i.operands[0]]
    for operand, c in zip(i.operands[1:], i.called, strict=True):
        inside: dict[Instruction, Instruction] = {}
        if outside:
            operand, inside = _rebuilt(i, operand, c, [*_handed(operand), *outside])
        operands.append(operand)
        inside |= {x: c.root if x is i else c.root.operands[x.attrs.index] for x in leaves}
        end = _again(c, reader, inside)
        c.root = c.add("tuple", *[inside[x] for x in kept], end) if kept else end
        remove_dead_instructions(c)
    return _in_place_of(i, operands, reader, kept)


def _not_constant(values: Sequence[Instruction]) -> list[Instruction]:
    return [x for x in values if x.opcode != "constant"]


def _again(
    c: Computation, x: Instruction, inside: Mapping[Instruction, Instruction]
) -> Instruction:
    """The operation once more in a branch, on what is there for its operands."""
    b = Expansion(c, {})
    of = [inside[o] if o in inside else b.constant(o.attrs.literal) for o in x.operands]
    return b.like(x, *of)


def _handed(operand: Instruction) -> list[Instruction]:
    """What a branch is handed: the elements of a tuple that is made for it, or one value."""
    return list(operand.operands) if operand.opcode == "tuple" else [operand]


def _rebuilt(
    i: Instruction,
    operand: Instruction,
    c: Computation,
    values: Sequence[Instruction],
    moved: Instruction | None = None,
) -> tuple[Instruction, dict[Instruction, Instruction]]:
    """A tuple of these values as the operand of a branch, and what each is in the branch; `moved`,
    one of those before, is computed there."""
    (old,) = c.parameters
    handed = list(dict.fromkeys(values))
    new = i.parent.add("tuple", *handed)
    p = c.append("parameter", old.attrs, (), new.shape, old.name)
    inside = {x: c.add("get-tuple-element", p, index=k) for k, x in enumerate(handed)}
    if moved is not None:
        inside[moved] = _again(c, moved, inside)
    if operand.opcode == "tuple":
        for u in list(old.users):
            c.replace(u, inside[operand.operands[u.attrs.index]])
            c.erase(u)
    elif operand in inside:
        c.replace(old, inside[operand])
    c.erase(old)
    return new, inside


def _in_place_of(
    i: Instruction,
    operands: Sequence[Instruction],
    reader: Instruction | None = None,
    kept: Sequence[Instruction] = (),
) -> Instruction:
    """A conditional of the same branches in the place of another one: of its result, or, where
    branches end with a reader of it, of those results that are kept and of that reader."""
    c, b = i.parent, Expansion(i.parent, {})
    new = b.emit("conditional", *operands, called=i.called, shape=i.called[0].root.shape)
    new.copy_annotations(i)
    if reader is None:
        c.replace(i, new)
    else:
        for k, x in enumerate(kept):
            c.replace(x, b.element(new, k))
        c.replace(reader, b.element(new, len(kept)) if kept else new)
        c.erase(reader)
        for x in [] if i.shape.is_array else list(i.users):
            c.erase(x)
    i.set_called(())
    before = [x for x in c.erase(i) if not x.users and not x.is_root]
    while before:
        x = before.pop()
        if x in c.instructions and not x.users and not x.is_root and x.opcode == "tuple":
            before += c.erase(x)
    return new
