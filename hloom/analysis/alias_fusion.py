"""How a fusion reads its operands: each element only where it is written, or anywhere.

`same_index(fusion)` says for which operands every element is needed only at the index at which the
results are written, so that a kernel that loads before it stores may overwrite the operand. One
pass over the body with bit masks of parameters:

* `seen`: parameters a value depends on;
* `moved`: those of them it reads at some other index;
* `window`: those it reads at the index of a window that starts at some indices (a dynamic-slice);
  an update of the very same window puts them back where they were.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE, FORWARDS, RESHAPES
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes

Index = tuple[int, ...]

_SAME_INDEX = opcodes(ELEMENTWISE, FORWARDS, also=("copy",), without=("bitcast-convert",))
_RESHAPES = opcodes(RESHAPES)
# A bitcast stands in the memory of its operand, though its elements may be others.
_SAME_MEMORY = opcodes(FORWARDS, also=("bitcast",))


def is_elementwise(opcode: str) -> bool:
    """Whether element k of the result depends on elements k of the operands alone."""
    return opcode in _SAME_INDEX


class _Reads(NamedTuple):
    seen: int
    moved: int
    window: int
    """Parameters read inside the window `key`; not in `moved` unless read elsewhere too."""
    key: tuple[object, ...] | None


_NOTHING = _Reads(0, 0, 0, None)


def _anywhere(of: list[_Reads]) -> _Reads:
    seen = 0
    for r in of:
        seen |= r.seen
    return _Reads(seen, seen, 0, None)


def _merged(of: list[_Reads]) -> _Reads:
    """All of them, read at the index of the result."""
    seen = moved = window = 0
    key: tuple[object, ...] | None = None
    for r in of:
        seen |= r.seen
        moved |= r.moved
        if r.key is None:
            continue
        if key is None or key == r.key:
            key, window = r.key, window | r.window
        else:
            moved |= r.window
    return _Reads(seen, moved, window, key)


def _start(i: Instruction) -> object:
    """What a start index is, so that equal constants are equal."""
    return i.attrs.literal.first() if i.opcode == "constant" else i


def is_row_major(shape: Shape) -> bool:
    return shape.layout is None or shape.layout.is_default


def _by_element(i: Instruction, of: list[_Reads]) -> _Reads:
    dims = i.shape.dims
    if all(x.shape.dims == dims for x in i.operands):
        return _merged(of)
    return _merged([r if x.shape.dims == dims else _anywhere([r]) for x, r in zip(i.operands, of)])


def _transfer(i: Instruction, of: list[_Reads]) -> _Reads:
    opcode, operands = i.opcode, i.operands
    if opcode in _RESHAPES:
        x = operands[0].shape
        if is_row_major(x) and is_row_major(i.shape) and x.dtype.bits == i.shape.dtype.bits:
            if of[0].window and x.dims != i.shape.dims:
                return _anywhere(of)
            return of[0]
        return _anywhere(of)
    if is_elementwise(opcode):
        return _by_element(i, of)
    if opcode == "gather":
        return _gathered(i, of)
    if opcode == "dynamic-slice":
        starts = tuple(_start(x) for x in operands[1:])
        if of[0].window:
            return _anywhere(of)
        moved = of[0].moved | _anywhere(of[1:]).seen
        key = (operands[0].shape.dims, i.shape.dims, *starts)
        return _Reads(of[0].seen | moved, moved, of[0].seen & ~moved, key)
    if opcode == "dynamic-update-slice":
        key = (operands[0].shape.dims, operands[1].shape.dims, *map(_start, operands[2:]))
        rest = _anywhere(of[2:])
        update = of[1]
        outside = update.seen & ~update.window if update.key == key else update.seen
        moved = of[0].moved | of[0].window | rest.seen | outside | update.moved
        return _Reads(of[0].seen | update.seen | rest.seen, moved, 0, None)
    return _anywhere(of)


def _gathered(i: Instruction, of: list[_Reads]) -> _Reads:
    """The array anywhere; numbers that say single elements, one each, at the index of the
    element."""
    numbers, reads = i.operands[1].shape, of[1]
    is_one_each = prod(i.attrs.slice_sizes) == 1 and numbers.size == i.shape.size
    if not is_one_each or reads.window or not (is_row_major(numbers) and is_row_major(i.shape)):
        return _anywhere(of)
    return _merged([_anywhere(of[:1]), reads])


def roots_of(fusion: Instruction) -> dict[Index, Instruction]:
    """What computes each leaf of a fusion's result, for tuples of arrays."""
    root = fusion.called[0].root
    if not root.shape.is_tuple:
        return {(): root}
    if root.opcode != "tuple":
        return {}
    return {(k,): x for k, x in enumerate(root.operands)}


