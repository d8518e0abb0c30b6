"""The bytes that all transposes of a program move, as the orders of its cells are.

They are counted in groups that have nothing in common: the reads of one leaf, which is transposed
once for each order in which it is read, one edge, or one side. A group depends on few cells, so
what another order of some cells is worth is counted in their groups alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from functools import cached_property

from hloom.ir.instruction import Instruction
from hloom.passes.layout.dimension_orders import Order, Table, differs, large, mapped
from hloom.passes.layout.order_graph import CELL, DERIVED, OrderGraph

Group = tuple[str, int, int]
"""Of a leaf its reads ("read", leaf, -1), the edges between two leaves, or one side."""


class Moves:
    """The groups of a graph that is closed."""

    def __init__(self, graph: OrderGraph) -> None:
        self.graph = graph
        self.reads: defaultdict[int, list[tuple[int, Table | None]]] = defaultdict(list)
        """Of a leaf: in whose order it is read, and by which table that says its own."""
        self.wants: defaultdict[int, list[Order]] = defaultdict(list)
        """Of a leaf: in which orders it is read in any case."""
        for x, y in graph.reads:
            self.reads[x].append((y, None))
        for x, y, there in graph.spreads:
            self.reads[x].append((y, there))
        for x, order in graph.wants:
            self.wants[x].append(order)
        self.edges: defaultdict[tuple[int, int], list[Table]] = defaultdict(list)
        """The tables from the first leaf to the second."""
        for x, y, there, _ in graph.edges:
            self.edges[x, y].append(there)
        self._roots: dict[int, frozenset[int]] = {}

    @cached_property
    def groups(self) -> list[Group]:
        """All of them."""
        groups: list[Group] = [("read", x, -1) for x in dict.fromkeys([*self.reads, *self.wants])]
        groups += [("edge", x, y) for x, y in self.edges]
        return groups + [("side", k, -1) for k in range(len(self.graph.sides))]

    @cached_property
    def _groups_of(self) -> dict[int, list[Group]]:
        """The groups that depend on a cell."""
        groups: defaultdict[int, list[Group]] = defaultdict(list)
        for group in self.groups:
            for cell in self._cells(group):
                groups[cell].append(group)
        return groups

    def around(self, cells: Iterable[int]) -> list[Group]:
        """The groups that depend on some cells."""
        return list(dict.fromkeys([g for cell in cells for g in self._groups_of.get(cell, ())]))

    def bytes_moved(self, groups: Iterable[Group]) -> int:
        """The bytes that the transposes of some groups move, as the orders are now."""
        return sum([self._bytes(*group) for group in groups])

    def _bytes(self, kind: str, x: int, y: int) -> int:
        g = self.graph
        if kind == "side":
            leaf, side = g.sides[x]
            return 0 if side.fits(g.order_of(leaf)) else side.bytes
        if kind == "edge":
            dims, seen, order = g.dims[y], g.seen(x), g.order_of(y)
            for there in self.edges[x, y]:
                if differs(order, mapped(seen, there, len(dims)), large(dims)):
                    return min(g.bytes[x], g.bytes[y])
            return 0
        rank, mask, seen = len(g.dims[x]), large(g.dims[x]), g.seen(x)
        orders = {mapped(g.order_of(reader), table, rank) for reader, table in self.reads[x]}
        orders.update(self.wants[x])
        return g.bytes[x] * sum([differs(seen, order, mask) for order in orders])

    def _cells(self, group: Group) -> Set[int]:
        """The cells that a group depends on."""
        kind, x, y = group
        if kind == "side":
            return self._roots_of(self.graph.sides[x][0])
        others = [y] if kind == "edge" else [reader for reader, _ in self.reads[x]]
        return self._roots_of(x).union(*map(self._roots_of, others))

    def _roots_of(self, leaf: int) -> frozenset[int]:
        """The cells from whose orders that of a leaf follows."""
        roots = self._roots.get(leaf)
        if roots is None:
            roots = self._roots[leaf] = self._sought(leaf)
        return roots

    def _sought(self, leaf: int) -> frozenset[int]:
        g = self.graph
        if g.kind[leaf] == CELL:
            return frozenset((g.find(leaf),))
        if g.kind[leaf] != DERIVED:
            return frozenset()
        source = g.natural[leaf]
        if isinstance(source, Instruction):
            return frozenset().union(*(self._roots_of(g.first[x]) for x in source.operands[:2]))
        return self._roots_of(source[0])
