"""Which fusions are reductions of columns, that keep the fastest dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hloom.codegen.blocked_fold import fold_kinds
from hloom.codegen.elements import is_simple
from hloom.codegen.elements_fold import folds_own_types
from hloom.codegen.tile import Body, compute_bytes
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES

# Fewer rows are summed as well element by element.
LEAST_ROWS = 16
# Columns are gone through row by row where a row has so many vectors.
LEAST_ROW_VECTORS = 2
# What is read for so many elements that are folded stays in the caches.
SHARED = 4
# What may stand between a reduction and a result: the element stays at its place.
STILL = opcodes(RESHAPES, also=("copy", "get-tuple-element"))


@dataclass
class ColumnForm:
    """The reductions of a body, all over the same dimensions of equal shapes."""

    reduces: list[Instruction]
    sizes: tuple[int, ...]
    folded: tuple[int, ...]
    apart: int = 0
    """How many dimensions behind the folded ones are gone through one by one."""

    @property
    def kept_dims(self) -> list[int]:
        """The dimensions of which a step has one place each."""
        last = self.folded[-1]
        before = [d for d in range(last) if d not in self.folded]
        return [*before, *range(last + 1, last + 1 + self.apart)]

    @property
    def inner(self) -> tuple[int, ...]:
        """Sizes of the columns."""
        return self.sizes[self.folded[-1] + 1 + self.apart :]

    @property
    def kinds(self) -> list[str] | None:
        """The operation of each accumulator; None if one of them is not known."""
        known: list[str] = []
        for x in self.reduces:
            kinds = fold_kinds(x.called[0])
            if kinds is None:
                return None
            known += kinds
        return known


def column_form(body: Body, device: Device) -> ColumnForm | None:
    """The body as a reduction of columns; None if it is something else."""
    reduces = [x for x in body.instructions if x.opcode == "reduce"]
    if not reduces:
        return None
    sizes, folded = reduces[0].operands[0].shape.dims, tuple(sorted(reduces[0].attrs.dimensions))
    for x in reduces:
        shape = x.operands[0].shape
        if shape.dims != sizes or tuple(sorted(x.attrs.dimensions)) != folded:
            return None
        if not folds_own_types(x):
            return None
        if shape.layout is not None and not shape.layout.is_default:
            return None
    if any(_needs(y, set(reduces)) for x in reduces for y in x.operands):
        return None
    if 0 in sizes or not folded or prod(sizes[d] for d in folded) < LEAST_ROWS:
        return None
    form = ColumnForm(reduces, sizes, folded)
    columns = prod(form.inner)
    width = max(compute_bytes(y.shape.dtype) for x in reduces for y in reduce_inputs(x))
    if columns * width < device.compute.vector_bytes // 2:
        return None
    kept_size = prod(sizes) // prod(sizes[d] for d in folded)
    known: set[Instruction] = set()
    for root, part in body.roots:
        shape = root.shape.subshape(part)
        if shape.size != kept_size or not _stays(root, kept_size, known, set(reduces)):
            return None
        if shape.layout is not None and not shape.layout.is_default:
            return None
    row = form.inner[-1] * width if form.inner else 0
    if row >= LEAST_ROW_VECTORS * device.compute.vector_bytes and _varies_in_part(body, form):
        form.apart = len(form.inner) - 1
    return form


def _varies_in_part(body: Body, form: ColumnForm) -> bool:
    """Whether what is folded is made of what is the same along some dimensions of the columns, but
    not along all: differences of all pairs. Columns in one row, across those dimensions, would read
    each of their elements from a place of its own. An array of all that is folded is read best in
    long rows of memory, whatever else is read beside it: 256 x 28 x 28 x 64 with a factor for each
    of 64 in 0.44 of the time."""
    if any(leaf.shape.size * SHARED > prod(form.sizes) for leaf, _ in body.leaves):
        return False
    first = form.folded[-1] + 1
    inner = {d for d in range(first, len(form.sizes)) if form.sizes[d] > 1}
    for x in body.instructions:
        if x.opcode == "broadcast" and x.shape.dims == form.sizes:
            varies = inner.intersection(x.attrs.dimensions)
            if varies and varies != inner:
                return True
    return False


def reduce_inputs(x: Instruction) -> Sequence[Instruction]:
    return x.operands[: len(x.operands) // 2]


def _stays(x: Instruction, size: int, known: set[Instruction], reduces: set[Instruction]) -> bool:
    """Whether a value asks for the reductions at its own position only."""
    work = [x]
    while work:
        x = work.pop()
        if x in known or x in reduces:
            continue
        known.add(x)
        if not _needs(x, reduces):
            continue
        if not (is_simple(x) or x.opcode in STILL):
            return False
        if x.shape.is_array and x.shape.size != size:
            return False
        if x.opcode == "bitcast" and x.shape.dtype is not x.operands[0].shape.dtype:
            return False
        work += x.operands
    return True


def _needs(x: Instruction, reduces: set[Instruction]) -> bool:
    """Whether a reduction is among what a value is made of."""
    seen: set[Instruction] = set()
    work = [x]
    while work:
        x = work.pop()
        if x in reduces:
            return True
        if x not in seen and x.opcode != "parameter":
            seen.add(x)
            work += x.operands
    return False
