"""Lay out constants once in the panels that products read.

A product packs its second operand, B, into panels at every call, which for few rows takes as long
as to multiply them. Of a constant the panels are the same at every call: here they become the
constant, and kernels read them where they stand (`analysis/panels.py` says how they lie). In the
reader a transpose, a reshape and a slice say which element is where. A constant that somebody
reads otherwise stays as it is: it would be in memory twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from hloom.analysis.panels import Matrix, panel_width, panels_behind, panels_order
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.order import repair_schedules
from hloom.ir.traits import CONTRACTS, RESHAPES
from hloom.ir.values.slices import Slices
from hloom.passes.fuse.build import CONFIGS, fuse_members
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace
from hloom.types.aligned import aligned_empty
from hloom.types.literal import Literal
from hloom.types.shape import shape


class Weight(NamedTuple):
    """A product that reads an array as B, and what the array goes through until there."""

    reader: Instruction
    matrix: Matrix
    inside: list[Instruction]
    """Within the reader, from B to the leaf, which is last."""
    outside: list[Instruction]
    """From the reader's operand to the array, its source, which is last."""

    @property
    def moves(self) -> list[Instruction]:
        """What the source goes through, in order."""
        return [*self.outside[-2::-1], *self.inside[-2::-1]]

    @property
    def arrangement(self) -> tuple[object, ...]:
        """Equal for products that read a source in the same panels."""
        moves = tuple([(x.opcode, x.attrs, x.shape) for x in self.moves])
        return moves, self.matrix.array.shape, self.matrix.dims, self.matrix.group


@register
class WeightPanels(Pass):
    """Lay out constants that products read as their second operand in panels of columns."""

    name = "weight-panels"

    matrix_of: Callable[[Instruction], Matrix | None] | None = None
    """What an instruction packs at every call; None: the second operand of a dot that has one
    contracted dimension and one other."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for c in on_threads(module, threads):
            if not c.is_fusion:
                fired["constant"] += _laid_out(c, module, self.matrix_of or plain_matrix)
        if fired["constant"]:
            repair_schedules(module)
        return PassResult.of(+fired)


def plain_matrix(i: Instruction) -> Matrix | None:
    """The second operand of an instruction's only dot, if that is a plain product of matrices."""
    [dot, *others] = products(i)
    if others or dot.opcode != "dot" or dot.operands[1].shape.rank != 2:
        return None
    contracted = dot.attrs.rhs_contracting_dims
    return Matrix(dot.operands[1], (*contracted, 1 - contracted[0])) if contracted else None


def products(i: Instruction) -> list[Instruction]:
    """The dots and convolutions that an instruction is, or has inside."""
    inside = i.called[0].instructions if i.opcode == "fusion" else (i,)
    return [x for x in inside if CONTRACTS in OPS[x.opcode].traits]


def _laid_out(
    c: Computation, module: Module, matrix_of: Callable[[Instruction], Matrix | None]
) -> int:
    """How many constants of a computation have become panels."""
    by_constant: dict[Instruction, list[Weight]] = {}
    for i in c.instructions:
        if any(x.opcode == "constant" or _is_move(x) for x in i.operands) and products(i):
            matrix = matrix_of(i)
            w = matrix and weight(i, matrix, _is_whole_constant)
            if w:
                by_constant.setdefault(w.outside[-1], []).append(w)
    count = 0
    for constant, weights in by_constant.items():
        first = weights[0].arrangement
        if len(constant.users) != len(weights) or any(w.arrangement != first for w in weights[1:]):
            continue
        literal = _panels(constant.attrs.literal, weights[0])
        attrs = OPS["constant"].attrs(literal=literal)
        panels = c.append("constant", attrs, (), literal.shape, constant.name)
        panels.metadata = constant.metadata
        for w in weights:
            read_panels(w, panels, module)
        count += 1
    if count:
        c.sort()
    return count


def _is_whole_constant(x: Instruction) -> bool:
    return x.opcode == "constant" and not x.attrs.literal.is_elided and not x.is_root


