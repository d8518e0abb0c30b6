"""Work on joined dimensions is done on the dimensions that were joined.

    reduce(op(reshape(x), ...))     =>  reshape(reduce(op(x, ...)))
    reshape(op(reshape(x), ...))    =>  op(x, ...)

The reshapes of `x` only join neighbours, and what reads them, up to reduces and to the reshapes
that split again, goes element by element. A norm over all of an image, or a mean over its places,
is written so: the image is seen as one long row. Orders of dimensions do not reach through
reshapes, so all that has anything to do with that row would keep the order of the program.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expansion, put_in_place
from hloom.passes.expand.map_inliner import BY_ELEMENT
from hloom.passes.layout.split_dimensions import Groups, split_dimensions
from hloom.types.shape import shape

MOST = 200
"""Instructions that are looked at from one reshape."""


def split_joined(c: Computation, fired: Counter[str]) -> None:
    """Do what a computation does on joined dimensions on those before."""
    seen: set[Instruction] = set()
    before = fired.total()
    for i in c.in_order():
        if i in seen or i not in c.instructions or not _joins(i):
            continue
        row = JoinedRow(i)
        is_closed = row.grow()
        seen.update(row.members)
        if is_closed and row.ends:
            row.split(c)
            fired["joined dimensions split"] += 1
    if fired.total() > before:
        c.sort()


def _groups(i: Instruction) -> Groups | None:
    """Of a reshape that only joins neighbours: those that each of its dimensions is made of."""
    if i.opcode != "reshape" or not i.shape.is_static or not i.operands[0].shape.is_static:
        return None
    return split_dimensions(i.shape.dims, i.operands[0].shape.dims)


def _joins(i: Instruction) -> bool:
    """Whether a reshape joins dimensions of more than one element."""
    groups, dims = _groups(i), i.operands[0].shape.dims if i.operands else ()
    return groups is not None and any(sum(dims[d] > 1 for d in g) > 1 for g in groups)


class JoinedRow:
    """What is computed element by element from one reshape that joins dimensions."""

    def __init__(self, first: Instruction) -> None:
        self.dims = first.shape.dims
        self.parts = first.operands[0].shape.dims
        groups = _groups(first)
        assert groups is not None, "the caller has looked"
        self.groups = groups
        self.members: dict[Instruction, None] = {first: None}
        self.ends: dict[Instruction, None] = {}
        """Reduces, and reshapes to the dimensions before."""

    def grow(self) -> bool:
        """Find all that goes with the first; whether nobody else reads any of it."""
        todo = list(self.members)
        while todo and len(self.members) < MOST:
            i = todo.pop()
            if i.is_root or i.has_control_edges:
                return False
            for x in (*i.users, *(() if self._is_entry(i) else i.operands)):
                if x in self.members or self._ends(x, i) or self._is_input(x, i):
                    continue
                goes_along = x.opcode in BY_ELEMENT and x.shape.is_array
                if not self._is_entry(x) and not (goes_along and x.shape.dims == self.dims):
                    return False
                self.members[x] = None
                todo.append(x)
        return not todo

    def _is_entry(self, i: Instruction) -> bool:
        """Whether this joins the same dimensions."""
        if i.opcode != "reshape" or i.shape.dims != self.dims:
            return False
        return i.operands[0].shape.dims == self.parts

    def _ends(self, x: Instruction, i: Instruction) -> bool:
        """Whether a reader of a member ends the row, or whether it is known that it does."""
        if x in self.ends:
            return True
        if i not in x.operands or x.has_control_edges:
            return False
        is_split = x.opcode == "reshape" and x.shape.dims == self.parts
        is_fold = x.opcode == "reduce" and len(x.operands) == 2 and x.operands[0] is i
        if is_split or is_fold:
            self.ends[x] = None
        return is_split or is_fold

    def _is_input(self, x: Instruction, i: Instruction) -> bool:
        """Whether an operand of a member is a scalar, or repeated along the joined dimensions."""
        if x not in i.operands:
            return False
        if x.shape.is_array and x.shape.rank == 0:
            return True
        if x.opcode != "broadcast" or x.shape.dims != self.dims:
            return False
        return all(len(self._wide(d)) <= 1 for d in x.attrs.dimensions)

    def _wide(self, d: int) -> list[int]:
        """The dimensions of more than one element that one is joined of."""
        return [k for k in self.groups[d] if self.parts[k] > 1]

    def split(self, c: Computation) -> None:
        """Do all of it on the dimensions before; the caller sorts the computation."""
        members = [x for x in self.members if not self._is_entry(x)]
        repeated = [x for i in members for x in i.operands if x not in self.members and x.operands]
        for i in members:
            i.set_operands(tuple([self._part(c, x) for x in i.operands]))
            i.shape = shape(i.shape.dtype, self.parts).with_default_layouts()
            i.sharding = None
        for i in self.ends:
            b = Expansion(c, {})
            x = self._part(c, i.operands[0])
            if i.opcode == "reshape":
                put_in_place(b, i, x)
                continue
            over = tuple(sorted(k for d in i.attrs.dimensions for k in self.groups[d]))
            attrs = replace(i.attrs, dimensions=over)
            kept = [n for k, n in enumerate(self.parts) if k not in over]
            of = shape(i.shape.dtype, kept).with_default_layouts()
            folded = c.append("reduce", attrs, (x, i.operands[1]), of, called=i.called)
            folded.metadata = i.metadata
            put_in_place(b, i, b.reshaped(folded, i.shape.dims))
        for i in [x for x in self.members if self._is_entry(x)] + repeated:
            if i in c.instructions and not i.users:
                c.erase(i)

    def _part(self, c: Computation, x: Instruction) -> Instruction:
        """An operand with the dimensions before."""
        if self._is_entry(x):
            return x.operands[0]
        if x in self.members or x.shape.rank == 0:
            return x
        b, kept = Expansion(c, {}), [d for d in x.attrs.dimensions if self._wide(d)]
        source = b.reshaped(x.operands[0], [self.dims[d] for d in kept])
        return b.spread(source, self.parts, [k for d in kept for k in self._wide(d)])
