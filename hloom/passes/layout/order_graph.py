"""Which values of a program may be held in another order of dimensions, and what it would cost.

Every array of two dimensions or more is a *leaf* (a tuple has several). Leaves that have to be in
one order because one operation reads or makes them, element by element or window by window, are a
*cell*: the cells are what an order is chosen for. Other leaves are *fixed* (parameters of the
entry, what convolutions, reshapes, sorts ... give: the order of the program) or *derived* (results
of dots and of reduces, whose order follows from that of an operand).

Cells meet in links: a link is a place where a transpose of so many bytes stands unless the cell is
in the wanted order. That order is a constant, or follows from the order of another leaf.
State of loops and elements of tuples are leaves like others, so orders reach through loops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.passes.layout.dimension_orders import Order, Table, identity, large, mapped
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes

FLOW = frozenset(("while", "conditional"))
"""What calls the computations that are looked at, beside the entry."""
SCALAR, CELL, FIXED, DERIVED = range(4)


def is_movable(s: Shape) -> bool:
    """Whether an array can be held in another order."""
    return s.is_array and len(s.dims) > 1 and s.is_static and s.size > 0


TRIPS = 8
"""How often a loop is taken to run."""


def looked_at(module: Module) -> dict[Computation, int]:
    """The entry, and the bodies, conditions and branches that are run from it; how often."""
    times = {module.entry: 1}
    todo = [module.entry]
    while todo:
        caller = todo.pop()
        for i in caller.instructions:
            if i.opcode in FLOW:
                for c in i.called:
                    if c not in times:
                        times[c] = times[caller] * (TRIPS if i.opcode == "while" else 1)
                        todo.append(c)
    return times


def unchanged_elements(body: Computation) -> set[Instruction]:
    """The elements of a loop's state that every trip hands on: what is done to them, and what is
    saved, is done once."""
    root = body.root
    if root.opcode != "tuple" or body.is_entry:
        return set()
    return {
        x
        for k, x in enumerate(root.operands)
        if x.opcode == "get-tuple-element"
        and x.operands[0].opcode == "parameter"
        and x.attrs.index == k
    }


@dataclass(slots=True)
class LayoutLink:
    """A transpose of so many bytes stands here unless the cell is in the wanted order."""

    bytes: int
    mask: int
    """The dimensions that count."""
    source: int = -1
    """The leaf from whose order the wanted one follows, by the table; -1: it is `order`."""
    table: Table | None = None
    order: Order = ()


@dataclass(slots=True)
class DotSide:
    """A dot reads a cell: without a copy if batch dimensions lead and the contracting and the free
    dimensions are not interleaved."""

    bytes: int
    dims: tuple[int, ...]
    batch: tuple[int, ...]
    contracting: frozenset[int]

    def fits(self, order: Order) -> bool:
        wide = [d for d in order if self.dims[d] != 1]
        batch = [d for d in self.batch if self.dims[d] != 1]
        if wide[: len(batch)] != batch:
            return False
        rest = [d in self.contracting for d in wide[len(batch) :]]
        return sum(a is not b for a, b in pairwise(rest)) <= 1

    def orders(self) -> tuple[Order, ...]:
        """The two orders that fit and move least: contracting last, contracting first."""
        k = [d for d in range(len(self.dims)) if d in self.contracting]
        free = [d for d in range(len(self.dims)) if d not in self.contracting]
        free = [d for d in free if d not in self.batch]
        return (*self.batch, *free, *k), (*self.batch, *k, *free)


@dataclass(slots=True)
class RowSide:
    """A reduce reads a cell: over the innermost dimensions it is one kernel with what is computed
    from its result (a softmax, a norm), over others it is one more walk over the operand."""

    bytes: int
    dims: tuple[int, ...]
    reduced: frozenset[int]

    def fits(self, order: Order) -> bool:
        inner = [d in self.reduced for d in order if self.dims[d] != 1]
        return inner == sorted(inner)

    def orders(self) -> tuple[Order, ...]:
        return ()


@dataclass(slots=True)
class ThinSide:
    """A reduce reads a cell: where the innermost dimension is thin (the three coordinates of pairs
    of particles), vectors are filled in part or shuffled at every step."""

    bytes: int
    dims: tuple[int, ...]
    least: int
    """Fewer elements than this are thin, if a dimension has more."""

    def fits(self, order: Order) -> bool:
        inner = next((d for d in reversed(order) if self.dims[d] != 1), None)
        return inner is None or not self._is_thin(inner)

    def _is_thin(self, d: int) -> bool:
        return self.dims[d] < min(self.least, max(self.dims))

    def orders(self) -> tuple[Order, ...]:
        """The innermost dimension first, or all thin ones, the others as they are."""
        rank = range(len(self.dims))
        inner = max(d for d in rank if self.dims[d] != 1)
        order = (inner, *[d for d in rank if d != inner])
        if not self.fits(order):
            order = (*filter(self._is_thin, rank), *[d for d in rank if not self._is_thin(d)])
        return (order,)


Side = DotSide | RowSide | ThinSide


@dataclass(slots=True)
class Cell:
    """Leaves in one order, and where a transpose stands unless it is the right one."""

    order: Order
    links: dict[object, LayoutLink] = field(default_factory=dict)
    inner: list[LayoutLink] = field(default_factory=list)
    """Transposes between two leaves of the cell."""
    sides: list[Side] = field(default_factory=list)
    fixed_orders: list[tuple[int, ...]] = field(default_factory=list)
    """Dimensions whose order among themselves means something."""


class OrderGraph:
    """The leaves and cells of a module; `order_of` says how a leaf is held."""

    def __init__(self, module: Module) -> None:
        self.computations = looked_at(module)
        self.first: dict[Instruction, int] = {}
        """The number of the first leaf of every value."""
        self.dims: list[tuple[int, ...]] = []
        self.bytes: list[int] = []
        """What is moved by all transposes of a leaf: in loops, in all trips."""
        self.kind: list[int] = []
        self.parent: list[int] = []
        self.natural: dict[int, tuple[int, Table] | Instruction] = {}
        """Of derived leaves: what they follow from, a leaf by a table, or a dot."""
        self.settled: dict[int, Order] = {}
        """The orders of derived leaves, once operations are being changed."""
        self.lies: dict[int, Order] = {}
        """How fixed leaves lie in memory, where layouts say another order."""
        self.cells: dict[int, Cell] = {}
        self.reads: dict[tuple[int, int], None] = {}
        """(x, y): y is made from x and in its order."""
        self.edges: list[tuple[int, int, Table, Table]] = []
        self.spreads: list[tuple[int, int, Table]] = []
        """(x, y, table): y is a broadcast of x."""
        self.wants: list[tuple[int, Order]] = []
        self.sides: list[tuple[int, Side]] = []
        self.keeps: list[tuple[int, tuple[int, ...]]] = []
        for c, times in self.computations.items():
            unchanged = unchanged_elements(c)
            for i in c.instructions:
                self._place(i, 1 if i in unchanged else times)

    def _place(self, i: Instruction, times: int) -> None:
        self.first[i] = len(self.dims)
        s = i.shape
        for leaf in (s,) if s.is_array else s.leaves():
            array = leaf.is_array
            self.parent.append(len(self.dims))
            self.dims.append(leaf.dims if array else ())
            self.bytes.append(times * data_bytes(leaf) if array else 0)
            if array and len(leaf.dims) > 1:
                self.kind.append(CELL if is_movable(leaf) else FIXED)
            else:
                self.kind.append(SCALAR)

    def leaves(self, i: Instruction) -> range:
        """The leaves of a value, by number."""
        start = self.first[i]
        return range(start, start + (1 if i.shape.is_array else sum(1 for _ in i.shape.leaves())))

    # What the rules say (order_rules.py).

    def pin(self, leaves: Iterable[int]) -> None:
        """These stay in the order of the program."""
        for leaf in leaves:
            if self.kind[leaf] != SCALAR:
                self.kind[leaf] = FIXED

    def tie(self, a: Iterable[int], b: Iterable[int]) -> None:
        """These are the same values: no transpose can stand between them."""
        for x, y in zip(a, b, strict=True):
            self._join(x, y)

    def _join(self, x: int, y: int) -> None:
        x, y = self.find(x), self.find(y)
        if x != y:
            low, high = (x, y) if x < y else (y, x)
            self.parent[high] = low

    def find(self, leaf: int) -> int:
        """The leaf that stands for those tied to this one."""
        parent = self.parent
        while parent[leaf] != leaf:
            parent[leaf] = parent[parent[leaf]]
            leaf = parent[leaf]
        return leaf

    def derive(self, leaf: int, source: tuple[int, Table] | Instruction) -> None:
        """The order of this one follows."""
        if self.kind[leaf] != SCALAR:
            self.kind[leaf] = DERIVED
            self.natural[leaf] = source

    def order_of(self, leaf: int) -> Order:
        """The order in which a leaf is held."""
        kind = self.kind[leaf]
        if kind == CELL:
            return self.cells[self.find(leaf)].order
        if kind == DERIVED:
            if leaf in self.settled:
                return self.settled[leaf]
            source = self.natural[leaf]
            if isinstance(source, Instruction):
                return self.order_of_dot(source)
            x, table = source
            return mapped(self.order_of(x), table, len(self.dims[leaf]))
        return identity(len(self.dims[leaf]))

    def order_of_dot(self, dot: Instruction) -> Order:
        """Batch dimensions, then the free ones of both sides, as the operands have them."""
        a = dot.attrs
        count = len(a.lhs_batch_dims)
        order = list(range(count))
        for x, batch, contracting in (
            (dot.operands[0], a.lhs_batch_dims, a.lhs_contracting_dims),
            (dot.operands[1], a.rhs_batch_dims, a.rhs_contracting_dims),
        ):
            leaf = self.first[x]
            named = {*batch, *contracting}
            free = [d for d in range(len(self.dims[leaf])) if d not in named]
            order += [count + free.index(d) for d in self.order_of(leaf) if d not in named]
            count += len(free)
        return tuple(order)

    def settle(self) -> None:
        """Keep the orders that follow from others: what they follow from is going to change."""
        for leaf, kind in enumerate(self.kind):
            if kind == DERIVED:
                self.settled[leaf] = self.order_of(leaf)

    # From what was said to cells.

    def close(self) -> None:
        """Make the cells and their links; nothing can be said afterwards."""
        kind = self.kind
        fixed = {self.find(leaf) for leaf, k in enumerate(kind) if k == FIXED}
        for leaf, k in enumerate(kind):
            if k != SCALAR and self.find(leaf) in fixed:
                kind[leaf] = FIXED
                self.natural.pop(leaf, None)
        for x, y in self.reads:
            if kind[x] == CELL and kind[y] == CELL:
                self._join(x, y)
        for leaf, k in enumerate(kind):
            if k == CELL and self.find(leaf) == leaf:
                self.cells[leaf] = Cell(identity(len(self.dims[leaf])))
        for x, y in self.reads:
            if kind[x] != CELL and kind[y] == CELL:
                self._link(y, x, x, None)
            elif kind[x] == CELL and kind[y] != CELL:
                self._want(x, identity(len(self.dims[x])))
        for x, y, there, back in self.edges:
            if kind[y] == CELL:
                self._link(y, x, x, there)
            if kind[x] == CELL:
                self._link(x, y, y, back)
        for x, y, there in self.spreads:
            if kind[x] == CELL:
                self._link(x, x, y, there)
        for x, order in self.wants:
            if kind[x] == CELL:
                self._want(x, order)
        for x, side in self.sides:
            if kind[x] == CELL:
                self.cell(x).sides.append(side)
        for x, dims in self.keeps:
            if kind[x] == CELL:
                self.cell(x).fixed_orders.append(dims)

    def cell(self, leaf: int) -> Cell:
        return self.cells[self.find(leaf)]

    def _link(self, leaf: int, of: int, source: int, table: Table | None) -> None:
        """The cell of a leaf meets a leaf from whose order the wanted one follows; else `of`, it or
        the other one, is moved."""
        size, mask = min(self.bytes[leaf], self.bytes[of]), large(self.dims[leaf])
        if self.kind[source] == CELL and self.find(source) == self.find(leaf):
            if source <= leaf and len(self.dims[source]) == len(self.dims[leaf]):
                self.cell(leaf).inner.append(LayoutLink(size, mask, source, table))
            return
        lies = self.lies.get(source)
        if lies is not None:
            order = mapped(lies, table, len(self.dims[leaf]))
            self.cell(leaf).links[source, table] = LayoutLink(size, mask, order=order)
        else:
            self.cell(leaf).links[source, table] = LayoutLink(size, mask, source, table)

    def _want(self, leaf: int, order: Order) -> None:
        """A value of a cell is read in one order, wherever that may be."""
        link = LayoutLink(self.bytes[leaf], large(self.dims[leaf]), order=order)
        self.cell(leaf).links[leaf, order] = link

    def savings(self, cell: int) -> dict[tuple[Order, int], int]:
        """How many bytes a cell saves by each order of its dimensions, those outside a mask
        apart, as the orders of other cells are now."""
        demands: defaultdict[tuple[Order, int], int] = defaultdict(int)
        of = self.cells[cell]
        rank = len(of.order)
        for link in of.links.values():
            order = link.order
            if link.source >= 0:
                order = mapped(self.order_of(link.source), link.table, rank)
            demands[order, link.mask] += link.bytes
        return demands

    def seen(self, leaf: int) -> Order:
        """The order in which a leaf lies in memory."""
        return self.lies.get(leaf) or self.order_of(leaf)
