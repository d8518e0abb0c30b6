"""Random valid kernels with buffers for them, to hold lowerings of kernels against `run_kernel`.

A drawn kernel verifies, stays inside its buffers and has no races. Its steps load tiles at places
of their own, compute, and store results to parameters of their own. Most results are *exact*: two
right implementations agree on every bit of them (any NaN is as good as another). What may
differ in the last digits (functions, sums of floats) is *loose*: nothing is computed with it, it
is only moved and stored, in a parameter that `DrawnKernel.loose` lists with a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from hloom.interp.draw_kernel_values import Array, drawn_array, drawn_number
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Kernel, TileType, Value
from hloom.types.dtype import ARRAY_TYPES, BY_NAME, PRED, DType

COMMON = "f32 f64 bf16 f16 s8 s32 s64 u8 u32 pred c64".split()
LAST_AXIS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 64)


class DrawnKernel(NamedTuple):
    """A kernel, an array for each parameter, and the tolerance of those that are not exact."""

    kernel: Kernel
    buffers: list[Array]
    loose: dict[str, float]


class Scope(NamedTuple):
    """The tiles that are defined in a block and those around it, and what memory indices cover."""

    exact: list[Value]
    loose: list[Value]
    indices: list[tuple[Value, int]]
    """Scalars s64 and what they stay below; all combinations are different steps or iterations."""


class KernelSketch:
    """A kernel in the making."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        rank = self.pick((0, 1, 1, 1, 2, 3))
        self.b = KernelBuilder("drawn", tuple(self.integer(1, 4) for _ in range(rank)))
        self.b.kernel.excess_precision = False
        self.buffers: list[Array] = []
        self.tolerance: dict[Value, float] = {}
        self.loose_params: dict[str, float] = {}
        names = COMMON if self.chance(0.6) else [t.name for t in ARRAY_TYPES]
        self.dtypes = [BY_NAME[self.pick(names)] for _ in range(self.integer(1, 3))]
        self.shapes = [self.shape() for _ in range(self.integer(1, 2))]
        grid = list(zip(self.b.grid_indices, self.b.kernel.grid))
        self.scope = Scope([], [], grid)

    # -- choices

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def shape(self) -> tuple[int, ...]:
        """A small tile's shape, of up to 256 elements."""
        while True:
            rank = self.pick((0, 1, 1, 2, 2, 3))
            tile = tuple(self.integer(1, 4) for _ in range(rank - 1))
            tile += (self.pick(LAST_AXIS),) if rank else ()
            if prod(tile) <= 128:
                return tile

    # -- values

    def remembered(self, value: Value, tolerance: float = 0.0) -> Value:
        """The value, remembered as one to compute with (or only to move, if it is not exact)."""
        if tolerance:
            self.tolerance[value] = max(tolerance, self.tolerance.get(value, 0.0))
            self.scope.loose.append(value)
        elif value not in self.tolerance:
            self.scope.exact.append(value)
        return value

    def exact(self, admits: Callable[[DType], bool] = lambda t: True) -> Value | None:
        """Some exact tile whose element type is admitted, or None."""
        fitting = [x for x in self.scope.exact if admits(x.dtype)]
        return self.pick(fitting) if fitting else None

    def any_tile(self) -> Value:
        """Some tile to move, exact or not."""
        pool = self.scope.loose if self.scope.loose and self.chance(0.3) else self.scope.exact
        return self.pick(pool)

    def like(self, type: TileType) -> Value:
        """An exact tile of a type: a known one, one from memory, a constant or an iota."""
        known = [x for x in self.scope.exact if x.type == type]
        if known and self.chance(0.8):
            return self.pick(known)
        kind = self.rng.random()
        if kind < 0.7:
            return self.remembered(self.loaded(type))
        if kind < 0.8 and type.shape and type.dtype is not PRED and prod(type.shape) < 8:
            axis = self.integer(0, len(type.shape) - 1)
            return self.remembered(self.b.iota(type.dtype, type.shape, axis))
        number = drawn_number(self.rng, type.dtype)
        return self.remembered(self.b.constant(type.dtype, number, type.shape))

    # -- memory

    def place(self, size: int, among: Sequence[tuple[Value, int]]) -> tuple[Value, int]:
        """An offset with `size` elements of its own for each combination of indices, and how many
        elements there are in all."""
        b, total, at = self.b, 1, self.b.index(0)
        for index, extent in among:
            at = b.binary("multiply", at, b.index(extent))
            at = b.binary("add", at, index)
            total *= extent
        return b.binary("multiply", at, b.index(size)), total * size

    def param(self, dtype: DType, size: int, role: str) -> Value:
        name = f"p{len(self.buffers)}"
        self.buffers.append(drawn_array(self.rng, dtype, size))
        return self.b.param(name, dtype, size, role)

    def strides(self, shape: tuple[int, ...], overlap: bool) -> tuple[tuple[int, ...], int, int]:
        """Strides of a tile, the offset of its first element, and the elements it spans.

        Row-major, or with axes exchanged, gaps, axes that go backwards, and (for loads) axes
        that overlap.
        """
        order = list(range(len(shape)))
        if self.chance(0.3):
            self.rng.shuffle(order)
        strides, span = [0] * len(shape), 1
        for axis in reversed(order):
            gap = self.integer(0, 2) if self.chance(0.2) else 0
            strides[axis] = span + gap
            span += (shape[axis] - 1) * (span + gap) if shape[axis] > 1 else 0
            span = max(span, 1) + gap
        first = 0
        for axis, extent in enumerate(shape):
            if self.chance(0.1):
                first += (extent - 1) * strides[axis]
                strides[axis] = -strides[axis]
            elif overlap and self.chance(0.1):
                strides[axis] = 0
        return tuple(strides), first, span

    def loaded(self, type: TileType) -> Value:
        """A tile from a new parameter."""
        strides, first, span = self.strides(type.shape, True)
        among = self.scope.indices if self.chance(0.7) else []
        at, size = self.place(span, among)
        extra = self.integer(0, 3)
        buffer = self.param(type.dtype, size + extra, "in")
        at = self.b.binary("add", at, self.b.index(first + self.integer(0, extra)))
        if self.chance(0.15):
            mask = self.like(TileType(PRED, type.shape))
            return self.b.load(buffer, at, type.shape, strides, mask, self.like(type))
        return self.b.load(buffer, at, type.shape, strides)

    def stored(self, value: Value) -> None:
        """Store a tile to a new parameter, at a place of the step's and iteration's own."""
        strides, first, span = self.strides(value.shape, False)
        at, size = self.place(span, self.scope.indices)
        buffer = self.param(value.dtype, size, self.pick(("out", "inout")))
        at = self.b.binary("add", at, self.b.index(first))
        if value in self.tolerance:
            self.loose_params[self.b.kernel.params[-1].name] = self.tolerance[value]
        mask = self.like(TileType(PRED, value.shape)) if self.chance(0.15) else None
        self.b.store(buffer, at, value, strides, mask)

    def offsets(self, size: int) -> Value:
        """A tile of offsets, each in a part of memory of its own unless some are drawn equal."""
        b, dtype = self.b, BY_NAME[self.pick(("s32", "s64"))]
        shape = self.pick([s for s in self.shapes if s] or [(4,)])
        count = prod(shape)
        flat = b.reshape(b.iota(dtype, (count,), 0), shape)
        factor = self.pick([k for k in range(1, size) if np.gcd(k, size) == 1] or [1])
        flat = b.binary("multiply", flat, b.constant(dtype, factor, shape))
        return b.binary("remainder", flat, b.constant(dtype, size, shape))

    def at_offsets(self, offsets: Value, start: Value) -> Value:
        start = self.b.broadcast(self.b.convert(start, offsets.dtype), offsets.shape)
        return self.b.binary("add", offsets, start)

    def gathered(self) -> None:
        size = self.integer(3, 40)
        at, total = self.place(size, self.scope.indices)
        dtype = self.pick(self.dtypes)
        buffer = self.param(dtype, total, "in")
        offsets = self.at_offsets(self.offsets(size), at)
        if self.chance(0.3):
            type = TileType(dtype, offsets.shape)
            mask = self.like(TileType(PRED, offsets.shape))
            self.remembered(self.b.gather(buffer, offsets, mask, self.like(type)))
        else:
            self.remembered(self.b.gather(buffer, offsets))

    def scattered(self) -> None:
        size = self.integer(3, 40)
        at, total = self.place(size, self.scope.indices)
        dtype = self.pick(self.dtypes)
        offsets = self.at_offsets(self.offsets(size), at)
        value = self.like(TileType(dtype, offsets.shape))
        mask = self.like(TileType(PRED, offsets.shape)) if self.chance(0.3) else None
        buffer = self.param(dtype, total, "inout")
        self.b.scatter(buffer, offsets, value, mask)

    def scratch(self) -> None:
        """Put a tile into private memory and read it back in another order."""
        value = self.any_tile()
        strides, first, span = self.strides(value.shape, False)
        buffer = self.b.alloc(value.dtype, span)
        at = self.b.index(first)
        self.b.store(buffer, at, value, strides)
        order = [int(k) for k in self.rng.permutation(len(strides))]
        shape = tuple(value.shape[k] for k in order)
        loaded = self.b.load(buffer, at, shape, tuple(strides[k] for k in order))
        self.remembered(loaded, self.tolerance.get(value, 0.0))

    def finished(self) -> DrawnKernel:
        return DrawnKernel(self.b.finish(), self.buffers, self.loose_params)


def draw_kernel(rng: np.random.Generator | int) -> DrawnKernel:
    """A random kernel of up to some forty ops, with arrays for its parameters."""
    from hloom.interp.draw_kernel_ops import body

    sketch = KernelSketch(np.random.default_rng(rng))
    for shape in sketch.shapes:
        sketch.like(TileType(sketch.pick(sketch.dtypes), shape))
    body(sketch, sketch.integer(2, 16), 0)
    return sketch.finished()
