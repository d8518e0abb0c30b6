"""Kernels of parts of arrays: those that read, or write, other parts of an array are one kernel.

Layers and steps that are written out take each their own part of one array: `w[k]`, `xs[t]`,
`ys.at[t].set(y)`. A kernel that is given the whole array has the number of the part in its text, so
that every layer's is another one. What stands in one piece is an array of its own, further on in
memory: the kernel is written for that, and its step says where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from hloom.analysis.fusible import is_row_major
from hloom.codegen.tile import Body, ShapeIndex, is_update
from hloom.ir.builder import Builder
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.program.slice import ALIGNMENT, BufferSlice
from hloom.rewrite.fusion import drop_unread_operands
from hloom.targets.cpu.lower.hosted import alone
from hloom.targets.cpu.lowering import Lowering
from hloom.types.shape import Shape, tuple_shape

MOST_PARTS = 8
"""Of one array in one kernel: each is a parameter."""


@dataclass
class View:
    """What is computed of parts of arrays, in a module of its own, and where they stand."""

    cpu: Lowering
    of: Instruction
    fusion: Instruction
    operands: dict[Instruction, BufferSlice] = field(default_factory=dict)
    results: dict[ShapeIndex, BufferSlice] = field(default_factory=dict)

    def place(self, what: int | ShapeIndex) -> BufferSlice:
        """Where an operand of the fusion, or a part of its result, stands."""
        if isinstance(what, int):
            return self.operands[self.fusion.operands[what]]
        return self.results.get(what) or self.cpu.slice(self.of, what)


def view_of(cpu: Lowering, i: Instruction) -> View | None:
    """A fusion as one of parts; None where it reads and writes arrays as wholes."""
    written = _parts_written(cpu, i)
    read = _parts_read(i, written)
    if not read and not written:
        return None
    fusion = alone(i).entry.root
    view = View(cpu, i, fusion)
    for x, q in zip(i.operands, fusion.operands):
        if x.shape.is_array:
            view.operands[q] = cpu.slice(x)
    c = fusion.called[0]
    if written:
        _write_parts(view, written)
    for number in read:
        _read_parts(view, c.parameters[number])
    drop_unread_operands(c)
    c.sort()
    return view


def view_of_slice(cpu: Lowering, i: Instruction) -> View | None:
    """A slice as a copy of what it takes; None where that is not in one piece."""
    part = _part_of(i)
    if part is None:
        return None
    b = Builder(i.name)
    x = b.parameter(i.shape, name="part")
    view = View(cpu, i, b.copy(x))
    view.operands[x] = _place(cpu.slice(i.operands[0]), part, i.shape)
    return view


def run_of(whole: Shape, starts: tuple[int, ...], part: Shape) -> tuple[int, int] | None:
    """The first element of a part and how many it has, if they stand side by side."""
    if not is_row_major(whole) or not is_row_major(part) or whole.dtype.bits % 8:
        return None
    cut = next((d for d, n in enumerate(part.dims) if n > 1), part.rank)
    if part.dims[cut + 1 :] != whole.dims[cut + 1 :]:
        return None
    first = sum(at * prod(whole.dims[d + 1 :]) for d, at in enumerate(starts))
    return first, part.size


def _part_of(i: Instruction) -> tuple[int, int] | None:
    """What a slice takes, if that is one piece."""
    if i.opcode != "slice" or any(d.stride != 1 for d in i.attrs.slice.dimensions):
        return None
    starts = tuple([d.start for d in i.attrs.slice.dimensions])
    return run_of(i.operands[0].shape, starts, i.shape)


def _parts_read(i: Instruction, written: dict[ShapeIndex, tuple[int, int]]) -> list[int]:
    """The numbers of the operands of which only parts are read, and that others read, too."""
    updates = {root for root, index in _roots(Body.of(i)) if index in written}
    numbers = []
    for p in i.called[0].parameters:
        readers = [u for u in p.users if u not in updates]
        if len(i.operands[p.attrs.number].users) == 1 or not readers or p is i.called[0].root:
            continue
        parts = {_part_of(u) for u in readers}
        if None not in parts and len(parts) <= MOST_PARTS:
            numbers.append(p.attrs.number)
    return numbers


def _parts_written(cpu: Lowering, i: Instruction) -> dict[ShapeIndex, tuple[int, int]]:
    """The results of which a part that stands in one piece is written, and what else is there
    before."""
    body = Body.of(i)
    parts = {}
    for root, index in _roots(body):
        if not is_update(root) or any(u is not i.called[0].root for u in root.users):
            continue
        p, update, *at = root.operands
        starts = [_constant(x) for x in at]
        if p.opcode != "parameter" or None in starts:
            continue
        limits = [n - m for n, m in zip(root.shape.dims, update.shape.dims)]
        clamped = tuple([min(max(s or 0, 0), most) for s, most in zip(starts, limits)])
        part = run_of(root.shape, clamped, update.shape)
        if part is None or not all(u is root or _is_apart(_part_of(u), part) for u in p.users):
            continue
        place = cpu.slice(i, index)
        # Stores past the caches go to even addresses.
        if not (place.offset + part[0] * root.shape.dtype.size_bytes) % ALIGNMENT:
            parts[index] = part
    return parts


def _is_apart(part: tuple[int, int] | None, other: tuple[int, int]) -> bool:
    """Whether a part is one piece, and has no element of another one."""
    return part is not None and (sum(part) <= other[0] or sum(other) <= part[0])


def _roots(body: Body) -> list[tuple[Instruction, ShapeIndex]]:
    """The results, each with where it is in the shape."""
    if not body.several:
        return body.roots
    return [(root, (k,)) for k, (root, index) in enumerate(body.roots) if not index]


def _constant(x: Instruction) -> int | None:
    return int(x.attrs.literal.array) if x.opcode == "constant" else None


def _read_parts(view: View, p: Instruction) -> None:
    """Make an operand of each part that is read of a parameter."""
    fusion, c = view.fusion, p.parent
    whole = view.operands[fusion.operands[p.attrs.number]]
    known: dict[tuple[int, int], Instruction] = {}
    for u in list(p.users):
        part = _part_of(u)
        assert part is not None
        q = known.get(part)
        if q is None or q.shape != u.shape:
            number = len(fusion.operands)
            q = known[part] = c.add("parameter", number=number, shape=u.shape)
            x = fusion.parent.add("parameter", number=number, shape=u.shape)
            fusion.set_operands((*fusion.operands, x))
            view.operands[x] = _place(whole, part, u.shape)
        c.replace(u, q)
        c.erase(u)


def _write_parts(view: View, written: dict[ShapeIndex, tuple[int, int]]) -> None:
    """Compute what is written of a result in place of the result."""
    c = view.fusion.called[0]
    old = c.root
    roots = list(old.operands) if old.opcode == "tuple" else [old]
    for index, part in written.items():
        number = index[0] if index else 0
        update = roots[number].operands[1]
        if update.opcode == "parameter":
            update = c.add("copy", update)
        roots[number] = update
        view.results[index] = _place(view.cpu.slice(view.of, index), part, update.shape)
    c.root = roots[0]
    if old.opcode == "tuple":
        c.root = c.add("tuple", *roots, shape=tuple_shape(x.shape for x in roots))
    _erase_dead(c, old)
    view.fusion.shape = c.root.shape


def _erase_dead(c: Computation, i: Instruction) -> None:
    work = [i]
    while work:
        x = work.pop()
        if x in c.instructions and not x.users and x.opcode != "parameter" and x is not c.root:
            work += c.erase(x)


def _place(whole: BufferSlice, part: tuple[int, int], shape: Shape) -> BufferSlice:
    first, count = part
    size = shape.dtype.size_bytes
    return BufferSlice(whole.allocation, whole.offset + first * size, count * size)
