"""Arrays of run-time size as arrays of their bounds and the sizes, and what to do with both.

What lies behind the run-time sizes is garbage; whoever folds over it, or moves it, masks it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RUN_TIME_SIZE
from hloom.passes.expand.expansion import Expansion, refuse
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.types.dtype import S32, S64, DType
from hloom.types.shape import Shape, shape, tuple_shape

Sizes = dict[int, Instruction]
BOUNDARY = frozenset(["PadToStatic", "SliceToDynamic"])
SIZES = opcodes(RUN_TIME_SIZE)


@dataclass
class Sized:
    """One value: an array of static shape and the run-time sizes (s32 scalars) of some of its
    dimensions; or a tuple of those."""

    value: Instruction
    sizes: Sizes = field(default_factory=dict)
    parts: list[Sized] | None = None


def leaves(x: Sized) -> list[Sized]:
    """The arrays in a value, in order."""
    return [x] if x.parts is None else [leaf for p in x.parts for leaf in leaves(p)]


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


def actual(x: Sized) -> Shape:
    """The shape of a value: its bounds, dynamic wherever it has a run-time size."""
    if x.parts is not None:
        return tuple_shape(actual(p) for p in x.parts)
    of = x.value.shape
    if not of.is_array:
        return of
    return shape(of.dtype, of.dims, of.layout, [d in x.sizes for d in range(of.rank)])


def joined(*shapes: Shape) -> Shape:
    """Of shapes that differ in what is dynamic, the one with all of that; with the first
    one's layouts."""
    first = shapes[0]
    if first.is_tuple:
        return tuple_shape(joined(*parts) for parts in zip(*(s.elements for s in shapes)))
    if not first.is_array:
        return first
    flags = [any(s.is_dynamic_dim(d) for s in shapes) for d in range(first.rank)]
    return shape(first.dtype, first.dims, first.layout, flags)


def common(first: Shape, second: Shape) -> Shape:
    """Of two shapes that differ in what is dynamic, the one where both say so; the first one's
    layouts."""
    if first.is_tuple:
        pairs = zip(first.elements, second.elements, strict=True)
        return tuple_shape(common(a, b) for a, b in pairs)
    if not first.is_array:
        return first
    flags = [first.is_dynamic_dim(d) and second.is_dynamic_dim(d) for d in range(first.rank)]
    return shape(first.dtype, first.dims, first.layout, flags)


MOST = 2**31 - 1
"""The largest size that HLO's run-time sizes, numbers of 32 bits, can say."""


def _countable(x: Sized, d: int) -> int:
    """The bound of a dimension, where sizes and places along it fit in 32 bits."""
    bound = x.value.shape.dims[d]
    if bound > MOST:
        raise refuse(
            x.value,
            f"dimension {d} of {x.value.shape.text_without_layout} is larger than {MOST:,}, the "
            "most that the size of an array of run-time size can be",
            "dynamic-shape",
            "keep the array static, or cut that dimension in two",
        )
    return bound


def counting_type(*shapes: Shape) -> DType:
    """The type that counts the elements of arrays."""
    return S32 if max(s.size for s in shapes) <= MOST else S64


class Masks:
    """Builds what masks and sizes need, in one computation."""

    def __init__(self, b: Expansion) -> None:
        self.b = b

    def size(self, x: Sized, d: int) -> Instruction:
        """The run-time size of a dimension, a constant where it is static."""
        size_ = x.sizes.get(d)
        return self.number(_countable(x, d)) if size_ is None else size_

    def number(self, value: int) -> Instruction:
        return self.b.scalar(value, S32)

    def product(self, factors: Iterable[Instruction], dtype: DType) -> Instruction:
        """The product of sizes, 1 of none, in a type that holds it."""
        product_ = self.b.scalar(1, dtype)
        for k, f in enumerate(factors):
            f = self.b.converted(f, dtype)
            product_ = self.b.multiply(product_, f) if k else f
        return product_

    def valid(self, x: Sized, dims: Sequence[int] | None = None) -> Instruction | None:
        """pred of the array's sizes: which elements exist; None when all do."""
        b, mask = self.b, None
        full = x.value.shape.dims
        for d, size in x.sizes.items():
            if dims is not None and d not in dims:
                continue
            _countable(x, d)
            inside = b.compared(b.iota(S32, full, d), b.spread(size, full), "LT")
            mask = inside if mask is None else b.and_(mask, inside)
        return mask

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


# -- which instructions are about run-time sizes


def is_boundary(i: Instruction) -> bool:
    """Whether it pads what comes in, or writes what goes out."""
    return i.opcode == "custom-call" and i.attrs.custom_call_target in BOUNDARY


def is_dynamic(i: Instruction) -> bool:
    """Whether an instruction has, makes or asks for a run-time size."""
    return i.opcode in SIZES or i.shape.is_dynamic or any(o.shape.is_dynamic for o in i.operands)


def at_boundary(i: Instruction) -> bool:
    """Whether an instruction may stay dynamic: an entry parameter or an element of one, what pads
    and slices, and tuples, nested ones too, that are the entry's result and hold what is sliced."""
    if is_boundary(i):
        return True
    if i.opcode == "tuple":
        return _is_result(i)
    while i.opcode == "get-tuple-element":
        x = i.operands[0]
        if x.shape.elements[i.attrs.index].bare is not i.shape.bare:
            return False
        i = x
    return i.opcode == "parameter" and i.parent.is_entry


def _is_result(i: Instruction) -> bool:
    """Whether a tuple is the entry's result, or a part of it, and needs nothing more."""
    parts = zip(i.operands, i.shape.elements, strict=True)
    for o, of in parts:
        if o.shape.bare is not of.bare:
            return False
        if not (is_boundary(o) or of.is_static or o.opcode == "tuple"):
            return False
    work, seen = [i], {i}
    while work:
        x = work.pop()
        if not (x.users or x.is_root) or any(u.opcode != "tuple" for u in x.users):
            return False
        work += [u for u in x.users if u not in seen]
        seen.update(x.users)
    return i.parent.is_entry


def erase_replaced(
    c: Computation, before: Sequence[Instruction], new_for_old: Mapping[Instruction, Sized]
) -> None:
    """Erase what nobody reads, and of the instructions of before what has been replaced, also
    where it has effects: what took its place has them."""
    remove_dead_instructions(c)
    for old in reversed(before):
        new = new_for_old.get(old)
        if new is None or new.value is old or old.opcode == "parameter":
            continue
        if old in c.instructions and not old.users and not old.is_root:
            c.erase(old)
    remove_dead_instructions(c)
