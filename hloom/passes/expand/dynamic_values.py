"""Arrays of run-time size as arrays of their bounds and the sizes, and what to do with both.

What lies behind the run-time sizes is garbage; whoever folds over it, or moves it, masks it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expansion, refuse
from hloom.types.dtype import S32
from hloom.types.shape import Shape, shape

Sizes = dict[int, Instruction]


@dataclass
class Sized:
    """One value: an array of static shape and the run-time sizes (s32 scalars) of some of its
    dimensions; or a tuple of those."""

    value: Instruction
    sizes: Sizes = field(default_factory=dict)
    parts: list[Sized] | None = None


def static_shape(of: Shape) -> Shape:
    """The shape with bounds for sizes; `with_default_layouts` and all."""
    return of.map_leaves(lambda s: shape(s.dtype, s.dims, s.layout))


def bounded(i: Instruction, of: Shape) -> Shape:
    """The static shape of a value; `ExpandError` for a dimension without bound."""
    if of.is_unbounded:
        raise refuse(
            i,
            f"a dimension of {of.text_without_layout} has no bound",
            "unbounded",
            "give it a bound: f32[<=1024]",
        )
    return static_shape(of)


class Masks:
    """Builds what masks and sizes need, in one computation."""

    def __init__(self, b: Expansion) -> None:
        self.b = b

    def size(self, x: Sized, d: int) -> Instruction:
        """The run-time size of a dimension, a constant where it is static."""
        found = x.sizes.get(d)
        return self.number(x.value.shape.dims[d]) if found is None else found

    def number(self, value: int) -> Instruction:
        return self.b.scalar(value, S32)

    def product(self, factors: Iterable[Instruction]) -> Instruction:
        made: Instruction | None = None
        for f in factors:
            made = f if made is None else self.b.multiply(made, f)
        return self.number(1) if made is None else made

    def valid(self, x: Sized, dims: Sequence[int] | None = None) -> Instruction | None:
        """pred of the array's sizes: which elements exist; None when all do."""
        b, made = self.b, None
        full = x.value.shape.dims
        for d, size in x.sizes.items():
            if dims is not None and d not in dims:
                continue
            inside = b.compared(b.iota(S32, full, d), b.spread(size, full), "LT")
            made = inside if made is None else b.and_(made, inside)
        return made

    def masked(
        self, x: Sized, fill: Instruction | None = None, dims: Sequence[int] | None = None
    ) -> Instruction:
        """The array with `fill` (a scalar; else zero) wherever there is no element."""
        b, inside = self.b, self.valid(x, dims)
        if inside is None:
            return x.value
        full = x.value.shape.dims
        if fill is None:
            fill = b.scalar(0, x.value.shape.dtype)
        return b.select(inside, x.value, b.spread(fill, full))

    def shifted(self, value: Instruction, axis: int, start: Instruction) -> Instruction:
        """The elements from a run-time `start` on along one dimension, garbage behind them."""
        b = self.b
        twice = b.joined([value, value], axis)
        zero = self.number(0)
        at = [start if d == axis else zero for d in range(value.shape.rank)]
        return b.emit("dynamic-slice", twice, *at, dynamic_slice_sizes=value.shape.dims)