def same_index(fusion: Instruction) -> int:
    """A bit for each operand that the fusion reads only at the index it writes.

    When it has several results, all of them must have the same number of elements: a kernel makes
    one loop over them.
    """
    roots = roots_of(fusion)
    if not roots:
        return 0
    counts = {x.shape.size if x.shape.is_array else -1 for x in roots.values()}
    if len(counts) > 1:
        return 0
    reads, arrays = _reads_of(fusion)
    moved = 0
    for x in roots.values():
        r = reads[x]
        moved |= r.moved | r.window
    return arrays & ~moved


def _reads_of(fusion: Instruction) -> tuple[dict[Instruction, _Reads], int]:
    """What each value of a fusion reads, and a bit for each parameter that is an array."""
    reads: dict[Instruction, _Reads] = {}
    arrays = 0
    for i in fusion.called[0].in_order():
        if i.opcode == "parameter":
            bit = 1 << i.attrs.number
            reads[i] = _Reads(bit, 0, 0, None)
            if i.shape.is_array:
                arrays |= bit
        elif i.opcode == "tuple" and i.is_root:
            continue
        elif not i.operands:
            reads[i] = _NOTHING
        else:
            reads[i] = _transfer(i, [reads[x] for x in i.operands])
    return reads, arrays


def _updated_in_place(fusion: Instruction) -> dict[Index, int]:
    """For each root, a bit for each operand that it reads only where it writes, and that no other
    root reads at all: those may be computed before it or after it."""
    reads, arrays = _reads_of(fusion)
    roots = roots_of(fusion)
    allowed: dict[Index, int] = {}
    for index, root in roots.items():
        r = reads[root]
        bits = arrays & ~(r.moved | r.window)
        for other_index, other in roots.items():
            if other_index != index:
                bits &= ~reads[other].seen
        allowed[index] = bits
    return allowed


def fusion_pairs(fusion: Instruction) -> list[tuple[int, Index]]:
    """(operand, output index) where a root is an in-place operation on that operand.

    The way from the root to the parameter goes through no-ops only, and the fusion must read the
    parameter nowhere else but where it writes: else it cannot be overwritten while it is read.
    """
    pairs: list[tuple[int, Index]] = []
    paired_parameters: set[int] = set()
    allowed: dict[Index, int] | None = None
    for index, root in roots_of(fusion).items():
        x = _behind_no_ops(root)
        position: int | None = 0
        if x.opcode == "get-tuple-element" and x.operands[0].opcode == "scatter":
            position, x = x.attrs.index, x.operands[0]
        if x.opcode == "scatter" and not _scatter_reads_once(x, position or 0):
            continue
        if x.opcode not in ("dynamic-update-slice", "scatter") or len(root.users) > 1:
            continue
        p = _behind_no_ops(x.operands[position or 0])
        if p.opcode != "parameter" or p.attrs.number in paired_parameters:
            continue
        if data_bytes(p.shape) != data_bytes(root.shape):
            continue
        if x.opcode == "dynamic-update-slice":
            if allowed is None:
                allowed = _updated_in_place(fusion)
            single = _only_reader(p, x)
            if not single and not allowed[index] >> p.attrs.number & 1:
                continue
        elif not _only_reader(p, x):
            continue
        paired_parameters.add(p.attrs.number)
        pairs.append((p.attrs.number, index))
    return pairs


def _behind_no_ops(i: Instruction) -> Instruction:
    while i.opcode in _SAME_MEMORY:
        i = i.operands[0]
    return i


def _only_reader(p: Instruction, reader: Instruction) -> bool:
    """Whether everything read of `p` is operand of `reader`, once, behind no-ops."""
    x = p
    while len(x.users) == 1:
        user = next(iter(x.users))
        if user is reader:
            return sum(o is x for o in user.operands) == 1
        if user.opcode not in _SAME_MEMORY:
            return False
        x = user
    return False


def _scatter_reads_once(i: Instruction, position: int) -> bool:
    return sum(o is i.operands[position] for o in i.operands) == 1
