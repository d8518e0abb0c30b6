"""The value of any instruction at any index, as kernel ops: what every tile kernel is made of.

`Elements.value(i, index)` writes what is needed for the element (or tile of elements: an index
may contain lane symbols) of `i` at `index`, following operands backwards until it meets buffers.
Data movement is thereby a change of the index and costs nothing; reductions become loops.

Two tricks carry it. A value whose index mentions no lane is a scalar, one that varies along some
axes of the tile has size 1 along the others. And a value is written in the outermost open block
where all that its index mentions is known: what does not change in a loop is computed before it,
so the maximum of a row that every element asks for is found once per row.

One file per family holds the rules (`elements_data.py`, ...): `@ELEMENT.of(opcode)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hloom.base.diagnostics import UnsupportedError
from hloom.base.registry import Registry
from hloom.codegen.affine import Affine, Indices, Symbol, is_inside, linear
from hloom.codegen.elements_simple import as_stored, simple
from hloom.codegen.repeated_reads import load_repeated, repeated_axis
from hloom.codegen.tile_shape import common_shape, wants_transposed
from hloom.device.device import Device
from hloom.ir.elementwise import BINARY, UNARY
from hloom.ir.instruction import Instruction
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import S32, S64, Value
from hloom.types.dtype import DType
from hloom.types.shape import Shape

Index = tuple[Affine, ...]
Result = Value | tuple[Value, ...]
Rule = Callable[["Elements", Instruction, Index, "Value | None"], Result]

ELEMENT: Registry[str, Rule] = Registry("element rule")

# What is computed from operands at the same index, tile by tile.
SIMPLE = UNARY | BINARY | {"select", "compare", "clamp", "convert", "reduce-precision"}


def is_simple(i: Instruction) -> bool:
    """Whether each element follows from those at the same index of the operands."""
    same_places = i.opcode == "bitcast-convert" and i.shape.dims == i.operands[0].shape.dims
    return same_places or i.opcode in SIMPLE


class Source(NamedTuple):
    """Memory that holds the value of an instruction: element strides, one per dimension."""

    buffer: Value
    strides: tuple[int, ...]


def strides_of(shape: Shape) -> tuple[int, ...]:
    """Element strides of an array in memory, by its layout (row-major if it has none)."""
    dims = shape.dims
    order = shape.layout.minor_to_major if shape.layout else range(len(dims) - 1, -1, -1)
    strides = [0] * len(dims)
    step = 1
    for d in order:
        strides[d] = step
        step *= dims[d]
    return tuple(strides)


class Elements:
    """Writes elements of instructions into one kernel.

    `tile` is the shape of the tile being written. `supplied` are instructions whose value at the
    one index that is asked for is known (a finished dot); while there are any, nothing is written
    in a block less deep than `floor`. `stored` are results of 16-bit floats that are also operands.
    """

    shares_rows = True
    """Whether lanes of a row may share a value."""

    def __init__(self, builder: KernelBuilder, device: Device) -> None:
        self.builder = builder
        self.device = device
        self.indices = Indices()
        self.sources: dict[Instruction, Source] = {}
        self.tile: tuple[int, ...] = ()
        self.floor = 0
        self.supplied: dict[Instruction, Result] = {}
        self.stored: frozenset[Instruction] = frozenset()
        self._known: dict[tuple, Result] = {}
        self._keys: list[list[tuple]] = [[]]
        self._levels: dict[Symbol, int] = {}

    # -- asking for values

    def value(self, i: Instruction, index: Index, mask: Value | None = None) -> Value:
        """The element of an array instruction at an index; garbage where the mask is false."""
        result = self.result(i, index, mask)
        assert isinstance(result, Value)
        return result

    def result(self, i: Instruction, index: Index, mask: Value | None = None) -> Result:
        """Like `value`; a tuple for an instruction with several results."""
        if i in self.supplied:
            return self.supplied[i]
        if mask is not None and is_inside(index, i.shape):
            mask = None  # what is the same for all lanes is made once
        key = (i, index, mask)
        known = self._known.get(key)
        if known is not None:
            return known
        level = self.level_of(index, mask)
        builder = self.builder
        if level < builder.depth:
            known = self._write_at(level, i, index, mask)
        else:
            known = self._write(i, index, mask)
        self._known[key] = known
        while len(self._keys) <= level:
            self._keys.append([])
        self._keys[level].append(key)
        return known

    def is_to_write(self, i: Instruction, index: Index, mask: Value | None) -> bool:
        """Whether it is elementwise, and its element is still to be computed from operands."""
        if i.opcode not in SIMPLE or i in self.supplied or i in self.sources:
            return False
        if mask is not None and is_inside(index, i.shape):
            mask = None
        return (i, index, mask) not in self._known

    def _write_at(self, level: int, i: Instruction, index: Index, mask: Value | None) -> Result:
        """Write in an outer block; what is known in the blocks inside it is kept for later."""
        inner = self._keys[level + 1 :]
        del self._keys[level + 1 :]
        with self.builder.at(level):
            result = self._write(i, index, mask)
        self.forget(level + 1)
        self._keys += [[] for _ in range(level + 1 - len(self._keys))] + inner
        return result

    def _write(self, i: Instruction, index: Index, mask: Value | None) -> Result:
        source = self.sources.get(i)
        if source is not None:
            return self.load(source, index, mask)
        if i.opcode in SIMPLE:
            return as_stored(self, i, simple(self, i, index, mask))
        rule = ELEMENT.get(i.opcode)
        if rule is None:
            raise UnsupportedError(
                f"%{i.name}: {i.opcode} cannot be computed element by element in a fusion",
                rule="cpu-unsupported",
                hint="leave it out of the fusion, or the kind out of its fusion_config",
            )
        return as_stored(self, i, rule(self, i, index, mask))

    def elementwise(self, i: Instruction, operands: Sequence[Value]) -> Value:
        """An elementwise opcode on tiles, stretched to one shape."""
        operands = self.matched(operands)
        x = operands[0]
        if i.opcode == "compare":
            order = "total" if x.dtype.is_floating and i.attrs.type == "TOTALORDER" else ""
            return self.builder.compare(str(i.attrs.direction), x, operands[1], order)
        if i.opcode == "reduce-precision":
            attrs = {"exponent_bits": i.attrs.exponent_bits, "mantissa_bits": i.attrs.mantissa_bits}
            return self.builder.add("reduce-precision", (x,), x.type, attrs)
        return self.builder.add(
            i.opcode, tuple(operands), operands[-1].type._replace(dtype=i.shape.dtype)
        )

    # -- shapes of tiles

    def shape_of(self, axes: frozenset[int]) -> tuple[int, ...]:
        """The shape of a value that varies along these axes of the tile."""
        if not axes:
            return ()
        return tuple([n if a in axes else 1 for a, n in enumerate(self.tile)])

    def matched(self, values: Sequence[Value]) -> list[Value]:
        """The values, stretched to one shape."""
        first = values[0].shape
        if all(v.shape == first for v in values):
            return list(values)
        shape = common_shape([v.shape for v in values])
        return [self.builder.broadcast(v, shape) for v in values]

    # -- levels

    def level_of(self, index: Index, mask: Value | None = None) -> int:
        """The depth of the outermost block where all that the index mentions is known."""
        level = self.floor
        if mask is not None:
            level = max(level, self.builder.level(mask))
        for x in index:
            for s, _ in x.terms:
                known = self._levels.get(s)
                if known is None:
                    known = self._levels[s] = self._level(s)
                if known > level:
                    level = known
        return level

    def _level(self, s: Symbol) -> int:
        if s.axis is not None:
            return 0
        if s.origin is not None:
            return self.level_of((s.origin[1],))
        assert s.value is not None
        return self.builder.level(s.value)

    # -- index values

    def scalar(self, x: Affine) -> Value:
        """An index without lanes, as an s64 scalar."""
        b = self.builder
        terms = sorted(x.terms, key=lambda t: self.level_of((Affine(0, (t,)),)))
        total: Value | None = None
        if x.const or not terms:
            total = b.index(x.const)
        for s, c in terms:
            value = self.symbol_value(s)
            if c != 1:
                value = b.binary("multiply", value, b.index(c))
            total = value if total is None else b.binary("add", total, value)
        assert total is not None
        return total

    def numbers(self, x: Affine, dtype: DType | None = None) -> Value:
        """An index as a tile (a scalar if nothing varies); s32 where it fits, or as asked."""
        b = self.builder
        axes = x.axes
        if not axes:
            tile = self.scalar(x)
            return b.convert(tile, dtype) if dtype is not None else tile
        low, high = x.bounds()
        kind = dtype or (S32 if low >= -(2**31) and high < 2**31 else S64)
        shape = self.shape_of(axes)
        fixed = Affine(x.const, tuple([t for t in x.terms if not t[0].axes]))
        total = None
        if fixed.terms or fixed.const:
            total = b.broadcast(b.convert(self.scalar(fixed), kind), shape)
        for s, c in x.terms:
            if not s.axes:
                continue
            if s.axis is not None:
                value = b.iota(kind, self.shape_of(s.axes), s.axis)
            else:
                value = b.convert(self.symbol_value(s), kind)
            if c != 1:
                value = b.binary("multiply", value, b.constant(kind, c, value.shape))
            value = b.broadcast(value, shape)
            total = value if total is None else b.binary("add", total, value)
        assert total is not None
        return total

    def symbol_value(self, s: Symbol) -> Value:
        """The kernel value of a symbol; quotients and remainders are computed when first used."""
        if s.value is None:
            assert s.origin is not None
            kind, x, by = s.origin
            with self.builder.at(min(self.level_of((x,)), self.builder.depth)):
                s.value = self._division(kind, x, by)
        return s.value

    def _division(self, kind: str, x: Affine, by: int) -> Value:
        b = self.builder
        low, _ = x.bounds()
        shift = -(low // by) if low < 0 else 0
        value = self.numbers(x.plus(shift * by))
        divisor = b.constant(value.dtype, by, value.shape)
        if kind == "mod":
            return b.binary("remainder", value, divisor)
        quotient = b.binary("divide", value, divisor)
        if not shift:
            return quotient
        return b.binary("add", quotient, b.constant(value.dtype, -shift, value.shape))

    # -- memory

    def load(self, source: Source, index: Index, mask: Value | None = None) -> Value:
        """The elements of a buffer at an index."""
        offset = linear(index, source.strides)
        return self.load_at(source.buffer, offset, mask)

    def load_at(self, buffer: Value, offset: Affine, mask: Value | None) -> Value:
        """The elements at an offset that may contain lanes."""
        b = self.builder
        axes = offset.axes
        shape = self.shape_of(axes)
        if mask is None and repeated_axis(offset, shape) is not None:
            return load_repeated(b, buffer, self.scalar(offset.scalars), offset, shape)
        other = None
        if mask is not None:
            shape = common_shape([shape, mask.shape])
            mask, other = b.broadcast(mask, shape), b.constant(buffer.dtype, 0, shape)
        if not offset.is_strided or (mask is not None and shape != self.shape_of(axes)):
            offsets = b.broadcast(self.numbers(offset), shape)
            return b.gather(buffer, offsets, mask, other)
        base = self.scalar(offset.scalars)
        strides = tuple([offset.coefficient(a) for a in range(len(shape))])
        if mask is None and wants_transposed(shape, strides):
            value = b.load(buffer, base, shape[::-1], strides[::-1])
            return b.transpose(value, (1, 0))
        return b.load(buffer, base, shape, strides, mask, other)

    def store(self, target: Source, index: Index, value: Value, mask: Value | None = None) -> None:
        """Write the elements at an index that has as many lanes as the tile."""
        b = self.builder
        offset = linear(index, target.strides)
        shape = self.shape_of(offset.axes)
        mask = mask if mask is None else b.broadcast(mask, shape)
        if len(value.shape) > len(shape):  # one element, of a tile of one by one
            value = b.reshape(value, shape)
        value = b.broadcast(value, shape) if value.shape != shape else value
        if not offset.is_strided:
            b.scatter(target.buffer, self.numbers(offset), value, mask)
            return
        base = self.scalar(offset.scalars)
        strides = tuple([offset.coefficient(a) for a in range(len(shape))])
        b.store(target.buffer, base, value, strides, mask)

    # -- loops

    def loop(
        self,
        extent: int,
        init: Sequence[Value],
        body: Callable[..., Sequence[Value]],
        step: int = 1,
        lower: int = 0,
    ) -> tuple[Value, ...]:
        """A counted loop `for lower <= k < extent`; `body(k, *carried)` gets k as an index."""
        count = -(-(extent - lower) // step)
        if count <= 0:
            return tuple(init)
        if count == 1:
            return tuple(body(Affine(lower), *init))

        def write(k: Value, *carried: Value) -> Sequence[Value]:
            apart = step if lower % step == 0 else 1
            index = self.indices.scalar(k, lower, lower + (count - 1) * step, apart)
            return body(index, *carried)

        return self.for_(lower, extent, step, init, write)

    def one_tile(
        self, number: Affine, size: int, length: int, write: Callable[[Affine, int], object]
    ) -> None:
        """Tile `number` of a dimension cut in tiles of `size`, the last of which may be smaller:
        `write(start, size)` is called for either kind."""
        b = self.builder
        full = length // size
        if length % size == 0:
            write(number.times(size), size)
            return

        def whole() -> Sequence[Value]:
            # The number is known outside, but not that it is that of a whole tile: what is read
            # there would be read for the last tile, too.
            floor, self.floor = self.floor, b.depth
            write(self.indices.scalar(self.scalar(number), 0, full - 1).times(size), size)
            self.forget(b.depth)
            self.floor = floor
            return ()

        def rest() -> Sequence[Value]:
            write(Affine(full * size), length - full * size)
            self.forget(b.depth)
            return ()

        if full:
            b.if_(b.compare("LT", self.scalar(number), b.index(full)), whole, rest)
        else:
            rest()

    def for_(
        self,
        lower: Value | int,
        upper: Value | int,
        step: int,
        init: Sequence[Value],
        body: Callable[..., Sequence[Value]],
    ) -> tuple[Value, ...]:
        """A loop of the builder; what was known only inside is forgotten after it."""
        results = self.builder.for_(lower, upper, step, init, body)
        self.forget(self.builder.depth + 1)
        return results

    def restart(self) -> None:
        """Forget every value: from here on, in the current block, memory has changed."""
        self._known.clear()
        self._keys = [[]]
        self.supplied.clear()
        self.floor = self.builder.depth
        self.tile = ()

    def forget(self, level: int) -> None:
        """Forget values made in blocks of this depth and deeper: those blocks are closed."""
        while len(self._keys) > level:
            for key in self._keys.pop():
                self._known.pop(key, None)
