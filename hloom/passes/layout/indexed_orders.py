"""Gathers and scatters: in which orders an array and its slices may be held.

The array is what a gather reads and what a scatter writes; its slices are what a gather gives and
the updates of a scatter. Both have the dimensions of a window, in one order among themselves; the
array has dimensions besides along which an index says where the window stands (one element wide,
or one for each batch), the slices have those of the batch of index vectors, which stay in the order
in which the indices have them. Everything else about their orders is free.

A scatter whose windows are not rows of memory touches a line of memory for every element, so it
asks for an order in which they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from hloom.ir.instruction import Instruction
from hloom.passes.layout.dimension_orders import Order, Table, identity
from hloom.passes.layout.order_graph import SCALAR, OrderGraph, RowSide

if TYPE_CHECKING:
    from hloom.passes.layout.reorder import Reorderer

SCATTERED = 4
"""A scatter of windows of many elements that lie apart takes this many transposes of its updates:
100,000 rows of 128 f32 into 3,000 rows take 13.7 ms there and 1.3 as rows, their transpose 1.9."""

ROW = 16
"""Elements in a row that are as good as longer ones: a line of memory of 32-bit numbers."""


@dataclass(frozen=True, slots=True)
class WindowedSlices:
    """An array, its slices, and which of their dimensions are the same of a window."""

    array: Instruction
    slices: Instruction
    of_array: tuple[int, ...]
    """The window's dimensions, of the array."""
    of_slices: tuple[int, ...]
    """The same of the slices."""

    @property
    def placed(self) -> list[int]:
        """The dimensions of the array along which the window has one element."""
        return [d for d in range(self.array.shape.rank) if d not in self.of_array]

    @property
    def batch(self) -> list[int]:
        """The dimensions of the slices that are those of the indices."""
        return [d for d in range(self.slices.shape.rank) if d not in self.of_slices]

    def to_slices(self) -> Table:
        """Which dimension of the slices each of the array is: a batch stands where the first
        dimension stands that it chooses in."""
        table = dict(zip(self.of_array, self.of_slices, strict=True))
        for d, b in zip(self.placed, self.batch):
            table[d] = b
            break
        return tuple([table.get(d, -1) for d in range(self.array.shape.rank)])

    def to_array(self) -> Table:
        """The other way round."""
        table = dict(zip(self.of_slices, self.of_array, strict=True))
        for d, b in zip(self.placed, self.batch):
            table[b] = d
            break
        return tuple([table.get(d, -1) for d in range(self.slices.shape.rank)])

    def agree(self, array: Order, slices: Order) -> bool:
        """Whether the window's dimensions are in one order in both, and the batch's in theirs."""
        window = [self.of_slices[self.of_array.index(d)] for d in array if d in self.of_array]
        batch = [d for d in slices if d not in self.of_slices]
        return batch == sorted(batch) and window == [d for d in slices if d in self.of_slices]

    def slices_order(self, array: Order) -> Order:
        """An order of the slices that agrees with one of the array."""
        return _joined(array, self.of_array, self.of_slices, self.batch)

    def array_order(self, slices: Order) -> Order:
        """An order of the array that agrees with one of the slices."""
        return _joined(slices, self.of_slices, self.of_array, self.placed)


def _joined(
    order: Order, window: Sequence[int], other: Sequence[int], rest: Sequence[int]
) -> Order:
    """The window's dimensions as they are in `order`, and all the rest where it has the first that
    is none of the window's (else in front)."""
    names: list[int] = []
    todo = list(rest)
    if all(d in window for d in order):
        names, todo = todo, []
    for d in order:
        if d in window:
            names.append(other[list(window).index(d)])
        else:
            names += todo
            todo = []
    return tuple(names)


def windowed_slices(i: Instruction) -> WindowedSlices | None:
    """What a gather or a scatter of one array says; None where that is left as it is."""
    a = i.attrs
    if i.has_control_edges or not i.shape.is_array or any(x.shape.is_dynamic for x in i.operands):
        return None
    if i.opcode == "gather":
        gone = {*a.collapsed_slice_dims, *a.operand_batching_dims}
        array, slices, of_slices = i.operands[0], i, a.offset_dims
    else:
        gone = {*a.inserted_window_dims, *a.input_batching_dims}
        array, slices, of_slices = i, i.operands[2], a.update_window_dims
    of_array = tuple([d for d in range(array.shape.rank) if d not in gone])
    w = WindowedSlices(array, slices, of_array, tuple(of_slices))
    batch = w.batch
    apart = batch and batch[-1] - batch[0] != len(batch) - 1
    return None if apart or array.shape.rank < 2 or slices.shape.rank < 2 else w


def say_orders(g: OrderGraph, i: Instruction) -> bool:
    """The rule of `order_rules.py`; whether there is anything to say."""
    w = windowed_slices(i)
    if w is None or SCALAR in (g.kind[g.first[w.array]], g.kind[g.first[w.slices]]):
        return False
    indices = i.operands[1]
    g.wants.append((g.first[indices], identity(indices.shape.rank)))
    array, slices = g.first[w.array], g.first[w.slices]
    g.edges.append((array, slices, w.to_slices(), w.to_array()))
    if len(w.batch) > 1:
        g.keeps.append((slices, tuple(w.batch)))
    if i.opcode == "scatter":
        g.reads[g.first[i.operands[0]], array] = None
        if (lost := scattered_bytes(i, w, g.bytes[slices])) > 0:
            g.sides.append((array, ScatteredSide(lost, w.array.shape.dims, frozenset(w.of_array))))
    return True


