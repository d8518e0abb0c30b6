"""Matrix products of tiles: rows of the accumulator stay in registers, one fma per row and k.

Loads that only a dot uses are emitted inside it: the elements of `a` come one by one from memory,
where the machine broadcasts them for nothing, and the rows of `b` when their k is reached, so that
they do not all have to be held.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.codegen.llvm.dot_products import DotProduct, added, dot_products
from hloom.codegen.llvm.lower_complex import COMPLEX
from hloom.codegen.llvm.lower_convert import bitcast_row, convert_row
from hloom.codegen.llvm.lower_element import folding
from hloom.codegen.llvm.lower_fold import Item, folded_rows, items_of, lanes_of_item, rows_of
from hloom.codegen.llvm.lower_memory import load_rows, load_tile
from hloom.codegen.llvm.lower_shape import lane
from hloom.codegen.llvm.lower_state import Handler, Joined, KernelLowering, Rows, storage_of
from hloom.codegen.llvm.lower_storage import address, address_apart, from_storage
from hloom.codegen.llvm.lower_tiles import can_defer, dot_of_tiles, is_tiled
from hloom.codegen.llvm.values import V
from hloom.kernel.kernel import Block, Op, Value
from hloom.types.dtype import DType

WRITERS = frozenset("store scatter for while if".split())


def find_deferred(block: Block, uses: dict[Value, int]) -> dict[Value, Op]:
    """The loads of a block that may be emitted in the dot that alone uses them: nothing is
    written to memory in between."""
    deferred: dict[Value, Op] = {}
    pending: dict[Value, Op] = {}
    for op in block.ops:
        if op.opcode == "load":
            is_matrix = len(op.result.shape) == 2 or can_defer(op)
            if len(op.operands) == 2 and uses.get(op.result) == 1 and is_matrix:
                pending[op.result] = op
        elif op.opcode == "bitcast-convert":
            if op.operands[0] in pending and uses.get(op.result) == 1:
                pending[op.result] = pending[op.operands[0]]
        elif op.opcode == "concatenate":
            if uses.get(op.result) == 1 and _is_column_of_loads(op, pending):
                pending[op.result] = op
        elif op.opcode == "dot":
            for x in op.operands[1:]:
                source = pending.get(x)
                if source is None or (source.opcode == "concatenate" and x is not op.operands[1]):
                    continue
                deferred[x] = deferred[source.result] = source
                if source.opcode == "concatenate":
                    deferred.update({y: pending[y] for y in source.operands})
        elif op.opcode in WRITERS:
            pending.clear()
    return deferred


def _is_column_of_loads(op: Op, pending: dict[Value, Op]) -> bool:
    """Whether single elements from several places of memory are put under one another."""
    parts = [x for x in op.operands if x in pending and pending[x].result is x]
    is_column = op.attrs["axis"] == 0 and all(x.shape == (1, 1) for x in op.operands)
    return is_column and len(parts) == len(op.operands) and not op.result.dtype.is_complex


def dot(low: KernelLowering, op: Op) -> Rows:
    """acc[M,N] + a[M,K] b[K,N], in the type of acc."""
    acc, a, b = op.operands
    if is_tiled(op):
        return dot_of_tiles(low, op)
    if len(acc.shape) != 2 or len(a.shape) != 2 or len(b.shape) != 2:
        raise low.refuse(op, "takes three tiles of rank 2", "reshape them")
    (height, width), depth, dtype = acc.shape, a.shape[1], acc.dtype
    if dtype.is_complex or a.dtype.is_complex or b.dtype.is_complex:
        return _dot_complex(low, op)
    if width == 1 and depth > 1:
        return _dot_column(low, op)
    product = _grouped(low, op)
    if product is not None:
        return _dot_grouped(low, op, product)
    rows = [list(low.parts(row)) for row in low.of(acc)]
    left, right = _Left(low, a, dtype), _Right(low, b, dtype)
    e, add = low.e, folding(low, "add", dtype)
    for k in range(depth):
        line = low.parts(right.row(k))
        for m in range(height):
            parts = rows[m]
            factor = left.element(m, k)
            for i, part in enumerate(line):
                splat = factor(part.lanes)
                if dtype.is_floating:
                    parts[i] = e.fma(splat, part, parts[i])
                else:
                    parts[i] = add((parts[i],), (_product(low, splat, part, dtype),))[0]
    if not dtype.is_floating:
        return [low.joined(parts) for parts in rows]
    return [low.joined([low.rounded(part, dtype) for part in parts]) for parts in rows]


def _grouped(low: KernelLowering, op: Op) -> DotProduct | None:
    """The instruction that multiplies neighbours along K, where both operands lie as it takes them:
    `a` along K, `b` with the neighbours of each column side by side."""
    acc, a, b = op.operands
    types = (a.dtype.name, b.dtype.name, acc.dtype.name)
    for d in dot_products(low.machine):
        if (d.a, d.b, d.sums) == types and a.shape[1] == d.group and acc.shape[1] % d.lanes == 0:
            left, right = low.deferred.get(a), low.deferred.get(b)
            along = left.attrs["strides"][1] == 1 if left else _is_constant(a)
            if along and right is not None and right.attrs["strides"] == (1, d.group):
                return d
    return None


def _is_constant(x: Value) -> bool:
    return x.op is not None and x.op.opcode == "constant" and x.dtype.size_bytes == 1


def _dot_grouped(low: KernelLowering, op: Op, d: DotProduct) -> Rows:
    """A dot by such an instruction: a word of 32 bits of `a` for each row, in every lane."""
    acc, a, b = op.operands
    e, (height, width) = low.e, acc.shape
    rows = [list(low.parts(row)) for row in low.of(acc)]
    base, line, at = address(low, *low.deferred[b].operands), [], 0
    for lanes in low.widths(width) or (width,):
        line.append(e.load(e.gep(base, 4 * at), "i32", lanes, align=a.dtype.size_bytes))
        at += lanes
    load = low.deferred.get(a)
    start = address(low, *load.operands) if load is not None else None
    for m in range(height):
        if start is None or load is None:
            assert a.op is not None
            word = e.const("i32", (int(a.op.attrs["value"]) & 0xFF) * 0x01010101)
        else:
            place = e.gep(start, m * load.attrs["strides"][0] * a.dtype.size_bytes)
            word = e.load(place, "i32", 1, align=a.dtype.size_bytes)
        for i, part in enumerate(line):
            rows[m][i] = added(e, d, rows[m][i], e.splat(word, part.lanes), part)
    return [low.joined(parts) for parts in rows]


def _product(low: KernelLowering, x: V, y: V, dtype: DType) -> V:
    return folding(low, "multiply", dtype)((x,), (y,))[0]


class _Left:
    """The left operand: each element in every lane of a row."""

    def __init__(self, low: KernelLowering, a: Value, dtype: DType) -> None:
        self.low, self.dtype, self.source = low, dtype, a.dtype
        self.load = low.deferred.get(a)
        self.places: list[V] = []
        if self.load is not None and self.load.opcode == "concatenate":
            loads = [low.deferred[x] for x in self.load.operands]
            self.places = [address_apart(low, *x.operands) for x in loads]
        elif self.load is not None:
            self.base = address(low, *self.load.operands)
            self.strides = self.load.attrs["strides"]
        else:
            self.rows = [convert_row(low, row, a.dtype, dtype) for row in low.of(a)]

    def element(self, m: int, k: int) -> Callable[[int], V]:
        """What puts a[m, k] in every one of some lanes."""
        low, e = self.low, self.low.e
        if self.load is None:
            row = self.rows[m]
            if isinstance(row, Joined) or row.lanes == 1:
                one = lane(low, row, k)
                return lambda width: e.splat(one, width)
            return lambda width: e.shuffle(row, None, [k] * width)
        if self.places:
            place = self.places[m]
        else:
            at = (m * self.strides[0] + k * self.strides[1]) * self.source.size_bytes
            place = e.gep(self.base, at)
        one = from_storage(e, e.load(place, storage_of(self.source)), self.source)
        one = convert_row(low, one, self.source, self.dtype)
        return lambda width: e.splat(one, width)


class _Right:
    """The right operand, row by row."""

    def __init__(self, low: KernelLowering, b: Value, dtype: DType) -> None:
        self.low, self.dtype, self.b = low, dtype, b
        self.load = low.deferred.get(b)
        if self.load is not None:
            self.base = address(low, *self.load.operands)
        else:
            self.rows = low.of(b)

    def row(self, k: int) -> V:
        """b[k, :]."""
        b = self.b
        if self.load is None:
            row = self.rows[k]
        else:
            strides = self.load.attrs["strides"]
            (row,) = load_rows(self.low, self.base, [k * strides[0]], b.shape, strides, b.dtype)
        return convert_row(self.low, row, b.dtype, self.dtype)


def operand_rows(low: KernelLowering, x: Value) -> Rows:
    """The rows of an operand, loaded now if its load was deferred."""
    load = low.deferred.get(x)
    if load is None:
        return low.of(x)
    rows, held_dtype = load_tile(low, load), load.result.dtype
    return [low.each(lambda v: bitcast_row(low, v, held_dtype, x.dtype), row) for row in rows]


def _dot_column(low: KernelLowering, op: Op) -> Rows:
    """b has one column: products of whole rows, then a sum along them."""
    acc, a, b = op.operands
    dtype = acc.dtype
    column = low.joined([convert_row(low, r, b.dtype, dtype) for r in operand_rows(low, b)])
    rows = [convert_row(low, row, a.dtype, dtype) for row in operand_rows(low, a)]
    add = folding(low, "add", dtype)
    products: list[Item] = [(_product(low, row, column, dtype),) for row in rows]
    sums = [part for item in folded_rows(low, products, add) for part in lanes_of_item(low.e, item)]
    return [add((x,), y)[0] for x, y in zip(low.of(acc), sums)]


def _dot_complex(low: KernelLowering, op: Op) -> Rows:
    """Parts of rows that fit into registers, real and imaginary ones, four fmas for each and k."""
    acc, a, b = op.operands
    dtype, depth = acc.dtype, a.shape[1]
    if not (a.dtype is b.dtype is dtype):
        raise low.refuse(op, "of complex tiles takes one type", "convert the operands")
    rows = [[low.parts(x) for x in item] for item in items_of(low, low.of(acc), dtype)]
    sums = [list(zip(*parts)) for parts in rows]
    left, right = _ComplexLeft(low, a), items_of(low, operand_rows(low, b), dtype)
    e, fma = low.e, COMPLEX["fma"]
    for k in range(depth):
        line = list(zip(*[low.parts(x) for x in right[k]]))
        for m, parts in enumerate(sums):
            factor = left.element(m, k)
            for i, part in enumerate(line):
                splat = tuple([e.splat(x, part[0].lanes) for x in factor])
                parts[i] = fma(low, dtype.component, splat, part, parts[i])
    return rows_of([tuple([low.joined(plane) for plane in zip(*parts)]) for parts in sums])


class _ComplexLeft:
    """The left operand of a complex product: its elements, real and imaginary part."""

    def __init__(self, low: KernelLowering, a: Value) -> None:
        self.low, self.dtype, self.load = low, a.dtype, low.deferred.get(a)
        if self.load is None:
            self.items = items_of(low, low.of(a), a.dtype)
            return
        buffer, offset = self.load.operands
        self.base, self.strides = address(low, buffer, offset), self.load.attrs["strides"]
        part = a.dtype.component.size_bytes
        self.distance = low.planes.get(buffer, part)
        self.size = part if buffer in low.planes else 2 * part

    def element(self, m: int, k: int) -> tuple[V, V]:
        """Both parts of a[m, k], as scalars: from memory where they were not loaded."""
        e = self.low.e
        if self.load is None:
            real, imaginary = [lane(self.low, part, k) for part in self.items[m]]
            return real, imaginary
        place = e.gep(self.base, (m * self.strides[0] + k * self.strides[1]) * self.size)
        kind = storage_of(self.dtype)
        return e.load(place, kind), e.load(e.gep(place, self.distance), kind)


DOT: dict[str, Handler] = {"dot": dot}
