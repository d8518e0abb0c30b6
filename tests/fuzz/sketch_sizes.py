"""Random programs at the sizes people use: up to 16 M elements, dimensions of 1 in every place.

The steps are those of `ChainSketch`, and what models add to them: folds over everything, means and
variances, arguments of maxima. Sizes are common ones, or just below, at or above a threshold of
the compiler (`thresholds.py`).
"""

from __future__ import annotations

from functools import cache
from math import isqrt, prod
from typing import Any

import numpy as np

from hloom.interp.draw import Sketch, load_drawers
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.types.dtype import F32, S32, DType
from hloom.types.shape import Shape, shape, tuple_shape
from tests.fuzz.sketch_chain import ChainSketch
from tests.fuzz.thresholds import Threshold, thresholds

COMMON = (
    *(2, 3, 4, 5, 7, 8, 10, 12, 16, 24, 28, 32, 49, 50, 56, 64, 77, 96, 100, 112, 127, 128),
    *(129, 196, 197, 200, 224, 255, 256, 257, 300, 384, 500, 512, 513, 576, 640, 768, 1000),
    *(1024, 1280, 1500, 2048, 3072, 4096, 5000, 8192, 10_000, 16_384, 30_522, 50_257, 65_536),
    *(100_000, 131_072, 250_000, 262_144, 500_000, 1_000_000, 1 << 20, 1 << 22, 1 << 24),
)
BUDGETS = (1 << 10, 1 << 13, 1 << 16, 1 << 16, 1 << 18, 1 << 20, 1 << 20, 1 << 22, 1 << 24)
TYPES = (F32,) * 8 + ("bf16", "f16", "f64", "s32", "s8", "s16", "s64")
NEAR = (-17, -3, -1, -1, 0, 0, 1, 1, 2, 15, 33)
MOST_ELEMENTS = 1 << 24
LEAST_FRESH = 1 << 12
MOST_TOTAL = 1 << 26
"""Elements of all values of a program together."""
MOST_EXACT = 1 << 11
"""Terms that are added, of which every correct program computes the sum of small integers alike."""


@cache
def all_thresholds() -> tuple[Threshold, ...]:
    return tuple(thresholds())


