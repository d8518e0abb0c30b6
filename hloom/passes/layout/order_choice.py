"""The order of every cell: each takes the one that leaves least to move, as its neighbours are.

Finding the best orders of all cells at once is a multiway cut; what is done instead is descent:
cells are asked in program order, and again, until none gains. A chain of cells that gains
only as a whole is not found, but such chains are rare: what ends at a convolution gains at once,
and hands the gain on. Every move strictly lowers the bytes at the cell's own links, so what is in
no need of change stays as it is.
"""

from __future__ import annotations

from hloom.passes.layout.dimension_orders import Order, differs, identity, mapped
from hloom.passes.layout.order_graph import Cell, OrderGraph

SWEEPS = 8
CANDIDATES = 4
"""Orders that are tried for a cell, those that most bytes ask for."""


def choose_orders(g: OrderGraph) -> bool:
    """Choose an order for every cell; whether that gains anything.

    What a cell does to reads that follow from it through dots and broadcasts is not in its own
    links, so all is counted again before and after."""
    before = g.moved()
    for _ in range(SWEEPS):
        gained = False
        for number in g.cells:
            gained |= _improve(g, number)
        if not gained:
            break
    if g.moved() < before:
        return True
    for cell in g.cells.values():
        cell.order = identity(len(cell.order))
    return False


def _improve(g: OrderGraph, number: int) -> bool:
    """Give one cell a better order, if there is one."""
    cell = g.cells[number]
    if not (cell.links or cell.inner or cell.sides):
        return False
    demands = g.savings(number)
    now = _cost(cell, cell.order, demands)
    if not now:
        return False
    best, least = cell.order, now
    for order in _candidates(cell, demands):
        if order == cell.order or not _allowed(cell, order):
            continue
        cost = _cost(cell, order, demands)
        if cost < least:
            best, least = order, cost
    if best == cell.order:
        return False
    cell.order = best
    return True


def _candidates(cell: Cell, demands: dict[tuple[Order, int], int]) -> list[Order]:
    """The orders to try, the one most bytes ask for first."""
    bytes_of: dict[Order, int] = {}
    for (order, _), size in demands.items():
        bytes_of[order] = bytes_of.get(order, 0) + size
    for side in cell.sides:
        if not side.fits(cell.order):
            for order in side.orders():
                bytes_of[order] = bytes_of.get(order, 0) + side.bytes
    return sorted(bytes_of, key=lambda order: (-bytes_of[order], order))[:CANDIDATES]


def _allowed(cell: Cell, order: Order) -> bool:
    return all(
        [d for d in order if d in kept_dims] == list(kept_dims) for kept_dims in cell.fixed_orders
    )


def _cost(cell: Cell, order: Order, demands: dict[tuple[Order, int], int]) -> int:
    """The bytes of transposes at the links of a cell in some order."""
    total = sum([n for (want, mask), n in demands.items() if differs(order, want, mask)])
    for link in cell.inner:
        if differs(order, mapped(order, link.table, len(order)), link.mask):
            total += link.bytes
    for side in cell.sides:
        if not side.fits(order):
            total += side.bytes
    return total
