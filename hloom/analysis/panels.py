"""Matrices that lie in memory as products read them: panels of columns, each with all of K.

A product packs B into panels at every call. Where B is a constant it can lie in them from the
start (`passes/layout/weight_panels.py`): the array is `[panels, K, width]`, or with `group`
neighbours along K beside each other `[panels, K / group, width, group]`; columns behind the last
are zero. In the graph that is a transpose, a reshape and a slice of a leaf, so that every reader
has the right elements; a product that sees them reads the leaf as it stands.

How wide panels are follows from the columns and `group` alone: programs that share weights but have
other rows, and code for other processors, share the panels. Tiles as wide as a part of a panel read
it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from hloom.ir.instruction import Instruction
from hloom.types.dtype import DType

WIDTHS = (48, 64, 32)
"""Columns of a panel: whole tiles for vectors of 4, 8 and 16 elements. Of those that leave least
empty the first: most tiles have three vectors."""
GROUPED_WIDTHS = (32, 64, 48)
"""The same with neighbours along K beside each other: two tiles of matrices (AMX), which take 0.7
to 0.9 of the time of one; vectors alone 1.01 of that of three."""
MOST_EMPTY = 1 / 16
"""Of the columns of all panels."""


class Matrix(NamedTuple):
    """An array that a product reads as B: its dimensions that are the digits of K, in their order,
    and the columns; and how many neighbours along K its panels have beside each other."""

    array: Instruction
    dims: tuple[int, ...]
    group: int = 1

    @property
    def columns(self) -> int:
        return self.array.shape.dims[self.dims[-1]]

    @property
    def depth(self) -> int:
        """The extent of K."""
        return prod([self.array.shape.dims[d] for d in self.dims[:-1]])


class Panels(NamedTuple):
    """A leaf with panels of so many columns and all `depth` elements of K."""

    leaf: Instruction
    width: int
    depth: int

    @property
    def stride(self) -> int:
        """Elements from one panel to the next."""
        return self.width * self.depth


def panel_width(columns: int, group: int) -> int | None:
    """How wide the panels of a matrix are; None where too much of them would be empty."""
    width = min(GROUPED_WIDTHS if group > 1 else WIDTHS, key=lambda w: -columns % w)
    padded = columns + -columns % width
    return width if padded - columns <= MOST_EMPTY * padded else None


def panels_order(group: int) -> tuple[int, ...]:
    """The transpose of panels that has K first, then the columns."""
    return (1, 0, 2) if group == 1 else (1, 3, 0, 2)


def panels_behind(
    x: Instruction, leaves: set[Instruction], dims: Sequence[int], group: int, of: DType
) -> Panels | None:
    """The panels of a type that an array is an arrangement of, if its dimensions `dims` are the
    digits of K in their order, and the columns, and `group` neighbours along K are together."""
    order = list(range(len(dims)))
    steps: list[Instruction] = []
    while x not in leaves:
        if x.opcode not in ("transpose", "slice", "reshape", "bitcast"):
            return None
        steps.append(x)
        x = x.operands[0]
    matrix = _matrix(x, steps, group)
    if matrix is None or x.shape.dtype is not of:
        return None
    count, width, columns = matrix
    depth = x.shape.size // (count * width)
    if steps and steps[0].opcode == "transpose":
        order = list(steps.pop(0).attrs.dimensions)
    if steps and steps[0].opcode in ("reshape", "bitcast"):
        *digits, last = steps.pop(0).shape.dims
    else:
        digits, last = [depth], columns
    if steps or last != columns or prod(digits) != depth or len(order) != len(digits) + 1:
        return None
    return Panels(x, width, depth) if [order[d] for d in dims] == [*range(len(dims))] else None


def _matrix(leaf: Instruction, steps: list[Instruction], group: int) -> tuple[int, int, int] | None:
    """Panels, their width, and columns of the matrix `[K, columns]` that the first steps, which are
    last in the list and taken off it, see in a leaf."""
    if not leaf.shape.is_array or leaf.shape.rank != len(panels_order(group)) or len(steps) < 2:
        return None
    count, groups, width, *together = leaf.shape.dims
    if width not in WIDTHS or leaf.shape.size == 0 or together not in ([], [group]):
        return None
    turned, joined = steps.pop(), steps.pop()
    depth, padded = groups * group, count * width
    if turned.opcode != "transpose" or turned.attrs.dimensions != panels_order(group):
        return None
    if joined.opcode not in ("reshape", "bitcast") or joined.shape.dims != (depth, padded):
        return None
    columns = padded
    if steps and steps[-1].opcode == "slice":
        first, last = steps.pop().attrs.slice.dimensions
        if (first.start, first.stride, last.start, last.stride) != (0, 1, 0, 1):
            return None
        columns = last.limit
        if first.limit != depth or columns <= padded - width:
            return None
    return count, width, columns
