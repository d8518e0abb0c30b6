"""Long cumulative folds by a computation of one's own, in blocks: those of log-sum-exp, say.

A reduce-window whose window is everything before (or after) carries one number through all of the
array, and what it loses in each step adds up. So blocks are folded, then their totals, and both are
joined, for any number of levels:

    y = cumulative f(x: [n])  =>  s = cumulative f within reshape(x): [n/16, 16]
                                  t = cumulative f of the ends of s, one block later
                                  y = reshape(f(t, s))

HLO leaves the order open, for an initial value that changes nothing and a computation that may be
applied in any order. Both are tried on numbers here; where they fail the order is kept. Sums and
their like are cut in blocks by kernels.
"""

from __future__ import annotations

import numpy as np

from hloom.interp import evaluate
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ASSOCIATIVE
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.map_inliner import BY_ELEMENT, inlined
from hloom.passes.pass_ import register
from hloom.types.dtype import DType
from hloom.types.shape import shape

BLOCK = 16
# Shorter ones lose little.
LEAST_LENGTH = 64
# More operations than a fold is worth asking about.
MOST_OPERATIONS = 64
TRIALS = 6
KNOWN = opcodes(ASSOCIATIVE)


@register
class ReduceWindowRewriter(Expander):
    """Cut long cumulative folds by computations of one's own in blocks."""

    name = "reduce-window-rewriter"
    opcodes = frozenset(["reduce-window"])

    def wants(self, i: Instruction) -> bool:
        sizes = [w.size for w in i.attrs.window.dimensions]
        return len(i.operands) == 2 and max(sizes, default=0) > LEAST_LENGTH

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, initial = i.operands
        cumulative = _cumulative(i)
        of = x.shape.dtype
        if cumulative is None or not of.is_floating or initial.opcode != "constant":
            return None
        if initial.shape.dtype is not of:
            return None
        combiner = i.called[0]
        if not _is_plain(combiner, of) or not _is_monoid(combiner, initial):
            return None
        return _in_blocks(b, i, x, *cumulative)


def _cumulative(i: Instruction) -> tuple[int, bool] | None:
    """The dimension that a window accumulates along, and whether from its end."""
    x, dims = i.operands[0].shape, i.attrs.window.dimensions
    walked = [d for d, w in enumerate(dims) if not w.is_trivial]
    if len(walked) != 1 or not x.is_static or 0 in x.dims:
        return None
    [d] = walked
    w, n = dims[d], x.dims[d]
    for reverse in (False, True):
        if w == _everything(n, reverse) and n > LEAST_LENGTH:
            return d, reverse
    return None


def _everything(n: int, reverse: bool) -> WindowDimension:
    low, high = (0, n - 1) if reverse else (n - 1, 0)
    return WindowDimension(n, padding_low=low, padding_high=high)


def _is_plain(c: Computation, of: DType) -> bool:
    """Whether a computation is of elementwise operations on this type alone, and none that is
    known by itself."""
    root = c.root
    if root.opcode in KNOWN and all(o.opcode == "parameter" for o in root.operands):
        return False
    scalar = shape(of)
    if root.shape.bare is not scalar.bare or len(c.instructions) > MOST_OPERATIONS:
        return False
    leaves = BY_ELEMENT | {"parameter", "constant"}
    return all(i.opcode in leaves and i.shape.is_scalar for i in c.instructions)


def _is_monoid(c: Computation, initial: Instruction) -> bool:
    """Whether numbers may be folded in any order, and the initial value changes none: tried."""
    start = initial.attrs.literal.array
    random = np.random.default_rng(0)
    drawn = (random.standard_normal((TRIALS, 3)) * 4).astype(start.dtype)

    def f(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(evaluate(c, a, b).array)

    for row in drawn:
        x, y, z = [np.asarray(v) for v in row]
        pairs = [
            (f(start, x), x),
            (f(x, start), x),
            (f(x, y), f(y, x)),
            (f(f(x, y), z), f(x, f(y, z))),
        ]
        eps = float(np.finfo(np.float32).eps) if start.itemsize >= 4 else 2.0**-7
        for p, q in pairs:
            p, q = float(p), float(q)
            if not abs(p - q) <= 8 * eps * max(1.0, abs(p), abs(q)):
                return False
    return True


def _in_blocks(b: Expansion, i: Instruction, x: Instruction, d: int, reverse: bool) -> Instruction:
    """The fold of `x` along a dimension, in blocks."""
    initial, combiner = i.operands[1], i.called[0]
    dims, n = list(x.shape.dims), x.shape.dims[d]
    count = -(-n // BLOCK)

    def folded(y: Instruction, axis: int, size: int) -> Instruction:
        windows = [WindowDimension(1)] * y.shape.rank
        windows[axis] = _everything(size, reverse)
        window = Window(tuple(windows))
        return b.emit("reduce-window", y, initial, window=window, called=(combiner,), shape=y.shape)

    def filled(y: Instruction, axis: int, size: int, in_front: bool) -> Instruction:
        """With `size` initial values at one end."""
        if not size:
            return y
        sizes = list(y.shape.dims)
        sizes[axis] = size
        more = b.spread(initial, sizes)
        return b.joined([more, y] if in_front else [y, more], axis)

    whole = filled(x, d, count * BLOCK - n, False)
    blocks = b.reshaped(whole, [*dims[:d], count, BLOCK, *dims[d + 1 :]])
    within = folded(blocks, d + 1, BLOCK)
    edge = 0 if reverse else BLOCK - 1
    ends = b.reshaped(b.sliced(within, d + 1, edge, edge + 1), [*dims[:d], count, *dims[d + 1 :]])
    before = _in_blocks(b, i, ends, d, reverse) if count > LEAST_LENGTH else folded(ends, d, count)
    carried_blocks = b.sliced(before, d, 1, count) if reverse else b.sliced(before, d, 0, count - 1)
    shifted = filled(carried_blocks, d, 1, not reverse)
    places = [k for k in range(len(dims) + 1) if k != d + 1]
    spread = b.spread(shifted, within.shape.dims, places)
    pair = (within, spread) if reverse else (spread, within)
    joined = inlined(b, i, combiner, pair)
    return b.sliced(b.reshaped(joined, [*dims[:d], count * BLOCK, *dims[d + 1 :]]), d, 0, n)