def weight(
    i: Instruction, matrix: Matrix, is_source: Callable[[Instruction], bool]
) -> Weight | None:
    """The array that an instruction reads as a matrix, and nowhere else, if it is such a source in
    another order."""
    is_fusion = i.opcode == "fusion"
    leaves = i.called[0].parameters if is_fusion else i.operands
    if i.has_control_edges or panel_width(matrix.columns, matrix.group) is None or not matrix.depth:
        return None
    array, dims, group = matrix
    if panels_behind(array, set(leaves), dims, group, array.shape.dtype):
        return None
    inside = _moved(array, lambda x: x in leaves)
    if inside is None or i.operands.count(operand := _operand(i, inside[-1])) != 1:
        return None
    outside = _moved(operand, is_source)
    if outside is None:
        return None
    own = [*outside[:-1], *(inside if is_fusion else ())]
    if any(len(x.users) != 1 or x.is_root or x.has_control_edges for x in own):
        return None
    if sum(sum(c.callers.values()) for c in i.called if is_fusion) > 1:
        return None
    return Weight(i, matrix, inside, outside)


def _operand(i: Instruction, leaf: Instruction) -> Instruction:
    return i.operands[leaf.attrs.number] if i.opcode == "fusion" else leaf


def _moved(x: Instruction, is_end: Callable[[Instruction], bool]) -> list[Instruction] | None:
    """From an array back to its source, if its elements only change places on the way."""
    path = [x]
    while not is_end(x):
        if not _is_move(x):
            return None
        x = x.operands[0]
        path.append(x)
    return path


def _is_move(x: Instruction) -> bool:
    """Whether a value is an array in another order or of other dimensions, all of it."""
    if x.opcode == "transpose":
        return True
    is_new_name = RESHAPES in OPS[x.opcode].traits and len(x.operands) == 1
    return is_new_name and x.shape.is_array and x.shape.dtype is x.operands[0].shape.dtype


def _panels(literal: Literal, w: Weight) -> Literal:
    """The value of a constant in panels."""
    array, (_, dims, group), columns = literal.array, w.matrix, w.matrix.columns
    for x in w.moves:
        if x.opcode == "transpose":
            array = array.transpose(x.attrs.dimensions)
        else:
            array = array.reshape(x.shape.dims)
    width, groups = panel_width(columns, group), w.matrix.depth // group
    assert width is not None, "there is no weight without panels"
    rows = array.transpose(dims).reshape(groups, group, columns)
    panels = aligned_empty((-(-columns // width), groups, width, group), array.dtype)
    if columns % width:
        panels[-1] = 0
    for k, panel in enumerate(panels):
        part = rows[:, :, k * width : (k + 1) * width]
        panel[:, : part.shape[2]] = part.transpose(0, 2, 1)
    whole = panels[..., 0] if group == 1 else panels
    return Literal.owning(whole, shape(literal.dtype, whole.shape).with_default_layouts())


def read_panels(w: Weight, panels: Instruction, module: Module) -> None:
    """Let a reader take B from the panels."""
    i, array, leaf = w.reader, w.matrix.array, w.inside[-1]
    if i.opcode != "fusion":
        number = i.operands.index(leaf)
        i = fuse_members(i.parent, module, {i: None}, i, "kOutput", CONFIGS["output"])
        array = leaf = i.called[0].root.operands[number]
    body, number = i.called[0], leaf.attrs.number
    [reader] = array.users
    new = body.append("parameter", leaf.attrs, (), panels.shape, leaf.name)
    reader.replace_operand(array, _arranged(body, new, w.matrix))
    _erase(body, array)
    operand = i.operands[number]
    i.set_operands((*i.operands[:number], panels, *i.operands[number + 1 :]))
    _erase(i.parent, operand)
    body.sort()


def _arranged(body: Computation, panels: Instruction, matrix: Matrix) -> Instruction:
    """The array that panels hold."""
    dims, of, depth = matrix.dims, panels.shape.dtype, matrix.depth
    padded = panels.shape.size // depth
    x = body.add("transpose", panels, dimensions=panels_order(matrix.group))
    x = body.add("reshape", x, shape=shape(of, (depth, padded)).with_default_layouts())
    if padded != matrix.columns:
        x = body.add("slice", x, slice=Slices.of((0, depth, 1), (0, matrix.columns, 1)))
    sizes = tuple([matrix.array.shape.dims[d] for d in dims])
    if sizes != x.shape.dims:
        x = body.add("reshape", x, shape=shape(of, sizes).with_default_layouts())
    order = tuple([dims.index(d) for d in range(len(dims))])
    return x if order == tuple(range(len(dims))) else body.add("transpose", x, dimensions=order)


def _erase(c: Computation, x: Instruction) -> None:
    """Erase what is read by nobody any more, and what only that has read."""
    stack = [x]
    while stack:
        x = stack.pop()
        if x in c.instructions and not x.users and not x.is_root:
            stack += c.erase(x)
