"""Convolutions of groups, their gradients, pools and theirs, in the element types of users.

Types are narrow floats, bytes, unsigned and complex numbers, too, which other sketches leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from hloom.ir.instruction import Instruction
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.window import Window, WindowDimension
from hloom.types.dtype import BY_NAME, F32, PRED, DType
from hloom.types.shape import Shape, shape
from tests.fuzz.sketch_sizes import SizesSketch

T = TypeVar("T")

TYPES = (
    *("f32 f32 f32 f32 f32 f32 bf16 bf16 f16 f16 f64".split()),
    *("s8 u8 s16 u16 s32 u32 s64 u64 c64 c64 c128".split()),
)
CHANNELS = (1, 3, 7, 8, 9, 16, 17, 24, 32, 33, 48, 64, 65, 96, 100, 128, 192, 384, 512)
MOST_IMAGE = 1 << 20
WITHOUT_ORDER = ("maximum", "minimum")


class ConvolutionSketch(SizesSketch):
    """A program in the making, of a type of its own."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.main = BY_NAME[self.pick(TYPES)]

    # -- types that other sketches do not draw

    def pick(self, choices: Sequence[T]) -> T:
        """Complex numbers have no order."""
        main: DType | None = getattr(self, "main", None)
        if main is not None and main.is_complex:
            choices = [c for c in choices if c not in WITHOUT_ORDER] or choices
        return super().pick(choices)

    def constant(self, value: Any, of: Shape) -> Instruction:
        """Nothing below zero in unsigned types."""
        least = of.is_array and of.dtype.is_unsigned_int and np.isscalar(value)
        return super().constant(max(value, 0) if least else value, of)

    def calm(self, x: Instruction) -> Instruction:
        if x.shape.dtype.is_complex and self.grown.get(x, 0) > 1:
            return self.fresh(x.shape.dims)
        return x if x.shape.dtype.is_complex else super().calm(x)

    def _fold_of(self, x: Instruction) -> str:
        return "add" if x.shape.dtype.is_complex else super()._fold_of(x)

    @property
    def real(self) -> DType:
        """The main type where it is floating and no more than f32, else f32."""
        return self.main if self.main.is_floating and self.main.bits <= 32 else F32

    @property
    def ordered_type(self) -> DType:
        """The main type, or its parts."""
        return self.main.component if self.main.is_complex else self.main

    def given(self, dims: Sequence[int], dtype: DType) -> Instruction:
        """An argument of the entry, or what stands for one."""
        self.opcode = "convert"
        return self.parameter(shape(dtype, tuple(dims)))

    def rough(self, x: Instruction) -> Instruction:
        """A value of which the last digits are not everybody's."""
        self.inexact.add(x)
        return x

    # -- convolutions and their gradients

    def _geometry(self, rank: int, channels: int) -> tuple[list[int], list[WindowDimension], int]:
        """Images, windows over them, and how many images."""
        dims, rows = [], []
        for _ in range(rank):
            n = self.pick(
                (1, 5, 7, 8, 13, 14, 16, 28, 56, 112) if rank > 1 else (9, 100, 512, 1500)
            )
            size = min(self.pick((1, 2, 3, 3, 4, 5, 7)), n)
            stride, dilation = self.pick((1, 1, 2)), self.pick((1, 1, 1, 2))
            span = (size - 1) * dilation
            low = self.pick((0, span // 2, span))
            high = span - low if self.chance(0.8) else self.integer(0, span)
            high = max(high, span + 1 - n - low)
            dims.append(n)
            rows.append(WindowDimension(size, stride, low, high, dilation))
        room = max(1, MOST_IMAGE // (prod(dims) * channels))
        return dims, rows, self.pick([n for n in (1, 2, 3, 8, 32) if n <= room])

    def _groups(self) -> tuple[int, int, int]:
        """Groups, features of each that come in, and that go out."""
        channels = self.pick(CHANNELS)
        if self.chance(0.6):
            return channels, 1, self.pick((1, 1, 1, 2))
        groups = self.pick([g for g in (1, 1, 2, 4, 8, 32) if channels % g == 0])
        return groups, channels // groups, self.pick((1, 2, 3, 8, 16, 17, 32))

    def _convolution(
        self,
        lhs: dict[str, Any],
        rhs: dict[str, Any],
        rows: Sequence[WindowDimension],
        groups: tuple[int, int],
    ) -> Instruction:
        """Of sizes by letters: `b`, `f`, `i`, `o`, and `at` for those in space."""
        rank = len(rows)
        (b, f, at), (i, o, kat), (ob, of, oat) = (self._order(rank) for _ in range(3))
        left, right = [0] * (rank + 2), [0] * (rank + 2)
        left[b], left[f], right[i], right[o] = lhs["b"], lhs["f"], rhs["i"], rhs["o"]
        for d in range(rank):
            left[at[d]], right[kat[d]] = lhs["at"][d], rhs["at"][d]
        dtype = F32 if self.main.is_complex else self.main
        x, y = (self.given(dims, dtype) for dims in (left, right))
        return self.add(
            "convolution",
            x,
            y,
            window=Window(tuple(rows)),
            dim_labels=ConvolutionDimensions(b, f, at, i, o, kat, ob, of, oat),
            feature_group_count=groups[0],
            batch_group_count=groups[1],
        )

    def grouped(self) -> Instruction:
        """A convolution of groups of features, often of single ones."""
        groups, each, made = self._groups()
        dims, rows, images = self._geometry(self.pick((1, 2, 2)), groups * max(each, made))
        lhs = {"b": images, "f": groups * each, "at": dims}
        rhs = {"i": each, "o": groups * made, "at": [w.size for w in rows]}
        return self._convolution(lhs, rhs, rows, (groups, 1))

    def weights_gradient(self) -> Instruction:
        """Of a convolution: inputs against gradients of its results, batches summed."""
        groups, each, made = self._groups()
        dims, rows, images = self._geometry(self.pick((1, 2, 2)), groups * max(each, made))
        back, outs = [], []
        for n, w in zip(dims, rows):
            span = (w.size - 1) * w.window_dilation
            out = (n + w.padding_low + w.padding_high - span - 1) // w.stride + 1
            high = span + (out - 1) * w.stride + 1 - n - w.padding_low
            back.append(WindowDimension(out, w.window_dilation, w.padding_low, high, w.stride))
            outs.append(out)
        lhs = {"b": groups * each, "f": images, "at": dims}
        rhs = {"i": images, "o": groups * made, "at": outs}
        return self.rough(self._convolution(lhs, rhs, back, (1, groups)))

    def inputs_gradient(self) -> Instruction:
        """Of a strided convolution; or a convolution that makes images larger."""
        groups, each, made = self._groups()
        dims, rows, images = self._geometry(self.pick((1, 2, 2)), 4 * groups * max(each, made))
        reversed_ = self.chance()
        back = []
        for w in rows:
            span = (w.size - 1) * w.window_dilation
            low, high = (span - p + self.pick((0, 0, 1)) for p in (w.padding_low, w.padding_high))
            low = max(low, span - low)
            back.append(
                WindowDimension(w.size, 1, low, high, w.window_dilation, w.stride, reversed_)
            )
        lhs = {"b": images, "f": groups * each, "at": dims}
        rhs = {"i": each, "o": groups * made, "at": [w.size for w in rows]}
        return self._convolution(lhs, rhs, back, (groups, 1))

    # -- pools

    def _pool(self) -> tuple[list[int], Window]:
        """An array of images and a window over some of its dimensions."""
        channels = self.pick((1, 3, 8, 16, 17, 32, 64))
        dims, rows, images = self._geometry(self.pick((1, 2, 2, 2)), channels)
        one = WindowDimension(1)
        if self.chance():
            return [images, *dims, channels], Window((one, *rows, one))
        return [images, channels, *dims], Window((one, one, *rows))

    def pooled(self) -> Instruction:
        """The largest, smallest or sum of a window of several dimensions."""
        dims, window = self._pool()
        x = self.given(dims, self.main)
        combine = self.combiner(self.main, self._fold_of(x))
        start = self.identity(combine)
        return self.add("reduce-window", x, start, window=window, called=(combine,))

    def pool_gradient(self) -> Instruction:
        """What goes back through a pool of the largest: to the first of them."""
        dims, window = self._pool()
        dtype = self.ordered_type
        x = self.given(dims, dtype)
        pool = self.combiner(dtype, "maximum")
        shown = self.add("reduce-window", x, self.identity(pool), window=window, called=(pool,))
        select = self.computation("select", shape(dtype), shape(dtype))
        select.root = select.add(
            "compare",
            *select.parameters,
            shape=shape(PRED),
            direction=self.pick(("GE", "GE", "LE", "GT")),
        )
        scatter = self.combiner(dtype, "add")
        source = self.given(shown.shape.dims, dtype)
        zero = self.identity(scatter)
        made = self.add(
            "select-and-scatter", x, source, zero, window=window, called=(select, scatter)
        )
        return self.rough(made)
