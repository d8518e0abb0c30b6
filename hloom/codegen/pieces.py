"""Kernels for concatenations: each operand writes its own part of the result.

Asking element by element which operand it comes from costs a mask and a load per operand; here
every operand is a nest of loops of its own, whose results are stored with an offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from operator import itemgetter

from hloom.codegen.elements_concatenate import is_stored_in_turn
from hloom.codegen.loops import LoopWriter, Nest
from hloom.codegen.row_tiles import MOST_WRITTEN, whole_rows
from hloom.codegen.tile import Body, Emitted, KernelEmitter, compute_bytes
from hloom.codegen.walk import Loops, vector_lanes, vectors_for
from hloom.codegen.work import body_work
from hloom.device.device import Device
from hloom.ir.instruction import Instruction

# With fewer rows than this, and more elements than that, operands become kernels of their own; so
# many small ones at most, one behind another, share one, which no more than one thread runs.
FEW_ROWS = 8
MANY_ELEMENTS = 1 << 14
MANY_PARTS = 64


def concatenate_parts(body: Body) -> list[list[int]] | None:
    """Which operands of a concatenation at the root share a kernel; None if there is none.

    Dynamic or empty results are left to the general loops.
    """
    if len(body.roots) != 1 or body.several:
        return None
    root = body.roots[0][0]
    if root.opcode != "concatenate" or root.shape.is_dynamic or root.shape.size == 0:
        return None
    if root.shape.layout is not None and not root.shape.layout.is_default:
        return None
    d = root.attrs.dimensions[0]
    numbers = [k for k, x in enumerate(root.operands) if x.shape.size]
    rows = prod(root.shape.dims[:d])
    if rows >= FEW_ROWS or root.shape.size < MANY_ELEMENTS:
        # LLVM takes four times as long for code of twice the length.
        return [numbers[k : k + MANY_PARTS] for k in range(0, len(numbers), MANY_PARTS)]
    return _grouped(root, numbers)


def _grouped(root: Instruction, numbers: Sequence[int]) -> list[list[int]]:
    """Operands that together have few elements, by kernels: a program that was unrolled joins
    thousands of them."""
    groups: list[list[int]] = []
    room = 0
    for k in numbers:
        size = root.operands[k].shape.size
        if size > room or len(groups[-1]) == MANY_PARTS:
            groups.append([])
            room = MANY_ELEMENTS
        groups[-1].append(k)
        room -= size
    return groups


def concatenate_kernels(
    body: Body, groups: Sequence[Sequence[int]], device: Device
) -> list[Emitted]:
    """For each group of operands of the concatenation at the root the kernel that writes them."""
    starts, whole = _starts(body.roots[0][0]), len(groups) == 1
    bodies = zip(groups, _bodies(body, groups))
    return [_kernel(some, parts, starts, whole, device) for parts, some in bodies]


def _kernel(
    body: Body, parts: Sequence[int], starts: Sequence[int], whole: bool, device: Device
) -> Emitted:
    """The kernel of some operands; `whole`: of all that have elements."""
    root = body.roots[0][0]
    d = root.attrs.dimensions[0]
    work = body_work(body.instructions, [root], device.costs)
    if _is_narrow(root, parts, device):
        return _side_by_side(body, parts, starts, whole, device, work)
    alone = len(parts) == 1
    if alone:
        [k] = parts
        inside = [x for x in body.instructions if x is not root]  # which chooses among operands
        own = Body(body.name, False, body.leaves, [(root.operands[k], ())], inside)
        shapes = [Loops.of(own, root.operands[k].shape.dims, device, work)]
    else:
        vectors, vector = vectors_for(body, device, work), vector_lanes(body, device)
        inside = set(body.instructions)
        shapes = [_loops(root.operands[k], inside, d, vectors, vector, device) for k in parts]
    grid = shapes[0].grid if alone else (prod(root.shape.dims[:d]),)
    emitter = KernelEmitter(body, grid, device, part=not whole)
    [output] = emitter.outputs
    emitter.body = Body(
        body.name, False, body.leaves, [(root.operands[k], ()) for k in parts], body.instructions
    )
    emitter.outputs = [output] * len(parts)
    emitter.offsets = [
        tuple([starts[k] if axis == d else 0 for axis in range(root.shape.rank)]) for k in parts
    ]
    order = tuple(range(root.shape.rank))
    e = emitter.elements
    outer = None
    if not alone:
        row = e.indices.scalar(emitter.builder.grid_indices[0], 0, max(grid[0] - 1, 0))
        outer = e.indices.digits(row, root.shape.dims[:d])
    for number, loops in enumerate(shapes):
        writer = LoopWriter(emitter, Nest(loops, number, order, False, [number], []))
        if outer is None:
            writer.write()
        else:
            writer.write_step(outer)
    return emitter.finish()


def _bodies(body: Body, groups: Sequence[Sequence[int]]) -> Iterator[Body]:
    """For each group of operands of the root the body with no more than what they are computed
    from: looking at all for each kernel would take a time that grows as the square of them."""
    if len(groups) == 1:
        yield body
        return
    root = body.roots[0][0]
    order = {x: k for k, x in enumerate(body.instructions)}
    numbers = dict(body.leaves)
    for parts in groups:
        needed = {root, *[root.operands[k] for k in parts]}
        waiting = list(needed - {root})
        while waiting:
            x = waiting.pop()
            new = [y for y in x.operands if y not in needed] if x in order else []
            needed.update(new)
            waiting += new
        leaves = sorted([(x, numbers[x]) for x in needed & numbers.keys()], key=itemgetter(1))
        inside = sorted(needed & order.keys(), key=order.__getitem__)
        yield Body(body.name, body.several, leaves, body.roots, inside)


def _is_narrow(root: Instruction, parts: Sequence[int], device: Device) -> bool:
    """Whether several operands have one element for each row, less than a vector together, and
    there are enough rows: lanes go over them then."""
    d = root.attrs.dimensions[0]
    if len(parts) < 2 or any(prod(root.operands[k].shape.dims[d:]) > 1 for k in parts):
        return False
    row = prod(root.shape.dims[d:]) * compute_bytes(root.shape.dtype)
    return 2 * row <= device.compute.vector_bytes and prod(root.shape.dims[:d]) >= FEW_ROWS


def _side_by_side(
    body: Body,
    parts: Sequence[int],
    starts: Sequence[int],
    whole: bool,
    device: Device,
    work: float,
) -> Emitted:
    """A kernel that computes the operands together, a vector of rows at a time: what several of
    them are computed from is computed once, as the two halves of random bits are."""
    root = body.roots[0][0]
    d = root.attrs.dimensions[0]
    sizes = root.operands[parts[0]].shape.dims
    loops = Loops.of(body, sizes, device, work)
    emitter = KernelEmitter(body, loops.grid, device, part=not whole)
    emitter.body = Body(
        body.name, False, body.leaves, [(root.operands[k], ()) for k in parts], body.instructions
    )
    emitter.outputs = emitter.outputs * len(parts)
    emitter.offsets = [
        tuple([starts[k] if axis == d else 0 for axis in range(root.shape.rank)]) for k in parts
    ]
    emitter.takes_turns = whole and is_stored_in_turn(len(parts), root.shape.dtype)
    order = tuple(range(root.shape.rank))
    LoopWriter(emitter, Nest(loops, 0, order, False, list(range(len(parts))), [])).write()
    return emitter.finish()


def _starts(root: Instruction) -> list[int]:
    """Where each operand begins, and where the last ends."""
    starts = [0]
    for x in root.operands:
        starts.append(starts[-1] + x.shape.dims[root.attrs.dimensions[0]])
    return starts


def _loops(
    x: Instruction, inside: set[Instruction], d: int, vectors: int, vector: int, device: Device
) -> Loops:
    """The loops of one operand: the grid goes over the dimensions before the concatenated one."""
    sizes = x.shape.dims
    split, length = len(sizes), 1
    while split > d and length < device.compute.vector_bytes // 4:
        split -= 1
        length *= sizes[split]
    computed = _computed(x, inside)
    while x.opcode in ("bitcast", "reshape"):
        [x] = x.operands
    last, floats = _last(x.shape.dims, length), device.compute.vector_floats
    lanes = min(whole_rows(computed, vectors, vector, last, floats), length)
    return Loops(sizes[:d], sizes[d:split], sizes[split:], lanes, length)


def _computed(x: Instruction, inside: set[Instruction]) -> list[Instruction]:
    """What is computed for an operand, or so much of it that tiles are to be small: to look at all
    of it for each operand would take a time that grows as the square of them."""
    behind = dict.fromkeys([x])
    waiting = [x]
    while waiting and len(behind) < MOST_WRITTEN:
        new = [y for y in waiting.pop().operands if y in inside and y not in behind]
        behind.update(dict.fromkeys(new))
        waiting += new
    return list(behind)


def _last(sizes: tuple[int, ...], length: int) -> tuple[int, ...]:
    """The fastest dimensions that have so many elements together; else the length as it is."""
    split, count = len(sizes), 1
    while split and count < length:
        split -= 1
        count *= sizes[split]
    return sizes[split:] if count == length else (length,)
