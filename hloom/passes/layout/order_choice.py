"""The order of every cell: each takes the one that leaves least to move, as its neighbours are.

Finding the best orders of all cells at once is a multiway cut; what is done instead is descent:
cells are asked in program order, and again, until none gains. What ends at a convolution gains at
once, and hands the gain on. Every move strictly lowers the bytes at the cell's own links, so what
is in no need of change stays as it is. A chain of cells that gains only as a whole (norms of groups
between convolutions, seen with one dimension more) is asked as a whole, from where it wants another
order: what is around it is counted before and after.
"""

from __future__ import annotations

from collections import defaultdict

from hloom.passes.layout.dimension_orders import Order, Table, differs, identity, large, mapped
from hloom.passes.layout.order_graph import CELL, Cell, OrderGraph
from hloom.passes.layout.order_moves import Moves

SWEEPS = 8
CANDIDATES = 4
"""Orders that are tried for a cell, those that most bytes ask for."""
CHAINS = 16
"""Chains of cells that are asked as a whole, those whose first cell has most bytes to gain."""


def choose_orders(g: OrderGraph) -> bool:
    """Choose an order for every cell; whether that gains anything.

    What a cell does to reads that follow from it through dots and broadcasts is not in its own
    links, so all is counted again before and after."""
    moves = Moves(g)
    before = moves.bytes_moved(moves.groups)
    if not before:
        return False
    _sweep(g)
    if _improve_chains(g, moves):
        _sweep(g)
    if moves.bytes_moved(moves.groups) < before:
        return True
    for cell in g.cells.values():
        cell.order = identity(len(cell.order))
    return False


def _sweep(g: OrderGraph) -> None:
    """Ask every cell, until none gains."""
    for _ in range(SWEEPS):
        gained = False
        for number in g.cells:
            gained |= _improve(g, number)
        if not gained:
            break


Neighbours = dict[int, list[tuple[int, Table, int]]]
"""Of each cell those that are the same values by a table, and the dimensions that count."""


def _improve_chains(g: OrderGraph, moves: Moves) -> bool:
    """Give chains of cells better orders, if there are any; whether there were."""
    neighbours: Neighbours = defaultdict(list)
    for x, y, there, back in g.edges:
        if g.kind[x] == CELL and g.kind[y] == CELL and g.find(x) != g.find(y):
            for a, b, table in ((x, y, there), (y, x, back)):
                neighbours[g.find(a)].append((g.find(b), table, large(g.dims[b])))
    costs = {}
    for number in neighbours:
        cell, demands = g.cells[number], g.savings(number)
        if cost := _cost(cell, cell.order, demands):
            costs[number] = cost, demands
    gained, tried = False, set()
    for number in sorted(costs, key=lambda n: -costs[n][0])[:CHAINS]:
        if number in tried:
            continue
        for order in _candidates(g.cells[number], costs[number][1]):
            if not _allowed(g.cells[number], order):
                continue
            chain = _chain(g, neighbours, number, order)
            tried |= set(chain)
            around = moves.around(chain)
            now, before = moves.bytes_moved(around), {n: g.cells[n].order for n in chain}
            for n, other in chain.items():
                g.cells[n].order = other
            if moves.bytes_moved(around) < now:
                gained = True
                break
            for n, other in before.items():
                g.cells[n].order = other
    return gained


def _chain(g: OrderGraph, neighbours: Neighbours, first: int, order: Order) -> dict[int, Order]:
    """The orders of the cells that a cell takes along to an order: those that are in its order now,
    and theirs."""
    chain = {first: order}
    todo = [first]
    while todo:
        number = todo.pop()
        for other, table, mask in neighbours[number]:
            cell = g.cells[other]
            rank = len(cell.order)
            together = mapped(g.cells[number].order, table, rank)
            if other in chain or differs(cell.order, together, mask):
                continue
            moved = mapped(chain[number], table, rank)
            if _allowed(cell, moved):
                chain[other] = moved
                todo.append(other)
    return chain


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
