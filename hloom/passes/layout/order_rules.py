"""What every operation says about the orders of its operands and its result (`order_graph.py`)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from math import prod

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.passes.expand.map_inliner import BY_ELEMENT
from hloom.passes.layout.dimension_orders import Table, identity, inverse, without_ones
from hloom.passes.layout.indexed_orders import asks_for_rows, say_orders
from hloom.passes.layout.layout_normalization import physical_order
from hloom.passes.layout.order_graph import FLOW, SCALAR, DotSide, OrderGraph, RowSide, ThinSide

PACKED = 8
"""A dot reads an operand in any order as it packs it: that costs this part of a transpose."""
THIN = 16
"""Fewer elements than this in a row fill no vector. Sums of `abs(x[:, :, None] * y[:, None])` along
the first dimension, of 500 x 600 x 5 elements, would take 9 times as long, of 3000 x 100 x 3 10."""
THIN_OF_PAIRS = 128
"""Where two rows meet for each element, joining the lanes of a row takes long beside reading both
again. Distances of 500 x 500 points with the dimensions first: 0.3 of the time in 16 dimensions,
0.6 in 32, 0.9 in 64, 1.0 in 100, 1.2 in 128; exponentials of them 0.1, 0.2, 0.4, 0.5, 0.7."""
LEAST_THIN = 4000
"""Of fewer elements the transposes take longer than they save. Ten steps of forces between pairs of
20 points in 8 dimensions 1.3 of the time, of 50 0.6; in 2 dimensions, of which vectors hold whole
points, 0.9 to 1.3."""
LEAST_POINTS = 16
"""Nor does it pay beside few points: distances of 3,000 points to 4 centres 1.2, to 32 0.4; sums of
few: of 2 x 100000 x 3 products 2.2, of 16 x 700 x 6 0.4."""
LONG_FOLD = 100
"""What is folded along rows then joins the lanes of each: it pays where a row has so many times the
elements of the thin dimension. Steps of Viterbi of 300 x 300 x 5 2.1 of the time, of 40 x 1000 x 5
0.6; of 500 sequences and 12 states 2.2."""
SHORT_ROW = 16
"""Rows of fewer elements fill no vector: they are folded as well along any other dimension."""
NEAR = 32
"""So many values before a reduce are looked at, or behind it."""
Rule = Callable[[OrderGraph, Instruction], None]


def graph_of(module: Module) -> OrderGraph:
    """The leaves, cells and links of a module."""
    g = OrderGraph(module)
    for c in g.computations:
        inner = not c.is_entry
        for i in c.instructions:
            if i.opcode == "parameter" and inner:
                continue
            RULES.get(i.opcode, opaque)(g, i)
        if inner and (len(c.callers) > 1 or any(x.opcode not in FLOW for x in c.callers)):
            known = [x for x in c.callers if x in g.first]
            g.pin(chain.from_iterable(g.leaves(x) for x in (*c.parameters, c.root, *known)))
    _boundary(g, module)
    g.close()
    return g


def _boundary(g: OrderGraph, module: Module) -> None:
    """The entry keeps what is outside as it is."""
    entry = module.entry
    layout = module.entry_layout
    for k, p in enumerate(entry.parameters):
        s = p.shape
        if layout is not None and layout.parameters[k].has_layout:
            s = layout.parameters[k]
        if s.is_array and s.layout is not None and not s.layout.is_default:
            g.lies[g.first[p]] = physical_order(s)
    root = entry.root
    if root.shape.is_array:
        s = root.shape if layout is None or not layout.result.has_layout else layout.result
        is_other = s.layout is not None and not s.layout.is_default
        order = physical_order(s) if is_other else identity(s.rank)
        g.wants.append((g.first[root], order))
    else:
        g.pin(g.leaves(root))


def opaque(g: OrderGraph, i: Instruction) -> None:
    """Operands are read, and results made, in the order of the program."""
    for x in i.operands:
        if x.shape.is_array:
            g.wants.append((g.first[x], identity(x.shape.rank)))
        else:
            g.pin(g.leaves(x))
    g.pin(g.leaves(i))


def pointwise(g: OrderGraph, i: Instruction) -> None:
    """Operands of the result's sizes are read in the order the result is made in."""
    if not i.shape.is_array or any(
        x.shape.rank and x.shape.dims != i.shape.dims for x in i.operands
    ):
        opaque(g, i)
        return
    alike(g, i)


def alike(g: OrderGraph, i: Instruction) -> None:
    """Operands of the result's rank are read in the order the results are made in."""
    if i.control_predecessors or i.control_successors:
        opaque(g, i)
        return
    for leaf in g.leaves(i):
        if g.kind[leaf] == SCALAR:
            continue
        for x in i.operands:
            if x.shape.is_array and g.kind[g.first[x]] != SCALAR:
                g.reads[g.first[x], leaf] = None