class SizesSketch(ChainSketch):
    """A program in the making; its values are large."""

    most_elements = MOST_ELEMENTS
    most_products = 1 << 30
    images = (7, 14, 28, 56, 112, 224)
    features = (1, 3, 8, 16, 24, 32, 64, 96)
    counts = (1, 2, 5, 8, 16, 33, 1000, 4096)

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.budget = self.pick(BUDGETS)
        self.centred = False
        of = self.pick(TYPES)
        self.main = of if isinstance(of, DType) else self.dtype(of)

    def sizes(self, count: int, room: int) -> tuple[int, ...]:
        """Sizes of so many dimensions with at most about so many elements, some of them 1."""
        solid = max(sum(self.chance(0.7) for _ in range(count)), int(count > 0))
        total, last = self._total(room)
        found: list[int] = []
        for k in range(solid):
            left = max(1, total // max(1, prod(found)))
            if k == solid - 1:
                found.append(left if self.chance(0.7) else self._common(left))
            elif last is not None and k == 0:
                found.append(min(last, left))
            else:
                found.append(self._common(left if self.chance(0.3) else isqrt(left)))
        ones = [1] * (count - solid)
        return self.shuffled([*found, *ones])

    def _common(self, most: int) -> int:
        return self.pick([n for n in COMMON if n <= most] or [1])

    def _total(self, room: int) -> tuple[int, int | None]:
        """How many elements, and the size of a dimension where that is wanted."""
        if self.chance(0.5):
            t = self.pick(all_thresholds())
            wanted = max(1, t.elements(self.main.size_bytes) + self.pick(NEAR))
            if t.unit == "dimension" and wanted <= room:
                return max(wanted, int(room ** float(self.rng.uniform(0.3, 1)))), wanted
            if wanted <= room:
                return wanted, None
        return max(1, int(room ** float(self.rng.uniform(0.4, 1)))), None

    def bent(self, x: Instruction, of: Shape) -> Instruction:
        """As there; but much is not made of little, which nobody does."""
        wanted = of.is_array and of.size > max(LEAST_FRESH, 2 * x.shape.size)
        if wanted and of.dtype is self.main and self.entry is self.top and self.chance(0.9):
            made = Sketch.parameter(self, of)
            self.pool.append(made)
            return made
        return super().bent(x, of)

    def near(self, t: Threshold, delta: int) -> None:
        """An argument that is just below, at or above a threshold, or a product that is."""
        n = max(1, t.elements(self.main.size_bytes) + delta)
        if t.unit == "flops":
            x, y = (self.fresh((k, n // 32 + 1)) for k in (4, 4))
            numbers = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (1,)}
            self.pool.append(self.add("dot", x, y, **numbers))
            return
        other = self.pick((1, 2, 5, 16, 33)) if t.unit == "dimension" else 1
        self.fresh(self.shuffled((n, other, 1)[: self.integer(1, 3)]))

    def add(self, opcode: str, *operands: Instruction, **rest: Any) -> Instruction:
        made = super().add(opcode, *operands, **rest)
        if made.shape.is_array and made.opcode in ("reduce", "dot", "convolution", "reduce-window"):
            terms = max(x.shape.size for x in operands if x.shape.is_array)
            if terms // max(1, made.shape.size) > MOST_EXACT or made.opcode == "reduce-window":
                self.inexact.add(made)
        return made

    def step(self) -> None:
        if self.chance(0.25):
            self.opcode = ""
            self.pool.append(self.pick((self.whole, self.normalised, self.placed, self.outer))())
            return
        super().step()

    def whole(self) -> Instruction:
        """A fold over everything, or all but one dimension; sometimes subtracted again."""
        x = self.calm(self.value(1))
        combine = self.combiner(x.shape.dtype, self._fold_of(x))
        kept = () if self.chance(0.6) else (self.axis(x),)
        gone = tuple(d for d in range(x.shape.rank) if d not in kept)
        made = self.add("reduce", x, self.identity(combine), dimensions=gone, called=(combine,))
        if self.chance(0.5):
            return made
        spread = self.add("broadcast", made, shape=x.shape, dimensions=kept)
        return self.add("subtract", x, spread)

    def normalised(self) -> Instruction:
        """Less its mean over some dimensions, over its deviation."""
        x = self.calm(self.value(1))
        if x.shape.dtype is not F32:
            return self.softmax()
        of, gone = x.shape, self.some_axes(x, 1)
        rest = tuple(d for d in range(of.rank) if d not in gone)
        count = prod(of.dims[d] for d in gone)
        combine = self.combiner(F32, "add")

        def mean(y: Instruction) -> Instruction:
            total = self.add(
                "reduce", y, self.identity(combine), dimensions=gone, called=(combine,)
            )
            share = self.constant(1 / count, shape(F32))
            share = self.add("broadcast", share, shape=total.shape, dimensions=())
            return self.add("multiply", total, share)

        def spread(y: Instruction) -> Instruction:
            return self.add("broadcast", y, shape=of, dimensions=rest)

        centred = self.add("subtract", x, spread(mean(x)))
        variance = mean(self.add("multiply", centred, centred))
        one = self.constant(1, shape(F32))
        one = self.add("broadcast", one, shape=variance.shape, dimensions=())
        made = self.add("rsqrt", self.add("add", variance, one))
        made = self.add("multiply", centred, spread(made))
        self.inexact.add(made)
        self.centred = True
        return made

    def _fold_of(self, x: Instruction) -> str:
        """No sums of what sums to zero but for rounding."""
        if self.centred and x in self.inexact:
            return self.pick(("maximum", "minimum"))
        return super()._fold_of(x)

    def placed(self) -> Instruction:
        """The largest value and its place, along a dimension."""
        x = self.value(1)
        if x in self.inexact:
            return self.moved()
        d, of, dtype = self.axis(x), x.shape, x.shape.dtype
        at = self.add("iota", shape=shape(S32, of.dims), iota_dimension=d)
        fold = self.computation("argmax", *[shape(t) for t in (dtype, S32, dtype, S32)])
        a, i, b, j = fold.parameters
        pred = shape("pred")
        larger = fold.add("compare", a, b, shape=pred, direction="GT")
        equal = fold.add("compare", a, b, shape=pred, direction="EQ")
        first = fold.add("compare", i, j, shape=pred, direction="LT")
        tie = fold.add("and", equal, first, shape=pred)
        chosen = fold.add("or", larger, tie, shape=pred)
        parts = [
            fold.add("select", chosen, a, b, shape=shape(dtype)),
            fold.add("select", chosen, i, j, shape=shape(S32)),
        ]
        fold.root = fold.add("tuple", *parts)
        low = self.identity(self.combiner(dtype, "maximum"))
        zero = self.constant(2**31 - 1, shape(S32))
        dims = [n for k, n in enumerate(of.dims) if k != d]
        both = tuple_shape((shape(dtype, dims), shape(S32, dims)))
        made = self.add("reduce", x, at, low, zero, shape=both, dimensions=(d,), called=(fold,))
        which = self.integer(0, 1)
        part = self.add("get-tuple-element", made, shape=both.elements[which], index=which)
        if which:
            remainder = self.constant(7, shape(S32))
            remainder = self.add("broadcast", remainder, shape=part.shape, dimensions=())
            part = self.add("and", part, remainder)
            part = self.of_value("convert", part, part, shape=part.shape.with_dtype(dtype))
        return part

    def outer(self) -> Instruction:
        """A vector or matrix against another along a dimension of 1, elementwise."""
        x = self.value(1, 3)
        n = self._common(max(1, self.budget // max(1, x.shape.size)))
        dims = list(x.shape.dims)
        at = self.integer(0, len(dims))
        wide = (*dims[:at], n, *dims[at:])
        places = tuple(k for k in range(len(wide)) if k != at)
        y = self.bent(self.value(0), shape(self.main, (n,)))
        left = self.add("broadcast", x, shape=shape(self.main, wide), dimensions=places)
        right = self.add("broadcast", y, shape=shape(self.main, wide), dimensions=(at,))
        return self.add(self.pick(("add", "maximum", "subtract")), left, right)


def drawn_sizes(number: int) -> Module:
    """The program of a number."""
    load_drawers()
    sketch = SizesSketch(np.random.default_rng(number))
    wanted = sketch.pick((1, 1, 2, 3, 4, 6, 8, 12, 20, 36))
    for _ in range(wanted):
        sketch.step()
        sketch.pool[:] = [x for x in sketch.pool if x.shape.size <= MOST_ELEMENTS]
        del sketch.pool[:-14]
        if sum(leaf_size(i) for i in sketch.entry.instructions) > MOST_TOTAL:
            break
    return sketch.finish()


def drawn_near(t: Threshold, delta: int, number: int) -> Module:
    """A short program on an argument at a threshold."""
    load_drawers()
    sketch = SizesSketch(np.random.default_rng(number))
    sketch.main, sketch.budget = F32, 1 << 16
    sketch.near(t, delta)
    for _ in range(sketch.integer(1, 4)):
        sketch.step()
    return sketch.finish()


def leaf_size(i: Instruction) -> int:
    """Elements of a value, in all parts of it."""
    return sum(leaf.size for leaf in i.shape.leaves() if leaf.is_array)
