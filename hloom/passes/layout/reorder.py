"""Rewrite a computation so that its values are held in the orders that were chosen.

Operations are changed where they stand, in program order, so that names, annotations and control
edges stay. What reads a value in another order than it is held in reads a transpose, one for all
that want the same; transposes whose operand can be had in the right order go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.ir.values.padding import Padding
from hloom.ir.values.slices import Slices
from hloom.ir.values.window import Window
from hloom.passes.layout.dimension_orders import (
    Order,
    differs,
    identity,
    inverse,
    large,
    mapped,
    without_ones,
)
from hloom.passes.layout.indexed_orders import reorder_gather, reorder_scatter
from hloom.passes.layout.order_graph import FIXED, OrderGraph
from hloom.passes.layout.order_rules import RULES, alike, pointwise
from hloom.passes.layout.order_rules import dynamic_slice as slice_rule
from hloom.types.aligned import aligned_copy
from hloom.types.literal import Literal
from hloom.types.shape import Shape, shape, tuple_shape


def reorder(g: OrderGraph, c: Computation, fired: Counter[str]) -> None:
    """Hold the values of a computation in the orders of the graph."""
    Reorderer(g, c, fired).run()


class Reorderer:
    """Rewrites the instructions of a computation one by one."""

    def __init__(self, g: OrderGraph, c: Computation, fired: Counter[str]) -> None:
        self.g = g
        self.c = c
        self.fired = fired
        self.holder: dict[Instruction, Instruction] = {}
        """What stands for a transpose that has gone."""
        self.transposes: dict[tuple[Instruction, Order], Instruction] = {}

    def run(self) -> None:
        c = self.c
        count = self.fired.total()
        order = c.in_order()
        root = c.root
        for i in order:
            REWRITES.get(i.opcode, Reorderer.as_it_was)(self, i)
        if root.shape.is_array:
            c.root = self.value_in(root, self.order_of_root())
        for i in reversed(order):
            if i in self.holder and not i.users and i is not c.root:
                c.erase(i)
        if self.fired.total() > count:
            c.sort()

    def order_of_root(self) -> Order:
        """The order callers want an array result in."""
        rank = self.c.root.shape.rank
        if not self.c.is_entry:
            for caller in self.c.callers:
                if caller.opcode == "conditional" or (
                    caller.opcode == "while" and caller.called[1] is self.c
                ):
                    return self.g.order_of(self.g.first[caller])
        return identity(rank)

    def order_of(self, i: Instruction) -> Order:
        return self.g.order_of(self.g.first[i])

    def value_in(self, x: Instruction, order: Order) -> Instruction:
        """The value of `x` in an order."""
        now = self.order_of(x)
        at = self.holder.get(x, x)
        if now == order:
            return at
        transposed = self.transposes.get((x, order))
        if transposed is None:
            dims = self.g.dims[self.g.first[x]]
            of = shape(x.shape.dtype, [dims[d] for d in order]).with_default_layouts()
            places = inverse(now)
            attrs = OPS["transpose"].attrs(dimensions=tuple([places[d] for d in order]))
            transposed = self.c.append("transpose", attrs, (at,), of)
            transposed.metadata = x.metadata
            self.transposes[x, order] = transposed
            self.fired["transposes put in"] += 1
        return transposed

    def read(self, i: Instruction, operands: list[Instruction]) -> None:
        """Make an instruction read these."""
        new_operands = tuple(operands)
        if new_operands != i.operands:
            i.set_operands(new_operands)
            self.fired["operands"] += 1

    def take(self, i: Instruction, order: Order) -> None:
        """Give the result of an array instruction its order."""
        if order != identity(len(order)):
            dims = self.g.dims[self.g.first[i]]
            i.shape = shape(i.shape.dtype, [dims[d] for d in order]).with_default_layouts()
            i.sharding = None
            self.fired["reordered"] += 1

    def as_it_was(self, i: Instruction) -> None:
        """Everything in the order of the program."""
        self.read(
            i,
            [
                self.value_in(x, identity(x.shape.rank)) if self.is_leaf(x) else x
                for x in i.operands
            ],
        )

    def is_leaf(self, x: Instruction) -> bool:
        return x.shape.is_array and len(self.g.dims[self.g.first[x]]) > 1

    def alike(self, i: Instruction) -> None:
        """Operands and results in one order."""
        kinds = [self.g.kind[leaf] for leaf in self.g.leaves(i)]
        if FIXED in kinds or (i.shape.is_array and i.shape.rank < 2):
            self.as_it_was(i)
            return
        order = self.order_of(i)
        self.read(i, [self.value_in(x, order) if self.is_leaf(x) else x for x in i.operands])
        if order != identity(len(order)):
            turn = TURNS.get(i.opcode)
            if turn is not None:
                turn(i, order)
        if i.shape.is_array:
            self.take(i, order)
        else:
            self.take_parts(i)

    def take_parts(self, i: Instruction) -> None:
        """Give the leaves of a tuple their orders."""
        new_shape = self.permuted(i.shape, iter(self.g.leaves(i)))
        if new_shape is not i.shape:
            i.shape = new_shape
            i.sharding = None
            self.fired["reordered"] += 1

    def permuted(self, s: Shape, leaves: Iterator[int]) -> Shape:
        if s.is_tuple:
            parts = [self.permuted(part, leaves) for part in s.elements]
            same = all(a is b for a, b in zip(parts, s.elements, strict=True))
            return s if same else tuple_shape(parts)
        leaf = next(leaves)
        order = self.g.order_of(leaf)
        if not s.is_array or order == identity(len(order)):
            return s
        return shape(s.dtype, [s.dims[d] for d in order]).with_default_layouts()

    def constant(self, i: Instruction) -> None:
        order = self.order_of(i)
        if i.shape.is_array and order != identity(len(order)):
            self.take(i, order)
            array = aligned_copy(i.attrs.literal.array.transpose(order))
            i.attrs = replace(i.attrs, literal=Literal.owning(array, i.shape))

    def iota(self, i: Instruction) -> None:
        order = self.order_of(i)
        if order != identity(len(order)):
            self.take(i, order)
            i.attrs = replace(i.attrs, iota_dimension=order.index(i.attrs.iota_dimension))

    def broadcast(self, i: Instruction) -> None:
        order, (x,), at = self.order_of(i), i.operands, i.attrs.dimensions
        if not self.is_leaf(x):
            if order != identity(len(order)):
                self.take(i, order)
                i.attrs = replace(i.attrs, dimensions=tuple([order.index(d) for d in at]))
            return
        moved = order != identity(len(order)) or self.order_of(x) != identity(len(at))
        if not moved:
            self.as_it_was(i)  # `x` may be a transpose that has gone
            return
        operand_order = tuple([at.index(d) for d in order if d in at])
        self.read(i, [self.value_in(x, operand_order)])
        self.take(i, order)
        i.attrs = replace(i.attrs, dimensions=tuple(sorted([order.index(d) for d in at])))

    def transpose(self, i: Instruction) -> None:
        if self.g.kind[self.g.first[i]] == FIXED or i.shape.rank < 2:
            self.as_it_was(i)
            return
        (x,) = i.operands
        order = self.order_of(i)
        of = self.order_of(x)
        operand_order = tuple([i.attrs.dimensions[d] for d in order])
        plain = identity(len(order))
        if order == plain and of == plain and operand_order != plain:
            self.read(i, [self.holder.get(x, x)])
            return
        self.holder[i] = self.value_in(x, operand_order)
        self.fired["transposes taken out"] += 1

    def reshape(self, i: Instruction) -> None:
        (x,) = i.operands
        # `x` has its new shape already.
        was = self.g.dims[self.g.first[x]]
        back = without_ones(i.shape.dims, was) if self.is_leaf(x) else None
        if back is None or self.g.kind[self.g.first[i]] == FIXED or i.shape.rank < 2:
            self.as_it_was(i)
            return
        order, now = self.order_of(i), self.order_of(x)
        operand_order = mapped(order, back, x.shape.rank)
        # Where dimensions of one element stand is all the same to a reshape.
        self.read(
            i, [self.value_in(x, operand_order if differs(now, operand_order, large(was)) else now)]
        )
        self.take(i, order)

    def reduce(self, i: Instruction) -> None:
        first = i.operands[0]
        values = i.operands[: len(i.operands) // 2]
        kinds = [self.g.kind[leaf] for leaf in self.g.leaves(i)]
        if not self.is_leaf(first) or FIXED in kinds:
            self.as_it_was(i)
            return
        order = self.order_of(first)
        result = self.order_of(i)
        self.read(i, [self.value_in(x, order) if x in values else x for x in i.operands])
        if order != identity(len(order)):
            dims = tuple(sorted([order.index(d) for d in i.attrs.dimensions]))
            i.attrs = replace(i.attrs, dimensions=dims)
            self.take(i, result)

    def dot(self, i: Instruction) -> None:
        if self.g.kind[self.g.first[i]] == FIXED:
            self.as_it_was(i)
            return
        result = self.g.order_of(self.g.first[i])
        new_operands, changed = [], {}
        for x, side in zip(i.operands, ("lhs", "rhs"), strict=True):
            order = self.order_of(x)
            new_operands.append(self.holder.get(x, x))
            if order != identity(len(order)):
                for name in (f"{side}_batch_dims", f"{side}_contracting_dims"):
                    dims = getattr(i.attrs, name)
                    changed[name] = tuple([order.index(d) for d in dims])
        self.read(i, new_operands)
        if changed:
            i.attrs = replace(i.attrs, **changed)
        self.take(i, result)

    def make_tuple(self, i: Instruction) -> None:
        parts = iter(self.g.leaves(i))
        elements = []
        for x in i.operands:
            if not x.shape.is_array:
                for _ in self.g.leaves(x):
                    next(parts)
                elements.append(x)
                continue
            part = next(parts)
            elements.append(self.value_in(x, self.g.order_of(part)) if self.is_leaf(x) else x)
        self.read(i, elements)
        self.take_parts(i)

    def state(self, i: Instruction) -> None:
        """Elements, loops and barriers: an array operand is wanted in the order of the result."""
        (x,) = i.operands
        if i.shape.is_array and self.is_leaf(x):
            self.read(i, [self.value_in(x, self.order_of(i))])
        self.take_parts(i)

    def branches(self, i: Instruction) -> None:
        operands_ = [i.operands[0]]
        for x, c in zip(i.operands[1:], i.called, strict=True):
            leaf = self.is_leaf(x)
            operands_.append(self.value_in(x, self.order_of(c.parameters[0])) if leaf else x)
        self.read(i, operands_)
        self.take_parts(i)

    def parameter(self, i: Instruction) -> None:
        self.take_parts(i)


def _turn_dimensions(i: Instruction, order: Order) -> None:
    dims = tuple([order.index(d) for d in i.attrs.dimensions])
    i.attrs = replace(i.attrs, dimensions=dims)


def _turn_slice(i: Instruction, order: Order) -> None:
    ranges = i.attrs.slice.dimensions
    i.attrs = replace(i.attrs, slice=Slices(tuple([ranges[d] for d in order])))


def _turn_pad(i: Instruction, order: Order) -> None:
    rows = i.attrs.padding.dimensions
    i.attrs = replace(i.attrs, padding=Padding(tuple([rows[d] for d in order])))


def _turn_window(i: Instruction, order: Order) -> None:
    rows = i.attrs.window.dimensions
    i.attrs = replace(i.attrs, window=Window(tuple([rows[d] for d in order])))


def _turn_starts(i: Instruction, order: Order) -> None:
    count = len(i.operands) - len(order)
    starts = i.operands[count:]
    i.set_operands((*i.operands[:count], *[starts[d] for d in order]))
    if i.opcode == "dynamic-slice":
        sizes = i.attrs.dynamic_slice_sizes
        i.attrs = replace(i.attrs, dynamic_slice_sizes=tuple([sizes[d] for d in order]))


TURNS: dict[str, Callable[[Instruction, Order], None]] = {
    "concatenate": _turn_dimensions,
    "reverse": _turn_dimensions,
    "slice": _turn_slice,
    "pad": _turn_pad,
    "reduce-window": _turn_window,
    "select-and-scatter": _turn_window,
    "dynamic-slice": _turn_starts,
    "dynamic-update-slice": _turn_starts,
}

REWRITES: dict[str, Callable[[Reorderer, Instruction], None]] = {
    **{
        opcode: Reorderer.alike
        for opcode, rule in RULES.items()
        if rule in (pointwise, alike, slice_rule) or opcode in TURNS
    },
    "constant": Reorderer.constant,
    "iota": Reorderer.iota,
    "broadcast": Reorderer.broadcast,
    "transpose": Reorderer.transpose,
    "reshape": Reorderer.reshape,
    "reduce": Reorderer.reduce,
    "dot": Reorderer.dot,
    "gather": reorder_gather,
    "scatter": reorder_scatter,
    "tuple": Reorderer.make_tuple,
    "get-tuple-element": Reorderer.state,
    "while": Reorderer.state,
    "opt-barrier": Reorderer.state,
    "conditional": Reorderer.branches,
    "parameter": Reorderer.parameter,
}