def dynamic_slice(g: OrderGraph, i: Instruction) -> None:
    starts = i.operands[1 if i.opcode == "dynamic-slice" else 2 :]
    if any(x.shape.rank for x in starts):
        opaque(g, i)
    else:
        alike(g, i)


def windowed(g: OrderGraph, i: Instruction) -> None:
    """As `alike`; which of equal elements is selected depends on the order of the window's
    dimensions."""
    alike(g, i)
    walked = tuple([d for d, w in enumerate(i.attrs.window.dimensions) if w.size > 1])
    for leaf in g.leaves(i):
        if len(walked) > 1 and g.kind[leaf] != SCALAR:
            g.keeps.append((leaf, walked))


def free(g: OrderGraph, i: Instruction) -> None:
    """A value that can be made in any order at no cost."""


def constant(g: OrderGraph, i: Instruction) -> None:
    if not i.shape.is_array or i.attrs.literal.is_elided:
        g.pin(g.leaves(i))


def broadcast(g: OrderGraph, i: Instruction) -> None:
    x, at = i.operands[0], i.attrs.dimensions
    if g.kind[g.first[x]] != SCALAR:
        there = tuple([at.index(d) if d in at else -1 for d in range(i.shape.rank)])
        g.spreads.append((g.first[x], g.first[i], there))


def transpose(g: OrderGraph, i: Instruction) -> None:
    if i.control_predecessors or i.control_successors or g.kind[g.first[i]] == SCALAR:
        opaque(g, i)
        return
    order = i.attrs.dimensions
    g.edges.append((g.first[i.operands[0]], g.first[i], inverse(order), order))


def reshape(g: OrderGraph, i: Instruction) -> None:
    x = g.first[i.operands[0]]
    there = without_ones(i.operands[0].shape.dims, i.shape.dims)
    if there is None or SCALAR in (g.kind[x], g.kind[g.first[i]]) or i.has_control_edges:
        opaque(g, i)
        return
    back = without_ones(i.shape.dims, i.operands[0].shape.dims)
    assert back is not None, "a reshape that only moves ones does so both ways"
    g.edges.append((x, g.first[i], there, back))


def thin_side(i: Instruction, size: int) -> ThinSide | None:
    """What a reduce says of the innermost dimension of its operand, of `size` bytes."""
    dims, over = i.operands[0].shape.dims, frozenset(i.attrs.dimensions)
    points = [d for d, n in enumerate(dims) if n > 1]
    if len(points) < 3 or prod(dims) < LEAST_THIN:
        return None
    inner, parts = points.pop(), _parts_read(i)
    if len([part for part in parts if inner in part]) > 1:
        is_filled = dims[inner] == 2 or min(dims[d] for d in points) < LEAST_POINTS
        return None if is_filled else ThinSide(size, dims, THIN_OF_PAIRS)
    if not parts or RowSide(0, dims, over).fits(identity(len(dims))):
        return None  # what comes from memory alone is read as it lies
    row = dims[points[-1]]
    if prod(dims[d] for d in over) < LEAST_POINTS:
        return None  # results are as many as what is read
    if row < (LONG_FOLD * dims[inner] if points[-1] in over else THIN):
        return None
    return ThinSide(size, dims, THIN)


def _keeps_rows(i: Instruction, side: RowSide) -> bool:
    """Whether a reduce folds rows as they lie in the program: long ones, or what is computed from
    the result meets the rows again."""
    if not side.fits(identity(len(side.dims))):
        return False
    return prod(side.dims[d] for d in side.reduced) >= SHORT_ROW or _is_repeated(i)


def _is_repeated(i: Instruction) -> bool:
    """Whether what a reduce gives is repeated along the rows that it folded."""
    size = i.operands[0].shape.size
    seen, stack = {i}, [i]
    while stack and len(seen) < NEAR:
        y = stack.pop()
        if y.opcode == "broadcast" and y.shape.size == size:
            return True
        if y is i or y.opcode in BY_ELEMENT or y.opcode in ("reshape", "broadcast"):
            stack += [z for z in y.users if z not in seen]
            seen.update(y.users)
    return bool(stack)


def _parts_read(i: Instruction) -> set[frozenset[int]]:
    """What is reduced is made of arrays with a part of its dimensions, not only the first or the
    last: differences of all pairs of points have two with the innermost. These are the parts."""
    x = i.operands[0]
    dims = x.shape.dims
    wide = frozenset([d for d, size in enumerate(dims) if size > 1])
    seen, stack, parts = {x}, [x], set()
    while stack and len(seen) < NEAR:
        y = stack.pop()
        if y.opcode == "broadcast" and y.shape.dims == dims:
            part = wide.intersection(y.attrs.dimensions)
            if len(part) > 1 and part != wide:
                parts.add(part)
        elif y.opcode in BY_ELEMENT:
            stack += [z for z in y.operands if z not in seen]
            seen.update(y.operands)
    return parts


