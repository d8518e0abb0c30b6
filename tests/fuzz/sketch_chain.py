"""Random programs of what models are made of: products, convolutions, folds, and what lies between.

`ProgramSketch` draws every opcode alike, so most of its programs are small and hold no product at
all. Here values have more elements than registers hold, sizes leave tails, and products, windows,
sorts and updates are joined by chains of transposes, reshapes, slices, joins and pads.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hloom.interp.draw import load_drawers
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.padding import Padding
from hloom.ir.values.slices import Slices
from hloom.ir.values.window import Window, WindowDimension
from hloom.types.dtype import F32, PRED, S32, DType
from hloom.types.shape import Shape, shape, tuple_shape
from tests.fuzz.sketch_native import ProgramSketch

SIZES = (
    *(1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 31, 32, 33),
    *(48, 63, 64, 65, 96, 100, 128, 129, 200, 257),
)
TYPES = (F32,) * 6 + ("bf16", "f16", "f64", "s32")
MOST_ELEMENTS = 300_000
MOST_PRODUCTS = 1 << 22
"""Multiplications of one product."""


class ChainSketch(ProgramSketch):
    """A program in the making; its steps are those of a model."""

    most_elements = MOST_ELEMENTS
    most_products = MOST_PRODUCTS
    images = (5, 8, 9, 14, 16, 17, 28)
    features = (1, 2, 3, 4, 8, 16, 17)
    counts = (1, 2, 5, 8, 16, 33)

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng, integral=True)
        self.budget = self.pick((300, 3000, 3000, 20_000, 100_000))
        of = self.pick(TYPES)
        self.main = of if isinstance(of, DType) else self.dtype(of)

    # -- sizes and values

    def sizes(self, count: int, room: int) -> tuple[int, ...]:
        found: list[int] = []
        for _ in range(count):
            left = max(1, room // max(1, prod(found)))
            found.append(self.pick([n for n in SIZES if n <= left]))
        return self.shuffled(found)

    def value(self, least: int = 0, most: int = 4) -> Instruction:
        """Something of the main type; a new argument now and then."""
        fit = [
            x
            for x in self.pool[-10:]
            if least <= x.shape.rank <= most and x.shape.size and x.shape.dtype is self.main
        ]
        if fit and self.chance(0.85):
            return self.pick(fit)
        return self.fresh(self.sizes(self.integer(max(least, 1), most), self.budget))

    def fresh(self, dims: tuple[int, ...]) -> Instruction:
        """An argument of the entry; inside of loops, something bent to be it."""
        self.opcode = "convert"
        made = self.parameter(shape(self.main, dims))
        self.pool.append(made)
        return made

    def calm(self, x: Instruction) -> Instruction:
        """The value, made small again where products have been multiplied."""
        if self.grown.get(x, 0) < 2:
            return x
        ends = [self.constant(v, shape(x.shape.dtype)) for v in (-4, 4)]
        made = self.entry.add("clamp", ends[0], x, ends[1], shape=x.shape)
        self.grown[made] = 0
        if x in self.inexact:
            self.inexact.add(made)
        return made

    # -- steps

    def step(self) -> None:
        if self.depth < 2 and self.chance(0.08):
            self.pick((self.loop, self.branch, self.call))()
            return
        name, _ = zip(*STEPS)
        weights = np.array([w for _, w in STEPS], float)
        chosen = name[int(self.rng.choice(len(name), p=weights / weights.sum()))]
        self.opcode = ""
        self.pool.append(getattr(self, chosen)())

    def product(self) -> Instruction:
        x = self.calm(self.value(1))
        rank = x.shape.rank
        order = self.shuffled(range(rank))
        count = self.integer(1, min(2, rank)) if self.chance(0.95) else 0
        contracted = order[:count]
        batch = order[count : count + self.integer(0, min(2, rank - count))]
        depth = prod(x.shape.dims[d] for d in contracted)
        room = min(self.budget, self.most_products // max(1, x.shape.size))
        kept = max(1, prod(x.shape.dims[d] for d in batch))
        room = min(room, self.budget // max(1, x.shape.size // max(1, depth)), self.budget // kept)
        free = self.sizes(self.integer(0, 2), max(1, room))
        kinds = [("b", d) for d in batch] + [("c", d) for d in contracted]
        kinds = list(self.shuffled([*kinds, *[("f", k) for k in range(len(free))]]))
        dims = tuple(free[k] if kind == "f" else x.shape.dims[k] for kind, k in kinds)
        y = self.calm(self.bent(self.value(1), shape(self.main, dims)))
        attributes = {
            "lhs_batch_dims": batch,
            "rhs_batch_dims": tuple(kinds.index(("b", d)) for d in batch),
            "lhs_contracting_dims": contracted,
            "rhs_contracting_dims": tuple(kinds.index(("c", d)) for d in contracted),
        }
        return self.add("dot", x, y, **attributes)

    def convolved(self) -> Instruction:
        rank = self.integer(1, 2)
        batch, features = self.integer(1, 3), self.pick(self.features)
        groups = self.pick((1, 1, 1, features))
        each = features // groups
        outputs = groups * self.pick((1, 1, 2, 3, 8, 16, 17) if groups < 9 else (1, 2))
        dims, rows = [], []
        for _ in range(rank):
            size = self.pick((1, 2, 3, 3, 5))
            n = self.pick(self.images)
            apart, between = (2 if self.chance(0.15) else 1 for _ in range(2))
            low, high = self.integers(2, 0, size - 1)
            rows.append(WindowDimension(size, self.pick((1, 1, 2)), low, high, apart, between))
            dims.append(n)
        (b, f, at), (i, o, kat), (ob, of, oat) = (self._order(rank) for _ in range(3))
        lhs, rhs = [0] * (rank + 2), [0] * (rank + 2)
        lhs[b], lhs[f], rhs[i], rhs[o] = batch, features, each, outputs
        for d in range(rank):
            lhs[at[d]], rhs[kat[d]] = dims[d], rows[d].size
        x, y = (self.calm(self.bent(self.value(), shape(self.main, s))) for s in (lhs, rhs))
        return self.add(
            "convolution",
            x,
            y,
            window=Window(tuple(rows)),
            dim_labels=ConvolutionDimensions(b, f, at, i, o, kat, ob, of, oat),
            feature_group_count=groups,
            batch_group_count=1,
        )

    def _order(self, rank: int) -> tuple[int, int, tuple[int, ...]]:
        """Mostly as programs have it: batch first, features last."""
        order = self.shuffled(range(rank + 2))
        if self.chance(0.6):
            return 0, rank + 1, tuple(range(1, rank + 1))
        return order[0], order[1], tuple(order[2:])

    def folded(self) -> Instruction:
        x = self.calm(self.value(1))
        combine = self.combiner(x.shape.dtype, self._fold_of(x))
        gone = self.some_axes(x, 1)
        start = self.identity(combine)
        return self.add("reduce", x, start, dimensions=gone, called=(combine,))

    def _fold_of(self, x: Instruction) -> str:
        """No sums of narrow floats: they depend on the order by more than any tolerance."""
        if x.shape.dtype.bits < 32:
            return self.pick(("maximum", "minimum"))
        return self.pick(("add", "add", "maximum", "minimum"))

    def windowed(self) -> Instruction:
        """A running fold, or a pooling."""
        x = self.calm(self.value(1))
        combine = self.combiner(x.shape.dtype, self._fold_of(x))
        rows = [WindowDimension(1)] * x.shape.rank
        d = self.axis(x)
        n = x.shape.dims[d]
        if self.chance():
            rows[d] = WindowDimension(n, 1, n - 1, 0)
        else:
            size = self.integer(1, min(n, 4))
            rows[d] = WindowDimension(size, self.integer(1, 2), self.integer(0, size - 1), 0)
        start = self.identity(combine)
        return self.add("reduce-window", x, start, window=Window(tuple(rows)), called=(combine,))

    def joined(self) -> Instruction:
        """Two values, one spread or bent to the other's sizes."""
        x = self.value()
        y = self.bent(self.value(0), x.shape)
        return self.add(self.pick(("add", "subtract", "maximum", "minimum", "add")), x, y)

    def bias(self) -> Instruction:
        """A value for each place of one dimension, added; often cut off at zero."""
        x = self.value(1)
        d = self.axis(x)
        b = self.bent(self.value(0), shape(x.shape.dtype, (x.shape.dims[d],)))
        made = self.add("add", x, self.add("broadcast", b, shape=x.shape, dimensions=(d,)))
        if self.chance(0.6):
            zero = self.constant(0, shape(x.shape.dtype))
            spread = self.of_value("broadcast", zero, zero, shape=x.shape, dimensions=())
            made = self.add("maximum", made, spread)
        return made

    def curved(self) -> Instruction:
        x = self.value()
        if not x.shape.dtype.is_floating:
            return self.add("negate", x)
        return self.add(self.pick(("tanh", "exponential", "logistic", "abs", "negate", "sign")
                                  if x not in self.inexact else ("tanh", "logistic", "abs")),
                        self.calm(x))  # fmt: skip

    def softmax(self) -> Instruction:
        x = self.calm(self.value(1))
        if not x.shape.dtype.is_floating:
            return self.folded()
        narrow = x.shape.dtype
        if narrow.bits < 32:
            x = self.of_value("convert", x, x, shape=x.shape.with_dtype(F32))
        made = self.softmax_of(x, self.axis(x))
        if narrow.bits < 32:
            made = self.of_value("convert", made, made, shape=made.shape.with_dtype(narrow))
        return made

    def softmax_of(self, x: Instruction, d: int) -> Instruction:
        """Along one dimension, in the type of the value."""
        of = x.shape
        rest = tuple(k for k in range(of.rank) if k != d)
        largest = self._fold(x, "maximum", d)
        spread = self.add("broadcast", largest, shape=of, dimensions=rest)
        e = self.add("exponential", self.add("subtract", x, spread))
        total = self.add("broadcast", self._fold(e, "add", d), shape=of, dimensions=rest)
        return self.add("divide", e, total)

    def _fold(self, x: Instruction, opcode: str, d: int) -> Instruction:
        combine = self.combiner(x.shape.dtype, opcode)
        return self.add("reduce", x, self.identity(combine), dimensions=(d,), called=(combine,))

    def moved(self) -> Instruction:
        """A transpose, a reshape, a slice, a reversal, or a copy."""
        x = self.value(1)
        of, rank = x.shape, x.shape.rank
        kind = self.pick(("transpose", "transpose", "split", "merge", "slice", "reverse", "copy"))
        if kind == "transpose":
            return self.add("transpose", x, dimensions=self.shuffled(range(rank)))
        if kind == "split":
            d = self.axis(x)
            n = of.dims[d]
            part = self.pick([k for k in range(1, n + 1) if n % k == 0])
            dims = (*of.dims[:d], n // part, part, *of.dims[d + 1 :])
            return self.add("reshape", x, shape=shape(of.dtype, dims))
        if kind == "merge" and rank > 1:
            d = self.integer(0, rank - 2)
            dims = (*of.dims[:d], of.dims[d] * of.dims[d + 1], *of.dims[d + 2 :])
            return self.add("reshape", x, shape=shape(of.dtype, dims))
        if kind == "slice":
            ranges = []
            for n in of.dims:
                start = self.integer(0, n - 1)
                ranges.append((start, self.integer(start + 1, n), self.pick((1, 1, 1, 2, 3))))
            ranges = [r if self.chance() else (0, n, 1) for r, n in zip(ranges, of.dims)]
            return self.add("slice", x, slice=Slices.of(*ranges))
        if kind == "reverse":
            return self.add("reverse", x, shape=of, dimensions=self.some_axes(x, 1))
        return self.add("copy", x)

    def padded(self) -> Instruction:
        x = self.value(1)
        rows = []
        for n in x.shape.dims:
            low, high = self.integers(2, -1 if n > 2 else 0, 3)
            between = 1 if n * x.shape.size < self.budget and self.chance(0.2) else 0
            rows.append((low, high, between) if self.chance() else (0, 0, 0))
        fill = self.constant(self.integer(-1, 1), shape(x.shape.dtype))
        return self.add("pad", x, fill, padding=Padding.of(*rows))

    def chained(self) -> Instruction:
        """A value behind others of its sizes, but for one dimension."""
        x = self.value(1)
        d = self.axis(x)
        parts = [x]
        for _ in range(self.integer(1, 3)):
            n = self.pick((1, 2, 3, x.shape.dims[d]))
            dims = (*x.shape.dims[:d], n, *x.shape.dims[d + 1 :])
            parts.append(self.bent(self.value(0), shape(x.shape.dtype, dims)))
        return self.add("concatenate", *self.shuffled(parts), dimensions=(d,))

    def spread(self) -> Instruction:
        x = self.value(0, 3)
        rank = x.shape.rank + self.integer(1, 2)
        at = self.some(range(rank), x.shape.rank, x.shape.rank)
        dims = [self.pick((1, 2, 3, 8, 17)) for _ in range(rank)]
        for d, n in zip(at, x.shape.dims):
            dims[d] = n
        if prod(dims) > min(4 * self.budget, self.most_elements):
            return self.moved() if x.shape.rank else x
        return self.add("broadcast", x, shape=shape(x.shape.dtype, dims), dimensions=at)

    def chosen(self) -> Instruction:
        """One of two values by a comparison of places."""
        x = self.value(1)
        y = self.bent(self.value(0), x.shape)
        at = self.add("iota", shape=shape(S32, x.shape.dims), iota_dimension=self.axis(x))
        limit = self.constant(self.integer(0, max(x.shape.dims)), shape(S32))
        limit = self.add("broadcast", limit, shape=at.shape, dimensions=())
        of = shape(PRED, x.shape.dims)
        mask = self.add("compare", at, limit, shape=of, direction=self.pick(("LT", "GE", "EQ")))
        return self.add("select", mask, x, y)

    def indexed(self) -> Instruction:
        """Rows by a list, or a slice by a number; read or written."""
        x = self.value(1)
        n, rest = x.shape.dims[0], x.shape.dims[1:]
        dtype, count = x.shape.dtype, self.pick(self.counts)
        if self.chance(0.4):
            size = self.integer(1, n)
            start = self.parameter(shape(S32))
            zeros = [self.constant(0, shape(S32)) for _ in rest]
            if self.chance():
                sizes = (size, *rest)
                return self.add("dynamic-slice", x, start, *zeros, dynamic_slice_sizes=sizes)
            update = self.bent(self.value(0), shape(dtype, (size, *rest)))
            return self.add("dynamic-update-slice", x, update, start, *zeros)
        places = self.parameter(shape(S32, (count,)))
        rows = shape(dtype, (count, *rest))
        behind = tuple(range(1, 1 + len(rest)))
        if self.chance():
            return self.add("gather", x, places, shape=rows, offset_dims=behind,
                            collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1,
                            slice_sizes=(1, *rest))  # fmt: skip
        updates = self.bent(self.value(0), rows)
        combine = self.combiner(dtype, self.pick(("add", "maximum", "minimum")))
        return self.add("scatter", x, places, updates, shape=x.shape, called=(combine,),
                        update_window_dims=behind, inserted_window_dims=(0,),
                        scatter_dims_to_operand_dims=(0,), index_vector_dim=1)  # fmt: skip

    def sorted(self) -> Instruction:
        """Keys alone, or with the place each came from; only of what everybody computes alike."""
        x = self.value(1)
        if x in self.inexact:
            return self.moved()
        d = self.axis(x)
        if self.chance():
            compare = self.comparator(x.shape.dtype)
            return self.add("sort", x, dimensions=(d,), is_stable=True, called=(compare,))
        at = self.add("iota", shape=shape(S32, x.shape.dims), iota_dimension=d)
        compare = self.comparator(x.shape.dtype, S32)
        of = tuple_shape((x.shape, at.shape))
        both = self.add("sort", x, at, shape=of, dimensions=(d,), is_stable=True, called=(compare,))
        which = self.integer(0, 1)
        made = self.add("get-tuple-element", both, shape=of.elements[which], index=which)
        return made if which == 0 else self.of_value("convert", made, made, shape=x.shape)

    def turned(self) -> Instruction:
        """There and back through another type."""
        x = self.value()
        other: Shape = x.shape.with_dtype(self.pick((F32, self.dtype("bf16 f16 f64"))))
        exact = x if x not in self.inexact else self.calm(x)
        there = self.of_value("convert", exact, exact, shape=other)
        return self.of_value("convert", there, there, shape=x.shape)


STEPS = (
    *(("product", 3.0), ("convolved", 1.5), ("folded", 2.0), ("windowed", 0.7), ("joined", 2.0)),
    *(("bias", 1.5), ("curved", 1.2), ("softmax", 0.8), ("moved", 4.0), ("padded", 1.2)),
    *(("chained", 1.2), ("spread", 1.0), ("chosen", 0.8), ("indexed", 1.4), ("sorted", 0.6)),
    ("turned", 0.5),
)
"""What is drawn, and how often."""


def drawn_chain(number: int) -> Module:
    """The chain of a number."""
    load_drawers()
    sketch = ChainSketch(np.random.default_rng(number))
    for _ in range(sketch.integer(3, 14)):
        sketch.step()
        sketch.pool[:] = [x for x in sketch.pool if x.shape.size <= MOST_ELEMENTS]
        del sketch.pool[:-14]
    return sketch.finish()
