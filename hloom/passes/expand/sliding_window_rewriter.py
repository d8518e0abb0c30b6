"""Long sliding windows in a time that does not grow with the window (van Herk, Gil and Werman).

Each dimension of a window is folded by itself, and a long one in blocks of one element less than
the window: from any place it takes what is left of its block, and of the next block as much as is
missing. Both are cumulative folds. Windows that all begin before the first element, or all end
behind the last, are one cumulative fold: `y[i] = fold(x[: i + k])`.

    y[i] = fold(x[i : i + n])  =>  b = reshape(x): [k, n - 1]
                                   y[i] = f(from the end within b: [i], within b: [i + n - 1])

Before that a window is cut to what of it ever meets an element; one that has one place is a plain
fold; places that are skipped (stride) are left out behind, elements moved apart (base dilation) are
filled up, and those of a dilated window are the same for each remainder of its dilation. Sums are
of the same numbers in another order, in chains no longer than before; those of narrow types are
kept in f32 and rounded once. What the fold begins with counts once in each window, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import Padding
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.tree_reduction_rewriter import fold_opcode
from hloom.passes.pass_ import register
from hloom.types.dtype import F32, DType
from hloom.types.limits import max_value, min_value
from hloom.types.shape import shape

LONG, LONG_DILATED = 12, 64
"""Shorter windows are folded as they are; elements that lie apart are filled up and turned."""
LEAST_PLACES = 4
"""Of windows that reach an end: each of fewer is folded by itself."""


@register
class SlidingWindowRewriter(Expander):
    """Fold long windows by cumulative folds of blocks, and each dimension by itself."""

    name = "sliding-window-rewriter"
    opcodes = frozenset(["reduce-window"])

    def wants(self, i: Instruction) -> bool:
        return any(_is_long(w) for w in i.attrs.window.dimensions)

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        count = len(i.operands) // 2
        xs, starts = i.operands[:count], i.operands[count:]
        leaves = list(i.shape.leaves())
        if not all(s.is_static and 0 not in s.dims for s in (*leaves, *[x.shape for x in xs])):
            return None
        sizes, base = leaves[0].dims, xs[0].shape.dims
        cut = [w.clipped(n) for w, n in zip(i.attrs.window.dimensions, base, strict=True)]
        dims = tuple([w for w in cut if w is not None])
        if len(dims) < len(cut):  # all is padding
            full = [b.spread(y, sizes) for y in starts]
            return b.tuple(*full) if i.shape.is_tuple else full[0]
        if any(map(_is_long, dims)) and len(xs) == 1 and not _is_cumulative(dims, base):
            folded = _moved(b, i, dims) or self._folded(b, i, dims)
            if folded is not None:
                return folded
        if dims == i.attrs.window.dimensions:
            return None
        attributes = {"window": Window(dims), "called": i.called, "shape": i.shape.bare}
        return b.emit("reduce-window", *i.operands, **attributes)

    def _folded(
        self, b: Expansion, i: Instruction, dims: Sequence[WindowDimension]
    ) -> Instruction | None:
        """A fold that may be cut and joined, by each dimension of its window."""
        x, initial = i.operands
        kind, of = fold_opcode(i.called[0]), x.shape.dtype
        if kind is None or of.is_complex or of.is_pred:
            return None
        if initial.shape.dtype is not of or i.shape.dtype is not of:
            return None
        dims = [replace(w, window_reversal=False) for w in dims]
        wide = F32 if kind in ("add", "multiply") and of.is_floating and of.bits < 32 else of
        y = _Folds(b, kind, wide).of_all(b.converted(x, wide), dims, i.shape.dims)
        if not is_neutral(initial, kind, of):
            y = b.emit(kind, b.spread(b.converted(initial, wide), i.shape.dims), y, shape=y.shape)
        return b.converted(y, of)


def _moved(b: Expansion, i: Instruction, dims: Sequence[WindowDimension]) -> Instruction | None:
    """A fold by whatever computation along one dimension, whose windows reach one of its ends."""
    x, initial = i.operands
    walked = [d for d, w in enumerate(dims) if not w.is_trivial]
    reach = _reach(dims[walked[0]], x.shape.dims[walked[0]]) if len(walked) == 1 else None
    if reach is None or initial.shape.dtype is not i.shape.dtype:
        return None
    [d] = walked

    def fold(part: Instruction) -> Instruction:
        windows = [WindowDimension(1)] * x.shape.rank
        windows[d] = _everything(part.shape.dims[d])[reach.reverse]
        of = shape(i.shape.dtype, part.shape.dims)
        attributes = {"window": Window(tuple(windows)), "called": i.called, "shape": of}
        return b.emit("reduce-window", part, initial, **attributes)

    return reach.folded(b, x, d, fold, initial)


@dataclass(frozen=True)
class _Reach:
    """Windows that are what a cumulative fold has from place `first` to place `last`: before (or
    behind) its elements nothing, and beyond its end what it has there."""

    first: int
    last: int
    reverse: bool

    def folded(
        self,
        b: Expansion,
        x: Instruction,
        d: int,
        fold: Callable[[Instruction], Instruction],
        initial: Instruction,
    ) -> Instruction:
        """These windows of `x` along a dimension, by its cumulative fold."""
        n = x.shape.dims[d]
        first, last = max(self.first, 0), min(self.last, n - 1)
        start, limit = (first, n) if self.reverse else (0, last + 1)
        y = b.sliced(fold(b.sliced(x, d, start, limit)), d, first - start, last + 1 - start)
        low, high = first - self.first, self.last - last
        end = 0 if self.reverse else last - first
        more = low if self.reverse else high  # places beyond the end of the fold
        if more:
            others = [k for k in range(x.shape.rank) if k != d]
            sizes = [*y.shape.dims[:d], more, *y.shape.dims[d + 1 :]]
            line = b.reshaped(b.sliced(y, d, end, end + 1), [sizes[k] for k in others])
            repeated = b.spread(line, sizes, others)
            y = b.joined([repeated, y] if self.reverse else [y, repeated], d)
        edges = [(0, 0, 0)] * x.shape.rank
        edges[d] = (0, high, 0) if self.reverse else (low, 0, 0)
        padding = Padding.of(*edges)
        return y if padding.is_none else b.emit("pad", y, initial, padding=padding)


def _reach(w: WindowDimension, n: int) -> _Reach | None:
    """How windows along a dimension of `n` elements reach one of its ends, all of them."""
    if not _is_dense(w) or w.stride != 1 or w.window_reversal:
        return None
    places, low = w.output_size(n), w.padding_low
    if places < LEAST_PLACES:
        return None
    if places - 1 <= low:
        return _Reach(w.size - 1 - low, places + w.size - 2 - low, reverse=False)
    if w.size - 1 - low >= n - 1:
        return _Reach(-low, places - 1 - low, reverse=True)
    return None


def is_neutral(initial: Instruction, kind: str, of: DType) -> bool:
    """Whether what a fold begins with changes nothing."""
    if initial.opcode != "constant" or of.is_complex or of.is_pred or initial.shape.dtype is not of:
        return False
    return bool(initial.attrs.literal.array == _neutral(kind, of))


def _neutral(kind: str, of: DType):
    neutral = {"add": 0, "multiply": 1}.get(kind)
    if neutral is None:
        neutral = min_value(of) if kind == "maximum" else max_value(of)
    return neutral


def _is_cumulative(dims: Sequence[WindowDimension], sizes: Sequence[int]) -> bool:
    """Whether every window holds all before it (or after it) along one dimension."""
    walked = [(w, n) for w, n in zip(dims, sizes) if not w.is_trivial]
    return len(walked) == 1 and walked[0][0] in _everything(walked[0][1])


def _everything(n: int) -> tuple[WindowDimension, WindowDimension]:
    """The windows that hold all before each element, and all behind it."""
    return WindowDimension(n, padding_low=n - 1), WindowDimension(n, padding_high=n - 1)


def _is_long(w: WindowDimension) -> bool:
    """Whether a place meets more elements than it takes to fold all of them twice."""
    is_apart = w.window_dilation > 1 or w.base_dilation > 1
    return w.size >= (LONG_DILATED if is_apart else LONG) * w.stride * w.base_dilation


def _is_dense(w: WindowDimension) -> bool:
    return w.window_dilation == w.base_dilation == 1 and not w.is_trivial


@dataclass(frozen=True)
class _Folds:
    """Writes folds of one kind and type, which begin with what changes nothing."""

    b: Expansion
    kind: str
    of: DType

    def of_all(
        self, x: Instruction, dims: Sequence[WindowDimension], sizes: Sequence[int]
    ) -> Instruction:
        """One dimension after the other, those that leave least first; `sizes` of the result."""
        whole = [d for d, w in enumerate(dims) if sizes[d] == 1 and _is_dense(w)]
        if whole:
            x = self._folded(x, whole, dims)
        order = [d for d, w in enumerate(dims) if not w.is_trivial and d not in whole]
        left = {d: sizes[d] / x.shape.dims[d] for d in order}
        for d in sorted(order, key=left.__getitem__):
            x = self._along(x, d, dims[d], sizes[d])
        return x

    def _along(self, x: Instruction, d: int, w: WindowDimension, length: int) -> Instruction:
        """The windows of `x` along one dimension, `length` of them."""
        n = x.shape.dims[d]
        if not _is_long(w) or w in _everything(n):
            return self._windowed(x, d, w, length)
        reach = _reach(w, n)
        if reach is not None:
            return reach.folded(
                self.b, x, d, partial(self._cumulative, d=d, reverse=reach.reverse), self._start()
            )
        places = (length - 1) * w.stride + 1
        step = w.window_dilation
        total = places + (w.size - 1) * step
        unit = step if step > 1 else w.size - 1
        filled = self._filled(x, d, w, -(-total // unit) * unit)
        if step == 1:
            y = self._slid(filled, d, w.size, places)
        else:
            dims = x.shape.dims
            # Each remainder by itself, behind the quotients.
            quotients = filled.shape.dims[d] // step
            split = self.b.reshaped(filled, [*dims[:d], quotients, step, *dims[d + 1 :]])
            count = quotients - w.size + 1
            y = self._along(split, d, WindowDimension(w.size), count)
            y = self.b.reshaped(y, [*dims[:d], count * step, *dims[d + 1 :]])
        return self.b.sliced(y, d, 0, places, w.stride)

    def _cumulative(self, x: Instruction, d: int, *, reverse: bool) -> Instruction:
        n = x.shape.dims[d]
        return self._windowed(x, d, _everything(n)[reverse], n)

    def _filled(self, x: Instruction, d: int, w: WindowDimension, total: int) -> Instruction:
        """`x` with what changes nothing around and between its elements, `total` elements long."""
        edges = [(0, 0, 0)] * x.shape.rank
        between = w.base_dilation - 1
        high = total - w.padding_low - ((x.shape.dims[d] - 1) * w.base_dilation + 1)
        edges[d] = (w.padding_low, high, between)
        padding = Padding.of(*edges)
        return x if padding.is_none else self.b.emit("pad", x, self._start(), padding=padding)

    def _slid(self, x: Instruction, d: int, n: int, places: int) -> Instruction:
        """Windows of `n` elements from each of `places` places on, in blocks of one less."""
        b, dims, size = self.b, x.shape.dims, n - 1
        count = dims[d] // size
        blocks = b.reshaped(x, [*dims[:d], count, size, *dims[d + 1 :]])
        whole = [*dims[:d], count * size, *dims[d + 1 :]]
        before, after = _everything(size)
        up_to = b.reshaped(self._windowed(blocks, d + 1, before, size), whole)
        since = b.reshaped(self._windowed(blocks, d + 1, after, size), whole)
        left, right = b.sliced(since, d, 0, places), b.sliced(up_to, d, size, size + places)
        return b.emit(self.kind, left, right, shape=left.shape)

    def _folded(
        self, x: Instruction, whole: Sequence[int], dims: Sequence[WindowDimension]
    ) -> Instruction:
        """The one window along some dimensions, as a fold; they stay, of size 1."""
        b, sizes = self.b, list(x.shape.dims)
        ranges = [(0, n, 1) for n in sizes]
        for d in whole:
            low = dims[d].padding_low
            ranges[d] = (max(-low, 0), min(dims[d].size - low, sizes[d]), 1)
            sizes[d] = 1
        called = (b.combiner(self.kind, self.of),)
        x = b.cut(x, ranges)
        y = b.emit("reduce", x, self._start(), dimensions=tuple(whole), called=called)
        return b.reshaped(y, sizes)

    def _windowed(self, x: Instruction, d: int, w: WindowDimension, length: int) -> Instruction:
        """The windows of `x` along one dimension, as such."""
        windows = [WindowDimension(1)] * x.shape.rank
        windows[d] = w
        sizes = list(x.shape.dims)
        sizes[d] = length
        return self.b.emit(
            "reduce-window",
            x,
            self._start(),
            window=Window(tuple(windows)),
            called=(self.b.combiner(self.kind, self.of),),
            shape=shape(self.of, sizes),
        )

    def _start(self) -> Instruction:
        return self.b.scalar(_neutral(self.kind, self.of), self.of)