def is_reason(i: Instruction) -> bool:
    """Whether another order of dimensions than that of the program may be better for this one."""
    if i.opcode == "reduce":
        side = thin_side(i, 0)
        return side is not None and not side.fits(identity(len(side.dims)))
    return i.opcode == "transpose" or asks_for_rows(i)


def reduce(g: OrderGraph, i: Instruction) -> None:
    """The result has the kept dimensions in the order the operand has them in."""
    if i.shape.is_tuple and any(g.kind[leaf] != SCALAR for leaf in g.leaves(i)):
        opaque(g, i)
        return
    values = i.operands[: len(i.operands) // 2]
    first = g.first[values[0]]
    for x in values[1:]:
        if g.kind[first] != SCALAR:
            g.reads[first, g.first[x]] = None
    if g.kind[first] != SCALAR:
        over = frozenset(i.attrs.dimensions)
        side = RowSide(g.bytes[first] // 2, values[0].shape.dims, over)
        if (thin := thin_side(i, g.bytes[first])) is not None:
            g.sides.append((first, thin))
        elif _keeps_rows(i, side):  # rows stay rows; others are no reason to move
            g.sides.append((first, side))
    kept_dims = [d for d in range(values[0].shape.rank) if d not in i.attrs.dimensions]
    table: Table = tuple(
        [kept_dims.index(d) if d in kept_dims else -1 for d in range(values[0].shape.rank)]
    )
    if i.shape.is_array:
        g.derive(g.first[i], (first, table))


def dot(g: OrderGraph, i: Instruction) -> None:
    a = i.attrs
    if any(x.shape.is_dynamic for x in i.operands):
        opaque(g, i)
        return
    sides = ((a.lhs_batch_dims, a.lhs_contracting_dims), (a.rhs_batch_dims, a.rhs_contracting_dims))
    for x, (batch, contracting) in zip(i.operands, sides, strict=True):
        leaf = g.first[x]
        if g.kind[leaf] != SCALAR:
            cost = g.bytes[leaf] // PACKED
            side = DotSide(cost, x.shape.dims, tuple(batch), frozenset(contracting))
            g.sides.append((leaf, side))
    g.derive(g.first[i], i)


def indexed(g: OrderGraph, i: Instruction) -> None:
    if not say_orders(g, i):
        opaque(g, i)


def bitcast(g: OrderGraph, i: Instruction) -> None:
    """Reads what lies in memory: nothing may come between."""
    g.pin(g.leaves(i.operands[0]))
    g.pin(g.leaves(i))


def make_tuple(g: OrderGraph, i: Instruction) -> None:
    parts = iter(g.leaves(i))
    for x in i.operands:
        if not x.shape.is_array:
            g.tie(g.leaves(x), [next(parts) for _ in g.leaves(x)])
            continue
        leaf, here = g.first[x], next(parts)
        if g.kind[leaf] != SCALAR:
            g.reads[leaf, here] = None


def element(g: OrderGraph, i: Instruction) -> None:
    x = i.operands[0]
    start = g.first[x]
    for s in x.shape.elements[: i.attrs.index]:
        start += 1 if s.is_array else sum(1 for _ in s.leaves())
    leaves = g.leaves(i)
    g.tie(range(start, start + len(leaves)), leaves)


def _meets(g: OrderGraph, x: Instruction, y: Instruction) -> None:
    """`y` is the value of `x`, in another computation."""
    if not x.shape.is_array:
        g.tie(g.leaves(x), g.leaves(y))
    elif g.kind[g.first[x]] != SCALAR:
        g.reads[g.first[x], g.first[y]] = None


def loop(g: OrderGraph, i: Instruction) -> None:
    condition, body = i.called[0], i.called[1]
    _meets(g, i.operands[0], i)
    _meets(g, body.root, i)
    for c in (condition, body):
        g.tie(g.leaves(i), g.leaves(c.parameters[0]))


def branches(g: OrderGraph, i: Instruction) -> None:
    for x, c in zip(i.operands[1:], i.called, strict=True):
        _meets(g, x, c.parameters[0])
        _meets(g, c.root, i)


def barrier(g: OrderGraph, i: Instruction) -> None:
    _meets(g, i.operands[0], i)


RULES: dict[str, Rule] = {
    **dict.fromkeys(BY_ELEMENT, pointwise),
    **dict.fromkeys(("concatenate", "pad", "slice", "reverse"), alike),
    "reduce-window": windowed,
    "select-and-scatter": windowed,
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_slice,
    "iota": free,
    "constant": constant,
    "broadcast": broadcast,
    "transpose": transpose,
    "reshape": reshape,
    "reduce": reduce,
    "dot": dot,
    "gather": indexed,
    "scatter": indexed,
    "bitcast": bitcast,
    "tuple": make_tuple,
    "get-tuple-element": element,
    "while": loop,
    "conditional": branches,
    "opt-barrier": barrier,
}
