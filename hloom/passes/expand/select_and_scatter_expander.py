"""select-and-scatter as windows that say what they choose, and places that ask them.

A window remembers the place of what it chooses (a `reduce-window` of values and places). Then every
place asks the windows that cover it, in their order, which have chosen it:

    chosen = reduce-window(x, place)
    y[p]   = scatter(... scatter(initial, s[w]) if chosen[w] == p ..., s[w']) if chosen[w'] == p ...

A place is covered by ceil(size / stride) windows along each dimension, the last of which is number
floor((p + padding) / stride): arrays over windows are shifted, and repeated `stride` times. Nothing
is written where data says, so that all of it is vectors, threads and fusions like any other. Where
too many windows cover a place, the sources are scattered to what was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import Padding
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.map_inliner import inlined, is_by_element
from hloom.passes.expand.tree_reduction_rewriter import fold_opcode
from hloom.passes.pass_ import register
from hloom.types.dtype import F32, F64, PRED, S32, DType
from hloom.types.shape import shape, tuple_shape

MOST_WINDOWS = 64
"""Places that more windows cover do not ask: what is chosen is scattered."""
LONG_SUM = 16
"""As many terms are summed in a wider type."""


@register
class SelectAndScatterExpander(Expander):
    """Let every place ask the windows that cover it whether they have chosen it."""

    name = "select-and-scatter-expander"
    opcodes = frozenset(["select-and-scatter"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        dims = i.attrs.window.dimensions
        if not _can_choose(i):
            return None
        if not can_ask(i):
            sizes = i.operands[1].shape.dims
            if all(n == 1 for n, w in zip(sizes, dims) if not w.is_trivial):
                return None  # one window along them: there is a kernel for that
            return _scattered(b, i)
        if all(w.size == 1 for w in dims):
            return _spread_out(b, i)
        return asked(b, i, i.operands, dims, places(b, i.shape.dims, dims))


def can_ask(i: Instruction) -> bool:
    """Whether places can ask the windows of a select-and-scatter: they are few, of static sizes,
    and what it calls is of single elements."""
    return _can_choose(i) and prod(map(_covering, i.attrs.window.dimensions)) <= MOST_WINDOWS


def _can_choose(i: Instruction) -> bool:
    """Whether windows can say which place they choose, by a number."""
    x, source, _ = i.operands
    dims = i.attrs.window.dimensions
    static = all(y.shape.is_static for y in (i, x, source))
    if not static or 0 in (*x.shape.dims, *source.shape.dims) or prod(x.shape.dims) >= 1 << 31:
        return False
    if any(w.base_dilation != 1 for w in dims):
        return False
    return all(is_by_element(c) for c in i.called)


def _covering(w: WindowDimension) -> int:
    """How many windows may reach beyond a place, along one dimension. Those with holes may leave it
    out, and do not choose it then."""
    return -(-w.dilated_size() // w.stride)


def _spread_out(b: Expansion, i: Instruction) -> Instruction:
    """Windows of one element, each of which chooses it."""
    x, source, initial = i.operands
    full = b.spread(initial, source.shape.dims)
    met = inlined(b, i, i.called[1], [full, source])
    edges = []
    for w, n, count in zip(i.attrs.window.dimensions, x.shape.dims, source.shape.dims):
        high = n + w.padding_low - ((count - 1) * w.stride + 1)
        edges.append((-w.padding_low, high, w.stride - 1))
    padding = Padding.of(*edges)
    return met if padding.is_none else b.emit("pad", met, initial, padding=padding)


def _scattered(b: Expansion, i: Instruction) -> Instruction:
    """Windows that many places share: what each chooses is a number, where its source goes."""
    x, source, initial = i.operands
    total, updates = prod(x.shape.dims), prod(source.shape.dims)
    dims = i.attrs.window.dimensions
    every = b.reshaped(b.iota(S32, (total,)), x.shape.dims)
    chosen = _chosen(b, i, x, source.shape.dims, every, dims)
    result = b.emit(
        "scatter",
        b.spread(initial, (total,)),
        b.reshaped(chosen, (updates, 1)),
        b.reshaped(source, (updates,)),
        called=(i.called[1],),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        shape=shape(i.shape.dtype, (total,)),
    )
    return b.reshaped(result, i.shape.dims)


def asked(
    b: Expansion,
    i: Instruction,
    operands: Sequence[Instruction],
    windows: Sequence[WindowDimension],
    place: Instruction,
    exists: Instruction | None = None,
) -> Instruction:
    """What `i` makes of operands (array, source, initial value) by windows. `place` numbers the
    elements of the array; -1: no window has that one. `exists` says of which windows there is
    something in the source; None: of all of them."""
    x, source, initial = operands
    chosen = _chosen(b, i, x, source.shape.dims, place, windows)
    nowhere = b.scalar(-1, S32)
    if exists is not None:
        chosen = b.select(exists, chosen, b.full(-1, S32, source.shape.dims))
    wide = _sum_type(i)
    of = wide or i.shape.dtype
    zero = b.scalar(0, of)
    sources = b.converted(source, of)
    result = b.spread(b.converted(initial, of), x.shape.dims)
    for back in product(*[range(_covering(w) - 1, -1, -1) for w in windows]):
        met = b.compared(_windows_of(b, chosen, nowhere, x.shape.dims, windows, back), place, "EQ")
        term = _windows_of(b, sources, zero, x.shape.dims, windows, back)
        if wide is not None:
            new = b.add(result, term)
        else:
            new = inlined(b, i, i.called[1], [result, term])
        result = b.select(met, new, result)
    return b.converted(result, i.shape.dtype)


def _sum_type(i: Instruction) -> DType | None:
    """The wider type that long sums are kept in."""
    of, windows = i.shape.dtype, i.attrs.window.dimensions
    is_sum = fold_opcode(i.called[1]) == "add" and of.is_floating and of.bits <= 32
    if not is_sum or prod(map(_covering, windows)) < LONG_SUM:
        return None
    return F64 if of is F32 else F32


def places(b: Expansion, dims: Sequence[int], windows: Sequence[WindowDimension]) -> Instruction:
    """A number for each element that no other has along the dimensions with windows."""
    total: Instruction | None = None
    step = 1
    for d in reversed(range(len(dims))):
        if windows[d].is_trivial:
            continue
        number = b.iota(S32, dims, d)
        if step > 1:
            number = b.multiply(number, b.full(step, S32, dims))
        total = number if total is None else b.add(total, number)
        step *= dims[d]
    return b.full(0, S32, dims) if total is None else total


def _chosen(
    b: Expansion,
    i: Instruction,
    x: Instruction,
    sizes: Sequence[int],
    place: Instruction,
    windows: Sequence[WindowDimension],
) -> Instruction:
    """The place that each window chooses; -1 for one that lies outside."""
    of = x.shape.dtype
    both = tuple_shape((shape(of, sizes), shape(S32, sizes))).with_default_layouts()
    choices = b.emit(
        "reduce-window",
        x,
        place,
        b.scalar(0, of),
        b.scalar(-1, S32),
        window=Window(tuple(windows)),
        called=(_choice(b, i, of),),
        shape=both,
    )
    return b.element(choices, 1)


def _choice(b: Expansion, i: Instruction, of: DType) -> Computation:
    """(value, place) so far and of one more element -> those that stay; place -1: of none."""
    c = b.module.add_computation("choose")
    kinds = (of, S32, of, S32)
    value, place, other, there = (
        c.add("parameter", shape=shape(t), number=k, name=f"p{k}") for k, t in enumerate(kinds)
    )
    inner = Expansion(c, b.combiners)
    stays = inlined(inner, i, i.called[0], [value, other])
    none = inner.scalar(0, S32)
    first = inner.compared(place, none, "LT")
    better = inner.and_(inner.compared(there, none, "GE"), inner.not_(stays))
    take = inner.or_(first, better)
    c.root = inner.tuple(inner.select(take, other, value), inner.select(take, there, place))
    assert stays.shape.dtype is PRED
    return c


def _windows_of(
    b: Expansion,
    y: Instruction,
    outside: Instruction,
    dims: Sequence[int],
    windows: Sequence[WindowDimension],
    back: Sequence[int],
) -> Instruction:
    """For each place what `y` has for the window that is `back` before the last to cover it."""
    edges, sizes, kept, repeated, cut = [], [], [], [], []
    for w, n, count, q in zip(windows, dims, y.shape.dims, back):
        first, last = w.padding_low // w.stride, (n - 1 + w.padding_low) // w.stride
        length = last - first + 1
        edges.append((q - first, length - (q - first) - count, 0))
        kept.append(len(repeated))
        repeated += [length, w.stride] if w.stride > 1 else [length]
        sizes.append(length * w.stride)
        start = w.padding_low - first * w.stride
        cut.append((start, start + n, 1))
    padding = Padding.of(*edges)
    if not padding.is_none:
        y = b.emit("pad", y, outside, padding=padding)
    return b.cut(b.reshaped(b.spread(y, repeated, kept), sizes), cut)