@dataclass(slots=True)
class ScatteredSide(RowSide):
    """A scatter writes a cell: `reduced` are the dimensions of its windows."""

    def fits(self, order: Order) -> bool:
        """Whether at least the innermost of them are a row of some length."""
        row = 1
        for d in reversed(order):
            if d not in self.reduced and self.dims[d] != 1:
                break
            row *= self.dims[d]
        return row >= ROW

    def orders(self) -> tuple[Order, ...]:
        rank = range(len(self.dims))
        inner = [d for d in rank if d in self.reduced]
        return ((*[d for d in rank if d not in self.reduced], *inner),)


def scattered_bytes(i: Instruction, w: WindowedSlices, updates: int) -> int:
    """What it costs, in bytes of a transpose, to write windows that lie apart; windows in a row
    share their lines of memory."""
    window = prod([w.slices.shape.dims[d] for d in w.of_slices])
    if window < ROW:
        return 0
    return updates if _are_sorted(i) else updates * SCATTERED


def _are_sorted(scatter: Instruction) -> bool:
    """Whether each window is known to stand behind the one before it, or at its place."""
    x = scatter.operands[1]
    while x.opcode in ("reshape", "bitcast", "copy"):
        x = x.operands[0]
    if scatter.attrs.indices_are_sorted or x.opcode == "iota":
        return True
    if x.opcode != "constant" or x.attrs.literal.is_elided:
        return False
    if len(scatter.attrs.scatter_dims_to_operand_dims) != 1:
        return False
    places = x.attrs.literal.array.reshape(-1)
    return bool((places[1:] >= places[:-1]).all())


def asks_for_rows(i: Instruction) -> bool:
    """Whether a scatter's windows lie apart."""
    w = windowed_slices(i) if i.opcode == "scatter" else None
    if w is None or not scattered_bytes(i, w, 1):
        return False
    dims = w.array.shape.dims
    return not ScatteredSide(0, dims, frozenset(w.of_array)).fits(identity(len(dims)))


def reorder_gather(r: Reorderer, i: Instruction) -> None:
    """Give a gather the orders of its operand and its result."""
    w = windowed_slices(i)
    x, indices = i.operands
    if w is None or not r.is_leaf(x) or not r.is_leaf(i):
        r.as_it_was(i)
        return
    order, of_array = r.order_of(i), r.order_of(x)
    if not w.agree(of_array, order):
        of_array = w.array_order(order)
    r.read(i, [r.value_in(x, of_array), r.value_in(indices, identity(indices.shape.rank))])
    a = i.attrs
    batching, of_indices = _batching(
        of_array, a.operand_batching_dims, a.start_indices_batching_dims
    )
    i.attrs = replace(
        a,
        offset_dims=_places(order, a.offset_dims),
        collapsed_slice_dims=_places(of_array, a.collapsed_slice_dims),
        start_index_map=tuple([of_array.index(d) for d in a.start_index_map]),
        operand_batching_dims=batching,
        start_indices_batching_dims=of_indices,
        slice_sizes=tuple([a.slice_sizes[d] for d in of_array]),
    )
    r.take(i, order)


def reorder_scatter(r: Reorderer, i: Instruction) -> None:
    """Give a scatter the order of its result."""
    w = windowed_slices(i)
    if w is None or not r.is_leaf(i) or not r.is_leaf(i.operands[2]):
        r.as_it_was(i)
        return
    x, indices, updates = i.operands
    order, of_slices = r.order_of(i), r.order_of(updates)
    if not w.agree(order, of_slices):  # columns of updates may stay: they are read once, in a row
        of_slices = w.slices_order(order)
    at = r.value_in(indices, identity(indices.shape.rank))
    r.read(i, [r.value_in(x, order), at, r.value_in(updates, of_slices)])
    a = i.attrs
    batching, of_indices = _batching(order, a.input_batching_dims, a.scatter_indices_batching_dims)
    i.attrs = replace(
        a,
        update_window_dims=_places(of_slices, a.update_window_dims),
        inserted_window_dims=_places(order, a.inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(
            [order.index(d) for d in a.scatter_dims_to_operand_dims]
        ),
        input_batching_dims=batching,
        scatter_indices_batching_dims=of_indices,
    )
    r.take(i, order)


def _places(order: Order, dims: Sequence[int]) -> tuple[int, ...]:
    """Where dimensions stand in an order, sorted."""
    return tuple(sorted([order.index(d) for d in dims]))


def _batching(
    order: Order, dims: Sequence[int], of_indices: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Batching dimensions in an order, sorted, with those of the indices that go with them."""
    pairs = sorted([(order.index(d), k) for d, k in zip(dims, of_indices, strict=True)])
    return tuple([d for d, _ in pairs]), tuple([k for _, k in pairs])
