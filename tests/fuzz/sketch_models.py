"""Random programs of what models and their gradients add to chains: attention, convolutions and
pools with their gradients, sorts, windows that are scattered and gathered, scans, narrow sums.

Sizes are those of `SizesSketch`, at which each has kernels of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from hloom.interp.draw import Sketch, load_drawers
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.types.dtype import BY_NAME, F32, PRED, S32, DType
from hloom.types.shape import Shape, shape, tuple_shape
from tests.fuzz.sketch_convolutions import WITHOUT_ORDER, ConvolutionSketch
from tests.fuzz.sketch_sizes import MOST_ELEMENTS, MOST_TOTAL, leaf_size

ROWS = (1, 2, 16, 33, 47, 48, 49, 64, 100, 127, 128, 129, 196, 197, 255, 256, 257, 384, 512, 513)
LONG_ROWS = (577, 768, 1023, 1024, 1500, 2048)
DEPTHS = (1, 3, 8, 16, 31, 32, 33, 40, 64, 72, 80, 96, 128, 160)
MOST_SCORES = 1 << 22
MOST_SORTED = 1 << 20
MOST_FLOPS = 1 << 28
MOST_NARROW_TERMS = 48
"""Terms of a sum of narrow floats that is in that type throughout."""


class ModelSketch(ConvolutionSketch):
    """A program in the making; its steps are parts of models."""

    # -- steps

    def step(self) -> None:
        if self.depth == 0 and self.chance(0.5):
            names, weights = zip(*PARTS)
            shares = np.array(weights, float) / sum(weights)
            name = names[int(self.rng.choice(len(names), p=shares))]
            self.opcode = ""
            made = getattr(self, name)()
            rounded = made in self.inexact and self.main.is_integral
            if made.shape.dtype is not self.main and not rounded and self.chance():
                made = self._typed(made, self.main)
            self.pool.append(made)
        elif self.main.is_complex:
            self.opcode = ""
            self.pool.append(getattr(self, self.pick(COMPLEX_STEPS))())
        else:
            super().step()

    def attention(self) -> Instruction:
        """Softmax of products along the keys, times values; masked or not, heads anywhere."""
        dtype = self.real
        sizes = dict(zip("bh", (self.pick((1, 2, 3)), self.pick((1, 2, 4, 8, 12)))))
        batch = self.pick(("", "b", "h", "bh", "bh"))
        room = MOST_SCORES // prod(sizes[c] for c in batch)
        for c in "qk":
            sizes[c] = self.pick([n for n in (*ROWS, *LONG_ROWS) if n <= max(1, room)])
            room //= sizes[c]
        sizes["d"] = self.pick(DEPTHS)
        sizes["e"] = sizes["d"] if self.chance(0.7) else self.pick(DEPTHS)

        def operand(names: str) -> tuple[Instruction, str]:
            if self.chance(0.4):
                names = "".join(self.shuffled(names))
            elif self.chance() and len(names) == 4:
                names = names[0] + names[2] + names[1] + names[3]
            return self.given([sizes[c] for c in names], dtype), names

        q, k, v = (operand(batch + names) for names in ("qd", "kd", "ke"))
        scores, at = self._product(*self.shuffled((q, k)), batch, "d")
        narrow = dtype.bits < 32 and self.chance(0.7)
        x = self._typed(scores, F32) if narrow else scores
        scale = self.constant(1 / sqrt(sizes["d"]), shape(x.shape.dtype))
        x = self.add("multiply", x, self.add("broadcast", scale, shape=x.shape, dimensions=()))
        x = self._masked(x, at, sizes)
        p = self._typed(self.softmax_of(x, at.index("k")), dtype)
        made, _ = self._product(*self.shuffled(((p, at), v)), batch, "k")
        return self.rough(made)

    def _product(
        self, x: tuple[Instruction, str], y: tuple[Instruction, str], batch: str, contracted: str
    ) -> tuple[Instruction, str]:
        """The dot of two values whose dimensions have letters, and its letters."""
        (a, left), (b, right) = x, y
        made = self.add(
            "dot",
            a,
            b,
            lhs_batch_dims=tuple(left.index(c) for c in batch),
            rhs_batch_dims=tuple(right.index(c) for c in batch),
            lhs_contracting_dims=tuple(left.index(c) for c in contracted),
            rhs_contracting_dims=tuple(right.index(c) for c in contracted),
        )
        free = [c for c in left + right if c not in batch + contracted]
        return made, batch + "".join(free)

    def _masked(self, x: Instruction, at: str, sizes: dict[str, int]) -> Instruction:
        """Scores of later keys out of sight, or a bias for keys, or neither."""
        kind = self.pick(("none", "later", "bias", "chosen"))
        if kind == "none":
            return x
        if kind == "bias":
            dims = tuple(d for d, c in enumerate(at) if c in "qk" or self.chance(0.3))
            b = self.given([x.shape.dims[d] for d in dims], x.shape.dtype)
            return self.add("add", x, self.add("broadcast", b, shape=x.shape, dimensions=dims))
        low = self.constant(-1e4 if kind == "chosen" else -np.inf, shape(x.shape.dtype))
        low = self.add("broadcast", low, shape=x.shape, dimensions=())
        if kind == "chosen":
            mask = self.given([sizes["k"]], PRED)
            of = x.shape.with_dtype(PRED)
            mask = self.add("broadcast", mask, shape=of, dimensions=(at.index("k"),))
        else:
            places = shape(S32, x.shape.dims)
            rows, keys = (
                self.add("iota", shape=places, iota_dimension=at.index(c)) for c in ("q", "k")
            )
            mask = self.add("compare", rows, keys, shape=x.shape.with_dtype(PRED), direction="GE")
        return self.add("select", mask, x, low)

    # -- order, places, loops

    def ordered(self) -> Instruction:
        """Keys in order with what belongs to them, or the largest few."""
        dtype = self.ordered_type
        dims = self.sizes(self.integer(1, 3), min(self.budget, MOST_SORTED))
        x = self.given_exact(dims, dtype)
        if self.chance(0.4):
            n = dims[-1]
            k = min(n, self.pick((1, 2, 5, 8, 16, 40, 100, n)))
            parts = [shape(t, (*dims[:-1], k)) for t in (dtype, S32)]
            both = self.add("topk", x, shape=tuple_shape(parts), k=k, largest=self.chance(0.7))
            which = self.integer(0, 1)
            return self.add("get-tuple-element", both, shape=parts[which], index=which)
        d = self.axis(x)
        others = [self.pick((S32, F32, self.ordered_type)) for _ in range(self.integer(0, 2))]
        payload = [
            self.add("iota", shape=shape(t, dims), iota_dimension=d)
            if self.chance()
            else self.given(dims, t)
            for t in others
        ]
        compare = self.comparator(dtype, *others)
        parts = [shape(t, dims) for t in (dtype, *others)]
        of = tuple_shape(parts) if others else parts[0]
        options = {"dimensions": (d,), "is_stable": True, "called": (compare,)}
        both = self.add("sort", x, *payload, shape=of, **options)
        if not others:
            return both
        which = self.integer(0, len(others))
        made = self.add("get-tuple-element", both, shape=parts[which], index=which)
        return self.rough(made) if which and payload[which - 1] in self.inexact else made

    def given_exact(self, dims: Sequence[int], dtype: DType) -> Instruction:
        """An argument, or a value that everybody computes alike."""
        self.opcode = "sort"
        made = self.parameter(shape(dtype, tuple(dims)))
        return made if made not in self.inexact else Sketch.parameter(self, made.shape)

    def _windows(self) -> tuple[tuple[int, ...], list[int], list[int], tuple[int, ...]]:
        """An array, the dimensions that indices choose in, sizes of windows, sizes of indices."""
        dims = self.sizes(self.integer(1, 3), self.budget)
        chosen = list(self.some(range(len(dims)), 1))
        windows = [
            self.pick((1, 1, 2, n // 2 + 1, n)) if d in chosen else n for d, n in enumerate(dims)
        ]
        windows = [min(w, n) for w, n in zip(windows, dims)]
        room = max(1, self.budget // prod(windows))
        counts = (self.pick([n for n in (1, 2, 3, 7, 16, 64, 1000, 4096) if n <= room]),)
        if self.chance(0.2) and counts[0] % 2 == 0:
            counts = (2, counts[0] // 2)
        return dims, chosen, windows, counts

    def _index_parts(self, windows: list[int], chosen: list[int], counts: tuple[int, ...]) -> Any:
        """Indices as an argument; dimensions that windows leave out; the windows' place."""
        gone = tuple(d for d in chosen if windows[d] == 1 and self.chance(0.7))
        rank = len(counts) + len(windows) - len(gone)
        placed = tuple(range(len(counts), rank))
        if self.chance(0.2):
            placed = self.some(range(rank), len(placed), len(placed))
        indices = self.given((*counts, len(chosen)), self.pick((S32, S32, BY_NAME["u32"])))
        return indices, gone, placed

    def windows_gathered(self) -> Instruction:
        """Windows at places that indices choose, in one or several dimensions."""
        dims, chosen, windows, counts = self._windows()
        x = self.given(dims, self.main)
        indices, gone, placed = self._index_parts(windows, chosen, counts)
        kept = iter([n for d, n in enumerate(windows) if d not in gone])
        rest = iter(counts)
        rank = len(counts) + len(windows) - len(gone)
        of = tuple(next(kept) if d in placed else next(rest) for d in range(rank))
        made = self.of_value("gather", x, x, indices, shape=shape(self.main, of),
                             offset_dims=placed, collapsed_slice_dims=gone,
                             start_index_map=tuple(chosen), index_vector_dim=len(counts),
                             slice_sizes=tuple(windows))  # fmt: skip
        return made

    def windows_scattered(self) -> Instruction:
        """Windows folded into an array at places that indices choose."""
        dims, chosen, windows, counts = self._windows()
        x = self.given(dims, self.main)
        indices, gone, placed = self._index_parts(windows, chosen, counts)
        kept = iter([n for d, n in enumerate(windows) if d not in gone])
        rest = iter(counts)
        rank = len(counts) + len(windows) - len(gone)
        of = tuple(next(kept) if d in placed else next(rest) for d in range(rank))
        updates = self.given(of, self.main)
        exact = self.main.is_floating and self.main.bits < 32
        fold = self.pick(WITHOUT_ORDER if exact else ("add", "add", "maximum", "minimum"))
        combine = self.combiner(self.main, fold)
        return self.add("scatter", x, indices, updates, shape=x.shape, called=(combine,),
                        update_window_dims=placed, inserted_window_dims=gone,
                        scatter_dims_to_operand_dims=tuple(chosen),
                        index_vector_dim=len(counts))  # fmt: skip

    def scanned(self) -> Instruction:
        """A loop over rows: each is joined to a state, and the states are written one by one."""
        dtype = self.real
        count = self.pick((1, 2, 3, 7, 16, 50, 100))
        state = self.sizes(self.integer(1, 2), max(1, min(self.budget, 1 << 22) // count))
        xs, start = self.given((count, *state), dtype), self.given(state, dtype)
        weights = None
        if prod(state) * state[-1] * count < MOST_FLOPS and self.chance():
            weights = self.given((state[-1], state[-1]), dtype)
        zero = self.constant(0, shape(S32))
        ys = self.constant(0, shape(dtype))
        ys = self.add("broadcast", ys, shape=xs.shape, dimensions=())
        carried = [zero, start, ys, xs, *([weights] if weights is not None else [])]
        of = tuple_shape(x.shape for x in carried)
        body = self._scan_body(of, count)
        condition = self.computation("condition", of)
        k = condition.add("get-tuple-element", condition.parameters[0], shape=shape(S32), index=0)
        end = condition.add("constant", shape=shape(S32), literal=self._number(count))
        condition.root = condition.add("compare", k, end, shape=shape(PRED), direction="LT")
        made = self.add("while", self.add("tuple", *carried), shape=of, called=(condition, body))
        which = self.pick((1, 2))
        part = self.add("get-tuple-element", made, shape=of.elements[which], index=which)
        return self.rough(part)

    def _number(self, value: int) -> Any:
        return self.constant(value, shape(S32)).attrs.literal

    def _scan_body(self, of: Shape, count: int) -> Computation:
        body = self.computation("body", of)
        parts = [
            body.add("get-tuple-element", body.parameters[0], shape=part, index=n)
            for n, part in enumerate(of.elements)
        ]
        k, state, ys, xs = parts[:4]
        row = shape(state.shape.dtype, (1, *state.shape.dims))
        zero = body.add("constant", shape=shape(S32), literal=self._number(0))
        one = body.add("constant", shape=shape(S32), literal=self._number(1))
        at = [k, *[zero] * state.shape.rank]
        if self.chance(0.2):
            last = body.add("constant", shape=shape(S32), literal=self._number(count - 1))
            at[0] = body.add("subtract", last, k, shape=shape(S32))
        x = body.add("dynamic-slice", xs, *at, shape=row, dynamic_slice_sizes=row.dims)
        x = body.add("reshape", x, shape=state.shape)
        before = state
        if len(parts) > 4:
            contracted = {"lhs_contracting_dims": (state.shape.rank - 1,)}
            before = body.add(
                "dot", state, parts[4], shape=state.shape, rhs_contracting_dims=(0,), **contracted
            )
        after = body.add(self.pick(("add", "subtract")), before, x, shape=state.shape)
        after = body.add("tanh", after, shape=state.shape)
        written = body.add("reshape", after, shape=row)
        ys = body.add("dynamic-update-slice", ys, written, *at, shape=ys.shape)
        following = body.add("add", k, one, shape=shape(S32))
        body.root = body.add("tuple", following, after, ys, *parts[3:], shape=of)
        return body

    # -- types

    def narrow_sum(self) -> Instruction:
        """A sum of narrow floats: in f32, or of few terms in their own type."""
        narrow = BY_NAME[self.pick(("bf16", "f16"))]
        own = self.chance(0.4)
        dims = self.sizes(self.integer(1, 3), self.budget)
        x = self.given(dims, narrow)
        d = self.axis(x)
        if own and dims[d] > MOST_NARROW_TERMS:
            own = False
        if not own:
            x = self._typed(x, F32)
        axes = (d,) if own else self.some_axes(x, 1)
        combine = self.combiner(x.shape.dtype, "add")
        made = self.add("reduce", x, self.identity(combine), dimensions=axes, called=(combine,))
        return self.rough(self._typed(made, narrow))

    def mixed_product(self) -> Instruction:
        """A product of bytes or of narrow floats whose result is wide."""
        narrow, wide = self.pick((("s8", "s32"), ("u8", "s32"), ("u8", "u32"), ("bf16", "f32"),
                                  ("f16", "f32")))  # fmt: skip
        m, k, n = (self.pick((1, 3, 8, 16, 33, 64, 100, 256, 500)) for _ in range(3))
        x, y = (self.given(dims, BY_NAME[narrow]) for dims in ((m, k), (k, n)))
        made = self.add(
            "dot",
            x,
            y,
            shape=shape(BY_NAME[wide], (m, n)),
            lhs_contracting_dims=(1,),
            rhs_contracting_dims=(0,),
        )
        return made if BY_NAME[wide].is_integral else self.rough(made)

    def bits(self) -> Instruction:
        """Arithmetic of integers: bits, shifts, remainders by a number, comparisons."""
        names = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
        dtype = self.main if self.main.is_integral else BY_NAME[self.pick(names)]
        dims = self.sizes(self.integer(1, 3), self.budget)
        x, y = self.given(dims, dtype), self.given(dims, dtype)
        for _ in range(self.integer(1, 4)):
            kind = self.pick(("and", "or", "xor", "shift", "add", "multiply", "maximum", "divide"))
            if kind == "shift":
                by = self.constant(self.integer(0, dtype.bits - 1), shape(dtype))
                by = self.add("broadcast", by, shape=x.shape, dimensions=())
                kinds = ("shift-left", "shift-right-logical", "shift-right-arithmetic")
                x = self.add(self.pick(kinds), x, by)
            elif kind == "divide":
                by = self.constant(self.pick((1, 2, 3, 7, 10, 100)), shape(dtype))
                by = self.add("broadcast", by, shape=x.shape, dimensions=())
                x = self.add(self.pick(("divide", "remainder")), x, by)
            else:
                x = self.add(kind, x, y)
        if self.chance(0.3):
            return self.add("popcnt", x)
        return x

    def parts_of_complex(self) -> Instruction:
        """Complex numbers from their parts, multiplied, and taken apart."""
        dims = self.sizes(self.integer(1, 3), self.budget)
        x, y = (self.given(dims, F32) for _ in range(2))
        z = self.add("complex", x, y)
        made = self.add(
            self.pick(("multiply", "add", "subtract")), z, self.given(dims, z.shape.dtype)
        )
        kind = self.pick(("real", "imag", "abs", ""))
        return self.rough(self.add(kind, made) if kind else made)


PARTS = (
    *(("attention", 2.0), ("grouped", 1.5), ("weights_gradient", 1.5), ("inputs_gradient", 1.2)),
    *(("pooled", 1.0), ("pool_gradient", 1.2), ("ordered", 1.2), ("windows_gathered", 1.0)),
    *(("windows_scattered", 1.5), ("scanned", 1.2), ("narrow_sum", 1.0), ("mixed_product", 1.0)),
    *(("bits", 1.0), ("parts_of_complex", 0.6)),
)
COMPLEX_STEPS = (
    *("product", "product", "folded", "joined", "moved", "moved", "padded", "chained", "spread"),
    *("chosen", "indexed", "whole", "outer"),
)


def drawn_model(number: int) -> Module:
    """The program of a number."""
    load_drawers()
    sketch = ModelSketch(np.random.default_rng(number))
    for _ in range(sketch.pick((1, 1, 1, 2, 3, 4, 6, 10))):
        sketch.step()
        sketch.pool[:] = [x for x in sketch.pool if x.shape.size <= MOST_ELEMENTS]
        del sketch.pool[:-14]
        if sum(leaf_size(i) for i in sketch.entry.instructions) > MOST_TOTAL:
            break
    return sketch.finish()
